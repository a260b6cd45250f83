"""What `explain` says as one value, worded in one language: what the JSON holds and the text shows; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ..catalogue import Catalogue, Cause, Claim, Rule, Step, Symptom, Text, blanks, fill, is_blank
from ..model import Lang, Result, Standing
from .document import ClaimDoc, StepDoc, TargetDoc, clean, result_doc
from .words import word

SCHEMA = "ds-doctor.explain/1"
ARGUMENT = "argument"  # the source of evidence that was given on the command line
LEFT_OPEN = "…"  # a number that only a check of a host knows


class HereDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a cause holds on the host that was looked at; `title` says what was found, or why it cannot be told."""

    status: Literal["found", "ruled_out", "unknown"]
    title: str
    rules: tuple[str, ...] = ()


class CauseDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One cause: a rule that a check decides, or a cause that none does (`here` is then what its nearest checks say)."""

    rule: str
    title: str
    why: str
    fix: tuple[StepDoc, ...]
    verify: str | None
    standing: Standing
    sources: tuple[str, ...]
    covers: tuple[str, ...]
    here: HereDoc | None


class EvidenceDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A line that an answer rests on."""

    source: str
    line: int
    text: str


class MatchDoc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer: a symptom with its causes, or a rule or cause that the text names itself."""

    score: float
    sure: bool
    title: str
    note: str
    causes: tuple[CauseDoc, ...]
    claims: tuple[ClaimDoc, ...]
    evidence: tuple[EvidenceDoc, ...]
    covers: tuple[str, ...]
    sources: tuple[str, ...]
    symptom: str | None = None
    rule: str | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What `ds-doctor explain` answers. `matches` is empty where nothing is known."""

    schema: str
    query: str
    matches: tuple[MatchDoc, ...]
    other_host: str | None = None
    looked_here: bool = False


Here = Mapping[str, Result]
Wanted = Mapping[str, tuple[str, ...]]


def causes_of(catalogue: Catalogue, name: str) -> tuple[str, ...]:
    """The causes of an entry: a rule or cause is its own."""
    symptom = catalogue.symptom.get(name)
    return symptom.causes if symptom is not None else (name,)


def rules_of(catalogue: Catalogue, cause: str) -> tuple[str, ...]:
    """The rules whose checks show a cause on a host."""
    return (cause,) if cause in catalogue.rule else catalogue.cause[cause].here


def match_doc(
    name: str,
    score: float,
    sure: bool,
    evidence: tuple[EvidenceDoc, ...],
    catalogue: Catalogue,
    lang: Lang,
    here: Here | None,
    target: TargetDoc,
) -> MatchDoc:
    """An entry in words. Causes that were found on the host stand first, those ruled out last."""
    entry: Rule | Cause | Symptom = catalogue.symptom.get(name) or catalogue.cause.get(name) or catalogue.rule[name]
    causes = [_cause(c, catalogue, lang, here, target) for c in causes_of(catalogue, name)]
    order = {"found": 0, "unknown": 1, "ruled_out": 2}
    causes.sort(key=lambda c: order[c.here.status] if c.here is not None else 1)
    own = causes[0] if not isinstance(entry, Symptom) else None
    return MatchDoc(
        symptom=name if isinstance(entry, Symptom) else None,
        rule=None if isinstance(entry, Symptom) else name,
        score=score,
        sure=sure,
        title=own.title if own is not None else entry.title.plain(lang),
        note=entry.note.plain(lang) if isinstance(entry, Symptom) else own.why if own is not None else "",
        causes=tuple(causes),
        claims=tuple(claim_doc(c, lang) for c in entry.claims),
        evidence=evidence,
        covers=entry.covers,
        sources=entry.sources,
    )


def claim_doc(claim: Claim, lang: Lang) -> ClaimDoc:
    return ClaimDoc(
        says=claim.says.plain(lang), standing=claim.standing, truth=claim.truth.plain(lang), sources=claim.sources
    )


def _open(text: Text, lang: Lang) -> str:
    """A text whose numbers nobody measured."""
    said: str = getattr(text, lang)
    return fill(said, dict.fromkeys(blanks(said), LEFT_OPEN))


def _to_fill(command: str) -> str:
    """A command to be copied names what must be put in."""
    return fill(command, {b: f"<{b.upper()}>" for b in blanks(command)})


def _step(step: Step, lang: Lang, open_: bool) -> StepDoc:
    """A step of a rule has blanks that only a check fills; one of a cause has none."""
    words = _open if open_ else Text.plain
    say = words(step.say, lang) if step.say is not None else None
    run = step.run and (_to_fill(step.run) if open_ else step.run)
    return StepDoc(say=say, run=run, where=step.where, effect=step.effect)


def _cause(name: str, catalogue: Catalogue, lang: Lang, here: Here | None, target: TargetDoc) -> CauseDoc:
    rule = catalogue.rule.get(name)
    entry: Rule | Cause = rule if rule is not None else catalogue.cause[name]
    named = (rule.short if rule is not None else None) or entry.title
    seen = (
        _here(rules_of(catalogue, name), rule is not None, catalogue, lang, here, target) if here is not None else None
    )
    result = here.get(name) if here is not None and rule is not None else None
    if result is not None and result.findings:  # with the numbers of this host
        told = result_doc(result, catalogue, lang, False, target)
        title, why, fix, verify = told.title, told.why or "", told.fix, told.verify
    else:
        say = _open if rule is not None else Text.plain
        title, why = say(named, lang), say(entry.why, lang)
        # A command that only a check knows (`{repair}`) is none to be shown here.
        fix = tuple(_step(s, lang, rule is not None) for s in entry.fix if not (rule and s.run and is_blank(s.run)))
        verify = entry.verify
        if rule is not None:
            verify = _to_fill(verify) if verify is not None else f"ds-doctor run --only {name}"
    return CauseDoc(
        rule=name,
        title=title,
        why=why,
        fix=fix,
        verify=verify,
        standing=entry.standing,
        sources=entry.sources,
        covers=entry.covers,
        here=seen,
    )


def _here(
    rules: tuple[str, ...], decides: bool, catalogue: Catalogue, lang: Lang, here: Here, target: TargetDoc
) -> HereDoc | None:
    results = [here[r] for r in rules if r in here]
    if not results:
        return None
    docs = [result_doc(r, catalogue, lang, False, target) for r in results]
    found = [d for d in docs if d.findings]
    if found:
        title = "; ".join(dict.fromkeys(d.title for d in found))
        return HereDoc(status="found", title=title, rules=tuple(d.rule for d in found))
    if all(r.status == "pass" for r in results):
        # A rule that holds is decided. What only points to a cause may have gone, or never shown itself there.
        status: Literal["ruled_out", "unknown"] = "ruled_out" if decides else "unknown"
        title = docs[0].title if decides else word("explain.no_sign", lang, what=docs[0].title)
        return HereDoc(status=status, title=title, rules=tuple(d.rule for d in docs))
    unsure = next(d for d in docs if d.status != "pass")
    return HereDoc(status="unknown", title=clean(unsure.reason) or unsure.title, rules=(unsure.rule,))
