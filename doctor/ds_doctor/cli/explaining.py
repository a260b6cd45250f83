"""What `ds-doctor explain` does with its options: read, rank, look at the host, answer; the logic is in explain and engine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator

import msgspec

from ..catalogue import Catalogue
from ..explain import Reading, elsewhere, known, reading
from ..explain.rank import Match
from ..explain.scan import masked
from ..model import Lang, Result
from ..report import answer as words
from ..report.document import TargetDoc
from . import Usage, files, logs, put
from .lang import from_locale, t

QUERY = 300  # characters of the question that the answer repeats
MOST = 10  # answers that are worked out at all
TICK_S = 0.5


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `explain`, with their defaults."""

    text: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    top: int = 3
    form: str = "text"
    here: bool = True
    replay: str | None = None
    python: str | None = None
    model: str | None = None
    timeout: float = 20.0
    lang: Lang | None = None
    verbose: bool = False


class _Looked(msgspec.Struct, frozen=True):
    """What looking at the host gave: a result for each rule that was asked for, its GPUs and driver."""

    results: dict[str, Result]
    target: TargetDoc = TargetDoc()
    gpus: tuple[str, ...] | None = None
    driver: str | None = None


def explain(request: Request) -> int:
    """Answer, print, and give the exit status: 0 an answer, 1 none. Usage for what cannot be done."""
    lang = request.lang or from_locale()
    _check(request)
    found, wrong = known.load(_folders(), os.environ)
    for line in wrong:  # costs its own package only
        sys.stderr.write(f"ds-doctor: {line}\n")
    if not found.packed.entries:
        raise Usage(t("no catalogue is installed", "没有安装任何故障目录"))
    one = reading(found.index)
    query = " ".join(request.text)
    named = query.strip()
    matches: list[Match]
    stopped = False
    names: list[str] = []
    if not request.logs and named in found:
        matches = [Match(named, "rule", 1.0)]
    else:
        names, stopped = _read(one, request)
        if names == ["-"] or request.logs:
            first = one.texts.get(0, bytearray())[: QUERY * 4]
            query = bytes(first).decode("utf-8", "replace") or ", ".join(names)
        matches = one.answer()[: max(MOST, request.top)]
    catalogue = found.some(m.name for m in matches)
    looked = _Looked({})
    if matches and request.here and not stopped:
        looked = _look(request, catalogue, matches, lang)
    answer = _answer(request, one, catalogue, matches, names, looked, query, lang)
    _show(request, answer, lang)
    return 130 if stopped else 0 if matches else 1


def _check(request: Request) -> None:
    if not request.text and not request.logs:
        raise Usage(
            t(
                'give a text, - or --log FILE, for example: ds-doctor explain "CUDA error 803"',
                '请给出文字、- 或 --log FILE，例如：ds-doctor explain "CUDA error 803"',
            )
        )
    if request.text and not "".join(request.text).strip():
        raise Usage(t("the text is empty", "文字为空"))
    if "-" in request.text and len(request.text) > 1:
        raise Usage(t("- stands alone: it reads standard input", "- 应单独使用：它表示读取标准输入"))
    if not request.here and request.replay is not None:
        raise Usage(t("--no-here and --replay exclude each other", "--no-here 与 --replay 不能同时使用"))
    if not 1 <= request.timeout <= 3600:
        raise Usage(
            t(
                f"--timeout {request.timeout:g}: between 1 and 3600 seconds",
                f"--timeout {request.timeout:g}：应在 1 到 3600 秒之间",
            )
        )
    for path in request.logs:
        if path != "-":
            logs.check(path)
    if request.replay is not None:
        files.check("--replay", request.replay)


def _folders() -> list[str]:
    """Where the catalogues of the installed packages lie; no check is imported for it."""
    from importlib.util import find_spec

    from ..registry import entry_points

    folders = []
    for _, target in entry_points():
        try:
            spec = find_spec(target)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None and spec.origin is not None:
            folder = os.path.dirname(spec.origin)
            if os.path.exists(os.path.join(folder, "rules.toml")):
                folders.append(folder)
    return folders


# -- reading -------------------------------------------------------------------------------------------------------


def _read(one: Reading, request: Request) -> tuple[list[str], bool]:
    """Read all that was given; the names of the sources, and whether Ctrl-C broke it off."""
    sources: list[tuple[str, Iterable[bytes]]] = []
    if request.text == ("-",):
        sources.append(("-", logs.standard_input()))
    elif request.text:
        text = "\n".join(request.text) if any("\n" in w for w in request.text) else " ".join(request.text)
        sources.append((words.ARGUMENT, [text.encode("utf-8", "surrogateescape")]))
    sources += [(path, logs.standard_input() if path == "-" else logs.pieces(path)) for path in request.logs]
    names: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for number, (name, pieces) in enumerate(sources):
            names.append(name)
            for _ in _watched(one.read(number, pieces), request):
                pass
    except KeyboardInterrupt:
        return names, True
    finally:
        signal.signal(signal.SIGINT, before)
    return names, False


