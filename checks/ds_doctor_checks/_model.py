"""The model of the launch command as the engines read its config.json, and the sizes that the command asks for; it judges nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.python_env import Packages

from ._memory_ask import engine_version
from ._open_words import need_certain
from ._options import Options, options
from ._pins import release

# What the engines call the same thing: vllm 0.33.0 vllm/engine/arg_utils.py, sglang 0.5.23 sglang/srt/server_args.py.
DESTS: Mapping[str, tuple[str, str]] = {
    "tensor": ("tensor_parallel_size", "tp_size"),
    "pipeline": ("pipeline_parallel_size", "pp_size"),
    "data": ("data_parallel_size", "dp_size"),
    "nodes": ("nnodes", "nnodes"),
    "context": ("max_model_len", "context_length"),
    "tokenizer": ("tokenizer", "tokenizer_path"),
    "overrides": ("hf_overrides", "json_model_override_args"),
}
KV_HEADS = ("n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups")
EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
# vllm/transformers_utils/model_arch_config_convertor.py `derive_max_model_len_and_key`; the smallest wins.
POSITIONS = (
    *(
        "max_position_embeddings",
        "n_positions",
        "max_seq_len",
        "seq_length",
        "model_max_length",
        "max_target_positions",
    ),
    *("max_sequence_length", "max_seq_length", "seq_len"),
)
# Where the language model of a multi-modal one stands in its config.json.
INNER = ("text_config", "llm_config", "language_config", "thinker_config")
MLA = (
    "deepseek",
    "kimi_k2",
    "kimi_k3",
    "kimi_linear",
    "glm_moe_dsa",
    "glm4_moe_lite",
    "longcat",
    "pangu_ultra",
    "glm5_next",
)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What checks ask of a config.json. Numbers are None where it does not say or says one for each layer.

    `text` is the language model's part; `quantisation` its quantization_config.
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


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One launch command: its engine with the version that would start (None: nothing tells; `sure_version`: it is the
    installed one, not what an image's tag says), its parsed flags, its variables."""

    launch: Launch
    engine: str
    version: str | None
    sure_version: bool
    options: Options
    variables: Mapping[str, str]

    def value(self, what: str) -> Any:
        """A flag by the name in DESTS, or by the engine's own."""
        names = DESTS.get(what)
        return self.options.get(names[self.engine == "sglang"] if names else what)

    def before(self, version: str) -> bool | None:
        """Whether the engine is older than this version; None where its own is not known."""
        have, than = release(self.version or ""), release(version)
        return None if have is None or than is None else have < than

    def size(self, what: str) -> int:
        """A parallel size; 1 where it is not given or is none."""
        return whole(self.value(what)) or 1

    @property
    def attention_ranks(self) -> int:
        """Over how many GPUs a layer's attention heads are divided."""
        ranks = self.size("tensor")
        if self.engine == "sglang":
            if self.value("enable_dp_attention"):
                ranks //= self.size("data")
            ranks //= whole(self.value("attn_cp_size")) or 1
        return max(1, ranks)


def case(
    launch: Launch, flags: EngineFlags | None, environment: Environment | None, packages: Packages | None = None
) -> Case:
    """NotApplicable where the command starts no server of the engines; Undecided where its flags stand in a file."""
    if launch.engine is None:
        raise NotApplicable("launch-no-engine")
    read = options(launch, flags)
    if not read.serves or read.help:
        raise NotApplicable("launch-no-engine")
    if read.config is not None:
        raise Undecided("launch-flags-in-file", path=read.config)
    need_certain(read)
    variables = dict(environment.variables) if environment and launch.container is None else {}
    version, told_by = engine_version(launch, packages)
    return Case(
        launch=launch,
        engine=launch.engine,
        version=None if told_by == "newest" else version,
        sure_version=told_by == "installed",
        options=read,
        variables={**variables, **launch.environment},
    )


def shape(of: Case, model: ModelConfig | None, bundled: bool = False) -> Shape:
    """The model's own files; with `bundled` also what is known of a well-known id, which is its sizes alone. Undecided where its
    config.json was not seen, or the command replaces it by what is not seen."""
    if of.options.get("hf_config_path") or of.options.get("config_format") not in (None, "auto", "hf"):
        raise Undecided("launch-config-elsewhere")
    config = model.config if model is not None else None
    if config is None and bundled:
        from ._memory_model import well_known

        name = of.options.model or of.launch.model
        found, sure = well_known(name, model) if name else (None, False)
        config = found.config if found is not None and sure else None
    if config is None:
        raise Undecided("launch-model-unseen", model=of.options.model or of.launch.model or "?")
    if not config.get("model_type") and not config.get("architectures"):
        raise Undecided("launch-config-unlike", path=(model.path if model is not None else None) or "?")
    changes = of.value("overrides")
    if isinstance(changes, str):
        changes = _object(changes)
    if isinstance(changes, dict) and changes:
        config = _laid_over(config, changes)
    return parse(config, model.quantisation or None if model is not None else None)


def _laid_over(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """config.json with what the command changes in it; objects within merge, as both engines have it."""
    merged = dict(config)
    for name, value in changes.items():
        below = merged.get(name)
        merged[name] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


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
