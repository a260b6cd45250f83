"""What `ds-doctor fit` does with its options: finds the model and the GPUs; the arithmetic is in memory, the words in report."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from .. import __version__
from ..memory import fit as planning
from ..memory import gpus, known, kv, read
from ..memory.fit import Model
from ..memory.gpus import Card
from ..memory.quantisation import named
from ..memory.setting import NEWEST, Setting, version
from ..model import Lang
from ..report import fit as document
from ..report.fit_words import word
from . import Usage, files, put
from .lang import from_locale, t

CONFIG_LIMIT = 8 << 20  # bytes of a config.json; the largest public ones have about 2 MB
# What is there wherever NVML could have something to say (probes/nvml.py), looked for before the probes are imported.
TRACES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/nvmap")
LENGTHS = (1, 1 << 40)
# Methods that name how a checkpoint is stored; they change nothing of a 16-bit one (vllm 0.33.0, sglang 0.5.23 --quantization).
OF_CHECKPOINTS = frozenset(
    [
        "compressed-tensors",
        "gguf",
        "torchao",
        "quark",
        "modelopt",
        "modelopt_mixed",
        "humming",
        "inc",
        "hqq",
        "online",
        "experts_int8",
        "moe_wna16",
        "fbgemm_fp8",
        "fp_quant",
        "petit_nvfp4",
        "qoq",
        "bitblas",
        "unquant",
    ]
)
_HUMAN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([kKmMgGtT])?")
_FACTORS = {"k": 10**3, "K": 1 << 10, "m": 10**6, "M": 1 << 20, "g": 10**9, "G": 1 << 30, "t": 10**12, "T": 1 << 40}


class Unknown(Exception):
    """It cannot be told: one line for standard error, exit status 3."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `fit`, as they were typed."""

    model: str
    gpus: str | None = None
    replay: str | None = None
    engine: str = "vllm"
    engine_version: str | None = None
    tp: str | None = None
    pp: str | None = None
    dp: str | None = None
    ep: bool = False
    max_len: str | None = None
    kv_dtype: str = "auto"
    concurrency: str | None = None
    share: str | None = None
    seqs: str | None = None
    batched: str | None = None
    offload: str | None = None
    quantisation: str | None = None
    loras: str | None = None
    lora_rank: str | None = None
    eager: bool = False
    form: str = "text"
    lang: Lang | None = None


def fit(r: Request) -> int:
    """Work it out, print it, and give the exit status."""
    lang = r.lang or from_locale()
    setting = _setting(r)
    concurrency = _whole("--concurrency", r.concurrency, 1, 1 << 20)
    if r.gpus is not None and r.replay is not None:
        raise Usage(t("--gpus and --replay exclude each other", "--gpus 与 --replay 不能同时使用"))
    try:
        model, given, notes, sources = _model(r.model)
        cards, where = _cards(r)
    except Unknown as e:
        import sys

        sys.stderr.write(f"ds-doctor: {e}\n")
        return 3
    a = model.architecture
    found: list[planning.Found] = []
    if not cards:
        told = any(x is not None for x in (r.tp, r.pp, r.dp))
        found = list(planning.sets(model, setting, concurrency, as_given=told))
        if found:
            least = min(found, key=lambda f: (f.count * f.card.total, f.count))
            cards = (least.card,) * least.count
        else:
            cards = (gpus.card("H200"),) * (setting.ranks if told else 8)
    setting = _ranks(r, setting, model, cards, notes)
    setting = msgspec.structs.replace(setting, capability=cards[0].capability)
    if (r.max_len or "").lower() in ("auto", "-1"):
        longest = model.plan(setting, cards[: setting.ranks]).longest.low
        setting = msgspec.structs.replace(setting, max_len=max(1, longest))
    result = planning.fit(model, setting, cards, concurrency)
    if result.verdict == "no" and not found:
        found = list(planning.sets(model, msgspec.structs.replace(setting, utilisation=None), concurrency))
    _assume(r, setting, result, model, cards, where, notes)
    doc = document.build(
        result,
        model,
        setting,
        found,
        document.Given(
            name=r.model,
            id=given[0],
            read_from=given[1],  # type: ignore[arg-type]
            assumptions=notes,
            sources=sources,
            version=__version__,
            concurrency=concurrency,
        ),
        lang,
    )
    if not a.certain and result.verdict == "no":
        doc = msgspec.structs.replace(doc, exit_code=1)
    if r.form == "json":
        put(document.render_json(doc))
    else:
        from ..report.fit_text import render
        from .terminal import colorful, width

        put(render(doc, lang, color=colorful(), width=width()))
    return doc.exit_code


