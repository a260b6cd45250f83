"""A model folder's configurations as a fact can keep them, and its tensors summed up; bounded, never judges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from math import isfinite, prod
from typing import Any

from ..api import Malformed
from ._folder_look import Looked
from ._safetensors import BITS, Kind
from ._said import SAID, clean
from .model_config import ModelConfig, TensorKind, Tensors
from .model_folder import ModelFolder

KINDS_LIMIT = 2000  # kinds of tensors that are kept; the largest public models have a few hundred
VALUES_LIMIT = 50_000  # values of one configuration; a quantised one may list 10,000 layers
DEEP_LIMIT = 24  # levels of one configuration
NUMBER_LIMIT = 1 << 53  # beyond it no size is meant, and other readers of the fact lose digits
# Of a tokenizer's configuration: megabytes, and no check asks for them.
_LAYER = re.compile(r"((?:.*?\.)?(?:layers|layer|blocks|block|h)\.)(\d+)(?=\.)", re.DOTALL)
_NUMBER = re.compile(r"\.\d+(?=\.)")
_TOWER = re.compile(r"vis|vit|audio|encoder|tower")  # has layers of its own, counted elsewhere
_LEFT_OUT = ("added_tokens_decoder", "chat_template", "additional_special_tokens", "extra_special_tokens")


def parse(looked: Looked) -> ModelConfig:
    """The fact. Malformed for a configuration that no fact can keep (its numbers, its depth, its size)."""
    folder, objects = looked.folder, looked.objects
    config = objects.get("config.json")
    tokenizer = objects.get("tokenizer_config.json", {})
    tensors = summed(looked, layers_of(config))
    kinds = {f.kind.removesuffix("-legacy") for f in folder.weights}
    return ModelConfig(
        given=folder.given,
        source=folder.source,
        path=folder.path,
        repo=folder.hub.repo if folder.hub else None,
        config=None if config is None else bounded(config, "config.json"),
        problem=None if config is not None and not folder.config_elsewhere else _problem(folder),
        generation=bounded(objects.get("generation_config.json", {}), "generation_config.json"),
        tokenizer=bounded(
            {k: v for k, v in tokenizer.items() if k not in _LEFT_OUT},
            "tokenizer_config.json",
        ),
        quantisation=bounded(objects.get("hf_quant_config.json", {}), "hf_quant_config.json"),
        mistral=bounded(objects.get("params.json", {}), "params.json"),
        has_chat_template=bool(tokenizer.get("chat_template")) or looked.chat_template,
        tensors=tensors,
        total_size=folder.index.total_size if folder.index else None,
        weights_bytes=folder.weights_bytes,
        weights_kind=next((k for k in ("safetensors", "gguf", "pytorch") if k in kinds), ""),
    )


def _problem(folder: ModelFolder) -> str:
    if folder.config_elsewhere:
        return "elsewhere"
    if folder.layout not in ("folder", "file"):
        return "path-missing" if folder.layout in ("missing", "dangling") else folder.layout
    if folder.hub is not None and folder.hub.problem is not None:
        return folder.hub.problem
    return next((f.kind for f in folder.small if f.name == "config.json" and f.kind != "ok"), "missing")


# -- configurations ------------------------------------------------------------------------------------------------


def bounded(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object as a fact can keep it: long texts cut, infinite numbers left out. Malformed beyond the limits."""
    left = VALUES_LIMIT

    def keep(value: Any, where: str, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > DEEP_LIMIT:
            raise Malformed("config-unbounded", file=name, values=VALUES_LIMIT, levels=DEEP_LIMIT)
        if isinstance(value, str):
            return clean(value, SAID)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int):
            if abs(value) > NUMBER_LIMIT:
                raise Malformed("config-number", file=name, key=clean(where, SAID), number=_short(value))
            return value
        if isinstance(value, float):
            return value if isfinite(value) else None
        if isinstance(value, Mapping):
            return {
                clean(str(k), SAID): keep(v, f"{where}.{k}" if where else str(k), depth + 1) for k, v in value.items()
            }
        return [keep(v, f"{where}[]", depth + 1) for v in value]

    kept: dict[str, Any] = keep(raw, "", 0)
    return kept


def _short(number: int) -> str:
    text = str(number) if number.bit_length() < 2000 else f"2^{number.bit_length() - 1}"
    return text if len(text) <= 24 else f"{text[:12]}… ({len(text)} digits)"


# -- tensors -------------------------------------------------------------------------------------------------------


def size_of(kind: Kind) -> int:
    """Bytes of one tensor of the kind; 0 for a dtype that is not known."""
    _, dtype, shape = kind
    return -(-prod(shape or ()) * BITS.get(dtype or "", 0) // 8)


def layers_of(config: Mapping[str, Any] | None) -> int | None:
    """The model's layers as config.json counts them; what is numbered beyond them is spare (multi-token prediction)."""
    inner = (config or {}).get("text_config")
    for one in (config or {}, inner if isinstance(inner, dict) else {}):
        for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
            if type(one.get(name)) is int:
                return int(one[name])
    return None


def summed(looked: Looked, layers: int | None) -> Tensors | None:
    """The tensors of all headers that were read; None where none was."""
    if not looked.told:
        return None
    alike: Counter[Kind] = Counter()
    for (name, dtype, shape), count in looked.kinds.items():
        alike[_numberless(name, layers), dtype, shape] += count
    sizes = {kind: count * size_of(kind) for kind, count in alike.items()}
    kept = nsmallest(KINDS_LIMIT, sizes, key=lambda k: (-sizes[k], str(k)))
    folder = looked.folder
    lacking = folder.index.missing.count if folder.index else 0
    count, total = sum(alike.values()), sum(sizes.values())
    return Tensors(
        kinds=tuple(_kind(kind, alike[kind], sizes[kind]) for kind in kept),
        count=count,
        bytes=total,
        files=looked.told,
        files_unread=len(folder.weights) + folder.weights_unseen - looked.told + lacking,
        rest_count=count - sum(alike[kind] for kind in kept),
        rest_bytes=total - sum(sizes[kind] for kind in kept),
    )


def _numberless(name: str, layers: int | None) -> str:
    m = _LAYER.search(name)
    if m is None:
        return name
    spare = layers is not None and len(m[2]) < 10 and int(m[2]) >= layers and not _TOWER.search(m[1])
    return f"{_NUMBER.sub('.*', m[1])}{'+' if spare else '*'}{_NUMBER.sub('.*', name[m.end() :])}"


def _kind(kind: Kind, count: int, size: int) -> TensorKind:
    name, dtype, dims = kind
    shape = dims if dims and max(dims) < NUMBER_LIMIT else ()
    return TensorKind(name=clean(name, SAID), dtype=clean(dtype or "", SAID), shape=shape, count=count, bytes=size)
