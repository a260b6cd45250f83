"""The plan of a launch command on this host's GPUs: what is put in, and what would make it fit; the arithmetic is ds_doctor.memory's."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

import msgspec

from ds_doctor.memory.gpus import Card
from ds_doctor.memory.plan import Plan, plan
from ds_doctor.memory.setting import Setting

from ._memory_ask import AUTO, Ask
from ._memory_live import BEFORE_LOOKING, GIB, Room, gib
from ._memory_model import Known
from ._require import numbers

SHARES = (
    0.9,
    0.92,
    0.94,
    0.95,
)  # tried in this order where a share is too low; beyond it starts fail for want of the rest
FRACTIONS = (0.8, 0.85, 0.88, 0.9)  # the same for SGLang
STEP = 1024  # a suggested length is a multiple of it
MOST_GPUS = 64
MOST_OFFLOADED = 0.5  # part of the weights: with more in host memory an engine is too slow to serve
LIGHTER = (("FP8", 8), ("AWQ", 4.3), ("NVFP4", 4.5))  # checkpoints by bits a weight


def setting(ask: Ask, known: Known, rooms: tuple[Room, ...]) -> Setting:
    """The command as the arithmetic takes it."""
    length = None if ask.length in (None, AUTO) else ask.length
    return Setting(
        engine="vllm" if ask.vllm else "sglang",
        version=numbers(ask.version),
        tp=ask.tp,
        pp=ask.pp,
        dp=ask.dp,
        ep=ask.ep,
        ep_size=ask.ep_size,
        dcp=ask.dcp,
        dp_attention=ask.dp_attention,
        kv_dtype=ask.kv_dtype,
        dtype=ask.dtype,
        block=ask.block,
        max_len=length,
        max_seqs=ask.sequences,
        batched_tokens=ask.batched if ask.batched and ask.batched > 0 else None,
        utilisation=ask.share,
        eager=ask.eager,
        speculative=ask.spec_tokens,
        state_mode=ask.state_mode,
        state_dtype=ask.state_dtype,
        hybrid_manager=ask.hybrid_manager,
        offload_gib=ask.offload_gib,
        quantisation=ask.quantisation,
        capability=rooms[0].capability,
        swa_ratio=ask.swa_ratio,
        language_only=ask.text_only,
        kv_bytes_given=ask.kv_bytes,
        prefix_caching=ask.prefix_caching,
        host_tables=ask.host_tables,
        lora_slots=ask.loras,
        lora_rank=ask.lora_rank or 16,
    )


def cards(rooms: tuple[Room, ...], free: bool) -> tuple[Card, ...]:
    """The GPUs; `free` False: as if nothing else used them."""
    return tuple(
        Card(
            name=r.name,
            total=(r.total[0] + r.total[1]) // 2,
            free=r.free[1] if free else None,
            capability=r.capability,
        )
        for r in rooms
    )


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """The plan and what it was made of."""

    ask: Ask
    known: Known
    rooms: tuple[Room, ...]
    setting: Setting
    plan: Plan

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Tokens of the pool: at least, about, at most. SGLang's --max-total-tokens caps them."""
        cap = self.ask.tokens
        every = (self.plan.tokens.low, self.plan.tokens.mid, self.plan.tokens.high)
        return every if cap is None else (min(every[0], cap), min(every[1], cap), min(every[2], cap))

    @property
    def room(self) -> Room:
        """The GPU that decides."""
        return min(self.rooms, key=lambda r: (r.total[0], r.free[0]) if self.ask.vllm else (r.free[0], r.total[0]))


def planned(ask: Ask, known: Known, rooms: tuple[Room, ...], free: bool | None = None) -> Planned:
    """The plan. vLLM demands its share of the total and is judged by it; SGLang shares what is free now."""
    made = setting(ask, known, rooms)
    if free is None:
        free = not ask.vllm
    given = cards(rooms, free)
    result = plan(known.architecture, made, given, tensors=known.tensors, total=known.total)
    if ask.length == AUTO:
        made = msgspec.structs.replace(made, max_len=max(1, result.longest.mid))
        result = plan(known.architecture, made, given, tensors=known.tensors, total=known.total)
    return Planned(ask=ask, known=known, rooms=rooms, setting=made, plan=result)


def fits(p: Planned, **changed: Any) -> Plan | None:
    """The plan of a changed setting, where it fits; None where it does not for sure."""
    made = msgspec.structs.replace(p.setting, **changed)
    result = plan(
        p.known.architecture, made, cards(p.rooms, not p.ask.vllm), tensors=p.known.tensors, total=p.known.total
    )
    return result if result.verdict == "fits" else None


def suggestions(p: Planned, visible: int, for_weights: bool) -> list[str]:
    """Single changes, as flags, each of which makes it fit on this host; `for_weights`: those that make room for weights."""
    made = list(_more_room(p, visible))
    return made if for_weights else [*made, *_less_cache(p)]


def _more_room(p: Planned, visible: int) -> Iterator[str]:
    ask, made = p.ask, p.setting
    for tp in _ranks(p, visible):
        if fits(p, tp=tp):
            yield f"{'--tensor-parallel-size' if ask.vllm else '--tp-size'} {tp}"
            break
    if not ask.vllm:
        # Activations and graphs lie outside the fraction: it must leave them their part.
        outside = p.plan.activations.high + p.plan.graphs.mid
        for share in FRACTIONS:
            enough = (1 - share) * p.room.free[0] >= outside
            if share > p.plan.utilisation and enough and fits(p, utilisation=share):
                yield f"--mem-fraction-static {share}"
                break
    elif ask.kv_bytes is None:
        free = min((r.free[0] - BEFORE_LOOKING[ask.ranks > 1][1] * GIB) / r.total[1] for r in p.rooms)
        for share in SHARES:
            if p.plan.utilisation < share < free and fits(p, utilisation=share):
                yield f"--gpu-memory-utilization {share}"
                break
    if ask.vllm and p.plan.max_seqs > 256 and fits(p, max_seqs=256):
        yield "--max-num-seqs 256"
    if ask.vllm and not made.eager and fits(p, eager=True):
        yield "--enforce-eager"


