"""The answer of `ds-doctor verify` for people: verdict, what was looked at, what is wrong and how to mend it; decides nothing."""

from __future__ import annotations

from typing import Any

from ..model import Lang
from .layout import printable, table
from .page import Page
from .text import faults, the_rest, unjudged
from .verify import VerifyDoc
from .verify_words import duration, size, word

WORTH_A_RATE = 64 << 20  # bytes; of fewer a rate says nothing about disk or processor
FILES_SHOWN = 200  # lines with -v; the JSON has every file


def render(
    doc: VerifyDoc,
    lang: Lang,
    *,
    verbose: bool = False,
    quiet: bool = False,
    color: bool = False,
    width: int = 80,
    **_: Any,
) -> str:
    """The page. `verbose` shows every rule and file; `quiet` only the verdict and what is wrong, nothing at all when all is well."""
    if quiet and doc.exit_code == 0 and not doc.counts["warn"]:
        return ""
    page = Page(lang, width, color)
    verdict, says = _verdict(doc, lang)
    page.add(f"ds-doctor {doc.tool.version}: {page.paint(verdict, doc.verdict)} - {says}")
    if not quiet:
        _head(page, doc, lang)
    faults(page, doc.results, verbose, quiet)
    unjudged(page, doc.results, quiet and doc.exit_code != 3)  # then it says why
    if not quiet:
        if verbose:
            _files(page, doc, lang)
        the_rest(page, doc.results, verbose)
    page.add()
    page.add(_exit(page, doc, lang))
    return "\n".join(page.lines) + "\n"


def _verdict(doc: VerifyDoc, lang: Lang) -> tuple[str, str]:
    if doc.exit_code == 1:
        return word("verdict.fail", lang), word("says.fail", lang)
    if doc.verdict == "unknown":
        return word("verdict.unknown", lang), word("says.unknown", lang)
    weights = [f for f in doc.files if f.role == "weights"]
    proven = sum(f.status == "proven" for f in weights)
    if weights and proven == len(weights):
        return word("verdict.proven", lang), word("says.proven", lang)
    if doc.quick:
        says = word("says.quick", lang)
    elif proven or any(f.status == "not-hashed" for f in weights):
        says = word("says.part", lang, proven=proven, files=len(weights))
    else:
        says = word("says.unprovable", lang)
    return word("verdict.whole", lang), says


def _head(page: Page, doc: VerifyDoc, lang: Lang) -> None:
    page.add()
    page.add("  " + printable(doc.path))
    layout = word(f"layout.{doc.layout}", lang)
    named = word("at", lang, repo=doc.repo, revision=doc.revision or "?") if doc.repo else doc.revision
    page.block("", layout + (page.word("colon") + named if named else ""), lead=0)
    total = doc.summary
    said = [word("files", lang, files=total.files, size=size(total.bytes))]
    if 0 < total.hashed_bytes < WORTH_A_RATE:
        said.append(word("hashed.few", lang, size=size(total.hashed_bytes)))
    elif total.hashed_bytes:
        rate = total.rate_bytes_s or 0
        took = total.hashed_bytes / rate if rate else 0
        said.append(word("hashed", lang, size=size(total.hashed_bytes), time=duration(took, lang), rate=size(rate)))
    if total.cached_files:
        said.append(word("cached", lang, n=total.cached_files))
    page.block("", page.word("semicolon").join(said), lead=0)


def _files(page: Page, doc: VerifyDoc, lang: Lang) -> None:
    page.add()
    page.add(word("all", lang))
    rows = [
        [word(f"status.{f.status}", lang), size(f.size), f.algorithm or "", f.digest or "", printable(f.name)]
        for f in doc.files[:FILES_SHOWN]
    ]
    for line in table(rows, right=(1,)):
        page.add("  " + line)
    if len(doc.files) > FILES_SHOWN:
        page.add(f"  … (+{len(doc.files) - FILES_SHOWN}, --format json)")


def _exit(page: Page, doc: VerifyDoc, lang: Lang) -> str:
    if doc.exit_code == 0:
        return page.word("exit.0")
    strict = (doc.exit_code == 1 and not doc.counts["fail"]) or (doc.exit_code == 3 and doc.verdict != "unknown")
    return word(f"exit.{doc.exit_code}{'strict' if strict else ''}", lang)
