"""What built-in functions and a few of the standard library give, and what a call hands over, when source is read and not run."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from ._ast_plain import PLAIN, SIZE, items, key, method
from ._ast_values import NONE, UNKNOWN, Class, Ext, Function, Made, Method, Scope, Sub, literals

if TYPE_CHECKING:
    from ._ast_eval import Evaluator

BUILTINS = frozenset(
    [
        *("int", "float", "str", "bool", "list", "tuple", "dict", "set", "frozenset", "bytes", "object", "type", "len"),
        *(
            "sorted",
            "min",
            "max",
            "range",
            "enumerate",
            "zip",
            "any",
            "all",
            "getattr",
            "hasattr",
            "isinstance",
            "print",
        ),
        *("reversed", "sum", "map", "filter", "vars", "callable", "issubclass", "super", "repr", "abs", "round"),
    ]
)


class Super(NamedTuple):
    """`super()` inside a method."""

    of: Class
    owner: Class
    bound: Any


class ClassNames(dict[str, Any]):
    """The names of a class body, each evaluated when it is asked for; methods are none."""

    def __init__(self, ev: Evaluator, of: Class, scope: Scope) -> None:
        super().__init__()
        self._ev = ev
        self._scope = scope
        self._open = {
            t.id: n.value
            for n in of.node.body
            if isinstance(n, (ast.Assign, ast.AnnAssign)) and n.value is not None
            for t in (n.targets if isinstance(n, ast.Assign) else [n.target])
            if isinstance(t, ast.Name)
        }
        self._of = of

    def __contains__(self, name: object) -> bool:
        return name in self._open or super().__contains__(name)

    def __missing__(self, name: str) -> Any:
        node = self._open[name]
        self[name] = UNKNOWN
        # `name = name` in a class body takes the name from around it.
        around = isinstance(node, ast.Name) and node.id == name
        self[name] = self._ev.eval(node, self._of.scope if around else self._scope)
        return self[name]


def returns(ev: Evaluator) -> list[Any]:
    """What functions returned behind tests that cannot be told."""
    held: list[Any] = ev.__dict__.setdefault("_maybe_returns", [])
    return held


def super_of(scope: Scope) -> Any:
    """`super()` in a method that has `cls` or `self`."""
    for name in ("cls", "self"):
        held, bound = scope.find(name)
        if held and scope.owner is not None:
            of = bound.of if isinstance(bound, Made) else bound
            return Super(of, scope.owner, bound) if isinstance(of, Class) else UNKNOWN
    return UNKNOWN


def default_of(ev: Evaluator, value: Any) -> Any:
    """The default that a `field(…)` or `Field(…)` gives; any other value as it is."""
    if not (isinstance(value, Made) and isinstance(value.of, Ext) and value.of.name.rpartition(".")[2] in FIELDS):
        return value
    if "default" in value.kwargs:
        return value.kwargs["default"]
    if value.args:
        return value.args[0]
    factory = value.kwargs.get("default_factory", UNKNOWN)
    if isinstance(factory, Function):
        return ev.body(factory, [], {})
    if isinstance(factory, Ext) and factory.name in _EMPTY:
        return _EMPTY[factory.name]()
    return Made(factory, [], {}) if isinstance(factory, Class) else UNKNOWN


FIELDS = frozenset(["field", "Field", "PydanticField"])


_EMPTY: dict[str, type] = {"list": list, "dict": dict, "set": set, "tuple": tuple, "str": str, "int": int}


def forward(ev: Evaluator, hint: Any, scope: Scope) -> Any:
    """A hint written as a text is what the text says."""
    if not isinstance(hint, str):
        return hint
    try:
        return ev.eval(ast.parse(hint, mode="eval").body, scope)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN


def parameters(ev: Evaluator, function: Function, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a function as a call gives them; UNKNOWN for what it does not."""
    a = function.node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    scope = function.scope
    made: dict[str, Any] = {}
    for name, d in zip(names[len(names) - len(a.defaults) :], a.defaults, strict=True):
        if name not in kwargs and names.index(name) >= len(args):
            made[name] = ev.eval(d, scope)
    for p, kd in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if kd is not None and p.arg not in kwargs:
            made[p.arg] = ev.eval(kd, scope)
    made.update(zip(names, args, strict=False))
    known = {*names, *(p.arg for p in a.kwonlyargs)}
    made.update({k: v for k, v in kwargs.items() if k in known})
    if a.vararg is not None:
        made[a.vararg.arg] = tuple(args[len(names) :])
    if a.kwarg is not None:
        made[a.kwarg.arg] = {k: v for k, v in kwargs.items() if k not in known}
    for name in known - set(made):
        made[name] = UNKNOWN
    return made


