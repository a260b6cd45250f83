"""From the plan of a launch command to findings: what certainly does not fit, what may not, and the numbers where it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ds_doctor.api import Findings, found, not_applicable, undecided

from ._memory import STEP, Planned, gpus_needed, lighter, numbers_of, offload, planned, suggestions
from ._memory_ask import AUTO, Ask
from ._memory_live import GIB, Room, gib, held_by
from ._memory_model import Known

WEIGHTS = ("memory-weights", "memory-weights-tight")
VLLM_ONLY = ("memory-context", "memory-context-tight")
EXACT = 0.98  # KV bytes a token are right to 2 %: a need nearer to what is left than that is not certain
RULES = (*WEIGHTS, *VLLM_ONLY, "memory-pool-short", "memory-kv-bytes", "memory-plan")


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
        yield from _said("memory-weights", p, lambda: {**_data(p), **_advice(p, visible, for_weights=True)})
        return
    if ask.vllm and made.need * EXACT > left.high:
        yield from _told("memory-context")
        yield from _said("memory-context", p, lambda: {**_data(p), **_advice(p, visible)})
        return
    if left.low <= 0:
        yield from _said("memory-weights-tight", p, lambda: {**_data(p), **_advice(p, visible, for_weights=True)})
    if ask.vllm and made.need > max(0, left.low):
        if ask.length == AUTO or left.low <= 0:
            yield not_applicable("memory-context-tight", "memory-told", other="memory-weights-tight")
        else:
            yield from _said("memory-context-tight", p, lambda: {**_data(p), **_advice(p, visible)})
    if not ask.vllm and p.tokens[0] < made.max_len:
        yield from _said("memory-pool-short", p, lambda: {**_data(p), **_advice(p, visible)})
    if made.per_token or made.fixed:  # else nothing grows with the requests: the weights were all
        yield found("memory-plan", on=p.room.on, **_data(p))


def _elsewhere(ask: Ask) -> tuple[str, ...]:
    """Rules of the other engine: vLLM refuses a length that does not fit, SGLang starts all the same."""
    return ("memory-pool-short",) if ask.vllm else VLLM_ONLY


def _told(rule: str) -> Findings:
    """The other rules, where this one says it all."""
    for other in RULES:
        if other != rule:
            yield not_applicable(other, "memory-told", other=rule)


def _said(rule: str, p: Planned, data: Callable[[], dict[str, Any]]) -> Findings:
    """The finding; Undecided where it is not certain that the model is the one that was worked out."""
    known = p.known
    if not known.sure:
        made = p.plan
        yield undecided(
            rule,
            "memory-by-name",
            model=known.name,
            id=known.id,
            weights_gib=gib(made.weights.fullest),
            budget_gib=gib(made.budget),
            gpu=p.room.on,
        )
    elif not known.architecture.certain and (p.plan.weights.source == "config" or rule not in WEIGHTS):
        yield undecided(rule, "memory-architecture-unknown", model_type=known.architecture.model_type)
    else:
        yield found(rule, on=p.room.on, **data())


def _data(p: Planned) -> dict[str, Any]:
    data = numbers_of(p)
    # What others hold takes nothing from vLLM's share: either that is free, or memory-share-not-free says who has it.
    data["holders"] = held_by(p.room) if not p.ask.vllm and p.room.held >= GIB else []
    data["held_gib"] = gib(p.room.held)
    return data


def _advice(p: Planned, visible: int, for_weights: bool = False) -> dict[str, Any]:
    helps, needed = suggestions(p, visible, for_weights), gpus_needed(p)
    there = needed is not None and needed <= visible  # a suggestion says so already
    data: dict[str, Any] = {"suggest": helps, "gpus_needed": [] if needed is None or there else needed}
    if p.plan.longest.low < STEP:
        data["longest_low_shown"] = data["longest_low"] = []
    return {**data, "offload": offload(p), "lighter": lighter(p)} if for_weights else data
