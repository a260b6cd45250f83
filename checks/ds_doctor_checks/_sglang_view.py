"""What SGLang's resolution sees of one command: the options with what earlier steps made of them, and what is known of model and GPU.

Read from sglang 0.5.23, srt/arg_groups/pipeline.py; it refuses nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ._launch_refusal import Refusal

VERSION = "0.5.23"  # the version whose checks these modules repeat

Refusals = Iterator[Refusal]
Hook = Callable[["View"], Refusals]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the model: its first architecture and model_type; None: not known. `mla`: it caches one latent
    vector a token; `mamba`: some of its layers keep a state instead of a cache; `multimodal`: it takes images, sound or
    video; `plain`: its checkpoint is not quantised."""

    architecture: str | None = None
    model_type: str | None = None
    mla: bool | None = None
    dsa: bool | None = None
    mamba: bool | None = None
    multimodal: bool | None = None
    plain: bool | None = None

    @property
    def known(self) -> bool:
        return self.architecture is not None


# Well-known repositories by the name of their folder, most special first: (pattern, architecture, model_type, traits).
# Traits: m MLA, d DSA, s state (Mamba and linear hybrids), v multimodal, q quantised as published. Source: the config.json of the repositories;
# classes in sglang 0.5.23 srt/models.
_FAMILIES: tuple[tuple[str, str, str, str], ...] = (
    (r"deepseek-?v4[._]1|dsv41", "DeepseekV4ForCausalLM", "deepseek_v41", "vq"),
    (r"deepseek-?v4(?![.\d])", "DeepseekV4ForCausalLM", "deepseek_v4", "q"),
    (r"deepseek-?v3[._]2", "DeepseekV32ForCausalLM", "deepseek_v32", "mdq"),
    (r"deepseek-r1-distill-qwen", "Qwen2ForCausalLM", "qwen2", ""),
    (r"deepseek-r1-distill-llama", "LlamaForCausalLM", "llama", ""),
    (r"deepseek-r1-0528-qwen3-8b", "Qwen3ForCausalLM", "qwen3", ""),
    (r"deepseek-?(v3|r1)(?![._][2-9])(?!.*distill)", "DeepseekV3ForCausalLM", "deepseek_v3", "mq"),
    (r"deepseek-?(v2|coder-v2)", "DeepseekV2ForCausalLM", "deepseek_v2", "m"),
    (r"kimi-k2(-(instruct|base|thinking)[-\w]*)?$", "DeepseekV3ForCausalLM", "kimi_k2", "mq"),
    (r"gpt-oss-(20|120)b", "GptOssForCausalLM", "gpt_oss", "q"),
    (r"qwen3-next", "Qwen3NextForCausalLM", "qwen3_next", "s"),
    (r"qwen3\.[5-8]-\d+b-a\d+b", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", "sv"),
    (r"qwen3\.[5-8]-\d+(\.\d+)?b", "Qwen3_5ForConditionalGeneration", "qwen3_5", "sv"),
    (r"qwen3-(coder-)?\d+b-a\d+(\.\d+)?b", "Qwen3MoeForCausalLM", "qwen3_moe", ""),
    (r"qwen3-\d+(\.\d+)?b(?!-a)", "Qwen3ForCausalLM", "qwen3", ""),
    (
        r"(qwen2\.5|qwen2|qwq)(-coder|-math)?-(\d+(\.\d+)?b)(?!.*(vl|audio|omni|moe|a\d+b))",
        "Qwen2ForCausalLM",
        "qwen2",
        "",
    ),
    (r"llama-?[23]([.\d]*)(?!.*(vision|guard-vision))-?\d+b", "LlamaForCausalLM", "llama", ""),
    (r"mistral-7b|mistral-nemo|mistral-small-24b", "MistralForCausalLM", "mistral", ""),
    (r"mixtral-8x", "MixtralForCausalLM", "mixtral", ""),
    (r"glm-4\.[5-7](-air|-fp8|-air-fp8)?$", "Glm4MoeForCausalLM", "glm4_moe", ""),
)
# What the names of quantised checkpoints carry.
_QUANTISED = re.compile(r"fp8|fp4|awq|gptq|int[48]|w[48]a|gguf|bnb|bit|quant|mlx|autoround|exl|q[48]")


def model_of(name: str | None, config: Mapping[str, Any] | None = None) -> Model:
    """What the config.json says where there is one, else the name of the repository or folder; a model or name that is not
    well known says nothing."""
    base = (name or "").rstrip("/").rpartition("/")[2].lower()
    for pattern, architecture, model_type, traits in _FAMILIES:
        if config is not None:
            fits = config.get("model_type") == model_type
            plain = not config.get("quantization_config")
        else:
            fits = re.search(pattern, base) is not None
            plain = "q" not in traits and not _QUANTISED.search(base)
        if fits:
            return Model(
                architecture=architecture,
                model_type=model_type,
                mla="m" in traits,
                dsa="d" in traits,
                mamba="s" in traits,
                multimodal="v" in traits,
                plain=plain,
            )
    return Model()


# Switches whose default is None in sglang/srt/arg_groups/fields.
_THREE_STATES = frozenset(("enable_lora", "enable_lora_overlap_loading", "enable_multimodal"))


class View:
    """The options as attributes (`view.tp_size`), with the declarations of earlier steps over them (`declare`).

    An option that the table does not have raises AttributeError: the step that asks for it is then left out.
    `capability` is the compute capability of the GPUs as a pair; None: not known.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        given: frozenset[str],
        model: Model,
        environment: Mapping[str, str] | None = None,
        capability: tuple[int, int] | None = None,
    ) -> None:
        self._values = dict(values)
        for name in _THREE_STATES - given:
            if not self._values.get(name, True):
                self._values[name] = None  # a switch that the engine tells from one that is not given
        self.given = given
        self.model = model
        self.environment = environment or {}
        self.capability = capability

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def get(self, name: str, default: Any) -> Any:
        """A field that has no flag of its own."""
        value = self._values.get(name)
        return default if value is None else value

    def declare(self, **fields: Any) -> None:
        self._values.update(fields)

    @property
    def attn_dp(self) -> bool:
        """Attention data parallelism (runtime_context.attn_dp_enabled_of)."""
        return bool(self.attn_dp_size > 1 or self.ep_join_mode == "scale")

    @property
    def replicas(self) -> int:
        return int(self.dp_size * self.attn_dp_size)

    def backends(self) -> tuple[str | None, str | None]:
        """(prefill, decode) attention back end as far as given; None: the engine chooses by GPU and model."""
        return (
            self.prefill_attention_backend or self.attention_backend,
            self.decode_attention_backend or self.attention_backend,
        )

    def is_set(self, variable: str) -> bool:
        """Whether an environment variable of the engine is on."""
        return self.environment.get(variable, "").strip().lower() in ("1", "true", "yes", "on", "y")
