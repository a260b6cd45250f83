"""The report for people: verdict first, then what is wrong and how to mend it, then what could not be seen; decides nothing.

Good at 80 columns and in a log file; colour only repeats what the words say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..model import Lang, Status
from .document import Report, ResultDoc, ServiceDoc
from .layout import pad, table, wrap
from .page import LABEL, Page, command, fix, source

STEPS_SHOWN = 8  # of a fix that names every one of many files; no rule has as many of its own
LONGEST_WORD = 400  # characters; JSON in a flag is shorter
_ORDER: tuple[Status, ...] = ("fail", "error", "warn", "note")


def render(
    report: Report,
    lang: Lang,
    *,
    verbose: bool = False,
    quiet: bool = False,
    color: bool = False,
    width: int = 80,
    **_: Any,
) -> str:
    """The page. `verbose` shows every rule; `quiet` only the verdict and what is wrong, nothing at all when all is well."""
    page = Page(lang, width, color)
    if quiet and report.exit_code == 0 and not report.counts["warn"]:
        return ""
    _verdict(page, report)
    if not quiet:
        _host(page, report)
    several = len(report.services) > 1
    apart = {r.rule for s in report.services for r in s.results} if several else set()
    faults(page, [r for r in report.results if r.rule not in apart], verbose, quiet)
    for service in report.services if several else ():
        _service(page, service, verbose, quiet)
    unjudged(page, [r for r in report.results if r.rule not in apart], quiet)
    if not quiet:
        the_rest(page, report.results, verbose)
    page.add()
    _exit(page, report)
    return "\n".join(page.lines) + "\n"


def _verdict(page: Page, report: Report) -> None:
    counts = page.word("comma").join(
        page.word("n." + s, n=report.counts[s])
        for s in ("fail", "error", "warn", "note", "unknown", "pass", "skip")
        if report.counts[s]
    )
    verdict = page.paint(page.word("verdict." + report.verdict), report.verdict)
    page.add(f"ds-doctor {report.tool.version}: {verdict} - {page.word('says.' + report.verdict)}")
    for line in wrap(counts, page.width - 2) if counts else ():
        page.add("  " + line)


def _host(page: Page, report: Report) -> None:
    host, target = report.host, report.target
    where = [
        host.hostname,
        host.os,
        f"{host.kernel} {host.machine}" if host.kernel and host.machine else host.kernel,
        page.word("vm", what=host.hypervisor) if host.hypervisor else None,
        page.word("container", what=host.container) if host.container else None,
        f"{page.word('driver')} {host.driver}" + (f" (CUDA {host.cuda})" if host.cuda else "") if host.driver else None,
    ]
    page.add()
    page.block(page.word("host"), " · ".join(w for w in where if w) or "?", 0)
    if target.root:
        page.block("", page.word("root", what=target.root), 0)
    aim = [
        f"{target.python} ({host.python_version})" if target.python and host.python_version else target.python,
        f"torch {host.torch}" if host.torch else None,
        target.model,
    ]
    if any(aim):
        page.block(page.word("target"), " · ".join(a for a in aim if a), 0)
    if len(report.services) == 1:
        page.block(page.word("service"), f"{report.services[0].name} ({report.services[0].source})", 0)
    if target.command and len(report.services) < 2:
        page.block("", "$ " + _command(target.command), 0)
        for said in target.unread:
            page.block(page.word("unread"), said, 0)
    if host.gpus:
        page.add()
        rows = [
            [
                page.word("gpu"),
                page.word("name"),
                page.word("free"),
                page.word("total"),
                page.word("cc"),
                page.word("driver"),
            ]
        ]
        for g in host.gpus:
            rows.append(
                [str(g.index), g.name, _gib(g.memory_free_mib), _gib(g.memory_total_mib), g.cc, host.driver or "?"]
            )
        _rows(page, rows, right=(0, 2, 3))
    if len(host.links) > 1:
        page.add()
        index = [str(g.index) for g in host.gpus]
        _rows(
            page,
            [[page.word("links"), *index], *([i, *row] for i, row in zip(index, host.links, strict=False))],
            right=(0,),
        )


def _command(words: Iterable[str]) -> str:
    """A command as it stands in the head; a word without end is cut."""
    return " ".join(w if len(w) <= LONGEST_WORD else w[:LONGEST_WORD] + "…" for w in words)


def _rows(page: Page, rows: Sequence[Sequence[str]], right: Iterable[int]) -> None:
    for line in table(rows, right):
        page.add("  " + line)


def _gib(mib: int | None) -> str:
    return "?" if mib is None else f"{mib / 1024:.1f} GiB"


def faults(page: Page, results: Sequence[ResultDoc], verbose: bool, quiet: bool) -> None:
    """What is wrong, the worst first, each with its fix."""
    for status in _ORDER:
        for result in results:
            if result.status == status and not (quiet and status == "note"):
                page.add()
                _fault(page, result, verbose)


def _service(page: Page, service: ServiceDoc, verbose: bool, quiet: bool) -> None:
    """A section of one of several services: what is its own."""
    own = [r for r in service.results if r.status in _ORDER]
    if quiet and not any(r.status != "note" for r in own):
        return
    page.add()
    verdict = page.paint(page.word("verdict." + service.verdict), service.verdict)
    page.add(f"== {service.name}: {verdict} ({service.kind}, {service.engine or '?'})")
    if not quiet:
        page.block("", service.source)
        page.block("", "$ " + _command(service.command))
        for said in service.unread:
            page.block(page.word("unread"), said)
    faults(page, own, verbose, quiet)
    unjudged(page, service.results, quiet)


def _fault(page: Page, result: ResultDoc, verbose: bool) -> None:
    page.add(f"{page.paint(pad(page.word(result.status), LABEL), result.status)}{result.rule}")
    if result.status == "error":
        page.block("", result.reason or result.title)
        return
    titles: dict[str, list[str]] = {}
    for finding in result.findings:
        titles.setdefault(finding.title, []).append(finding.on or "")
    shown = list(titles.items())
    for title, on in shown if verbose else shown[:5]:
        names = ", ".join(n for n in on if n and n not in title)
        page.block("", title + (f" [{names}]" if names else ""))
    if not verbose and len(shown) > 5:
        page.block("", f"… (+{len(shown) - 5}, -v)")
    if result.why:
        page.block(page.word("why"), result.why)
    fix(page, result.fix, None if verbose else STEPS_SHOWN)
    if result.verify:
        command(page, page.word("verify"), result.verify)
    if result.standing:
        basis = page.word("standing." + result.standing)
        page.block(page.word("known"), page.word("colon").join([basis, *(source(s) for s in result.sources[:1])]))
    if verbose:
        for more in result.sources[1:]:
            page.block("", source(more))
        for claim in result.claims:
            page.block(page.word("claim"), f"{claim.says} [{page.word('standing.' + claim.standing)}] {claim.truth}")
            if claim.sources:
                page.block("", page.word("semicolon").join(claim.sources))


def unjudged(page: Page, results: Iterable[ResultDoc], quiet: bool) -> None:
    """What could not be judged, by reason."""
    some = [r for r in results if r.status == "unknown" and (r.required or not quiet)]
    if some:
        page.add()
        page.add(page.paint(page.word("unjudged"), "unknown"))
        _by_reason(page, some)


def _by_reason(page: Page, results: Iterable[ResultDoc]) -> None:
    """Each reason once, the rules that it holds for below it."""
    reasons: dict[str, list[str]] = {}
    for r in results:
        name = r.rule + (f" ({page.word('required')})" if r.required else "")
        reasons.setdefault(r.reason or "?", []).append(name)
    for reason, names in reasons.items():
        for line in wrap(reason, page.width - 2):
            page.add("  " + line)
        for line in wrap(", ".join(names), page.width - 6):
            page.add("      " + line)


def the_rest(page: Page, results: Sequence[ResultDoc], verbose: bool) -> None:
    """What passed and what does not apply: counted, or with -v each; a pass that says what it rests on is always shown."""
    if not any(r.status in ("pass", "skip") for r in results):
        return
    page.add()
    for status, label in (("pass", "passed"), ("skip", "skipped")):
        some = [r for r in results if r.status == status]
        if not some:
            continue
        if not verbose:
            families = Counter(r.family for r in some)
            page.block(page.word(label), f"{len(some)} ({', '.join(f'{f} {n}' for f, n in families.items())})", 0)
            for r in some:
                if status == "pass" and r.reason:
                    page.block("", f"{r.rule}{page.word('colon')}{r.reason}", 2)
            continue
        page.add(page.paint(page.word(label), "pass" if status == "pass" else "dim"))
        if status == "skip":
            _by_reason(page, some)
            continue
        for r in some:
            text = f"{r.rule}: {r.title}" + (" " + page.word("aside", what=r.reason) if r.reason else "")
            for i, line in enumerate(wrap(text, page.width - 4)):
                page.add(("  " if i == 0 else "    ") + line)
    if not verbose:
        page.add(page.paint(page.word("more"), "dim"))


def _exit(page: Page, report: Report) -> None:
    if report.exit_code == 1 and not report.counts["fail"]:
        page.add(page.word("exit.1strict"))
        return
    page.add(page.word(f"exit.{report.exit_code}"))
    if report.exit_code == 3:
        for line in _cannot_vouch(page, report):
            page.add("  " + line)


def _cannot_vouch(page: Page, report: Report) -> Iterator[str]:
    lost = [r.rule for r in report.results if r.required and r.status in ("skip", "unknown", "error")]
    if report.counts["error"]:
        yield page.word("why3.error")
    if lost:
        yield page.word("why3.required", rules=", ".join(lost))
    if not any(report.counts[s] for s in ("pass", "note", "warn", "fail")):
        yield page.word("why3.nothing")
