"""The results of several services on one host as one: what came out the same is the host's; judges nothing anew."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from .model import Finding, Result, Status

# Of several statuses the first one counts: what failed before what could not be judged, that before what passed.
_WORST: tuple[Status, ...] = ("fail", "error", "warn", "note", "unknown", "pass", "skip")


class Combined(msgspec.Struct, frozen=True):
    """One result for every rule, and for each service the results that are its own: those of rules that came out
    otherwise for another service."""

    results: tuple[Result, ...]
    own: tuple[tuple[Result, ...], ...]


def combine(names: Sequence[str], judged: Sequence[Sequence[Result]]) -> Combined:
    """Put the results together; `judged[i]` are those of the service `names[i]`, all of the same rules in one order."""
    results: list[Result] = []
    own: list[list[Result]] = [[] for _ in names]
    for row in zip(*judged, strict=True):
        if all(_same(r, row[0]) for r in row):
            results.append(row[0])
            continue
        results.append(_one(names, row))
        for mine, result in zip(own, row, strict=True):
            mine.append(result)
    return Combined(tuple(results), tuple(tuple(o) for o in own))


def _same(a: Result, b: Result) -> bool:
    return a.status == b.status and a.findings == b.findings and a.reason == b.reason


def _one(names: Sequence[str], row: Sequence[Result]) -> Result:
    worst = min(row, key=lambda r: _WORST.index(r.status))
    findings: list[Finding] = []
    for name, result in zip(names, row, strict=True):
        for f in result.findings:
            if all(f in other.findings for other in row):
                if f not in findings:
                    findings.append(f)
            else:
                findings.append(Finding(f.rule, f"service: {name}" + (f", {f.on}" if f.on else ""), f.data))
    return Result(
        rule=worst.rule,
        check=worst.check,
        family=worst.family,
        status=worst.status,
        findings=tuple(findings),
        reason=worst.reason if not findings else None,
        duration_ms=round(sum(r.duration_ms for r in row), 2),
    )
