"""What a site says with `--rules FILE`: changes of our rules, and rules of its own made into checks; asks nothing itself.

    [rule.site-driver]
    level = "fail"
    ...                      # the words of any rule
    when = [{ fact = "nvml", field = "driver", op = "<", value = "580.95" }]

All conditions must hold for the fault. `field` is a path of names through the fact; `*` goes through every item of a list or
table, and one that fits is enough. The texts may use the blanks {value} and {on}: what was found, and where.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from .catalogue import Catalogue, CatalogueError, Rule, Step, Text, blanks, check_rule, check_text, decode
from .model import Finding, Findings, Level, Standing, Undecided
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


# -- the file ------------------------------------------------------------------------------------------------------


class _Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a site changes of a rule that exists, or the whole of a rule that it adds (`when`: see the room site)."""

    level: Level | Literal["off"] | None = None
    standing: Standing | None = None
    healthy: Text | None = None
    title: Text | None = None
    why: Text | None = None
    fix: tuple[Step, ...] | None = None
    verify: str | None = None
    sources: tuple[str, ...] | None = None
    when: tuple[dict[str, Any], ...] | None = None


class Changed(msgspec.Struct, frozen=True):
    """A catalogue with a site's file laid over it: the rules turned off or given a level, the conditions of those added."""

    catalogue: Catalogue
    off: frozenset[str]
    on: frozenset[str]
    when: dict[str, tuple[dict[str, Any], ...]]


class _SiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    date: str = ""
    rule: dict[str, _Change] = {}
    reason: dict[str, Text] = {}


def changed(catalogue: Catalogue, data: bytes, where: str) -> Changed:
    """The catalogue with the changes and additions of a site's file (`--rules FILE`)."""
    file: _SiteFile = decode(data, where, _SiteFile)
    rules = dict(catalogue.rule)
    off: set[str] = set()
    when: dict[str, tuple[dict[str, Any], ...]] = {}
    for name, change in file.rule.items():
        given = {f: getattr(change, f) for f in Rule.__struct_fields__ if getattr(change, f, None) is not None}
        if change.level == "off":
            off.add(name)
            del given["level"]
        old = catalogue.rule.get(name)
        if old is not None:
            if change.when is not None:
                raise CatalogueError(f"{where}: rule.{name}: exists already; a site's own rule needs another name")
            rules[name] = msgspec.structs.replace(old, **given)
            check_rule(rules[name], f"{where}: rule.{name}", name)
            for part in ("title", "why"):
                extra = blanks(getattr(rules[name], part).en) - blanks(old.title.en) - blanks(old.why.en)
                if extra:
                    raise CatalogueError(f"{where}: rule.{name}.{part}: unknown blank {{{min(extra)}}}")
        elif change.when:
            rules[name] = _added(name, given, where)
            check_rule(rules[name], f"{where}: rule.{name}", name)
            when[name] = change.when
        else:
            raise CatalogueError(
                f"{where}: rule.{name}: there is no such rule (see: ds-doctor list rules); a new one needs `when`"
            )
    for name, text in file.reason.items():
        check_text(text, f"{where}: reason.{name}")
    words = Catalogue(catalogue.schema, catalogue.date, rules, {**catalogue.reason, **file.reason})
    on = frozenset(name for name, change in file.rule.items() if change.level is not None) - off
    return Changed(words, frozenset(off), on, when)


def _added(name: str, given: dict[str, Any], where: str) -> Rule:
    lacks = [f for f in ("level", "standing", "healthy", "title", "why", "fix", "sources") if f not in given]
    if lacks:
        raise CatalogueError(f"{where}: rule.{name}: a new rule needs {', '.join(lacks)}")
    rule = Rule(**given)
    for part in ("title", "why"):
        extra = blanks(getattr(rule, part).en) - {"value", "on"}
        if extra:
            raise CatalogueError(
                f"{where}: rule.{name}.{part}: unknown blank {{{min(extra)}}} (value and on are there)"
            )
    return rule


# -- the conditions ------------------------------------------------------------------------------------------------

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
        _can_hold(c, fact, rule)
    wants = list(dict.fromkeys(known[c.fact] for c in conditions))

    def judge(*values: Any) -> Findings:
        given = dict(zip((fact_name(w) for w in wants), values, strict=True))
        hits = [list(_hits(c, given[c.fact])) for c in conditions]
        if all(hits):
            for on, value in hits[0]:
                yield _finding(rule, on, value)

    return Check("site_rules", "site", "site", (rule,), tuple(Want(w, False) for w in wants), judge)


def _can_hold(c: Condition, fact: type, rule: str) -> None:
    """ConditionError for a path that leads nowhere or a value of another kind: such a condition never holds and would pass."""
    here = f"rule.{rule}: {c.fact}.{c.field}"
    kinds: list[Any] = [fact]
    done = c.fact
    for step in c.field.split("."):
        kinds = _below(kinds, step, f"{here}: {done}")
        done += f".{step}"
    scalars = {k for k in kinds if k in (str, int, float, bool)}
    if len(scalars) != len(kinds):
        if c.op != "matches" and all(typing.get_origin(k) in (tuple, list, dict) for k in kinds):
            raise ConditionError(f"{here}: is a list or table; add .* for any of its members")
        return
    if c.op == "matches":
        return
    for value in c.value if isinstance(c.value, list) and c.op in ("in", "not in") else [c.value]:
        if not any(_alike(value, k) for k in scalars):
            names = " or ".join(sorted(_KIND[k] for k in scalars))
            raise ConditionError(f"{here}: is {names}, and {value!r} is none")


_KIND = {str: "a text", int: "a number", float: "a number", bool: "true or false"}


def _alike(value: Any, kind: type) -> bool:
    if kind in (int, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind)


def _below(kinds: list[Any], step: str, where: str) -> list[Any]:
    """The kinds of value that `step` leads to from these kinds."""
    found: list[Any] = []
    for kind in kinds:
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is dict:
            found.append(args[1])
        elif origin in (tuple, list):
            if step != "*":
                raise ConditionError(f"{where} is a list; {step!r} must be *")
            found.extend(a for a in args if a is not Ellipsis)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = typing.get_type_hints(kind)
            if step not in kind.__struct_fields__:
                raise ConditionError(f"{where} has no field {step!r}; it has {', '.join(kind.__struct_fields__)}")
            found.append(hints[step])
        else:
            raise ConditionError(f"{where} holds nothing named {step!r}")
    flat: list[Any] = []
    for kind in found:
        union = typing.get_origin(kind) in (typing.Union, types.UnionType)
        flat.extend(a for a in (typing.get_args(kind) if union else (kind,)) if a is not type(None))
    return list(dict.fromkeys(flat))


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
