"""The answer of `ds-doctor fit` for people: the verdict, each GPU as bars, the numbers, what would help; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Lang
from .fit import FitDoc, GpuDoc, RangeDoc
from .fit_words import word
from .layout import cells, pad, table
from .page import Page

_COLOR = {"fits": "pass", "tight": "warn", "no": "fail"}
_BAR = 32  # cells of a whole GPU


def render(doc: FitDoc, lang: Lang, *, color: bool = False, width: int = 80) -> str:
    page = _Page(lang, width, color)
    _head(page, doc)
    for gpu in doc.gpus:
        _gpu(page, gpu, len(doc.gpus) > 1)
    _numbers(page, doc)
    _changes(page, doc)
    _sets(page, doc)
    page.add()
    page.add(page.said("assumptions"))
    for one in doc.assumptions:
        page.block("-", one.say, 2, lead=2)
    if doc.sources:
        page.add(page.said("sources"))
        for source in doc.sources:
            page.block("-", source, 2, lead=2)
    page.add()
    page.add(page.paint(page.said(f"exit.{doc.exit_code}"), "dim"))
    return "\n".join(page.lines) + "\n"


class _Page(Page):
    def said(self, key: str, **blanks: object) -> str:
        return word(key, self.lang, **blanks).replace("） ", "）")

    def listed(self, rows: Iterable[tuple[str, str]]) -> None:
        """Labels in one column, what is said beside them."""
        rows = list(rows)
        lead = max(cells(label) for label, _ in rows) + 2
        for label, text in rows:
            self.block(pad(label, lead - 2), text, 2, lead=lead)


def _head(page: _Page, doc: FitDoc) -> None:
    verdict = page.paint(page.said("verdict." + doc.verdict), _COLOR[doc.verdict])
    page.add(f"{verdict} - {page.said('says.' + doc.verdict)}")
    for reason in doc.reasons:
        page.block("-", reason.say, 2, lead=2)
    page.add()
    m, s = doc.model, doc.setting
    total = page.said("parameters", total=_billions(m.parameters))
    if m.active_parameters < m.parameters * 0.9:
        total += page.said("comma") + page.said("active", active=_billions(m.active_parameters))
    layers = page.said("comma").join(page.said("layers", count=x.count, kind=x.kind) for x in m.layers)
    name = m.given if m.id is None or m.id == m.given else f"{m.given} ({m.id})"
    share = "--gpu-memory-utilization" if s.engine == "vllm" else "--mem-fraction-static"
    told = [f"{s.engine} {s.version}", f"tp {s.tp}"]
    told += [f"pp {s.pp}"] if s.pp > 1 else []
    told += [f"dp {s.dp}"] if s.dp > 1 else []
    told += ["ep"] if s.expert_parallel else []
    told += [f"--kv-cache-dtype {s.kv_cache_dtype}"] if s.kv_cache_dtype != "auto" else []
    told += [f"--cpu-offload-gb {s.cpu_offload_gib:g}"] if s.cpu_offload_gib else []
    told += [f"{share} {s.memory_share:g}"]
    page.listed(
        [
            (page.said("k.model"), page.said("semicolon").join([name, total, layers, m.quantisation or m.dtype])),
            (page.said("k.engine"), page.said("comma").join(told)),
        ]
    )


def _billions(n: int) -> str:
    size, unit = next(((n / x, u) for x, u in ((1e12, "T"), (1e9, "B"), (1e6, "M")) if n >= x), (n / 1e3, "k"))
    return f"{size:.3g} {unit}"


def _gpu(page: _Page, g: GpuDoc, several: bool) -> None:
    page.add()
    name = page.said("of" if g.count > 1 else "one", count=g.count, name=g.name, total=f"{g.total_gib:.1f}")
    if g.free_gib is not None:
        name += page.said("comma") + page.said("free-now", free=f"{g.free_gib:.1f}")
    page.add(name)
    parts = (g.activations_gib, g.outside_torch_gib, g.cuda_graphs_gib, g.lora_gib)
    over = RangeDoc(low=sum(x.low for x in parts), mid=sum(x.mid for x in parts), high=sum(x.high for x in parts))
    rows = [
        ("weights", g.weights_gib.mid, g.weights_gib, "█"),
        ("kv", g.kv_gib.mid, g.kv_gib, "▓"),
        ("overhead", over.mid, over, "▒"),
        ("unused", g.unused_gib, None, "░"),
    ]
    lines = []
    for key, size, spread, mark in rows:
        wide = min(_BAR, round(_BAR * size / g.total_gib)) if g.total_gib else 0
        cut = " >" if size > g.total_gib else ""
        around = page.said("to", low=f"{spread.low:.1f}", high=f"{spread.high:.1f}") if spread else ""
        lines.append([page.said(key), f"{size:.1f} GiB", around, mark * max(wide, 1 if size >= 0.05 else 0) + cut])
    for line in table(lines, right=(1,)):
        page.add("  " + line)


def _spread(page: _Page, r: RangeDoc, digits: int) -> str:
    low, mid, high = (f"{x:,.{digits}f}" for x in (r.low, r.mid, r.high))
    if low == high:
        return mid
    gap = " " if page.lang == "en" else ""
    return mid + gap + page.said("aside", what=page.said("to", low=low, high=high))


def _numbers(page: _Page, doc: FitDoc) -> None:
    page.add()
    length = f"{doc.setting.max_model_len:,}"
    if doc.kv_bytes_per_token:
        token = page.said("v.per-token", gpu=f"{doc.kv_bytes_per_token_per_gpu:,}", model=f"{doc.kv_bytes_per_token:,}")
    else:
        token = page.said("v.per-token-none")
    longest = doc.max_model_len_largest
    if not longest.high:
        told = page.said("v.none")
    elif longest.low == longest.high == doc.model.context:
        told = page.said("v.whole", longest=f"{longest.mid:,.0f}")
    else:
        told = page.said("v.longest", longest=_spread(page, longest, 0))
    rows = [(page.said("k.per-token"), token), (page.said("k.tokens"), _spread(page, doc.kv_tokens, 0))]
    if doc.kv_gib_needed:
        rows.append((page.said("k.need"), page.said("v.need", length=length, need=f"{doc.kv_gib_needed:.2f}")))
    rows += [
        (
            page.said("k.requests"),
            page.said("v.requests", length=length, requests=_spread(page, doc.concurrency, 1)),
        ),
        (page.said("k.longest"), told),
    ]
    host = [page.said("v.host", gib=f"{doc.host_memory_gib:.0f}")]
    if doc.shm_mib:
        host.append(page.said("v.shm", mib=f"{doc.shm_mib:.0f}"))
    rows.append((page.said("k.host"), page.said("comma").join(host)))
    page.listed(rows)


def _changes(page: _Page, doc: FitDoc) -> None:
    if doc.verdict == "fits":
        return
    page.add()
    if not doc.changes:
        page.add(page.said("no-change"))
        return
    page.add(page.said("changes"))
    used = sum(g.count for g in doc.gpus)
    for c in doc.changes:
        told = [page.said("change.requests", requests=f"{c.concurrency:,.1f}", length=f"{c.max_model_len:,}")]
        if c.gpus != used:
            told.insert(0, page.said("change.gpus", gpus=c.gpus))
        if c.verdict == "tight":
            told.insert(0, page.said("verdict.tight"))
        page.block("-", " ".join(c.flags) + page.said("semicolon") + page.said("comma").join(told), 2, lead=2)


def _sets(page: _Page, doc: FitDoc) -> None:
    if not doc.sets:
        if doc.verdict == "no" and not any(r.id in ("heads", "shape") for r in doc.reasons):
            page.add()
            page.block("", page.said("no-sets"), 0, lead=0)
        return
    page.add()
    page.add(page.said("sets"))
    rows = [
        [s.gpus, f"{s.weights_gib_per_gpu:.1f} GiB", page.said("set.requests", requests=f"{s.concurrency.mid:,.1f}")]
        for s in doc.sets
    ]
    for line in table(rows, right=(1,)):
        page.add("  " + line)
