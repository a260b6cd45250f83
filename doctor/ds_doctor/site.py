"""Rules that a site adds with `--rules FILE`: conditions on facts, written as data, made into checks; asks nothing itself.

    [rule.site-driver]
    level = "fail"
    ...                      # the words of any rule
    when = [{ fact = "nvml", field = "driver", op = "<", value = "580.95" }]

All conditions must hold for the fault. `field` is a path of names through the fact; `*` goes through every item of a list or
table, and one that fits is enough. The texts may use the blanks {value} and {on}: what was found, and where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from .model import Finding, Findings, Undecided
from .registry import Check, Want, fact_name

Op = Literal["<", "<=", "==", "!=", ">=", ">", "in", "not in", "matches"]


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison: `in` and `not in` take a list, `matches` a regular expression that is searched for."""

    fact: str
    field: str
    op: Op
    value: Any


class ConditionError(Exception):
    """A condition that can never be judged: one line that says why."""


_NUMBERS = re.compile(r"\d+(\.\d+)*\Z")


def site_check(rule: str, conditions: tuple[Condition, ...], facts: Iterable[type]) -> Check:
    """The check of a site's rule. ConditionError for an unknown fact or field, or a bad regular expression."""
    known = {fact_name(f): f for f in facts}
    for c in conditions:
        fact = known.get(c.fact)
        if fact is None:
            raise ConditionError(f"rule.{rule}: there is no fact {c.fact!r} (see: ds-doctor list facts)")
        first = c.field.partition(".")[0]
        if first not in fact.__struct_fields__:  # type: ignore[attr-defined]
            fields = ", ".join(fact.__struct_fields__)  # type: ignore[attr-defined]
            raise ConditionError(f"rule.{rule}: the fact {c.fact} has no field {first!r}; it has {fields}")
        if c.op == "matches":
            try:
                re.compile(str(c.value))
            except re.error as e:
                raise ConditionError(f"rule.{rule}: {c.value!r} is no regular expression: {e}") from None
        if c.op in ("in", "not in") and not isinstance(c.value, list):
            raise ConditionError(f"rule.{rule}: {c.op!r} takes a list")
    wants = list(dict.fromkeys(known[c.fact] for c in conditions))

    def judge(*values: Any) -> Findings:
        given = dict(zip((fact_name(w) for w in wants), values, strict=True))
        hits = [list(_hits(c, given[c.fact])) for c in conditions]
        if all(hits):
            for on, value in hits[0]:
                yield _finding(rule, on, value)

    return Check("site_rules", "site", "site", (rule,), tuple(Want(w, False) for w in wants), judge)


def _finding(rule: str, on: str, value: Any) -> Finding:
    shown = value if isinstance(value, (str, int, float, bool)) else str(value)
    return Finding(rule, on or None, {"value": shown, "on": on})


def _hits(condition: Condition, fact: Any) -> Iterator[tuple[str, Any]]:
    """The places and values that fit. Undecided when a value is not known or cannot be compared."""
    for on, value in _walk(fact, condition.field.split("."), ""):
        if value is None:
            raise Undecided("site-value-unknown", field=f"{condition.fact}.{condition.field}")
        if _holds(condition, value):
            yield on, value


def _walk(thing: Any, path: list[str], on: str) -> Iterator[tuple[str, Any]]:
    if not path:
        yield on, thing
        return
    step, rest = path[0], path[1:]
    if step == "*":
        if isinstance(thing, Mapping):
            items: Iterable[tuple[Any, Any]] = thing.items()
        elif isinstance(thing, (list, tuple)):
            items = enumerate(thing)
        else:
            return
        for key, item in items:
            yield from _walk(item, rest, f"{on}.{key}" if on else str(key))
    elif isinstance(thing, Mapping):
        if step in thing:
            yield from _walk(thing[step], rest, on)
    elif isinstance(thing, msgspec.Struct) and step in thing.__struct_fields__:
        yield from _walk(getattr(thing, step), rest, on)


def _comparable(value: Any) -> Any:
    """Dotted numbers compare as numbers: 580.95 < 580.159."""
    if isinstance(value, str) and _NUMBERS.match(value):
        return tuple(int(n) for n in value.split("."))
    return value


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">=": lambda a, b: bool(a >= b),
    ">": lambda a, b: bool(a > b),
}


def _holds(condition: Condition, value: Any) -> bool:
    want = condition.value
    if condition.op == "==":
        return bool(value == want)
    if condition.op == "!=":
        return bool(value != want)
    if condition.op == "in":
        return value in want
    if condition.op == "not in":
        return value not in want
    if condition.op == "matches":
        return re.search(str(want), str(value)) is not None
    try:
        return _ORDER[condition.op](_comparable(value), _comparable(want))
    except TypeError:
        raise Undecided("site-cannot-compare", field=f"{condition.fact}.{condition.field}", value=str(value)) from None
