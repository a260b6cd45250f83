"""The model of the launch command as the engines read its config.json, and the sizes that the command asks for; it judges nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.launch import Launch, has, option
from ds_doctor.probes.model_config import ModelConfig

# Each engine's names for what is asked here: vllm 0.33.0 vllm/engine/arg_utils.py, sglang 0.5.23 sglang/srt/server_args.py.
FLAGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm": {
        "tensor": ("--tensor-parallel-size", "-tp"),
        "pipeline": ("--pipeline-parallel-size", "-pp"),
        "data": ("--data-parallel-size", "-dp"),
        "nodes": ("--nnodes", "-n"),
        "context": ("--max-model-len",),
        "dtype": ("--dtype",),
        "kv-dtype": ("--kv-cache-dtype",),
        "quantisation": ("--quantization", "-q"),
        "attention": ("--attention-backend",),
        "tokenizer": ("--tokenizer",),
        "tokenizer-mode": ("--tokenizer-mode",),
        "tool-parser": ("--tool-call-parser",),
        "reasoning-parser": ("--reasoning-parser",),
        "overrides": ("--hf-overrides",),
        "impl": ("--model-impl",),
        "executor": ("--distributed-executor-backend",),
        "runner": ("--runner",),
    },
    "sglang": {
        "tensor": ("--tensor-parallel-size", "--tp-size", "--tp"),
        "pipeline": ("--pipeline-parallel-size", "--pp-size"),
        "data": ("--data-parallel-size", "--dp-size", "--dp"),
        "expert": ("--expert-parallel-size", "--ep-size", "--ep"),
        "nodes": ("--nnodes",),
        "context": ("--context-length",),
        "dtype": ("--dtype",),
        "kv-dtype": ("--kv-cache-dtype",),
        "quantisation": ("--quantization",),
        "attention": ("--attention-backend",),
        "tokenizer": ("--tokenizer-path",),
        "tokenizer-mode": ("--tokenizer-mode",),
        "tool-parser": ("--tool-call-parser",),
        "reasoning-parser": ("--reasoning-parser",),
        "overrides": ("--json-model-override-args",),
        "impl": ("--model-impl",),
    },
}
KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
# vllm/transformers_utils/model_arch_config_convertor.py `derive_max_model_len_and_key`; the smallest wins.
POSITIONS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions"),
    *("max_sequence_length", "max_seq_length", "seq_len"),
)
# Where the language model of a multi-modal one stands in its config.json.
INNER = ("text_config", "llm_config", "language_config", "thinker_config")
MLA = ("deepseek", "kimi_k2", "kimi_k3", "kimi_linear", "glm_moe_dsa", "glm4_moe_lite", "longcat", "pangu_ultra", "glm5_next")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What checks ask of a config.json. Numbers are None where it does not say or says one for each layer.

    `text` is the language model's part; `quantisation` its quantization_config. `whole`: nothing of it was overridden by the command in a
    way that is not followed here.
    """

    model_type: str | None
    architectures: tuple[str, ...]
    config: Mapping[str, Any]
    text: Mapping[str, Any]
    heads: int | None = None
    kv_heads: int | None = None
    layers: int | None = None
    experts: int | None = None
    vocabulary: int | None = None
    hidden: int | None = None
    mla: bool = False
    quantisation: Mapping[str, Any] | None = None

    @property
    def method(self) -> str | None:
        """The checkpoint's quantisation, as both engines compare it."""
        if self.quantisation is None:
            return None
        said = self.quantisation.get("quant_method")
        return said.lower().replace("compressed_tensors", "compressed-tensors") if isinstance(said, str) else None


