"""Whole recorded hosts give their golden reports; a host broken in one place differs from it in that place only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from ds_doctor import engine
from ds_doctor.host import Asked
from ds_doctor.model import Outcome, Result
from ds_doctor.report import document, host, render
from support import FIXTURES, Case, case_outcomes, doctor, read_case

HOSTS = sorted(p.parent for p in (FIXTURES / "hosts").glob("*/snapshot.json"))
VARIANTS = sorted((FIXTURES / "hosts" / "variants").glob("*.toml"))
# The recorded hosts have no engine installed, which is noted whatever the command.
RECORDED = "2026-11-29T00:00:00Z"


def judge(case: Case) -> tuple[dict[type, Outcome], list[Result]]:
    checks = list(doctor().checks)
    facts = case_outcomes(case, checks, host.ALWAYS)
    results = engine.judge(checks, facts, doctor().catalogue, set(doctor().catalogue.rule))
    return facts, [document_time_free(r) for r in results]


def document_time_free(result: Result) -> Result:
    return Result(**{f: getattr(result, f) for f in result.__struct_fields__ if f != "duration_ms"})


def report(facts: dict[type, Outcome], results: Iterable[Result], lang: str) -> document.Report:
    return document.build(
        engine.conclude(results, [], set(), False),
        doctor().catalogue,
        lang,
        version="0",
        host=host.host_doc(facts),
        target=host.target_doc(Asked(), facts),
        started_at=RECORDED,
        duration_s=0,
    )


@pytest.mark.parametrize("folder", HOSTS, ids=lambda p: p.name)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_recorded_host_gives_its_golden_report(folder: Path, lang: str, golden: Callable[[Path, str], None]) -> None:
    facts, results = judge(Case(says="", expect={}, base=folder.name))
    golden(folder / f"report.{lang}.txt", render("text", report(facts, results, lang), lang, verbose=True))
    if lang == "en":
        golden(folder / "report.json", render("json", report(facts, results, lang), lang))


@pytest.mark.parametrize("path", VARIANTS, ids=lambda p: p.stem)
def test_a_host_broken_in_one_place_differs_in_that_place_only(path: Path, golden: Callable[[Path, str], None]) -> None:
    case = read_case(path)
    assert case.base, "a variant is derived from a recorded host"
    _, whole = judge(Case(says="", expect={}, base=case.base))
    facts, broken = judge(case)
    before = {r.rule: r.status for r in whole}
    after = {r.rule: r.status for r in broken}
    # What cannot be judged or does not apply any more because of the fault is no second alarm, nor is a note.
    quiet = ("pass", "skip", "unknown")
    changed = {
        r: s for r, s in after.items() if s != before[r] and not ((s in quiet or s == "note") and r not in case.expect)
    }
    assert changed == case.expect
    alarms = [r for r in broken if r.rule in case.expect]
    # A variant that is as healthy as its base has nothing to show.
    for lang in ("en", "zh") if alarms else ():
        text = render("text", report(facts, alarms, lang), lang, quiet=True)
        golden(path.with_name(f"{path.stem}.{lang}.txt"), text)


def test_every_rule_that_fails_a_run_has_a_broken_host() -> None:
    shown = {rule for path in VARIANTS for rule, status in read_case(path).expect.items() if status == "fail"}
    fails = {name for name, rule in doctor().catalogue.rule.items() if rule.level == "fail"}
    assert fails - shown == set()