# -- the options ---------------------------------------------------------------------------------------------------


def _setting(r: Request) -> Setting:
    at = NEWEST[r.engine]
    if r.engine_version is not None:
        told = version(r.engine_version[:40])
        if told is None:
            raise Usage(
                t(
                    f"--engine-version {r.engine_version}: a version such as 0.11.0",
                    f"--engine-version {r.engine_version}：应为版本号，例如 0.11.0",
                )
            )
        at = told
    share = _share(r)
    length = None
    if r.max_len is not None and r.max_len.lower() not in ("auto", "-1"):
        length = _whole("--max-model-len", r.max_len, *LENGTHS)
    kv_dtype = _word("--kv-cache-dtype", r.kv_dtype)
    if not kv.known_type(kv_dtype):
        raise Usage(_unknown("--kv-cache-dtype", kv_dtype, "auto, fp8, bfloat16, nvfp4"))
    if r.quantisation is not None and not named(r.quantisation).known and r.quantisation.lower() not in OF_CHECKPOINTS:
        raise Usage(_unknown("--quantization", r.quantisation[:40], "fp8, awq, gptq, nvfp4, mxfp4, bitsandbytes"))
    seqs = _whole("--max-num-seqs", r.seqs, 1, 1 << 20)
    batched = _whole("--max-num-batched-tokens", r.batched, 1, 1 << 24)
    if r.engine == "vllm" and seqs is not None and batched is not None and batched < seqs:
        raise Usage(
            t(
                f"--max-num-batched-tokens {batched} is smaller than --max-num-seqs {seqs}, which vLLM refuses",
                f"--max-num-batched-tokens {batched} 小于 --max-num-seqs {seqs}，vLLM 会拒绝",
            )
        )
    return Setting(
        engine=r.engine,  # type: ignore[arg-type]
        version=at,
        tp=_whole("--tp", r.tp, 1, 1024) or 1,
        pp=_whole("--pp", r.pp, 1, 1024) or 1,
        dp=_whole("--dp", r.dp, 1, 1024) or 1,
        ep=r.ep,
        kv_dtype=kv_dtype,
        max_len=length,
        max_seqs=seqs,
        batched_tokens=batched,
        utilisation=share,
        eager=r.eager,
        offload_gib=_number("--cpu-offload-gb", r.offload, 0, 1 << 20) or 0.0,
        quantisation=None if r.quantisation is None else _word("--quantization", r.quantisation),
        lora_slots=_whole("--max-loras", r.loras, 0, 4096) or 0,
        lora_rank=_whole("--max-lora-rank", r.lora_rank, 1, 4096) or 16,
    )


def _unknown(option: str, text: str, some: str) -> str:
    return t(f"{option} {text}: not known here; for example {some}", f"{option} {text}：这里不认识；例如 {some}")


def _share(r: Request) -> float | None:
    name = "--gpu-memory-utilization" if r.engine == "vllm" else "--mem-fraction-static"
    value = _number(name, r.share, 0, 1)
    if value == 0:
        raise Usage(t(f"{name} {r.share}: more than 0, at most 1", f"{name} {r.share}：应大于 0 且不超过 1"))
    return value


def _word(option: str, text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.+,/ -]{1,60}", text):
        raise Usage(t(f"{option} {text[:40]!r}: not a type", f"{option} {text[:40]!r}：不是类型名"))
    return text