def call(ev: Evaluator, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of what is no function of the package."""
    if isinstance(function, Method):
        if hasattr(function.of, "call_method"):
            return function.of.call_method(ev, function.name, args, kwargs)
        return method(ev, function.of, function.name, args, kwargs)
    if isinstance(function, Class):
        hook = ev.hooks.get(function.name)
        if hook is not None:
            return hook(ev, args, kwargs)
        if "ArgumentParser" in ev.bases(function):
            return ev.hooks["ArgumentParser"](ev, args, kwargs)
        return UNKNOWN if ev.enumeration(function) else Made(function, args, kwargs)
    if not isinstance(function, Ext):
        return UNKNOWN
    last = function.name.rpartition(".")[2]
    hook = ev.hooks.get(last)
    if hook is not None:
        return hook(ev, args, kwargs)
    known = _FUNCTIONS.get(function.name) or _FUNCTIONS.get(last if "." in function.name else "")
    if known is None:
        if any(hasattr(a, "call_method") for a in args):
            return UNKNOWN
        return Made(function, args, kwargs)
    try:
        return known(ev, *args, **kwargs)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return UNKNOWN


def _list(ev: Evaluator, over: Any = ()) -> Any:
    parts = items(ev, over)
    if parts is None:
        return UNKNOWN
    if id(over) in ev.uncertain:
        ev.uncertain[id(parts)] = parts
    return parts


def _of(kind: Any) -> Any:
    def made(ev: Evaluator, over: Any = ()) -> Any:
        parts = _list(ev, over)
        if parts is UNKNOWN or (kind in (set, frozenset) and not all(map(key, parts))):
            return UNKNOWN
        whole = kind(parts)
        if id(parts) in ev.uncertain:
            ev.uncertain[id(whole)] = whole
        return whole

    return made


def _sorted(ev: Evaluator, over: Any, **how: Any) -> Any:
    parts = _list(ev, over)
    if parts is UNKNOWN or UNKNOWN in parts or how:
        return UNKNOWN
    made = sorted(parts)
    if id(parts) in ev.uncertain:
        ev.uncertain[id(made)] = made
    return made


def _args(ev: Evaluator, hint: Any) -> Any:
    if isinstance(hint, Sub):
        return tuple(literals(hint)) if isinstance(hint.base, Ext) and hint.base.name.endswith("Literal") else hint.args
    return UNKNOWN


def _dict(ev: Evaluator, over: Any = None, **more: Any) -> Any:
    return UNKNOWN if over is not None and not isinstance(over, dict) else {**(over or {}), **more}


def _copied(ev: Evaluator, value: Any, deep: bool = True) -> Any:
    if isinstance(value, dict):
        return {k: _copied(ev, v) if deep else v for k, v in value.items()}
    if type(value) in (list, set):
        made = type(value)(value)
        if id(value) in ev.uncertain:
            ev.uncertain[id(made)] = made
        return made
    return value


def _number(kind: Any) -> Any:
    def made(ev: Evaluator, value: Any = 0) -> Any:
        if not isinstance(value, (str, int, float)) or (isinstance(value, str) and len(value) > 40):
            return UNKNOWN
        return kind(value)

    return made


def _getattr(ev: Evaluator, of: Any, name: Any, default: Any = UNKNOWN) -> Any:
    value = ev.attribute(of, name) if isinstance(name, str) else UNKNOWN
    return default if value is UNKNOWN and isinstance(of, Class) else value


def _type(ev: Evaluator, value: Any) -> Any:
    return NONE if value is None else UNKNOWN


def _told(ev: Evaluator, value: Any) -> Any:
    told = ev.truth(value)
    return UNKNOWN if told is None else told


def _every(ev: Evaluator, over: Any, want: bool) -> Any:
    parts = items(ev, over)
    tests = [None] if parts is None else [ev.truth(p) for p in parts]
    if (not want) in tests:
        return not want
    return UNKNOWN if None in tests else want


def _permutations(ev: Evaluator, over: Any, r: Any = None) -> Any:
    parts = items(ev, over)
    if parts is None or len(parts) > 6 or not isinstance(r, int):
        return UNKNOWN
    return list(itertools.permutations(parts, r))


_FUNCTIONS: dict[str, Any] = {
    "permutations": _permutations,
    "list": _list,
    "tuple": _of(tuple),
    "set": _of(set),
    "frozenset": _of(frozenset),
    "dict": _dict,
    "sorted": _sorted,
    "len": lambda ev, v: UNKNOWN if id(v) in ev.uncertain or type(v) not in PLAIN else len(v),
    "int": _number(int),
    "float": _number(float),
    "str": lambda ev, v="": str(v) if isinstance(v, (str, int, float)) else UNKNOWN,
    "bool": lambda ev, v=False: _told(ev, v),
    "range": lambda ev, *a: list(range(*a)) if len(range(*a)) <= SIZE else UNKNOWN,
    "enumerate": lambda ev, v: UNKNOWN if items(ev, v) is None else list(enumerate(items(ev, v) or ())),
    "zip": lambda ev, *a: (
        UNKNOWN if None in [items(ev, x) for x in a] else list(zip(*[items(ev, x) or () for x in a], strict=False))
    ),
    "any": lambda ev, v: _every(ev, v, False),
    "all": lambda ev, v: _every(ev, v, True),
    "getattr": _getattr,
    "type": _type,
    "print": lambda ev, *a, **k: None,
    "get_args": _args,
    "typing.cast": lambda ev, hint, value: value,
    "cast": lambda ev, hint, value: value,
    "deepcopy": lambda ev, v: _copied(ev, v),
    "copy": lambda ev, v: _copied(ev, v, False),
    "hasattr": lambda ev, of, name: UNKNOWN,
    "isinstance": lambda ev, *a: UNKNOWN,
    "callable": lambda ev, v: UNKNOWN,
}
