"""The model of a launch command as memory is counted: its architecture and tensors, from its files or bundled; judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.memory import read
from ds_doctor.memory.architecture import Architecture
from ds_doctor.memory.tensors import TensorGroup
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.python_env import Packages

from ._memory_ask import Ask

if TYPE_CHECKING:
    from ds_doctor.memory.known import Entry

_GGUF = re.compile(r"\.gguf\Z|\A[^/]+/[^/:]*gguf[^/:]*(?::|\Z)|:(?:UD-)?I?Q\d", re.IGNORECASE)


# Encoders look at a text as a whole and keep no KV cache (vllm 0.33.0 v1/attention/backends: EncoderOnlyAttention).
ENCODERS = frozenset(
    ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert", "nomic_bert", "new", "gte", "jina_bert")
)


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: files (its config.json), bundled (the well-known model `id`). `tensors` where every header was read, `total`
    bytes where the index says so. `name`: as it was given. `sure` False: only the name tells that it is that model."""

    name: str
    architecture: Architecture
    source: str
    id: str | None = None
    sure: bool = True
    tensors: tuple[TensorGroup, ...] | None = None
    total: int | None = None


def known(ask: Ask, config: ModelConfig | None) -> Known:
    """What is known of the model. Undecided, with what to give, where that is not enough."""
    name = ask.model or (config.given if config is not None else "?")
    if config is not None and config.config is not None:
        return Known(
            name=name,
            architecture=architecture(_whole(config.config, config, ask), name),
            source="files",
            tensors=_tensors(config),
            total=config.total_size or (config.weights_bytes if _complete(config) else None),
        )
    if _GGUF.search(name) or (config is not None and config.weights_kind == "gguf"):
        raise Undecided("memory-gguf", model=name)
    # A directory that is there and has no config.json is no well-known model.
    seen = config is not None and config.path is not None and config.problem not in (None, "path-missing")
    found, sure = (None, False) if seen and not (config and config.repo) else well_known(name, config)
    if found is None:
        if config is not None and config.problem is not None and config.path is not None:
            raise Undecided("memory-no-config", path=config.path, problem=config.problem)
        raise Undecided("memory-model-unknown", model=name)
    return Known(
        name=name,
        architecture=architecture(_merged(found.config, ask.overrides), name),
        source="bundled",
        id=found.id,
        sure=sure,
        tensors=found.tensors,
        total=found.total,
    )


def well_known(name: str, config: ModelConfig | None) -> tuple[Entry | None, bool]:
    """(the bundled model of that name, whether it is that model for sure). An id on the Hub is sure, also of a quantised copy
    of the same owner; a copy of another owner and a directory that cannot be seen are what their names say, most likely."""
    from ds_doctor.memory.known import entry

    if config is not None and config.repo:
        name = config.repo
    if name.startswith(("/", ".", "~", "$")) or name.count("/") > 1:
        return entry(name.rstrip("/").rpartition("/")[2]), False
    found = entry(name)
    owner = name.partition("/")[0].lower()
    return found, found is not None and (found.exact or owner == found.id.partition("/")[0].lower())


# With these the engine refuses the sizes that were asked for: nothing is to be told of memory that is divided so.
_SPLIT = ("launch-tp-heads", "launch-tp-kv-heads", "launch-tp-vocabulary", "launch-tp-blocks", "launch-pp-layers")


def split_refused(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    environment: Environment | None,
    config: ModelConfig | None,
) -> str | None:
    """The rule that says why the engine would not divide the model so; None where it would, as far as can be told."""
    from . import _model, _model_split

    try:
        case = _model.case(launch, flags, environment, packages)
        if case.size("tensor") * case.size("pipeline") == 1:
            return None
        shape = _model.shape(case, config, bundled=True)
    except (Undecided, NotApplicable):
        return None
    return next((f.rule for f in _model_split.faults(case, shape) if f.rule in _SPLIT), None)


def architecture(config: Mapping[str, Any], name: str) -> Architecture:
    try:
        found = read.architecture(config)
        return _without_cache(found) if found.model_type in ENCODERS else found
    except read.Unreadable as e:
        raise Undecided("memory-config-unreadable", model=name, why=str(e)) from None


def _without_cache(a: Architecture) -> Architecture:
    layers = tuple(
        msgspec.structs.replace(x, attention=x.attention and msgspec.structs.replace(x.attention, caches=False))
        for x in a.layers
    )
    return msgspec.structs.replace(a, layers=layers)


def _whole(config: Mapping[str, Any], fact: ModelConfig, ask: Ask) -> Mapping[str, Any]:
    """config.json with what engines read beside it: ModelOpt's hf_quant_config.json, and the command's overrides."""
    inner = fact.quantisation.get("quantization")
    if isinstance(inner, dict) and "quantization_config" not in config:
        config = {**config, "quantization_config": {"quant_method": "modelopt", **inner}}
    return _merged(config, ask.overrides)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Mapping[str, Any]:
    """--hf-overrides: objects are merged, anything else is replaced (vllm/config/model.py: recursive update)."""
    if not above:
        return below
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _complete(config: ModelConfig) -> bool:
    return config.weights_kind == "safetensors" and (config.tensors is None or not config.tensors.files_unread)


def _tensors(config: ModelConfig) -> tuple[TensorGroup, ...] | None:
    """The tensors by name and dtype; None where a part of them is not known."""
    told = config.tensors
    if told is None or told.files_unread or told.rest_count:
        return None
    groups: dict[tuple[str, str], list[int]] = {}
    for kind in told.kinds:
        sums = groups.setdefault((kind.name, kind.dtype), [0, 0, 0])
        elements = kind.count
        for n in kind.shape:
            elements *= n
        sums[0] += kind.count
        sums[1] += kind.bytes
        sums[2] += elements
    return tuple(
        TensorGroup(name=name, dtype=dtype, count=s[0], bytes=s[1], elements=s[2])
        for (name, dtype), s in sorted(groups.items())
    )
