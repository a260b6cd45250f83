"""What `ds-doctor fit` sees of files and GPUs, through the probes: a model's folder, this host's GPUs, those of a recording; works nothing out."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from ..gather import ask
from ..host import Asked, Host
from ..memory.gpus import Card
from ..memory.tensors import TensorGroup
from ..model import Outcome
from ..probes.model_config import ModelConfig
from ..probes.nvml import Nvml
from . import Usage, files
from .fitting import Unknown
from .lang import t

MIB = 1 << 20


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A model's files: its configuration (None: `problem` says why), its tensors where every header was read, its size."""

    config: dict[str, Any] | None
    problem: str
    repo: str | None = None
    tensors: tuple[TensorGroup, ...] | None = None
    total: int | None = None
    gguf: bool = False


def folder(path: str) -> Seen:
    """The model in a folder. Usage where its files say something that no model can."""
    return _seen(_ask(files.absolute("MODEL", path)), path)


def cached(model_id: str) -> Seen | None:
    """The model of that id in the Hugging Face cache of this host; None where it is not there."""
    outcome = _ask(model_id)
    fact = outcome.fact
    if not isinstance(fact, ModelConfig) or fact.config is None:
        return None
    return _seen(outcome, model_id)


def _ask(model: str) -> Outcome:
    return ask(Host(Asked(model=model), os.environ), ModelConfig)


def _seen(outcome: Outcome, given: str) -> Seen:
    fact = outcome.fact
    if not isinstance(fact, ModelConfig):
        raise Usage(f"{given}: {_why(outcome)}")
    config = fact.config
    inner = fact.quantisation.get("quantization")
    if config is not None and isinstance(inner, dict) and "quantization_config" not in config:
        config = {**config, "quantization_config": {"quant_method": "modelopt", **inner}}
    whole = fact.weights_kind == "safetensors" and fact.tensors is not None and not fact.tensors.files_unread
    return Seen(
        config=config,
        problem=fact.problem or "missing",
        repo=fact.repo,
        tensors=_groups(fact) if whole else None,
        total=fact.total_size or (fact.weights_bytes if whole else None),
        gguf=fact.weights_kind == "gguf",
    )


def _why(outcome: Outcome) -> str:
    """The reason in the words of the catalogue, which is read only for that."""
    from .. import engine
    from .lang import from_locale

    if outcome.reason is None:
        return outcome.trouble or "?"
    return engine.assemble(os.environ).catalogue.explain(outcome.reason, from_locale())


def _groups(fact: ModelConfig) -> tuple[TensorGroup, ...] | None:
    told = fact.tensors
    if told is None or told.rest_count:
        return None
    sums: dict[tuple[str, str], list[int]] = {}
    for kind in told.kinds:
        group = sums.setdefault((kind.name, kind.dtype), [0, 0, 0])
        elements = kind.count
        for n in kind.shape:
            elements *= n
        group[0] += kind.count
        group[1] += kind.bytes
        group[2] += elements
    return tuple(
        TensorGroup(name=name, dtype=dtype, count=g[0], bytes=g[1], elements=g[2])
        for (name, dtype), g in sorted(sums.items())
    )


# -- GPUs ----------------------------------------------------------------------------------------------------------


def live() -> tuple[Card, ...]:
    """This host's GPUs that the engine would see; none where there is no driver."""
    fact = ask(Host(Asked(), os.environ), Nvml).fact
    if not isinstance(fact, Nvml) or fact.error is not None:
        return ()
    cards = _cards(fact)
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told is not None and all(part.strip().isdigit() for part in told.split(",")):
        cards = tuple(cards[int(part)] for part in told.split(",") if int(part) < len(cards))
    return cards


def recorded(path: str) -> tuple[Card, ...]:
    """The GPUs of a recording. Unknown where it holds none."""
    from .. import snapshot

    data = files.read("--replay", path, snapshot.LIMIT)
    try:
        kept = snapshot.read(data, f"--replay {path}")
        fact = snapshot.outcomes(kept, [Nvml], f"--replay {path}")[Nvml].fact
    except snapshot.SnapshotError as e:
        raise Usage(str(e)) from None
    cards = _cards(fact) if isinstance(fact, Nvml) else ()
    if not cards:
        raise Unknown(
            t(
                f"--replay {path}: the recording holds no GPU whose memory is known",
                f"--replay {path}：录制中没有显存已知的 GPU",
            )
        )
    return cards


def _cards(nvml: Nvml) -> tuple[Card, ...]:
    """As CUDA sees them: without what the driver keeps for itself."""
    found = []
    for gpu in nvml.gpus:
        if gpu.memory_total_mib is None or gpu.mig or gpu.lost is not None:
            continue
        kept = gpu.memory_reserved_mib
        total = gpu.memory_total_mib - kept if kept is not None else int(gpu.memory_total_mib * 0.99)
        major, _, minor = gpu.cc.partition(".")
        found.append(
            Card(
                name=gpu.name or "GPU",
                total=total * MIB,
                free=None if gpu.memory_free_mib is None else min(gpu.memory_free_mib, total) * MIB,
                capability=(int(major), int(minor)) if major.isdigit() and minor.isdigit() else None,
            )
        )
    return tuple(found)
