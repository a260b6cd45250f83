"""Chooses the checks, judges the facts that were gathered, and concludes; knows no subject, prints nothing.

A check that raises, hangs or answers nonsense costs its own rules and nothing else.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from . import catalogue as cat
from . import compiled
from .model import (
    STATUSES,
    Finding,
    NotApplicable,
    Outcome,
    PluginError,
    Reason,
    Result,
    Status,
    Undecided,
    Verdict,
)
from .registry import Check, Plugin, fact_name, load_plugins, one_line

RESERVE_S = 1.0  # of the whole time, kept for judging and reporting
LEAST_S = 0.05  # a check that gets no more has had a hundred times what it needs
CHECK_S = 2.0  # a pure function over facts that takes longer does not end

Facts = Mapping[type, Outcome]
Overall = Literal["pass", "warn", "fail", "unknown"]


class Doctor(msgspec.Struct, frozen=True):
    """All that is installed: the checks, the words of their rules, and the plugins that could not be used."""

    checks: tuple[Check, ...]
    catalogue: cat.Catalogue
    errors: tuple[PluginError, ...] = ()
    plugins: tuple[Plugin, ...] = ()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which rules to judge: patterns of rule ids, check names or families, also as `family.rule` or `family.check`."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    off: frozenset[str] = frozenset()


class PatternError(Exception):
    """A pattern that matches no rule, check or family; `left_out`: its rule is left out by another option."""

    def __init__(self, option: str, pattern: str, left_out: bool = False) -> None:
        super().__init__(option, pattern, left_out)
        self.option = option
        self.pattern = pattern
        self.left_out = left_out


def assemble(
    env: Mapping[str, str], load: Callable[[], tuple[list[Plugin], list[PluginError]]] = load_plugins
) -> Doctor:
    """Load every plugin with its catalogue. One that is not right becomes a PluginError as a whole."""
    plugins, errors = load()
    checks: list[Check] = []
    catalogues: list[cat.Catalogue] = []
    kept: list[Plugin] = []
    owner: dict[str, str] = {}
    for plugin in plugins:
        try:
            words = compiled.load(plugin.folder, env)
        except cat.CatalogueError as e:
            errors.append(
                PluginError(plugin.name, Reason("plugin-catalogue-broken", {"plugin": plugin.name, "error": str(e)}))
            )
            continue
        if plugin.part:
            judged = {rule for one in plugin.checks for rule in one.rules}
            words = msgspec.structs.replace(words, rule={k: v for k, v in words.rule.items() if k in judged})
        wrong = _disagreement(plugin, words, owner)
        if wrong is not None:
            errors.append(PluginError(plugin.name, wrong))
            continue
        owner.update(dict.fromkeys(words.rule, plugin.name))
        checks.extend(plugin.checks)
        catalogues.append(words)
        kept.append(plugin)
    return Doctor(tuple(checks), cat.together(catalogues), tuple(errors), tuple(kept))


def _disagreement(plugin: Plugin, words: cat.Catalogue, owner: Mapping[str, str]) -> Reason | None:
    """Why a plugin's checks and its catalogue do not fit together, or None."""
    judged: dict[str, str] = {}
    for one in plugin.checks:
        for rule in one.rules:
            if rule not in words.rule:
                return Reason("plugin-foreign-rule", {"plugin": plugin.name, "check": one.name, "rule": rule})
            if rule in judged:
                return Reason(
                    "plugin-rule-twice", {"plugin": plugin.name, "rule": rule, "check": one.name, "other": judged[rule]}
                )
            judged[rule] = one.name
    for rule in words.rule:
        if rule in owner:
            return Reason("plugin-rule-taken", {"plugin": plugin.name, "rule": rule, "other": owner[rule]})
        if rule not in judged:
            return Reason("plugin-rule-unjudged", {"plugin": plugin.name, "rule": rule})
    return None


def with_site(
    doctor: Doctor, data: bytes, where: str, off: frozenset[str] = frozenset()
) -> tuple[Doctor, frozenset[str]]:
    """The doctor with a site's file laid over it, and the rules that are off: a later file wins. CatalogueError for a bad one."""
    from .site import Condition, ConditionError, changed, site_check

    new = changed(doctor.catalogue, data, where)
    checks = list(doctor.checks)
    for rule, conditions in new.when.items():
        try:
            checks.append(site_check(rule, msgspec.convert(conditions, tuple[Condition, ...]), wanted(doctor.checks)))
        except (ConditionError, msgspec.ValidationError) as e:
            said = str(e) if isinstance(e, ConditionError) else f"rule.{rule}: when: {e}"
            raise cat.CatalogueError(f"{where}: {said}") from None
    return Doctor(tuple(checks), new.catalogue, doctor.errors, doctor.plugins), (off - new.on) | new.off


