"""Planning: how a model fits on given GPUs, what change would make it fit, and on which sets of known GPUs it does; arithmetic only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

import msgspec

from . import gpus
from .architecture import Architecture
from .gpus import Card
from .plan import Plan, Verdict, plan
from .setting import GIB, Setting
from .tensors import TensorGroup

STEP = 1024  # a suggested length is a multiple of it
SHARES = (0.9, 0.92, 0.94, 0.95)  # beyond it starts fail for want of the rest
FRACTIONS = (0.8, 0.85, 0.88, 0.9)
MOST_RANKS = 64
# Sets that are tried when nobody says which GPUs: one of each size that is sold, the smaller memory first.
USUAL = ("L4", "RTX 4090", "RTX 5090", "A100 40GB", "L40S", "A100 80GB", "H100", "RTX PRO 6000", "H200", "B200", "B300")
COUNTS = (1, 2, 4, 8, 16)
_FP8 = (8, 9)  # compute capability from which fp8 is in hardware


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """What is put in: the architecture, and of its checkpoint what is known."""

    architecture: Architecture
    tensors: tuple[TensorGroup, ...] | None = None
    total: int | None = None

    def plan(self, s: Setting, cards: Sequence[Card]) -> Plan:
        return plan(self.architecture, s, cards, tensors=self.tensors, total=self.total)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Flags (name, value) that were tried and what came of them; `gpus` of the whole deployment; `concurrency` at most likely."""

    flags: tuple[tuple[str, str], ...]
    verdict: Verdict
    gpus: int
    max_len: int
    longest: int
    concurrency: float


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A set of known GPUs on which it fits: `count` of `card`, all of them one tensor-parallel group."""

    card: Card
    count: int
    plan: Plan


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """`groups`: the plan of each kind of GPU (how many there are, its plan), the deciding one first. `verdict` and `reasons` as in Plan, and also:
    heads (they cannot be divided by tp), shape (nor can something else), concurrency (fewer requests at once than asked for), uncertain (its type is not known)."""

    verdict: Verdict
    reasons: tuple[str, ...]
    plan: Plan
    groups: tuple[tuple[int, Plan], ...]
    changes: tuple[Change, ...] = ()


def fit(model: Model, s: Setting, cards: Sequence[Card], concurrency: int | None = None) -> Fit:
    """How `s` runs on these cards. The ranks are the first of them; a card that has less than the others decides."""
    used = list(cards[: s.ranks])
    kinds: dict[Card, int] = {}
    for one in used:
        kinds[one] = kinds.get(one, 0) + 1
    groups = [(count, model.plan(s, [one])) for one, count in kinds.items()]
    groups.sort(key=lambda g: ("no", "tight", "fits").index(g[1].verdict) * (1 << 50) + g[1].available.mid)
    decides = groups[0][1]
    verdict, reasons = judged(model, s, decides, concurrency)
    found = Fit(verdict=verdict, reasons=reasons, plan=decides, groups=tuple(groups))
    if verdict == "fits" or {"heads", "shape"} & set(reasons):
        return found
    return msgspec.structs.replace(found, changes=tuple(_changes(model, s, list(cards), found, concurrency)))


def judged(model: Model, s: Setting, p: Plan, concurrency: int | None) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict on what was asked for, not only on the start."""
    verdict, reasons = p.verdict, list(p.reasons)
    heads = model.architecture.heads
    if heads and heads % s.tp:
        return "no", ("heads",)
    if not divides(model.architecture, s.tp):
        return "no", ("shape",)
    if concurrency is not None and p.concurrency[0] < concurrency and verdict != "no":
        verdict = "no" if p.concurrency[2] < concurrency else "tight"
        reasons = [*[r for r in reasons if r != "concurrency"], "concurrency"]
    if not model.architecture.certain and verdict == "fits":
        verdict, reasons = "tight", ["uncertain"]
    return verdict, tuple(reasons)


def divides(a: Architecture, tp: int) -> bool:
    """Whether the engines can split the model over so many ranks: query heads, KV heads (split or copied) and dense layers
    (vllm/distributed/utils.py: ensure_divisibility; model_executor/models: total_num_kv_heads against tp_size)."""
    for layer in set(a.layers):
        x, f = layer.attention, layer.feed
        if x is not None:
            if x.heads % tp:
                return False
            if x.kind not in ("mla", "compressed") and x.kv_heads % tp and tp % x.kv_heads:
                return False
        if f is not None and f.width % tp:
            return False
    return True