def _whole(option: str, text: str | None, low: int, high: int) -> int | None:
    """A whole number as vLLM reads them: 32k is 32,000, 32K is 32,768."""
    if text is None:
        return None
    m = _HUMAN.fullmatch(text.strip().replace(",", "").replace("_", ""))
    value = -1
    if m is not None:
        factor = _FACTORS[m[3]] if m[3] else 1
        value = int(m[1]) * factor + (int(m[2]) * factor // 10 ** len(m[2]) if m[2] else 0)
        if m[2] and not m[3]:
            value = -1
    if not low <= value <= high:
        raise Usage(
            t(
                f"{option} {text[:40]}: a whole number from {low} to {high}, also as 32k or 32K",
                f"{option} {text[:40]}：应为 {low} 到 {high} 的整数，也可写作 32k 或 32K",
            )
        )
    return value


def _number(option: str, text: str | None, low: float, high: float) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise Usage(
            t(
                f"{option} {text[:40]}: a number from {low} to {high}",
                f"{option} {text[:40]}：应为 {low} 到 {high} 的数",
            )
        )
    return value


def _ranks(
    r: Request, s: Setting, model: Model, cards: tuple[Card, ...], notes: list[tuple[str, Mapping[str, Any]]]
) -> Setting:
    """Tensor parallel over all GPUs where nothing was said."""
    have = len(cards)
    if r.tp is None:
        tp = planning.ranks_for(model, have, s.pp, s.dp)
        s = msgspec.structs.replace(s, tp=tp)
        if tp * s.pp * s.dp < have // (s.pp * s.dp) * (s.pp * s.dp):
            notes.append(("tp-heads", {"tp": tp, "gpus": have}))
        elif have > 1:
            notes.append(("tp", {"tp": tp, "gpus": have}))
    elif s.ranks < have:
        notes.append(("idle", {"gpus": s.ranks, "all": have}))
    if s.ranks > have:
        raise Usage(
            t(
                f"tp {s.tp} x pp {s.pp} x dp {s.dp} takes {s.ranks} GPUs, there are {have}",
                f"tp {s.tp} × pp {s.pp} × dp {s.dp} 需要 {s.ranks} 块 GPU，而只有 {have} 块",
            )
        )
    return s


# -- the model and the GPUs ----------------------------------------------------------------------------------------


def _model(text: str) -> tuple[Model, tuple[str | None, str], list[tuple[str, Mapping[str, Any]]], list[str]]:
    """The model, (its id, where it was read), what is assumed of it, sources."""
    notes: list[tuple[str, Mapping[str, Any]]] = []
    if not text or "\0" in text:
        raise Usage(t("MODEL is empty", "MODEL 为空"))
    if os.path.isfile(text) or (os.path.lexists(text) and not os.path.isdir(text)):
        return _read(_decoded(text), text), (None, "files"), notes, []
    if os.path.isdir(text):
        from . import fitting_host

        seen = fitting_host.folder(text)
        return _from_folder(seen, text), (seen.repo, "files"), notes, []
    if text.startswith(("/", "./", "../", "~")) or text.count("/") > 1:
        raise Usage(t(f"{text}: no such file or folder", f"{text}：没有这个文件或目录"))
    cached = _cached(text)
    if cached is not None and cached.config is not None:
        return _from_folder(cached, text), (cached.repo or text, "hub-cache"), notes, []
    found = known.entry(text)
    if found is None:
        from difflib import get_close_matches

        shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:120])
        every = {i.lower(): i for i in known.ids()} | {i.lower().rpartition("/")[2]: i for i in known.ids()}
        near = list(dict.fromkeys(every[n] for n in get_close_matches(text[:120].lower(), every, n=3, cutoff=0.85)))
        hint = t(f"; did you mean {', '.join(near)}?", f"；是否想用 {'、'.join(near)}？") if near else ""
        raise Unknown(
            t(
                f"{shown}: this model is not bundled and not in the Hugging Face cache of this host; give its folder or config.json",
                f"{shown}：该模型未内置，也不在本机的 Hugging Face 缓存中；请给出其目录或 config.json",
            )
            + hint
        )
    if found.exact:
        notes.append(("bundled", {"id": found.id}))
    elif found.quantised:
        notes.append(("by-suffix", {"id": found.id, "how": found.quantised}))
    else:
        notes.append(("by-name", {"id": found.id}))
    if found.derived:
        notes.append(("derived", {"fields": ", ".join(found.derived)}))
    model = Model(architecture=_architecture(found.config, text), tensors=found.tensors, total=found.total)
    return model, (found.id, "bundled"), notes, [found.source]