def _less_cache(p: Planned) -> Iterator[str]:
    ask, made = p.ask, p.setting
    longest = p.plan.longest.low // STEP * STEP
    if longest and longest < p.plan.max_len and fits(p, max_len=longest):
        yield f"{ask.length_flag} {longest}"
    if ask.kv_dtype == "auto" and p.plan.need and (made.capability is None or made.capability >= (8, 9)):
        if fits(p, kv_dtype="fp8"):
            yield "--kv-cache-dtype fp8"


def _ranks(p: Planned, most: int) -> Iterator[int]:
    """Larger tensor-parallel sizes that the model's heads allow."""
    tp, heads = p.setting.tp * 2, p.known.architecture.heads
    while tp * p.setting.pp <= most:
        if heads and heads % tp == 0:
            yield tp
        tp *= 2


def gpus_needed(p: Planned) -> int | None:
    """How many GPUs like these one engine would need, by tensor parallelism; None where no such number is found."""
    for tp in _ranks(p, MOST_GPUS):
        if fits(p, tp=tp):
            return tp * p.setting.pp
    return None


def offload(p: Planned) -> list[int]:
    """GiB of weights that would have to stay in host memory to make it fit; empty where that is most of them."""
    short = ceil((p.plan.weights.high - p.plan.available.low) / GIB - p.plan.weights.high / GIB) + 1
    size = max(1, short) + int(p.ask.offload_gib)
    most = (p.plan.weights.fullest / GIB + p.ask.offload_gib) * MOST_OFFLOADED
    return [size] if size <= most and fits(p, offload_gib=float(size)) else []


def lighter(p: Planned) -> list[str]:
    """Kinds of checkpoints that take less than this one."""
    q = p.known.architecture.quantisation
    bits = 16.0 if q is None else q.expert_bits or q.bits
    return [name for name, size in LIGHTER if size < bits - 1] if bits > 5 else []


def numbers_of(p: Planned) -> dict[str, Any]:
    """The plan as the data of a finding: GiB on one GPU, tokens, requests. `..._shown`: a number of tokens as it is read."""
    made = p.plan
    tokens = {
        "length": made.max_len,
        "tokens": p.tokens[1],
        "tokens_low": p.tokens[0],
        "tokens_high": p.tokens[2],
        "longest": made.longest.mid,
        "longest_low": made.longest.low,
        "longest_high": made.longest.high,
    }
    return {
        **tokens,
        **{f"{name}_shown": f"{number:,}" for name, number in tokens.items()},
        **{f"{name}_shown": _about(tokens[name]) for name in ("tokens", "tokens_low", "tokens_high")},
        "model": p.known.name,
        "gpu": p.room.on,
        "gpu_name": p.room.name,
        "gpus": p.setting.tp * p.setting.pp,
        "tp": p.setting.tp,
        "pp": p.setting.pp,
        "version": p.ask.version,
        "model_from": _source(p),
        "weights_from": made.weights.source,
        "weights_gib": gib(made.weights.fullest),
        "weights_low_gib": gib(made.weights.low),
        "weights_high_gib": gib(made.weights.high),
        "share": round(made.utilisation, 3),
        "share_flag": p.ask.share_flag,
        "total_gib": gib(made.card.total),
        "free_gib": gib(p.room.free[1]),
        "budget_gib": gib(made.budget),
        "overhead_low_gib": gib(made.activations.low + made.outside.low + made.graphs.low + made.adapters.low),
        "overhead_high_gib": gib(made.activations.high + made.outside.high + made.graphs.high + made.adapters.high),
        "adapters_gib": gib(made.adapters.mid),
        "kv_gib": gib(max(0, made.available.mid)),
        "kv_low_gib": gib(max(0, made.available.low)),
        "kv_high_gib": gib(max(0, made.available.high)),
        "kv_kib_per_token": round(made.per_token / 1024, 2),
        "need_gib": gib(made.need),
        "length_flag": p.ask.length_flag,
        "requests": round(made.concurrency[1] if p.ask.tokens is None else p.tokens[1] / made.max_len, 1),
        "kv_bytes_gib": gib(p.ask.kv_bytes or 0),
        "sequences": made.max_seqs,
        "batched_tokens": made.batched_tokens,
        "host_gib": gib(made.weights.host),
        "missed": missed(p.ask),
    }


def _about(tokens: int) -> str:
    """Three digits of it: no estimate is better."""
    step = 10 ** max(0, len(str(tokens)) - 3)
    return f"{round(tokens / step) * step:,}"


def _source(p: Planned) -> str:
    """Where the sizes are from, in names that need no translation."""
    if p.known.source == "bundled":
        return f"ds-doctor: {p.known.id}"
    return "config.json" if p.known.tensors is None else "config.json, *.safetensors"


def missed(ask: Ask) -> list[str]:
    """What takes memory on top and is not worked out: the flags that ask for it."""
    out = []
    if ask.speculative:
        out.append("--speculative-config" if ask.vllm else "--speculative-algorithm")
    return out
