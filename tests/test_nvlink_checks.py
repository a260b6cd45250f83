"""No mixture of facts, however odd, breaks a check of links, shared memory or limits."""

from __future__ import annotations

import random
import types
import typing
from typing import Any

import msgspec
import pytest

from ds_doctor import engine
from ds_doctor.model import Outcome, Reason
from ds_doctor.probes.nvml import Nvml
from support import doctor, module_checks

NUMBERS = (0, 1, 2, 3, 4, 5, 6, 50, 255, -1, 64 << 20, 1 << 30, 1 << 40)
WORDS = (
    "",
    "NVIDIA H200",
    "switch",
    "gpu",
    "host",
    "vllm",
    "sglang",
    "tmpfs",
    "DMA",
    "0000:00:06.0",
    "0,1",
    "GPU-1",
    "tmp",
)
KEYS = ("CUDA_VISIBLE_DEVICES", "VLLM_MQ_MAX_CHUNK_BYTES_MB", "0000:00:06.0")


def anything(kind: Any, dice: random.Random) -> Any:
    """A value of the type, of which every part is drawn."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return anything(dice.choice(args), dice)
    if origin is tuple:
        return tuple(anything(args[0], dice) for _ in range(dice.randint(0, 4)))
    if origin is dict:
        return {dice.choice(KEYS): anything(args[1], dice) for _ in range(dice.randint(0, 2))}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(**{name: anything(hints[name], dice) for name in kind.__struct_fields__})
    if kind is type(None):
        return None
    if kind is Any:
        kind = dice.choice((int, str))
    return dice.choice({int: NUMBERS, float: (0.5, 2.0, 64.0), bool: (True, False), str: WORDS}[kind])


def plausible(fact: Any, dice: random.Random) -> Any:
    """Mostly an NVML that answers, with GPUs numbered in order, so that the checks get beyond their first line."""
    if isinstance(fact, Nvml) and dice.random() < 0.9:
        gpus = tuple(msgspec.structs.replace(g, index=i, lost=None) for i, g in enumerate(fact.gpus))
        pairs = tuple(msgspec.structs.replace(p, a=0, b=1) for p in fact.pairs)
        return msgspec.structs.replace(fact, error=None, gpus=gpus, pairs=pairs)
    return fact


@pytest.mark.parametrize("seed", range(60))
def test_no_mixture_of_facts_breaks_a_check(seed: int) -> None:
    dice = random.Random(seed)
    for family in ("nvlink", "shm", "limits"):
        checks = module_checks(family)
        facts = {
            fact: Outcome(plausible(anything(fact, dice), dice))
            if dice.random() < 0.9
            else Outcome(None, "absent", Reason("fact-missing", {"fact": "x"}))
            for fact in engine.wanted(checks)
        }
        results = engine.judge(checks, facts, doctor().catalogue, {r for c in checks for r in c.rules})
        assert not [r for r in results if r.status == "error"]