def _cached(model_id: str) -> Any:
    """The model in this host's Hugging Face cache; the probes are only imported when there is something to see."""
    home = os.path.expanduser("~")
    env = os.environ.get
    hubs = [env("HF_HUB_CACHE"), env("HUGGINGFACE_HUB_CACHE"), os.path.join(env("HF_HOME") or "", "hub")]
    hubs.append(os.path.join(env("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "huggingface", "hub"))
    name = "models--" + model_id.replace("/", "--")
    if not any(hub and os.path.isdir(os.path.join(os.path.expanduser(hub), name)) for hub in hubs):
        return None
    from . import fitting_host

    return fitting_host.cached(model_id)


def _from_folder(seen: Any, text: str) -> Model:
    if seen.config is None:
        if seen.gguf:
            raise Unknown(t(f"{text}: GGUF files are not read here", f"{text}：这里不支持 GGUF 文件"))
        raise Usage(
            t(
                f"{text}: no config.json that can be read ({seen.problem})",
                f"{text}：没有可读的 config.json（{seen.problem}）",
            )
        )
    return Model(architecture=_architecture(seen.config, text), tensors=seen.tensors, total=seen.total)


def _decoded(path: str) -> Any:
    data = files.read("MODEL", path, CONFIG_LIMIT)
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError) as e:
        why = str(e).partition("\n")[0][:120]
        raise Usage(t(f"{path}: not a config.json: {why}", f"{path}：不是 config.json：{why}")) from None


def _read(config: Any, text: str) -> Model:
    return Model(architecture=_architecture(config, text))


def _architecture(config: Any, text: str) -> Any:
    try:
        return read.architecture(config)
    except read.Unreadable as e:
        raise Usage(t(f"{text}: no model's configuration: {e}", f"{text}：不是模型配置：{e}")) from None


def _cards(r: Request) -> tuple[tuple[Card, ...], str]:
    """The GPUs and where they are from: named, recording, here. None: there are none and none were named."""
    if r.gpus is not None:
        try:
            return gpus.cards(r.gpus), "named"
        except gpus.UnknownCard as e:
            names = ", ".join(gpus.USUAL_NAMES)
            raise Usage(
                t(
                    f"--gpus {e.args[0]}: not known here; for example {names}, or a size: 2x24GiB",
                    f"--gpus {e.args[0]}：这里不认识该型号；例如 {names}，或直接写大小：2x24GiB",
                )
            ) from None
    if r.replay is None and not any(os.path.exists(trace) for trace in TRACES):
        return (), "here"
    from . import fitting_host

    if r.replay is not None:
        return fitting_host.recorded(r.replay), "recording"
    return fitting_host.live(), "here"


def _assume(
    r: Request,
    s: Setting,
    result: planning.Fit,
    model: Model,
    cards: tuple[Card, ...],
    where: str,
    notes: list[tuple[str, Mapping[str, Any]]],
) -> None:
    """What else was taken for granted, in the order in which it is read."""
    p, a = result.plan, model.architecture
    if r.engine_version is None:
        notes.append(("engine", {"engine": s.engine, "version": ".".join(map(str, s.at))}))
    if s.max_len is None:
        notes.append(("context" if a.positions else "context-unknown", {"length": f"{p.max_len:,}"}))
    elif a.positions and s.max_len > a.positions:
        notes.append(("over-context", {"length": f"{s.max_len:,}", "context": f"{a.positions:,}"}))
    percent = f"{100 * (p.weights.high - p.weights.fullest) / max(1, p.weights.fullest):.0f}"
    notes.append((f"weights-{p.weights.source}", {"percent": percent}))
    if not p.card.seen:
        notes.append(("card", {"name": p.card.name, "gib": f"{p.card.total / (1 << 30):.1f}"}))
    if p.card.free is None:
        notes.append(("alone", {}))
    else:
        notes.append(("free", {"where": word("where." + where, r.lang or from_locale())}))
    notes.append(("plain" if not s.lora_slots else "lora", {}))
    if p.weights.host and a.host_tables:
        notes.append(("tables", {"gib": f"{p.weights.host / (1 << 30):.0f}"}))
    if s.ranks > 8:
        notes.append(("hosts", {}))
