"""The report as one value, worded in one language: what the JSON says and what every other writer reads; decides nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..catalogue import Catalogue, Rule, blanks, fill, show
from ..model import Finding, Lang, Result, Standing, Status

if TYPE_CHECKING:  # an answer of `explain` needs no engine
    from ..engine import Verdicts

SCHEMA = "ds-doctor.report/1"


class FindingDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of a rule: what it is on (null: the host), its title with the numbers, the numbers."""

    on: str | None
    title: str
    data: dict[str, Any]


class StepDoc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the fix: words (`say`), or a command (`run`), where it is run and what it changes."""

    say: str | None = None
    run: str | None = None
    where: Literal["host", "container", "target", "here"] | None = None
    effect: Literal["none", "setting", "needs_restart", "needs_reboot"] | None = None


class ClaimDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What documents say about the subject, how that stands, and the truth."""

    says: str
    standing: Standing
    truth: str
    sources: tuple[str, ...] = ()


class ResultDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule came to. `title` is the first finding's, or what is true where the rule is kept."""

    rule: str
    check: str
    family: str
    status: Status
    title: str
    why: str | None
    fix: tuple[StepDoc, ...]
    verify: str | None
    standing: Standing | None
    sources: tuple[str, ...]
    claims: tuple[ClaimDoc, ...]
    findings: tuple[FindingDoc, ...]
    reason: str | None
    required: bool
    duration_ms: float