def whole(value: Any) -> int | None:
    """A positive whole number; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40 else None


def asked(launch: Launch, what: str) -> str | None:
    """The value that the command gives, as text."""
    flags = FLAGS[launch.engine or "vllm"].get(what)
    return option(launch.arguments, flags) if flags else None


def number(launch: Launch, what: str) -> int | None:
    """The same as a number; 1 where sizes are not given, None for what is none."""
    text = asked(launch, what)
    if text is None:
        return 1 if what in ("tensor", "pipeline", "data", "expert", "nodes") else None
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,8}", text) else None


def tokens(launch: Launch) -> int | None:
    """The context length that the command asks for; None where it does not, or leaves it to the engine (auto, -1).

    vLLM reads 32k as 32,000 and 32K as 32,768 (vllm/engine/arg_utils.py `human_readable_int`), SGLang 32k as 32,000 and 32Ki as 32,768.
    """
    text = (asked(launch, "context") or "").strip().replace("_", "")
    m = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([kKmMgG]i?)?", text)
    if m is None:
        return None
    unit = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    if launch.engine == "sglang":
        unit = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
    factor = unit.get(m[2] or "")
    return int(float(m[1]) * factor) or None if factor is not None else None


def given(launch: Launch, *flags: str) -> bool:
    """Whether one of the flags stands in the command."""
    return has(launch.arguments, flags)


def trusts(launch: Launch) -> bool:
    """--trust-remote-code."""
    return given(launch, "--trust-remote-code") and not given(launch, "--no-trust-remote-code")


def engine_of(launch: Launch) -> str:
    """NotApplicable where the command starts none of the engines."""
    if launch.engine is None:
        raise NotApplicable("launch-no-engine")
    return launch.engine


def shape(launch: Launch, model: ModelConfig | None) -> Shape:
    """The model's own files. Undecided where its config.json was not seen, or the command replaces it by what is not seen."""
    engine_of(launch)
    if given(launch, "--hf-config-path", "--config-format", "--decrypted-config-file"):
        raise Undecided("launch-config-elsewhere")
    if model is None or model.config is None:
        raise Undecided("launch-model-unseen", model=launch.model or "?")
    config = model.config
    if not config.get("model_type") and not config.get("architectures"):
        raise Undecided("launch-config-unlike", path=model.path or "?")
    quantisation = model.quantisation or None
    text = asked(launch, "overrides")
    if text is not None:
        changes = _object(text)
        if changes is None:
            raise Undecided("launch-config-elsewhere")
        config = {**config, **changes}
    return parse(config, quantisation)


def parse(config: Mapping[str, Any], beside: Mapping[str, Any] | None = None) -> Shape:
    """What a config.json says; `beside` is hf_quant_config.json, which counts where config.json is silent."""
    text = next((config[n] for n in INNER if isinstance(config.get(n), dict)), config)
    text = next((text[n] for n in INNER if isinstance(text.get(n), dict)), text)
    kind = config.get("model_type")
    inner = text.get("model_type", kind)
    quantisation = next(
        (q for q in (config.get("quantization_config"), text.get("quantization_config"), config.get("compression_config"))
         if isinstance(q, dict)),
        beside,
    )  # fmt: skip
    said = config.get("architectures")
    heads = whole(text.get("num_attention_heads"))
    mla = isinstance(inner, str) and inner.startswith(MLA) and (
        text.get("kv_lora_rank") is not None or text.get("compress_ratios") is not None or "v4" in inner
    )  # fmt: skip
    return Shape(
        model_type=kind if isinstance(kind, str) else None,
        architectures=tuple(a for a in said if isinstance(a, str)) if isinstance(said, list) else (),
        config=config,
        text=text,
        heads=heads,
        kv_heads=next((whole(text[n]) for n in KV_HEADS if text.get(n) is not None), heads),
        layers=whole(text.get("num_hidden_layers")),
        experts=next((whole(text[n]) for n in EXPERTS if text.get(n) is not None), None),
        vocabulary=whole(text.get("vocab_size")),
        hidden=whole(text.get("hidden_size")),
        mla=mla,
        quantisation=quantisation,
    )


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