# -- choosing ------------------------------------------------------------------------------------------------------


def matches(pattern: str, rule: str, check: Check) -> bool:
    """Whether a pattern names the rule, its check or its family; `family.` may stand before a rule or a check."""
    names = (rule, check.name, check.family)
    return any(
        fnmatchcase(name, pattern) for name in (*names, f"{check.family}.{rule}", f"{check.family}.{check.name}")
    )


def chosen(doctor: Doctor, choice: Choice) -> tuple[list[Check], set[str], set[str]]:
    """The checks to run, the rules to report, the rules that must be judged. PatternError for one that fits nothing."""
    every = [(rule, one) for one in doctor.checks for rule in one.rules]
    for option, patterns in (("--only", choice.only), ("--skip", choice.skip), ("--require", choice.require)):
        for pattern in patterns:
            if not any(matches(pattern, rule, one) for rule, one in every):
                raise PatternError(option, pattern)

    def fits(patterns: Iterable[str], rule: str, one: Check) -> bool:
        return any(matches(p, rule, one) for p in patterns)

    rules = {
        rule
        for rule, one in every
        if (not choice.only or fits(choice.only, rule, one))
        and not fits(choice.skip, rule, one)
        and rule not in choice.off
    }
    required = {rule for rule, one in every if fits(choice.require, rule, one)}
    lost = sorted(required - rules)
    if lost:
        raise PatternError("--require", lost[0], left_out=True)
    return [one for one in doctor.checks if rules.intersection(one.rules)], rules, required


def wanted(checks: Iterable[Check]) -> list[type]:
    """The facts that the checks want, each once, in a stable order."""
    facts = {want.fact: None for one in checks for want in one.wants}
    return sorted(facts, key=lambda f: (not getattr(f, "slow", False), f.__module__, f.__name__))


# -- judging -------------------------------------------------------------------------------------------------------


def judge(
    checks: Iterable[Check], facts: Facts, catalogue: cat.Catalogue, rules: set[str], deadline: float | None = None
) -> list[Result]:
    """One result for each of the rules, in the order of the checks; `deadline` is of time.monotonic().

    One thread judges them all. Where a check does not end, that thread is left behind and another goes on after it.
    """
    todo = list(checks)
    work = _Work(todo, facts)
    results: list[Result] = []
    for i, one in enumerate(todo):
        came, ms = work.get(i, deadline)
        results.extend(_result(one, rule, came, catalogue, ms) for rule in one.rules if rule in rules)
    return results


class _Judgement(msgspec.Struct):
    """What a check came to: a status for all its rules with the reason, or what it yielded."""

    status: Status | None = None
    reason: Reason | None = None
    said: list[Finding | Verdict] = []
    unseen: Reason | None = None  # why an optional fact is missing that only the running machine has


class _Work:
    """The checks being judged in the background, one after the other."""

    def __init__(self, checks: list[Check], facts: Facts) -> None:
        self.checks = checks
        self.facts = facts
        self._start(0)

    def _start(self, first: int) -> None:
        # A queue of its own for each thread: one that was left behind and comes back speaks to nobody.
        self.done: queue.SimpleQueue[tuple[_Judgement, float]] = queue.SimpleQueue()
        try:
            threading.Thread(target=self._run, args=(first, self.done), daemon=True, name="judge").start()
        except RuntimeError:  # no thread to be had (ulimit -u, the cgroup's pids.max)
            self._run(first, self.done)

    def _run(self, first: int, done: queue.SimpleQueue[tuple[_Judgement, float]]) -> None:
        for one in self.checks[first:]:
            start = time.monotonic()
            ready = _inputs(one, self.facts)
            came = ready if isinstance(ready, _Judgement) else _judge(one, ready)
            came.unseen = _unseen(one, self.facts)
            done.put((came, round((time.monotonic() - start) * 1000, 2)))

    def get(self, i: int, deadline: float | None) -> tuple[_Judgement, float]:
        """What check `i` came to; they are asked for in order."""
        check_s = CHECK_S if deadline is None else min(CHECK_S, max(LEAST_S, deadline - time.monotonic()))
        try:
            return self.done.get(timeout=check_s)
        except queue.Empty:
            self._start(i + 1)
            reason = Reason("check-timed-out", {"check": self.checks[i].name, "timeout_s": round(check_s, 2)})
            return _Judgement("error", reason), round(check_s * 1000, 2)


