"""Which small files a type of model needs beside its configuration; it looks at nothing."""

from __future__ import annotations

import re

from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.model_parts import ModelParts

from ._data import table

# Tokenizers of bytes or code points: transformers' classes without a vocabulary file.
WITHOUT_VOCABULARY = ("ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer", "EvolutionaryScaleTokenizer")
# Tokenizers whose vocab.json is of no use without merges.txt (transformers: their VOCAB_FILES_NAMES).
OF_MERGES = tuple(
    name + fast
    for name in (
        *("GPT2Tokenizer", "Qwen2Tokenizer", "RobertaTokenizer", "BartTokenizer", "CLIPTokenizer", "CodeGenTokenizer"),
        *("WhisperTokenizer", "LongformerTokenizer", "DebertaTokenizer"),
    )
    for fast in ("", "Fast")
)
# Types whose processor both engines build at start, from preprocessor_config.json or processor_config.json: published with it
# throughout, and seen to fail without it where a quantised copy lost it (github.com/vllm-project/llm-compressor/issues/1305).
_OF_PROCESSOR = frozenset(
    (
        *("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen2_audio", "qwen2_5_omni", "qwen3_omni_moe"),
        *(
            "gemma3",
            "paligemma",
            "mllama",
            "llama4",
            "idefics2",
            "idefics3",
            "smolvlm",
            "aya_vision",
            "glm4v",
            "glm4v_moe",
        ),
        *("llava", "llava_next", "llava_onevision", "phi3_v", "whisper"),
    )
)
# Types that transformers has had itself since 4.57 or longer, though published configurations name code of their own as well:
# quantised copies of those are often published without it, and load (transformers/models/auto/configuration_auto.py).
_NATIVE = frozenset(
    (
        *(
            "deepseek_v2",
            "deepseek_v3",
            "phi3",
            "phimoe",
            "phi4_multimodal",
            "qwen2",
            "qwen2_moe",
            "qwen3",
            "qwen3_moe",
        ),
        *(
            "llama",
            "mistral",
            "mixtral",
            "minimax",
            "glm",
            "glm4",
            "glm4_moe",
            "gpt_oss",
            "exaone4",
            "ernie4_5",
            "ernie4_5_moe",
        ),
        *(
            "falcon",
            "mpt",
            "bloom",
            "starcoder2",
            "stablelm",
            "olmo2",
            "cohere",
            "dbrx",
            "jamba",
            "nemotron",
            "granite",
        ),
        *("hunyuan_v1_dense", "hunyuan_v1_moe", "seed_oss", "apertus", "smollm3", "bert", "roberta", "xlm-roberta"),
    )
)
# A name that promises a chat model. Many chat models have other names; nobody can tell those from base models.
_CHAT = re.compile(r"(?:\b|_)(instruct|chat|it)(?:\b|_)", re.IGNORECASE)
_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")


def lacks_template(parts: ModelParts, config: ModelConfig) -> bool:
    """Whether a chat model's template is nowhere: not in the folder, nor in the engines' code."""
    if parts.template or parts.mistral or not parts.vocabulary or parts.tokenizer_class is None:
        return False
    of_engine = {t for row in table("parsers")["model"] if row.get("tokenizer_mode") for t in row["model_types"]}
    if _kind(config) in of_engine or not _CHAT.search(parts.name):
        return False
    return any(a.endswith(_GENERATES) for a in _architectures(config))


def is_native(config: ModelConfig) -> bool:
    """Whether the configuration's type is known without code of the model's own."""
    return _kind(config) in _NATIVE


def lacks_processor(parts: ModelParts, config: ModelConfig) -> str | None:
    """The model type, where its processor has no configuration."""
    kind = _kind(config)
    if kind not in _OF_PROCESSOR or parts.processor or parts.mistral:
        return None
    return kind if any(a.endswith("ForConditionalGeneration") for a in _architectures(config)) else None


def _kind(config: ModelConfig) -> str | None:
    said = (config.config or {}).get("model_type")
    return said if isinstance(said, str) else None


def _architectures(config: ModelConfig) -> list[str]:
    said = (config.config or {}).get("architectures")
    return [a for a in said if isinstance(a, str)] if isinstance(said, list) else []
