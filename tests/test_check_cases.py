"""Every case under fixtures/checks/ gives the statuses that it says, and every rule is seen broken and whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ds_doctor.catalogue import blanks
from ds_doctor.model import LANGS
from support import CASES, doctor, judge_case, read_case


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_case_gives_the_statuses_that_it_says(path: Path) -> None:
    case, results = judge_case(path)
    got = {rule: r.status for rule, r in results.items()}
    # Rules of the module that a case does not name must be at peace: a case cannot hide a side effect. A note is no alarm.
    level = {rule: doctor().catalogue.rule[rule].level for rule in got}
    want = {rule: "pass|skip|unknown" + "|note" * (level[rule] == "note") for rule in got} | case.expect
    assert set(case.expect) <= set(got), "a rule that the module does not have"
    wrong = {
        rule: (got[rule], want[rule], str(results[rule].reason or ""), results[rule].findings)
        for rule in got
        if got[rule] not in want[rule].split("|")
    }
    assert not wrong
    for rule, data in case.data.items():
        first = results[rule].findings[0].data
        assert {k: first.get(k) for k in data} == data
    for rule, on in case.on.items():
        assert [f.on for f in results[rule].findings] == on


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_text_of_a_finding_finds_its_blanks_filled(path: Path) -> None:
    _, results = judge_case(path)
    for rule, result in results.items():
        words = doctor().catalogue.rule[rule]
        for finding in result.findings:
            for lang in LANGS:
                texts = [getattr(words.title, lang), getattr(words.why, lang), words.verify or ""]
                texts += [getattr(s.say, lang) if s.say else s.run or "" for s in words.fix]
                missing = set().union(*map(blanks, texts)) - set(finding.data)
                assert not missing, f"{rule}: no value for {missing}"
        if result.reason is not None:
            assert result.reason.id in doctor().catalogue.reason, f"{rule}: reason {result.reason} has no text"
            text = doctor().catalogue.reason[result.reason.id]
            assert blanks(text.en) <= set(result.reason.data), f"{rule}: {result.reason}"


def test_every_rule_is_seen_broken_and_whole() -> None:
    broken: set[str] = set()
    whole: set[str] = set()
    for path in CASES:
        for rule, status in read_case(path).expect.items():
            (broken if status in ("note", "warn", "fail") else whole if status == "pass" else set()).add(rule)
    rules = set(doctor().catalogue.rule)
    assert not rules - broken, "no case breaks these"
    assert not rules - whole, "no case keeps these"


def test_every_case_names_rules_that_exist() -> None:
    for path in CASES:
        assert set(read_case(path).expect) <= set(doctor().catalogue.rule), path


REASONS = {"unknown": ("Undecided", "undecided"), "skip": ("NotApplicable", "not_applicable")}


@pytest.mark.parametrize("status", REASONS)
def test_every_reason_for_not_judging_is_seen(status: str) -> None:
    """A check that stops to say `unknown` or `skip` would pass a host that nobody judged: a case has to want that word."""
    raised, yielded = REASONS[status]
    said = set()
    for path in (Path(__file__).parent.parent / "checks" / "ds_doctor_checks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                place = {raised: 0, yielded: 1}.get(node.func.id)  # of the reason among the arguments
                if place is not None and isinstance(node.args[place], ast.Constant):
                    said.add(node.args[place].value)
    seen = set()
    for path in CASES:
        case, results = judge_case(path)
        reasons = {rule: r.reason for rule, r in results.items() if r.status == status}
        seen |= {reason.id for rule, reason in reasons.items() if reason and case.expect.get(rule) == status}
    assert len(said) > 50 and not said - seen
