"""The answer of `ds-doctor fit` as one value, worded in one language: what the JSON says and the text reads; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from ..memory.fit import Fit, Found, Model
from ..memory.overhead import MIB, Range
from ..memory.parts import active, parameters
from ..memory.plan import Plan
from ..memory.setting import GIB, Setting
from ..model import Lang
from .fit_words import word

SCHEMA = "ds-doctor.fit/1"


class RangeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """At least, most likely, at most."""

    low: float
    mid: float
    high: float


class LayersDoc(msgspec.Struct, frozen=True, kw_only=True):
    """How many layers are of a kind (full, sliding, mla, compressed, gated-delta, ...)."""

    kind: str
    count: int


class ModelDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The model: what was given, and from where its configuration is (files, hub-cache, bundled). `parameters` and those that one token uses, without
    layers for multi-token prediction. `quantisation`: how the checkpoint is stored (null: in `dtype`)."""

    given: str
    id: str | None
    read_from: Literal["files", "hub-cache", "bundled"]
    model_type: str
    parameters: int
    active_parameters: int
    layers: list[LayersDoc]
    context: int
    dtype: str
    quantisation: str | None


class SettingDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The engine and its options, defaults filled in. `memory_share`: --gpu-memory-utilization or --mem-fraction-static."""

    engine: Literal["vllm", "sglang"]
    version: str
    tp: int
    pp: int
    dp: int
    expert_parallel: bool
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    kv_cache_dtype: str
    memory_share: float
    cpu_offload_gib: float


class GpuDoc(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs that are alike: `count` of them are used. Sizes in GiB of one; `free_gib` null: not known, taken as all of it. `unused_gib`: outside the engine's
    share."""

    name: str
    count: int
    total_gib: float
    free_gib: float | None
    budget_gib: float
    weights_gib: RangeDoc
    kv_gib: RangeDoc
    activations_gib: RangeDoc
    outside_torch_gib: RangeDoc
    cuda_graphs_gib: RangeDoc
    lora_gib: RangeDoc
    unused_gib: float


class ChangeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that would help, what comes of them, and how many GPUs it then takes."""

    flags: list[str]
    verdict: Literal["fits", "tight"]
    gpus: int
    max_model_len: int
    concurrency: float


class SetDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The fewest GPUs of a kind on which it fits."""

    gpus: str
    name: str
    count: int
    weights_gib_per_gpu: float
    kv_gib_available: RangeDoc
    concurrency: RangeDoc


class SaidDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence and its id."""

    id: str
    say: str


class FitDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What `ds-doctor fit --format json` prints. Sizes in GiB or bytes as the names say; per GPU: of the GPU that decides. `kv_bytes_per_token...`: what one more
    token takes (the parts of the cache that grow with a request); `kv_gib_needed`: of one request of max_model_len tokens. `kv_tokens`: all tokens that the
    cache holds. `concurrency`: requests of max_model_len tokens at once. `max_model_len_largest`: the longest request that fits."""

    schema: str
    tool: dict[str, str]
    verdict: Literal["fits", "tight", "no"]
    exit_code: int
    reasons: list[SaidDoc]
    model: ModelDoc
    setting: SettingDoc
    gpus: list[GpuDoc]
    weights_gib_per_gpu: float
    weights_gib_total: float
    weights_gib_by_part: dict[str, float]
    kv_bytes_per_token_per_gpu: int
    kv_bytes_per_token: int
    kv_gib_available: RangeDoc
    kv_gib_needed: float
    kv_tokens: RangeDoc
    concurrency: RangeDoc
    max_model_len_largest: RangeDoc
    host_memory_gib: float
    shm_mib: float
    changes: list[ChangeDoc]
    sets: list[SetDoc]
    assumptions: list[SaidDoc]
    sources: list[str]


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line gave and found: the model's name and origin, ids and numbers of assumptions, sources."""

    name: str
    id: str | None
    read_from: Literal["files", "hub-cache", "bundled"]
    assumptions: Sequence[tuple[str, Mapping[str, Any]]]
    sources: Sequence[str]
    version: str
    concurrency: int | None = None


def _gib(size: int) -> float:
    return round(size / GIB, 2)


def _range(r: Range, floor: bool = False) -> RangeDoc:
    low, mid, high = (max(0, x) if floor else x for x in (r.low, r.mid, r.high))
    return RangeDoc(low=_gib(low), mid=_gib(mid), high=_gib(high))


def _count(r: Range) -> RangeDoc:
    return RangeDoc(low=r.low, mid=r.mid, high=r.high)


def _requests(x: tuple[float, float, float]) -> RangeDoc:
    return RangeDoc(low=round(x[0], 2), mid=round(x[1], 2), high=round(x[2], 2))


