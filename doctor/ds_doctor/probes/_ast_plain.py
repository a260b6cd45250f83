"""What plain values do when source is read and not run: operators, comparisons, their methods.

Every operation is pure and bounded in size; one that fails, or that nobody described here, gives UNKNOWN.
"""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any

from ._ast_values import UNKNOWN, Class, Ext, Scope

if TYPE_CHECKING:
    from ._ast_eval import Evaluator

PLAIN = (str, list, tuple, dict, set, frozenset)  # exactly these: the values of _ast_values are tuples too
SIZE = 20_000  # items of a list, characters of a text
# The methods that are known here: of a text; of a container, those that only read it, and those that change it.
_TEXT = frozenset(
    [
        *("lower", "upper", "strip", "lstrip", "rstrip", "replace", "removeprefix", "removesuffix", "split", "join"),
        *("startswith", "endswith", "title", "capitalize", "partition", "rpartition", "format", "splitlines", "count"),
    ]
)
_READS = frozenset(["copy", "index", "count", "get", "keys", "values", "items", "union", "difference", "intersection"])
_CHANGES = frozenset(
    [
        *("append", "extend", "insert", "remove", "pop", "update", "setdefault", "add", "discard", "clear", "sort"),
        "reverse",
    ]
)


def key(value: Any) -> bool:
    """Whether a value may stand in a set or be a key."""
    if not isinstance(value, (str, int, float, type(None), tuple)):
        return False
    try:
        hash(value)
    except TypeError:
        return False
    return True


def items(ev: Evaluator, value: Any) -> list[Any] | None:
    """What iterating over a value gives; None: it cannot be told."""
    if isinstance(value, Class):
        return list(ev.members(value)) if ev.enumeration(value) else None
    if type(value) is str or type(value) not in PLAIN or len(value) > SIZE:
        return None
    return sorted(value, key=repr) if isinstance(value, (set, frozenset)) else list(value)


def displayed(ev: Evaluator, parts: list[Any] | None, kind: type) -> Any:
    """A list, tuple or set display."""
    if parts is None or (kind is set and not all(map(key, parts))):
        return UNKNOWN
    return kind(parts)


_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


def binary(ev: Evaluator, op: ast.operator, left: Any, right: Any) -> Any:
    """`left op right` for plain values of sensible size."""
    for v in (left, right):
        if not isinstance(v, (int, float)) and type(v) not in PLAIN:
            return UNKNOWN
        if (isinstance(v, (int, float)) and abs(v) > 1 << 50) or (not isinstance(v, (int, float)) and len(v) > SIZE):
            return UNKNOWN
    if isinstance(op, (ast.Pow, ast.LShift)) and not (isinstance(right, int) and 0 <= right < 64):
        return UNKNOWN
    if isinstance(op, ast.Mult) and not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        return UNKNOWN
    if isinstance(op, ast.Mod) and isinstance(left, str):
        return UNKNOWN
    function = _OPERATORS.get(type(op))
    try:
        made = function(left, right) if function else UNKNOWN
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
    if id(left) in ev.uncertain or id(right) in ev.uncertain:
        ev.uncertain[id(made)] = made
    return made


def compared(ev: Evaluator, node: ast.Compare, scope: Scope) -> Any:
    """A comparison; a chain of them is not told."""
    left, right = ev.eval(node.left, scope), ev.eval(node.comparators[0], scope)
    op = node.ops[0]
    if len(node.ops) > 1 or UNKNOWN in (left, right):
        return UNKNOWN
    if id(left) in ev.uncertain or id(right) in ev.uncertain:
        return UNKNOWN
    try:
        if isinstance(op, (ast.Is, ast.IsNot)):
            if None not in (left, right) and not isinstance(left, (Class, Ext)):
                return UNKNOWN
            return (left == right and type(left) is type(right)) is isinstance(op, ast.Is)
        if isinstance(op, (ast.Eq, ast.NotEq)):
            return (left == right) is isinstance(op, ast.Eq)
        if isinstance(op, (ast.In, ast.NotIn)):
            if type(right) not in PLAIN or (type(right) is not str and UNKNOWN in list(right)):
                return UNKNOWN
            return (left in right) is isinstance(op, ast.In)
        order = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}[type(op)]
        return bool(order(left, right)) if isinstance(left, (int, float, str)) else UNKNOWN
    except (TypeError, KeyError):
        return UNKNOWN


def got(of: Any, index: Any) -> Any:
    """`of[index]`."""
    try:
        if isinstance(of, dict):
            return of[index]
        if type(of) in (list, tuple, str) and isinstance(index, int):
            return of[index]
    except (KeyError, IndexError, TypeError):
        pass
    return UNKNOWN


def sliced(ev: Evaluator, of: Any, part: ast.Slice, scope: Scope) -> Any:
    """`of[a:b:c]`."""
    ends = [None if p is None else ev.eval(p, scope) for p in (part.lower, part.upper, part.step)]
    if type(of) not in (list, tuple, str) or not all(e is None or isinstance(e, int) for e in ends) or ends[2] == 0:
        return UNKNOWN
    return of[ends[0] : ends[1] : ends[2]]


def put(ev: Evaluator, of: Any, index: Any, value: Any) -> None:
    """`of[index] = value`."""
    if isinstance(of, dict) and key(index):
        if ev.maybe and index in of:
            value = UNKNOWN
        if len(of) < SIZE:
            of[index] = value
    elif isinstance(of, list) and isinstance(index, int) and -len(of) <= index < len(of):
        of[index] = UNKNOWN if ev.maybe else value


def method(ev: Evaluator, of: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A method of a plain value."""
    if isinstance(of, str):
        if name not in _TEXT or UNKNOWN in args or kwargs or len(of) > SIZE:
            return UNKNOWN
        if name == "join":
            parts = items(ev, args[0])
            return of.join(parts) if parts is not None and all(isinstance(p, str) for p in parts) else UNKNOWN
    elif name in _CHANGES:
        if len(of) > SIZE or UNKNOWN in args or any(a is of for a in args):
            ev.uncertain[id(of)] = of
            return UNKNOWN
        if ev.maybe:
            ev.uncertain[id(of)] = of
            if name not in ("append", "extend", "add", "update", "insert", "setdefault"):
                return UNKNOWN
        if name in ("extend", "update") and not isinstance(args[0] if args else None, dict):
            parts = items(ev, args[0]) if args else []
            if parts is None:
                ev.uncertain[id(of)] = of
                return UNKNOWN
            if args:
                args = [parts]
    elif name not in _READS:
        return UNKNOWN
    try:
        made = getattr(of, name)(*args, **kwargs)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, LookupError):
        return UNKNOWN
    return list(made) if type(made).__name__.startswith("dict_") else made
