"""What `explain` says, for people: what it means, the lines it rests on, each cause with its fix; decides nothing."""

from __future__ import annotations

from ..model import Lang
from .answer import ARGUMENT, Answer, CauseDoc, EvidenceDoc, MatchDoc
from .layout import wrap
from .page import Page, command, fix, source

_COLOR = {"found": "fail", "ruled_out": "pass", "unknown": "dim"}
MOST_CAUSES = 3  # of the first answer, told in full; the others by name
MOST_EVIDENCE = 3
WRAPPER = 0.5  # the score of a line that only wraps others
QUOTED = 3  # lines of the page that one quoted line may take


def render(answer: Answer, lang: Lang, *, top: int, verbose: bool, color: bool, width: int) -> str:
    """The page: the best answer in full, the next ones up to `top` in short, the rest by name."""
    page = Page(lang, width, color)
    if not answer.matches:
        return page.word("explain.none") + "\n"
    if answer.other_host:
        page.block(page.word("explain.note"), answer.other_host, 0, "note")
        page.add()
    for n, match in enumerate(answer.matches[:top], 1):
        if n > 1:
            page.add()
        _match(page, match, n, len(answer.matches[:top]) > 1, verbose)
    rest = answer.matches[top:]
    if rest:
        page.add()
        page.block(page.word("explain.also"), ", ".join(m.symptom or m.rule or "" for m in rest), 0)
    if len(answer.matches) > 1 and not verbose:
        page.add(page.paint(page.word("explain.more"), "dim"))
    return "\n".join(page.lines) + "\n"


def _match(page: Page, match: MatchDoc, n: int, numbered: bool, verbose: bool) -> None:
    """An answer: the first in full, the others by what they mean and by the names of their causes."""
    sure = "" if match.sure else page.word("aside", what=page.word("explain.unsure", score=f"{match.score:.2f}"))
    for i, line in enumerate(wrap(f"{match.title} {sure}", page.width - 3)):
        head = f"{n}. " if numbered else ""
        page.add(page.paint((head if i == 0 else " " * len(head)) + line, "note"))
    for e in match.evidence[:MOST_EVIDENCE]:
        _quote(page, e)
    page.block(page.word("explain.means"), match.note)
    single = match.rule is not None
    # Causes of a line that only wraps others are guesses: the deciding line is in the log, and `note` says so.
    whole = (n == 1 and match.score > WRAPPER) or verbose
    left = [c for c in match.causes if c.here is None or c.here.status != "ruled_out"]
    full = [
        c
        for i, c in enumerate(match.causes)
        if verbose or single or (c.here is not None and c.here.status == "found") or (whole and i < MOST_CAUSES)
    ]
    for cause in full:
        _cause(page, cause, single, verbose or not left)
    for cause in match.causes:
        if cause not in full:
            page.block(page.word("explain.or"), f"{cause.title} ({cause.rule}){_mark(page, cause)}")
    if match.claims and whole:
        page.add("  " + page.word("explain.claims"))
    for claim in match.claims if whole else ():
        page.block("-", f"{claim.says} [{page.word('standing.' + claim.standing)}] {claim.truth}", 4, lead=2)
        if verbose and claim.sources:
            page.block("", page.word("semicolon").join(claim.sources), 4, lead=2)


def _mark(page: Page, cause: CauseDoc) -> str:
    if cause.here is None:
        return ""
    return page.word("comma") + page.word("explain." + cause.here.status)


def _quote(page: Page, e: EvidenceDoc) -> None:
    """A line of the log as it stands there, cut rather than wrapped for ever."""
    head = f"  {e.source}:{e.line}: " if e.source != ARGUMENT else "  > "
    lines = wrap(head + e.text, page.width - 4)
    for i, line in enumerate(lines[:QUOTED]):
        page.add(
            page.paint(("  " if i == 0 else "    ") + line + (" …" if i == QUOTED - 1 < len(lines) - 1 else ""), "dim")
        )


def _cause(page: Page, cause: CauseDoc, single: bool, verbose: bool) -> None:
    if not single:
        page.block(page.word("explain.cause"), f"{cause.title} ({cause.rule})")
        page.block("", cause.why)
    if cause.here is not None:
        mark = page.word("explain." + cause.here.status)
        page.block(
            page.word("explain.here"), f"{mark}{page.word('colon')}{cause.here.title}", 2, _COLOR[cause.here.status]
        )
        if cause.here.status == "ruled_out" and not single and not verbose:
            return
    fix(page, cause.fix)
    if cause.verify:
        command(page, page.word("verify"), cause.verify)
    basis = page.word("standing." + cause.standing)
    page.block(page.word("known"), page.word("colon").join([basis, *(source(s) for s in cause.sources[:1])]))
    for more in cause.sources[1:] if verbose else ():
        page.block("", source(more))
