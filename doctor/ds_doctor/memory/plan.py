"""Does it fit: weights, cache and overhead against the memory of each GPU; ranges where nothing exact can be said."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal

import msgspec

from . import engine_defaults, overhead, sglang_pool, vllm_pool
from .architecture import Architecture
from .gpus import Card
from .kv import growing_bytes, stage_layers
from .overhead import Range
from .setting import GIB, Setting
from .tensors import TensorGroup
from .weights import Weights, weights

Verdict = Literal["fits", "tight", "no"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of a setting on the smallest GPU. Bytes of one GPU unless said otherwise. `verdict`: fits (also when the overhead is above
    average), tight (starts or not, by what cannot be predicted), no (certainly not). `reasons`: words for why: weights, cache, free, context,
    ranks. `budget`: what the engine may take; `available`: what is left for the cache, low to high; `need`: of one request of `max_len`
    tokens (0: the engine asks for none). `tokens`, `concurrency`: at low, mid and high. `longest`: the longest request that fits, low to
    high. `per_token`: that grows on one GPU, `per_token_model`: of the whole model once."""

    verdict: Verdict
    reasons: tuple[str, ...]
    engine: str
    card: Card
    gpus: int
    utilisation: float
    budget: int
    weights: Weights
    activations: Range
    outside: Range
    graphs: Range
    adapters: Range
    available: Range
    need: int
    per_token: int
    per_token_model: int
    block_tokens: int
    fixed: int
    tokens: Range
    concurrency: tuple[float, float, float]
    longest: Range
    max_len: int
    max_seqs: int
    batched_tokens: int
    free_short: int
    host_bytes: int
    shm_bytes: int


def plan(
    a: Architecture,
    s: Setting,
    cards: Sequence[Card],
    *,
    tensors: tuple[TensorGroup, ...] | None = None,
    total: int | None = None,
) -> Plan:
    """How `s` runs on these cards (one each rank; the smallest decides). `tensors` or `total` bytes: of the checkpoint, where known."""
    card = min(cards, key=lambda c: (c.free if c.free is not None else c.total, c.total))
    max_len = s.max_len or a.positions or 4096
    seqs = engine_defaults.max_seqs(s, card.total, card.name)
    batched = engine_defaults.batched_tokens(s, card.total, card.name, max_len)
    w = weights(a, s, tensors=tensors, total=total)
    act = overhead.activations(a, s, seqs, batched, card.total)
    out = overhead.outside_torch(s)
    graphs = overhead.graphs(a, s)
    lora = overhead.adapters(a, s)
    sizes = _vllm if s.engine == "vllm" else _sglang
    return sizes(a, s, card, w, act, out, graphs, lora, max_len, seqs, batched)


def _weights_range(w: Weights) -> Range:
    return Range(w.low, w.fullest, w.high)


def _left(budget: int, *taken: Range) -> Range:
    """What is left of the budget: the low end where everything takes its most."""
    return Range(
        budget - sum(t.high for t in taken), budget - sum(t.mid for t in taken), budget - sum(t.low for t in taken)
    )


def _vllm(
    a: Architecture,
    s: Setting,
    card: Card,
    w: Weights,
    act: Range,
    out: Range,
    graphs: Range,
    lora: Range,
    max_len: int,
    seqs: int,
    batched: int,
) -> Plan:
    part = engine_defaults.utilisation(s)
    budget = ceil(card.total * part)
    counted = graphs if overhead.graphs_counted(s) else Range(0, 0, 0)
    available = _left(budget, _weights_range(w), act, out, counted, lora)
    if s.kv_bytes_given:
        available = Range(s.kv_bytes_given, s.kv_bytes_given, s.kv_bytes_given)
    whole = vllm_pool.pool(a, s, batched)
    tight_stage = _stage_pool(a, s, batched)
    need = tight_stage.need(max_len)
    room = Range(*(max(0, x) for x in (available.low, available.mid, available.high)))
    one = tight_stage
    tokens = Range(*(one.tokens(x, max_len, s.at) for x in (room.low, room.mid, room.high)))
    longest = Range(*(one.longest(x, max(max_len, a.positions)) for x in (room.low, room.mid, room.high)))
    concurrency = tuple(one.concurrency(x, max_len) for x in (room.low, room.mid, room.high))
    short = max(0, budget - card.free) if card.free is not None and s.at >= (0, 9) else 0
    reasons: list[str] = []
    verdict: Verdict = "fits"
    if available.high <= 0:
        verdict, reasons = "no", ["weights"]
    elif need + (one.block_bytes if one.null_block else 0) > available.high:
        verdict, reasons = "no", ["cache"]
    elif need + (one.block_bytes if one.null_block else 0) > available.low:
        verdict, reasons = "tight", ["cache"] if available.mid > 0 else ["weights"]
    if verdict == "fits" and graphs.mid and not overhead.graphs_counted(s) and part > 0.95:
        verdict, reasons = "tight", ["graphs"]
    if short:
        verdict, reasons = "no", [*reasons, "free"]
    return Plan(
        verdict=verdict, reasons=tuple(reasons), engine="vllm", card=card, gpus=s.ranks, utilisation=part, budget=budget, weights=w,
        activations=act, outside=out, graphs=graphs, adapters=lora, available=available, need=need, per_token=one.growing,
        per_token_model=_model_bytes(a, s), block_tokens=max((g.block for g in whole.groups), default=0), fixed=_fixed(one, max_len),
        tokens=tokens, concurrency=concurrency, longest=longest,  # type: ignore[arg-type]
        max_len=max_len, max_seqs=seqs, batched_tokens=batched, free_short=short, host_bytes=_host(w, s), shm_bytes=_shm(s),
    )  # fmt: skip