def _inputs(one: Check, facts: Facts) -> list[Any] | _Judgement:
    values: list[Any] = []
    absent: Reason | None = None
    trouble: Reason | None = None
    for want in one.wants:
        outcome = facts.get(want.fact) or Outcome(
            None, "broken", Reason("fact-missing", {"fact": fact_name(want.fact)})
        )
        if outcome.trouble is None:
            values.append(outcome.fact)
        elif outcome.trouble == "unseen" and want.optional:
            values.append(None)
        elif outcome.trouble == "absent":
            values.append(None)
            if not want.optional:
                absent = absent or outcome.reason
        else:
            trouble = trouble or outcome.reason
    if absent is not None:  # what is certainly not there decides before what could not be read
        return _Judgement("skip", absent)
    if trouble is not None:
        return _Judgement("unknown", trouble)
    return values


def _unseen(one: Check, facts: Facts) -> Reason | None:
    outcomes = (facts.get(want.fact) for want in one.wants if want.optional)
    return next((o.reason for o in outcomes if o is not None and o.trouble == "unseen"), None)


def _judge(one: Check, values: list[Any]) -> _Judgement:
    said: list[Finding | Verdict] = []
    try:
        for word in one.judge(*values) or ():
            if not isinstance(word, (Finding, Verdict)):
                raise TypeError(f"yielded {type(word).__name__}, not a finding")
            if word.rule not in one.rules:
                raise LookupError(f"spoke of {word.rule!r}, which is not among its rules")
            said.append(word)
        return _Judgement(said=said)
    except NotApplicable as e:
        return _Judgement("skip", e.reason, said)
    except Undecided as e:
        return _Judgement("unknown", e.reason, said)
    except BaseException as e:  # noqa: BLE001 - a check that breaks costs its own rules only
        return _Judgement("error", Reason("check-broken", {"check": one.name, "error": one_line(e)}))


def _result(one: Check, rule: str, came: _Judgement, catalogue: cat.Catalogue, ms: float) -> Result:
    findings = tuple(w for w in came.said if isinstance(w, Finding) and w.rule == rule)
    verdict = next((w for w in came.said if isinstance(w, Verdict) and w.rule == rule), None)
    status: Status
    reason = came.reason
    if came.status == "error":
        status = "error"
    elif findings:  # what was found stands, also where the rest could not be judged
        status, reason = catalogue.rule[rule].level, None
    elif verdict is not None:
        status, reason = verdict.status, verdict.reason
    elif came.status is None and came.unseen is not None:  # nothing found among what could be seen is no pass
        status, reason = "unknown", came.unseen
    else:
        status = came.status or "pass"
    return Result(
        rule=rule, check=one.name, family=one.family, status=status, findings=findings, reason=reason, duration_ms=ms
    )


# -- the whole -----------------------------------------------------------------------------------------------------


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run and what they come to."""

    results: tuple[Result, ...]
    counts: dict[Status, int]
    verdict: Overall
    exit_code: int
    required: frozenset[str] = frozenset()


def conclude(results: Iterable[Result], errors: Iterable[PluginError], required: set[str], strict: bool) -> Verdicts:
    """Counts, verdict and exit status (0 nothing failed, 1 failed, 3 cannot vouch) of the results."""
    every = [
        *results,
        *(
            Result(rule=f"plugin-{e.plugin}", check="load", family="plugins", status="error", reason=e.reason)
            for e in errors
        ),
    ]
    counts = {s: sum(r.status == s for r in every) for s in STATUSES}
    judged = {r.rule for r in every if r.status in ("pass", "note", "warn", "fail")}
    failed = counts["fail"] or (strict and counts["warn"])
    vouches = bool(judged) and not counts["error"] and required <= judged
    if failed:
        exit_code = 1
    else:
        exit_code = 0 if vouches else 3
    verdict: Overall
    if counts["fail"]:
        verdict = "fail"
    elif not vouches:
        verdict = "unknown"
    else:
        verdict = "warn" if counts["warn"] else "pass"
    return Verdicts(
        results=tuple(every), counts=counts, verdict=verdict, exit_code=exit_code, required=frozenset(required)
    )