def ranks_for(model: Model, count: int, pp: int, dp: int) -> int:
    """The largest tensor-parallel size for so many GPUs that the model can be split by."""
    return next((n for n in range(max(1, count // (pp * dp)), 0, -1) if divides(model.architecture, n)), 1)


def _flags(s: Setting) -> dict[str, str]:
    if s.engine == "vllm":
        return {
            "tp": "--tensor-parallel-size", "utilisation": "--gpu-memory-utilization", "max_len": "--max-model-len", "max_seqs": "--max-num-seqs",
            "eager": "--enforce-eager", "kv_dtype": "--kv-cache-dtype", "offload_gib": "--cpu-offload-gb", "quantisation": "--quantization",
        }  # fmt: skip
    return {
        "tp": "--tp-size", "utilisation": "--mem-fraction-static", "max_len": "--context-length", "max_seqs": "--max-running-requests",
        "eager": "--disable-cuda-graph", "kv_dtype": "--kv-cache-dtype", "offload_gib": "--cpu-offload-gb", "quantisation": "--quantization",
    }  # fmt: skip


def _changes(model: Model, s: Setting, cards: list[Card], found: Fit, concurrency: int | None) -> Iterator[Change]:
    """Single changes that make it fit; where there is none, two or three together."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    done: set[tuple[str, ...]] = set()
    best: list[Change] = []
    for wanted in (_singles(model, s, cards, found), _together(model, s, cards, found)):
        for changed in wanted:
            if tuple(changed) in done:  # a smaller step of the same kind is enough
                continue
            one = _tried(model, s, cards, changed, concurrency)
            if one is not None and one.flags not in seen:
                seen.add(one.flags)
                best.append(one)
                if one.verdict == "fits":
                    done.add(tuple(changed))
        if any(c.verdict == "fits" for c in best):
            break
    good = [c for c in best if c.verdict == "fits"] or best
    yield from good[:6]


def _singles(model: Model, s: Setting, cards: list[Card], found: Fit) -> Iterator[dict[str, Any]]:
    p = found.plan
    for tp in _more_ranks(model, s, len(cards)):
        yield {"tp": tp}
    for share in SHARES if s.engine == "vllm" else FRACTIONS:
        if share > p.utilisation:
            yield {"utilisation": share}
    yield from _shorter(p.longest.low, p)
    if _may_fp8(model, s, p):
        yield {"kv_dtype": "fp8" if s.engine == "vllm" else "fp8_e4m3"}
    if not s.eager:
        yield {"eager": True}
    if p.max_seqs > 256:
        yield {"max_seqs": 256}


def _together(model: Model, s: Setting, cards: list[Card], found: Fit) -> Iterator[dict[str, Any]]:
    """The largest share and an fp8 cache, as long as it then goes; then more GPUs than there are; then weights on the host."""
    most = SHARES[-1] if s.engine == "vllm" else FRACTIONS[-1]
    share = {"utilisation": max(most, found.plan.utilisation)}
    fp8 = {"kv_dtype": "fp8" if s.engine == "vllm" else "fp8_e4m3"} if _may_fp8(model, s, found.plan) else {}
    for base in (share, fp8, {**share, **fp8}):
        if base:
            p = model.plan(msgspec.structs.replace(s, **base), cards)
            if p.verdict == "fits":
                yield base
            for shorter in _shorter(p.longest.low, p):
                yield {**base, **shorter}
    if "weights" in found.reasons and model.architecture.quantisation is None and not s.quantisation:
        if (found.plan.card.capability or _FP8) >= _FP8:
            yield {"quantisation": "fp8"}
    tp = s.tp * 2
    while tp * s.pp * s.dp <= MOST_RANKS:
        if divides(model.architecture, tp):
            yield {"tp": tp}
        tp *= 2
    if "weights" in found.reasons:
        over = found.plan.weights.high - max(0, found.plan.available.high)
        short = ceil((over if found.plan.available.high > 0 else -found.plan.available.low) / GIB) + 1
        if 0 < short < 0.75 * found.plan.weights.fullest / GIB:
            yield {"offload_gib": float(short)}


def _shorter(longest: int, p: Plan) -> Iterator[dict[str, Any]]:
    length = longest // STEP * STEP
    if STEP <= length < p.max_len:
        yield {"max_len": length}


def _may_fp8(model: Model, s: Setting, p: Plan) -> bool:
    return (
        s.kv_dtype in ("auto", "bfloat16", "float16")
        and (p.card.capability or _FP8) >= _FP8
        and not any(x.attention is not None and x.attention.kind == "compressed" for x in model.architecture.layers)
    )


def _more_ranks(model: Model, s: Setting, have: int) -> Iterator[int]:
    for tp in range(s.tp + 1, min(have // (s.pp * s.dp), MOST_RANKS) + 1):
        if divides(model.architecture, tp):
            yield tp


def _tried(
    model: Model, s: Setting, cards: list[Card], changed: dict[str, Any], concurrency: int | None
) -> Change | None:
    """What comes of it; None where it still does not fit."""
    made = msgspec.structs.replace(s, **changed)
    p = model.plan(made, cards)
    verdict, _ = judged(model, made, p, concurrency)
    if verdict == "no":
        return None
    names = _flags(s)
    flags = tuple(
        (names[k], "" if v is True else f"{v:g}" if isinstance(v, float) else str(v)) for k, v in changed.items()
    )
    return Change(
        flags=flags, verdict=verdict, gpus=made.ranks, max_len=p.max_len, longest=p.longest.low, concurrency=round(p.concurrency[1], 2)
    )  # fmt: skip


def sets(model: Model, s: Setting, concurrency: int | None = None, as_given: bool = False) -> Iterator[Found]:
    """Of each usual GPU the smallest number on which it fits; `as_given`: with the parallel sizes of `s` only."""
    a = model.architecture
    compressed = any(x.attention is not None and x.attention.kind == "compressed" for x in a.layers)
    for name in USUAL:
        one = gpus.card(name)
        # DeepSeek V4 and V4.1: the sparse backends run on Hopper and Blackwell data-centre GPUs (vllm 0.33 v1/attention/backends/mla).
        if compressed and (one.capability is None or one.capability[0] not in (9, 10)):
            continue
        for count in (s.ranks,) if as_given else COUNTS:
            if not divides(a, s.tp if as_given else count):
                continue
            made = msgspec.structs.replace(s, capability=one.capability)
            if not as_given:
                made = msgspec.structs.replace(made, tp=count, pp=1, dp=1)
            p = model.plan(made, [one])
            if judged(model, made, p, concurrency)[0] == "fits":
                yield Found(card=one, count=count, plan=p)
                break
