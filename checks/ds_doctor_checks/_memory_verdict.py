"""From the plan of a launch command to findings: what certainly does not fit, what may not, and the numbers where it does."""

from __future__ import annotations

from typing import Any

from ds_doctor.api import Findings, found, not_applicable, undecided

from ._memory import Planned, gpus_needed, missed, numbers_of, planned, suggestions
from ._memory_ask import AUTO, Ask
from ._memory_live import GIB, Room, gib, held_by
from ._memory_model import Known

NONE = "—"  # in place of a list that is empty
VLLM_ONLY = ("memory-context", "memory-context-tight")
EXACT = 0.98  # KV bytes a token are right to 2 %: a need nearer to what is left than that is not certain
RULES = ("memory-weights", "memory-weights-tight", *VLLM_ONLY, "memory-pool-short", "memory-kv-bytes", "memory-plan")


def verdict(ask: Ask, known: Known, rooms: tuple[Room, ...], visible: int) -> Findings:
    """All rules of the plan."""
    p = planned(ask, known, rooms)
    made = p.plan
    left = made.available
    for rule in _elsewhere(ask):
        yield not_applicable(rule, "memory-other-engine", engine="SGLang" if ask.vllm else "vLLM")
    if ask.kv_bytes is None:
        yield not_applicable("memory-kv-bytes", "memory-pool-is-measured")
    elif made.weights.low + ask.kv_bytes > made.card.total:
        yield from _told("memory-kv-bytes")
        yield found("memory-kv-bytes", on=p.room.on, **_data(p))
        return
    if left.high <= 0:
        yield from _told("memory-weights")
        if not known.architecture.certain and made.weights.source == "config":
            yield from _guessed("memory-weights", p)
        else:
            yield found("memory-weights", on=p.room.on, **_data(p), **_advice(p, visible, for_weights=True))
        return
    if ask.vllm and made.need * EXACT > left.high:
        yield from _told("memory-context")
        if known.architecture.certain:
            yield found("memory-context", on=p.room.on, **_data(p), **_advice(p, visible))
        else:
            yield from _guessed("memory-context", p)
        return
    if left.low <= 0:
        yield found("memory-weights-tight", on=p.room.on, **_data(p), **_advice(p, visible, for_weights=True))
    if ask.vllm and made.need > max(0, left.low):
        if ask.length == AUTO or left.low <= 0:
            yield not_applicable("memory-context-tight", "memory-told", other="memory-weights-tight")
        else:
            yield found("memory-context-tight", on=p.room.on, **_data(p), **_advice(p, visible))
    if not ask.vllm and p.tokens[0] < made.max_len:
        if known.architecture.certain:
            yield found("memory-pool-short", on=p.room.on, **_data(p), **_advice(p, visible))
        else:
            yield from _guessed("memory-pool-short", p)
    if made.per_token or made.fixed:  # else nothing grows with the requests: the weights were all
        yield found("memory-plan", on=p.room.on, **_data(p), missed=missed(ask) or [NONE])


def _elsewhere(ask: Ask) -> tuple[str, ...]:
    """Rules of the other engine: vLLM refuses a length that does not fit, SGLang starts all the same."""
    return ("memory-pool-short",) if ask.vllm else VLLM_ONLY


def _told(rule: str) -> Findings:
    """The other rules, where this one says it all."""
    for other in RULES:
        if other != rule:
            yield not_applicable(other, "memory-told", other=rule)


def _guessed(rule: str, p: Planned) -> Findings:
    yield undecided(rule, "memory-architecture-unknown", model_type=p.known.architecture.model_type)


def _data(p: Planned) -> dict[str, Any]:
    data = numbers_of(p)
    data["holders"] = held_by(p.room) if p.room.held >= GIB else NONE
    data["held_gib"] = gib(p.room.held)
    return data


def _advice(p: Planned, visible: int, for_weights: bool = False) -> dict[str, Any]:
    needed = gpus_needed(p)
    helps = suggestions(p, visible, for_weights)
    return {"suggest": helps or [NONE], "gpus_needed": NONE if needed is None else needed}