def _watched(sizes: Iterable[int], request: Request) -> Iterator[int]:
    """Says on a terminal's standard error how much was read, now and then."""
    watched = sys.stderr.isatty()
    due = time.monotonic() + 2.0
    total = 0
    shown = False
    for size in sizes:
        total += size
        if watched and time.monotonic() > due:
            due = time.monotonic() + TICK_S
            shown = True
            sys.stderr.write("\r" + t(f"{total // 1_000_000} MB read", f"已读取 {total // 1_000_000} MB"))
            sys.stderr.flush()
        yield size
    if shown:
        sys.stderr.write("\r\x1b[K")


# -- looking -------------------------------------------------------------------------------------------------------


def _look(request: Request, catalogue: Catalogue, matches: Iterable[Match], lang: Lang) -> _Looked:
    """Judge on this host, or in the snapshot, the rules that decide a cause of the matches."""
    from .. import engine
    from ..probes.nvml import Nvml
    from ..report import host as host_words
    from . import look

    deadline = time.monotonic() + request.timeout
    look.end_whatever_happens(request.timeout)
    wanted = {r for m in matches for c in words.causes_of(catalogue, m.name) for r in words.rules_of(catalogue, c)}
    doctor = engine.assemble(os.environ)
    there = wanted & set(doctor.catalogue.rule)
    checks = [c for c in doctor.checks if there.intersection(c.rules)]
    options = look.Options(
        replay=request.replay, python=request.python, model=request.model, timeout=request.timeout, lang=lang
    )
    every, kept = look.what(options, str)
    asked = every[0]
    facts = engine.wanted(checks)
    facts += [f for f in (*host_words.ALWAYS, Nvml) if f not in facts]
    gathered = (
        look.gather(options, asked, facts, deadline, lang)
        if kept is None
        else look.replay(options, kept, kept.asked, facts)
    )
    results = engine.judge(checks, gathered, doctor.catalogue, there, deadline)
    host = host_words.host_doc(gathered)
    nvml = gathered[Nvml]
    gpus = tuple(g.name for g in host.gpus) if nvml.trouble in (None, "absent") else None
    return _Looked({r.rule: r for r in results}, host_words.target_doc(asked, gathered), gpus, host.driver)


def _elsewhere(one: Reading, looked: _Looked, lang: Lang) -> str | None:
    """Why the log seems to be another host's, in words; None where nothing says so."""
    from ..report.words import word

    log = elsewhere.told(one.scan.hits, len(one.index.patterns))
    gpus = elsewhere.strange_gpus(log, looked.gpus) if looked.gpus is not None else ()
    if gpus:
        here = ", ".join(dict.fromkeys(looked.gpus or ())) or word("explain.nothing", lang)
        return word("explain.gpu_elsewhere", lang, there=", ".join(gpus), here=here)
    drivers = elsewhere.strange_drivers(log, looked.driver)
    if drivers:
        return word("explain.driver_elsewhere", lang, there=", ".join(drivers), here=looked.driver)
    return None


# -- answering -----------------------------------------------------------------------------------------------------


def _answer(
    request: Request,
    one: Reading,
    catalogue: Catalogue,
    matches: list[Match],
    names: list[str],
    looked: _Looked,
    query: str,
    lang: Lang,
) -> words.Answer:
    here = looked.results if looked.results else None
    docs = []
    for m in matches:
        # A sentence that is only alike is no evidence: it stands in the question.
        shown = m.hits if m.literal or names != [words.ARGUMENT] else ()
        lines = tuple(words.EvidenceDoc(source=names[h.source], line=h.line, text=h.text) for h in shown)
        docs.append(words.match_doc(m.name, m.score, m.sure, lines, catalogue, lang, here, looked.target))
    return words.Answer(
        schema=words.SCHEMA,
        query=masked(" ".join(query.split()))[:QUERY].encode("utf-8", "replace").decode(),
        matches=tuple(docs[: request.top]) if request.form == "json" else tuple(docs),
        other_host=_elsewhere(one, looked, lang) if matches and request.here else None,
        looked_here=here is not None,
    )


def _show(request: Request, answer: words.Answer, lang: Lang) -> None:
    if request.form == "json":
        put(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")
        return
    from ..report import answer_text
    from .terminal import colorful, width

    put(answer_text.render(answer, lang, top=request.top, verbose=request.verbose, color=colorful(), width=width()))
