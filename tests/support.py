"""What several tests share: reading the cases and recorded hosts under fixtures/."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ds_doctor import engine, snapshot
from ds_doctor.model import Outcome, Reason
from ds_doctor.registry import Check, load_plugin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).parent.parent / "fixtures"
CASES = sorted((FIXTURES / "checks").glob("*/*.toml"))
TROUBLE = ("absent", "denied", "timed-out", "malformed", "broken")


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """fixtures/checks/<module>/<situation>.toml: the facts, and one status for every rule of the module.

    `base` is a recorded host (fixtures/hosts/<base>/snapshot.json) whose facts stand where the case gives none.
    `facts.<name>` is laid over the base: tables merge, a table with number keys changes items of a list, anything else
    replaces. `facts.<name> = { trouble = "absent" }` makes the fact absent, denied, timed-out, malformed or broken.
    `unset = ["fact.field.key"]` takes things out of the base. A fact that is nowhere is absent.
    `data.<rule>` are values that the rule's first finding must carry. `on.<rule>` are what its findings are on.
    """

    says: str
    expect: dict[str, str]
    base: str | None = None
    facts: dict[str, dict[str, Any]] = {}
    unset: list[str] = []
    data: dict[str, dict[str, Any]] = {}
    on: dict[str, list[str]] = {}


@functools.cache
def doctor() -> engine.Doctor:
    """Our own checks with their catalogue."""
    return engine.assemble({}, lambda: ([load_plugin("built-in", "ds_doctor_checks")], []))


def module_checks(module: str) -> list[Check]:
    return [c for c in doctor().checks if c.family == module.replace("_", "-")]


def read_case(path: Path) -> Case:
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Case)


@functools.cache
def base_facts(name: str) -> dict[str, Any]:
    where = FIXTURES / "hosts" / name / "snapshot.json"
    kept = snapshot.read(where.read_bytes(), str(where)).facts
    return {n: {"trouble": k.trouble, "reason": k.reason} if k.trouble else k.value for n, k in kept.items()}


def lay_over(below: Any, above: Any) -> Any:
    if isinstance(above, dict) and isinstance(below, list) and above and all(k.isdigit() for k in above):
        merged = list(below)
        for k, v in above.items():
            if int(k) < len(merged):
                merged[int(k)] = lay_over(merged[int(k)], v)
            else:
                merged.append(v)
        return merged
    if isinstance(above, dict) and isinstance(below, dict) and "trouble" not in above and "trouble" not in below:
        return {**below, **{k: lay_over(below[k], v) if k in below else v for k, v in above.items()}}
    return above


def take_out(place: Any, path: str) -> None:
    """Delete what the dotted path leads to; a key may hold dots itself (`loader.picked.libcuda.so.1`)."""
    if isinstance(place, list):
        head, _, rest = path.partition(".")
        if rest:
            take_out(place[int(head)], rest)
        else:
            del place[int(head)]
    elif path in place:
        del place[path]
    else:
        head = next(k for k in place if path.startswith(f"{k}."))
        take_out(place[head], path[len(head) + 1 :])


def case_outcomes(case: Case, checks: list[Check], always: Iterable[type] = ()) -> dict[type, Outcome]:
    facts = copy.deepcopy(base_facts(case.base)) if case.base else {}
    for path in case.unset:
        take_out(facts, path)
    for name, value in case.facts.items():
        facts[name] = lay_over(facts.get(name, {}), value)
    wanted = {snapshot.key(f): f for f in [*engine.wanted(checks), *always]}
    unknown = set(case.facts) - set(wanted)
    assert not unknown, f"no check of the module wants the facts {sorted(unknown)}"
    outcomes: dict[type, Outcome] = {}
    for name, fact in wanted.items():
        value = facts.get(name, {"trouble": "absent"})
        if "trouble" in value:
            reason = value.get("reason") or Reason("fact-missing", {"fact": name})
            outcomes[fact] = Outcome(None, value["trouble"], reason)
        else:
            outcomes[fact] = Outcome(msgspec.convert(value, fact))
    return outcomes


def judge_case(path: Path) -> tuple[Case, dict[str, Any]]:
    case = read_case(path)
    checks = module_checks(path.parent.name)
    results = engine.judge(
        checks, case_outcomes(case, checks), doctor().catalogue, {r for c in checks for r in c.rules}
    )
    return case, {r.rule: r for r in results}