def gpu_doc(count: int, p: Plan) -> GpuDoc:
    w = p.weights
    return GpuDoc(
        name=p.card.name,
        count=count,
        total_gib=_gib(p.card.total),
        free_gib=None if p.card.free is None else _gib(p.card.free),
        budget_gib=_gib(p.budget),
        weights_gib=_range(Range(w.low, w.fullest, w.high)),
        kv_gib=_range(p.available, floor=True),
        activations_gib=_range(p.activations),
        outside_torch_gib=_range(p.outside),
        cuda_graphs_gib=_range(p.graphs),
        lora_gib=_range(p.adapters),
        unused_gib=_gib(max(0, p.card.total - p.budget)),
    )


def reason_data(fit: Fit, given: Given, s: Setting, model: Model) -> dict[str, Any]:
    """The numbers that a reason's sentence may name."""
    p = fit.plan
    return {
        "weights": f"{_gib(p.weights.fullest):.1f}",
        "budget": f"{_gib(p.budget):.1f}",
        "need": f"{_gib(p.need):.2f}",
        "low": f"{max(0.0, _gib(p.available.low)):.1f}",
        "high": f"{max(0.0, _gib(p.available.high)):.1f}",
        "length": f"{p.max_len:,}",
        "free": "?" if p.card.free is None else f"{_gib(p.card.free):.1f}",
        "short": f"{_gib(p.free_short):.1f}",
        "share": f"{p.utilisation:g}",
        "heads": model.architecture.heads,
        "tp": s.tp,
        "wanted": given.concurrency or 0,
        "requests": f"{p.concurrency[1]:.1f}",
        "tokens": f"{p.tokens.mid:,}",
        "type": model.architecture.model_type or "?",
    }


def build(fit: Fit, model: Model, s: Setting, found: Sequence[Found], given: Given, lang: Lang) -> FitDoc:
    p, a, w = fit.plan, model.architecture, fit.plan.weights
    data = reason_data(fit, given, s, model)
    reasons = fit.reasons if fit.verdict != "fits" else ()
    return FitDoc(
        schema=SCHEMA,
        tool={"name": "ds-doctor", "version": given.version},
        verdict=fit.verdict,
        exit_code=1 if fit.verdict == "no" else 0,
        reasons=[SaidDoc(id=r, say=word(_reason(r, p), lang, **data)) for r in reasons],
        model=ModelDoc(
            given=given.name,
            id=given.id,
            read_from=given.read_from,
            model_type=a.model_type,
            parameters=parameters(a),
            active_parameters=active(a),
            layers=[LayersDoc(kind=k, count=n) for k, n in a.counted()],
            context=a.positions,
            dtype=a.dtype,
            quantisation=a.quantisation.method if a.quantisation is not None else s.quantisation,
        ),
        setting=SettingDoc(
            engine=s.engine,
            version=".".join(map(str, s.at)),
            tp=s.tp,
            pp=s.pp,
            dp=s.dp,
            expert_parallel=s.ep,
            max_model_len=p.max_len,
            max_num_seqs=p.max_seqs,
            max_num_batched_tokens=p.batched_tokens,
            kv_cache_dtype=s.kv_dtype,
            memory_share=round(p.utilisation, 3),
            cpu_offload_gib=s.offload_gib,
        ),
        gpus=[gpu_doc(count, one) for count, one in fit.groups],
        weights_gib_per_gpu=_gib(w.fullest),
        weights_gib_total=_gib(w.checkpoint),
        weights_gib_by_part={k: _gib(v) for k, v in w.by_role.items()},
        kv_bytes_per_token_per_gpu=p.per_token,
        kv_bytes_per_token=p.per_token_model,
        kv_gib_available=_range(p.available, floor=True),
        kv_gib_needed=_gib(p.need),
        kv_tokens=_count(p.tokens),
        concurrency=_requests(p.concurrency),
        max_model_len_largest=_count(p.longest),
        host_memory_gib=_gib(p.host_bytes),
        shm_mib=round(p.shm_bytes / MIB, 1),
        changes=[
            ChangeDoc(
                flags=[f"{name} {value}".strip() for name, value in c.flags],
                verdict=c.verdict,  # type: ignore[arg-type]
                gpus=c.gpus,
                max_model_len=c.max_len,
                concurrency=c.concurrency,
            )
            for c in fit.changes
        ],
        sets=[
            SetDoc(
                gpus=f"{f.count}x{f.card.name.replace(' ', '-')}",
                name=f.card.name,
                count=f.count,
                weights_gib_per_gpu=_gib(f.plan.weights.fullest),
                kv_gib_available=_range(f.plan.available, floor=True),
                concurrency=_requests(f.plan.concurrency),
            )
            for f in found
        ],
        assumptions=[SaidDoc(id=key, say=word("assume." + key, lang, **values)) for key, values in given.assumptions],
        sources=list(given.sources),
    )


def _reason(reason: str, p: Plan) -> str:
    return (
        f"reason.{reason}.{'no' if p.verdict == 'no' else 'tight'}"
        if reason in ("weights", "cache")
        else f"reason.{reason}"
    )


def render_json(doc: FitDoc) -> str:
    return msgspec.json.format(msgspec.json.encode(doc), indent=2).decode() + "\n"