def _stage_pool(a: Architecture, s: Setting, batched: int) -> vllm_pool.Pool:
    """The pool that decides: of the stage with the largest blocks. From 0.14.1 to 0.16 the check compares the need of all layers."""
    if s.pp == 1 or (0, 14) <= s.at < (0, 17):
        return vllm_pool.pool(a, s, batched)
    return max(
        (vllm_pool.pool(a, s, batched, x) for x in stage_layers(len(a.layers), s.pp)), key=lambda p: p.block_bytes
    )


def _fixed(pool: vllm_pool.Pool, length: int) -> int:
    """What a request of that length holds beyond its growing part."""
    return max(0, pool.need(length) - pool.growing * length)


def _model_bytes(a: Architecture, s: Setting) -> int:
    """Of one token of the whole model, held once."""
    return growing_bytes(a, msgspec.structs.replace(s, tp=1, pp=1, dp=1, dp_attention=False))


def _sglang(
    a: Architecture,
    s: Setting,
    card: Card,
    w: Weights,
    act: Range,
    out: Range,
    graphs: Range,
    lora: Range,
    max_len: int,
    seqs: int,
    batched: int,
) -> Plan:
    part = engine_defaults.static_fraction(a, s, card.total)
    before = (card.free if card.free is not None else card.total) - overhead.context(s)
    budget = int(before * part)
    available = _left(budget, _weights_range(w), Range(0, int(0.2 * GIB), int(0.8 * GIB)), lora)
    pools = [sglang_pool.pool(a, s, x, batched) for x in sglang_pool.stages(a, s)]
    one = max(pools, key=lambda p: p.cell)
    room = [max(0, x) for x in (available.low, available.mid, available.high)]
    tokens = Range(*(one.tokens(x) for x in room))
    longest = Range(*(min(t, max(max_len, a.positions)) for t in (tokens.low, tokens.mid, tokens.high)))
    reasons: list[str] = []
    verdict: Verdict = "fits"
    if available.high <= 0:
        verdict, reasons = "no", ["weights"]
    elif not tokens.high:
        verdict, reasons = "no", ["cache"]
    elif available.low <= 0 or not tokens.low:
        verdict, reasons = "tight", ["weights"]
    elif tokens.low < max_len:
        verdict, reasons = "tight", ["context"]
    return Plan(
        verdict=verdict, reasons=tuple(reasons), engine="sglang", card=card, gpus=s.ranks, utilisation=part, budget=budget, weights=w,
        activations=act, outside=out, graphs=graphs, adapters=lora, available=available, need=0, per_token=int(one.full / one.parallel + one.index),
        per_token_model=_model_bytes(a, s), block_tokens=one.page, fixed=one.state + one.fixed, tokens=tokens,
        concurrency=tuple(t / max_len for t in (tokens.low, tokens.mid, tokens.high)),  # type: ignore[arg-type]
        longest=longest, max_len=max_len, max_seqs=seqs, batched_tokens=batched, free_short=0, host_bytes=_host(w, s), shm_bytes=_shm(s),
    )  # fmt: skip


def _host(w: Weights, s: Setting) -> int:
    """Host memory: what stays there, and about 4 GiB for each rank's process while it loads."""
    return w.host + 4 * GIB * s.tp * s.pp


def _shm(s: Setting) -> int:
    """/dev/shm: the queues between ranks; none for one GPU."""
    ranks = s.tp * s.pp
    return 0 if ranks == 1 else ranks * 64 * (1 << 20)
