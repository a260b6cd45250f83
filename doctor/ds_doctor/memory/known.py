"""Well-known models by their id on the Hugging Face Hub: configuration, checkpoint size, where it is from; read from models.toml when asked."""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from ._data import table
from .setting import GIB
from .tensors import TensorGroup


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One model. `id`: the bundled id that it goes back to. `exact` False: found by its name without a suffix for its quantisation, or under another
    owner; then `quantised` is what the suffix means. `config`: a config.json. `total`: bytes of the checkpoint's tensors; `tensors`: by part.
    `parameters` as published; `derived`: fields that were worked out from published figures."""

    id: str
    config: dict[str, Any]
    source: str
    exact: bool = True
    quantised: str | None = None
    total: int | None = None
    tensors: tuple[TensorGroup, ...] | None = None
    parameters: int | None = None
    derived: tuple[str, ...] = ()


# What a suffix of a repository's name says of its weights -> the quantization_config that such repositories have.
_INT4 = {"num_bits": 4, "type": "int", "group_size": 128}
_INT8 = {"num_bits": 8, "type": "int"}
_SUFFIXES: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    (r"(?:unsloth-)?bnb-4bit", "bitsandbytes 4-bit", {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    (r"bf16|hf", "16-bit", None),
    (r"fp8(?:-?(?:dynamic|block|tensor(?:wise)?|static|kv))*", "fp8", {"quant_method": "fp8"}),
    (r"quantized\.w8a8|w8a8|int8-?w8a8|int8", "int8", {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": _INT8}}}),
    (r"quantized\.w4a16|w4a16(?:-?g128)?|int4-?w4a16|int4|4bit", "int4", {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": _INT4}}}),
    (r"awq(?:-?(?:int4|4bit|marlin))*", "awq", {"quant_method": "awq", "bits": 4, "group_size": 128}),
    (r"gptq-?(?:int8|8bit)", "gptq int8", {"quant_method": "gptq", "bits": 8, "group_size": 128}),
    (r"gptq(?:-?(?:int4|4bit))*", "gptq int4", {"quant_method": "gptq", "bits": 4, "group_size": 128}),
    (r"(?:int4-?)?auto-?round(?:-?int4)?", "int4 autoround", {"quant_method": "auto-round", "bits": 4, "group_size": 128}),
    (r"nvfp4(?:a16|-?kv)?|fp4", "nvfp4", {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    (r"mxfp8", "mxfp8", {"quant_method": "modelopt", "quant_algo": "MXFP8"}),
    (r"mxfp4", "mxfp4", {"quant_method": "mxfp4"}),
)  # fmt: skip
_OTHER_ENGINES = re.compile(r"gguf|mlx|onnx|exl[23]|openvino|ggml|coreml", re.IGNORECASE)
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(?:/[A-Za-z0-9][\w.-]{0,95})?")


def known(model_id: str) -> dict[str, Any] | None:
    """The configuration of that id; None where it is not bundled."""
    found = entry(model_id)
    return None if found is None else found.config


def entry(model_id: str) -> Entry | None:
    """What is bundled of that id: itself, or the model that its name goes back to."""
    if not _ID.fullmatch(model_id):
        return None
    by_id, by_name = _index()
    wanted = model_id.lower()
    if wanted in by_id:
        return _entry(*by_id[wanted], None, True)
    name = wanted.rpartition("/")[2]
    if _OTHER_ENGINES.search(name):
        return None
    if name in by_name:
        return _entry(*by_name[name], None, "/" not in wanted)
    for base, suffix in _shortened(name):
        if base in by_name:
            return _entry(*by_name[base], suffix, False)
    return None


def ids() -> tuple[str, ...]:
    """All bundled ids."""
    return tuple(name for _, name in _index()[0].values())


@functools.cache
def _index() -> tuple[dict[str, tuple[int, str]], dict[str, tuple[int, str]]]:
    by_id: dict[str, tuple[int, str]] = {}
    by_name: dict[str, tuple[int, str]] = {}
    for number, model in enumerate(table("models")["model"]):
        for name in model["ids"]:
            by_id[name.lower()] = (number, name)
            by_name.setdefault(name.rpartition("/")[2].lower(), (number, name))
    return by_id, by_name


def _shortened(name: str) -> list[tuple[str, tuple[str, dict[str, Any] | None]]]:
    """The name without the suffixes that tell how it is quantised; the last of them counts least."""
    found: list[tuple[str, tuple[str, dict[str, Any] | None]]] = []
    meaning: tuple[str, dict[str, Any] | None] | None = None
    for _ in range(3):
        for pattern, word, config in _SUFFIXES:
            m = re.fullmatch(rf"(.+?)[-_.](?:{pattern})", name)
            if m is not None:
                name = m[1]
                meaning = (word, config)
                found.append((name, meaning))
                break
        else:
            break
    return found


def _entry(number: int, name: str, suffix: tuple[str, dict[str, Any] | None] | None, exact: bool) -> Entry:
    model = table("models")["model"][number]
    config = dict(model["config"])
    longest = model.get("context", {}).get(name)
    if longest is not None:
        config["max_position_embeddings"] = longest
    # "FP8" says nothing new of a checkpoint that is FP8; of one with FP4 experts it says that they are FP8, too.
    same = suffix is None or ((suffix[1] or {}).get("quant_method") == _method(config) and not _mixed(config))
    if suffix is not None and not same:
        config = _requantised(config, suffix[1])
    return Entry(
        id=name,
        config=config,
        source=model["source"],
        exact=exact,
        quantised=None if suffix is None else suffix[0],
        total=model.get("bytes") if same else None,
        tensors=_tensors(model["parts_gib"]) if same and "parts_gib" in model else None,
        parameters=model.get("parameters"),
        derived=tuple(model.get("derived", ())),
    )


def _text(config: dict[str, Any]) -> dict[str, Any]:
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else {}


def _method(config: dict[str, Any]) -> str | None:
    told = config.get("quantization_config") or _text(config).get("quantization_config")
    return told.get("quant_method") if isinstance(told, dict) else None


def _mixed(config: dict[str, Any]) -> bool:
    told = config.get("quantization_config") or _text(config).get("quantization_config")
    return isinstance(told, dict) and "expert_dtype" in told


def _requantised(config: dict[str, Any], how: dict[str, Any] | None) -> dict[str, Any]:
    made = {k: v for k, v in config.items() if k != "quantization_config"}
    if "text_config" in made:
        made["text_config"] = {k: v for k, v in _text(config).items() if k != "quantization_config"}
    if how is not None:
        made["quantization_config"] = how
    return made


# A part as models.toml calls it -> a tensor's name that stands for it.
_NAMES = {
    "experts": "layers.*.ffn.experts.*.w.weight", "tables": "engram.*.weight", "attention": "layers.*.attn.w.weight", "embedding": "embed.weight",
    "head": "lm_head.weight", "shared": "layers.*.ffn.shared_experts.w.weight", "vision": "vision.w.weight", "spare": "mtp.*.weight",
    "norm": "layers.*.norm.weight",
}  # fmt: skip


def _tensors(parts: dict[str, float]) -> tuple[TensorGroup, ...]:
    return tuple(
        TensorGroup(name=_NAMES[part], dtype="", count=1, bytes=int(gib * GIB), elements=0)
        for part, gib in parts.items()
    )