class ToolDoc(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str
    catalogue_date: str


class ServiceDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One service of the file given with -f. `kind`: compose, kubernetes, systemd, script. `source`: the file and the
    place in it. `results`: those of its own, where several services were judged and a rule came out differently for
    them; rules that passed or do not apply are left out. `unread`: what of its command is not understood."""

    name: str
    kind: str
    source: str
    command: tuple[str, ...]
    engine: str | None
    model: str | None
    verdict: Literal["pass", "warn", "fail", "unknown"]
    unread: tuple[str, ...] = ()
    results: tuple[ResultDoc, ...] = ()


class TargetDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What was judged besides the host: the launch command, its engine, the interpreter, the model folder; `root`: the
    folder whose files were judged instead of this host; `file` and `service`: where the command stands (-f);
    `unread`: what of it is not understood."""

    command: tuple[str, ...] = ()
    engine: str | None = None
    python: str | None = None
    model: str | None = None
    root: str | None = None
    file: str | None = None
    service: str | None = None
    unread: tuple[str, ...] = ()


class GpuDoc(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    name: str
    uuid: str
    cc: str
    memory_total_mib: int | None
    memory_free_mib: int | None


class HostDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The host in a few words; null or empty where it could not be seen. `links[i][j]` is how GPUs i and j meet."""

    hostname: str | None = None
    os: str | None = None
    kernel: str | None = None
    machine: str | None = None
    hypervisor: str | None = None
    container: str | None = None
    driver: str | None = None
    cuda: str | None = None
    python_version: str | None = None
    torch: str | None = None
    gpus: tuple[GpuDoc, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `ds-doctor run`. `results` holds one result for every rule, of several services the worst."""

    schema: str
    tool: ToolDoc
    host: HostDoc
    target: TargetDoc
    started_at: str
    duration_s: float
    verdict: Literal["pass", "warn", "fail", "unknown"]
    exit_code: int
    counts: dict[str, int]
    results: tuple[ResultDoc, ...]
    services: tuple[ServiceDoc, ...] = ()


def clean(value: Any) -> Any:
    """A value as JSON can carry it: text without lone surrogates, mappings with text keys, anything strange as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    if isinstance(value, Mapping):
        return {clean(str(k)): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(v) for v in value]
    return str(value).encode("utf-8", "replace").decode("utf-8")


def judged_again(rule: str, target: TargetDoc) -> str:
    """The command that judges a rule anew: how a fix is verified where no simpler command tells."""
    words = ["ds-doctor", "run", "--only", rule]
    if target.file is not None:
        words += ["-f", target.file, *(("--service", target.service) if target.service else ())]
        return shlex.join([*words, *(("--root", target.root) if target.root else ())])
    for option, value in (("--root", target.root), ("--model", target.model)):
        words += [option, value] if value is not None and value not in target.command else []
    command = shlex.join(("--", *target.command)) if target.command else ""
    if len(command) > 4000:  # no line that anybody would copy
        command = "-- …"
    return f"{shlex.join(words)} {command}".rstrip()


def result_doc(
    result: Result, catalogue: Catalogue, lang: Lang, required: bool, target: TargetDoc, again: str | None = None
) -> ResultDoc:
    """One result in words. `again`: the command that judges it anew, where that is not a run for this rule alone."""
    rule = catalogue.rule.get(result.rule)
    reason = catalogue.explain(result.reason, lang) if result.reason is not None else None
    findings: tuple[FindingDoc, ...] = ()
    why = verify = None
    fix: tuple[StepDoc, ...] = ()
    title = reason or result.rule
    if rule is not None:
        title = rule.healthy.say(lang)
        if result.findings:
            findings = tuple(
                FindingDoc(
                    on=None if f.on is None else show(f.on), title=rule.title.say(lang, f.data), data=clean(f.data)
                )
                for f in result.findings
            )
            title = findings[0].title
            why = rule.why.say(lang, result.findings[0].data)
            fix = tuple(steps(rule, result.findings, lang))
            verify = (
                fill(rule.verify, result.findings[0].data)
                if rule.verify
                else again or judged_again(result.rule, target)
            )
    about = {name for f in result.findings for name in f.data.get("about", ())}
    return ResultDoc(
        rule=result.rule,
        check=result.check,
        family=result.family,
        status=result.status,
        title=title,
        why=why,
        fix=fix,
        verify=verify,
        standing=rule.standing if rule else None,
        sources=rule.sources if rule else (),
        claims=tuple(
            ClaimDoc(says=c.says.plain(lang), standing=c.standing, truth=c.truth.plain(lang), sources=c.sources)
            for c in (rule.claims if rule else ())
            if not c.about or about.intersection(c.about)
        ),
        findings=findings,
        reason=clean(reason),
        required=required,
        duration_ms=result.duration_ms,
    )


def steps(rule: Rule, findings: tuple[Finding, ...], lang: Lang) -> list[StepDoc]:
    """The fix of all findings, each distinct step once, in the rule's order. A step that would name an empty list is left out."""
    seen: dict[StepDoc, None] = {}
    for step in rule.fix:
        named = blanks(step.say.en if step.say else step.run or "")
        for finding in findings:
            if any(finding.data.get(name) in ([], ()) for name in named):
                continue
            seen[
                StepDoc(
                    say=step.say.say(lang, finding.data) if step.say else None,
                    run=fill(step.run, finding.data) if step.run else None,
                    where=step.where,
                    effect=step.effect,
                )
            ] = None
    return list(seen)


def build(
    verdicts: Verdicts,
    catalogue: Catalogue,
    lang: Lang,
    *,
    version: str,
    host: HostDoc,
    target: TargetDoc,
    started_at: str,
    duration_s: float,
    services: Iterable[ServiceDoc] = (),
) -> Report:
    """The whole report in one language."""
    return Report(
        schema=SCHEMA,
        tool=ToolDoc(name="ds-doctor", version=version, catalogue_date=catalogue.date),
        host=host,
        target=target,
        started_at=started_at,
        duration_s=round(duration_s, 3),
        verdict=verdicts.verdict,
        exit_code=verdicts.exit_code,
        counts={str(k): v for k, v in verdicts.counts.items()},
        results=tuple(result_doc(r, catalogue, lang, r.rule in verdicts.required, target) for r in verdicts.results),
        services=tuple(services),
    )


__all__ = [
    "SCHEMA",
    "FindingDoc",
    "GpuDoc",
    "HostDoc",
    "Report",
    "ResultDoc",
    "ServiceDoc",
    "StepDoc",
    "TargetDoc",
    "build",
    "clean",
    "show",
]
