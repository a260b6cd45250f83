"""What an expression of somebody's source stands for, as far as reading tells: plain values, classes, functions, type hints.

It evaluates nothing; see _ast_eval.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._ast_source import Module


class Unknown:
    """What reading does not tell. There is one, UNKNOWN."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


class Spent(Exception):
    """The source asks for more than it may."""


class Stop(Exception):
    """The code has come to where its parser is used: all its arguments are known."""


class Return(Exception):
    """A function that is followed returns."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Break(Exception):
    """A loop that is followed ends."""


class Continue(Exception):
    """A loop that is followed goes on with its next item."""


class Ext(NamedTuple):
    """A name outside the package: `json.loads`, `typing.Literal`, the built-in `int`."""

    name: str


class Sub(NamedTuple):
    """A subscripted or united type: `Literal["a"]`, `list[int]`, `int | None` (base typing.Union)."""

    base: Any
    args: tuple[Any, ...]


UNION = Ext("typing.Union")
NONE = Ext("None")  # None as a type


class Member(NamedTuple):
    """A member of an enumeration."""

    of: Any
    name: str
    value: Any


class Scope:
    """The names that a piece of code sees: its own, those of the function around it, those of its module."""

    def __init__(self, module: Module, around: Scope | None = None, owner: Class | None = None) -> None:
        self.module = module
        self.around = around
        self.owner = owner
        self.names: dict[str, Any] = {}

    def find(self, name: str) -> tuple[bool, Any]:
        """(whether a function holds the name, its value)."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True, scope.names[name]
            scope = scope.around
        return False, None


class Class(NamedTuple):
    """A class of the package. Two are equal when they are the same definition."""

    node: ast.ClassDef
    scope: Scope

    @property
    def name(self) -> str:
        return self.node.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Class) and other.node is self.node

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self.node)


class Function(NamedTuple):
    """A function of the package; `bound`: what its first parameter is given; `owner`: the class that defines it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: Class | None = None
    bound: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        return "<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and other.node is self.node

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self.node)


class Made:
    """What a call to a class or to a name outside gave: `field(default_factory=list)`, `Arg(help="…")`."""

    def __init__(self, of: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.of = of
        self.args = args
        self.kwargs = kwargs


class Method(NamedTuple):
    """A method of a plain value: `names.append`."""

    of: Any
    name: str


class Package(NamedTuple):
    """A module of the package as a value."""

    name: str


class Field(NamedTuple):
    """One field of a dataclass: its annotation, its default's expression (None: none), and where both are evaluated."""

    name: str
    hint: ast.expr
    default: ast.expr | None
    scope: Scope


def hints(hint: Any) -> list[Any]:
    """The types that a hint unites, without Annotated and Optional; None as NONE."""
    found: list[Any] = []
    for one in _hints(hint):
        if one not in found:
            found.append(one)
    return found


def _hints(hint: Any) -> Iterator[Any]:
    if isinstance(hint, Sub) and isinstance(hint.base, Ext):
        name = hint.base.name.rpartition(".")[2]
        if name in ("Annotated", "SkipValidation", "Required", "NotRequired", "Final") and hint.args:
            yield from _hints(hint.args[0])
            return
        if name in ("Union", "Optional"):
            for arg in hint.args:
                yield from _hints(arg)
            if name == "Optional":
                yield NONE
            return
    yield NONE if hint is None else hint


def is_hint(hint: Any, name: str) -> bool:
    """Whether a hint is that type, subscripted or not: `list`, `List[int]`, `Literal[…]`."""
    base = hint.base if isinstance(hint, Sub) else hint
    return isinstance(base, Ext) and _CAPITAL.get(base.name.rpartition(".")[2], base.name.rpartition(".")[2]) == name


_CAPITAL = {"List": "list", "Dict": "dict", "Tuple": "tuple", "Set": "set"}


def literals(hint: Any) -> list[Any]:
    """The values of a Literal, nested ones flattened as typing does; UNKNOWN among them where one is not told."""
    found: list[Any] = []
    for arg in hint.args:
        if isinstance(arg, Sub) and is_hint(arg, "Literal"):
            found += [v for v in literals(arg) if v not in found]
        elif arg not in found:
            found.append(arg)
    return found
