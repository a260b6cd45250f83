"""Evaluates expressions and function bodies of somebody's source by reading them: names, literals, calls of known meaning.

Nothing is imported or run. What reading does not tell is UNKNOWN and stays so through everything that depends on it; code behind
a test that cannot be told is followed on both ways, and what it adds counts as uncertain. Steps, depth and sizes are bounded.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from typing import Any

from . import _ast_calls as calls
from ._ast_source import Bound, Module, Sources, imported
from ._ast_values import NONE, UNION, UNKNOWN, Class, Ext, Field, Function, Made, Member, Method, Package, Scope, Sub

STEPS = 600_000  # nodes; the largest table (vllm 0.33.0) takes about 60,000
DEPTH = 40
TOLD = frozenset(("help", "description", "metavar", "epilog", "usage"))  # texts for people: not looked at
Hook = Callable[["Evaluator", list[Any], dict[str, Any]], Any]


class Spent(Exception):
    """The source asks for more than it may."""


class Stop(Exception):
    """The code has come to where its parser is used: all its arguments are known."""


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class _Continue(Exception):
    pass


class _Break(Exception):
    pass


class Evaluator:
    """`hooks`: what a call of a function of that name gives instead of what its body says; `outside`: what names outside the
    package stand for. `maybe`: whether the code being followed stands behind a test that cannot be told."""

    def __init__(self, sources: Sources, hooks: dict[str, Hook], outside: dict[str, Any], seconds: float = 4.0) -> None:
        self.sources = sources
        self.hooks = hooks
        self.outside = outside
        self.maybe = 0
        self.uncertain: dict[int, Any] = {}  # containers that were changed behind such a test, by id
        self._steps = 0
        self._depth = 0
        self._until = time.monotonic() + seconds
        self._names: dict[tuple[str, str], Any] = {}
        self._inside: dict[Class, Scope] = {}

    # -- names -------------------------------------------------------------------------------------------------

    def name(self, module: str, name: str) -> Any:
        """What a name of a module's top level stands for."""
        key = (module, name)
        if key not in self._names:
            self._names[key] = UNKNOWN  # where it depends on itself
            self._names[key] = self._module_name(module, name)
        return self._names[key]

    def _module_name(self, module: str, name: str) -> Any:
        known = self.outside.get(f"{module}.{name}")
        if known is not None:
            return known
        found = self.sources.module(module)
        if found is None:
            return UNKNOWN if self.sources.owns(module) else Ext(f"{module}.{name}")
        value: Any = None
        bound = False
        for b in found.bindings.get(name, ()):
            sure = self._guarded(b, found)
            if sure is False:
                continue
            if b.kind == "change":
                if bound:
                    self._change(b, value, found, sure is None, name)
                    if isinstance(b.node, ast.AugAssign):
                        value = self._names[(module, name)]
                continue
            if bound and sure is None:
                value = UNKNOWN
                continue
            value, bound = self._bound(b, name, found), True
            self._names[(module, name)] = value
        if bound:
            return value
        for star in found.stars:
            value = self.name(star, name) if self.sources.owns(star) else UNKNOWN
            if value is not UNKNOWN:
                return value
        if found.package and self.sources.module(f"{module}.{name}") is not None:
            return Package(f"{module}.{name}")
        return UNKNOWN

    def _guarded(self, b: Bound, module: Module) -> bool | None:
        sure: bool | None = True
        for test, must in b.guards:
            told = self.truth(self.eval(test, Scope(module)))
            if told is None:
                sure = None
            elif told != must:
                return False
        return sure

    def _change(self, b: Bound, value: Any, module: Module, maybe: bool, name: str) -> None:
        self.maybe += maybe
        try:
            scope = Scope(module)
            scope.names[name] = value
            self.run([b.node], scope)  # type: ignore[list-item]
            self._names[(module.name, name)] = scope.names[name]
        finally:
            self.maybe -= maybe

    def _bound(self, b: Bound, name: str, module: Module) -> Any:
        scope = Scope(module)
        node = b.node
        if b.kind == "class":
            return Class(node, scope)  # type: ignore[arg-type]
        if b.kind == "def":
            return Function(node, scope)  # type: ignore[arg-type]
        if b.kind in ("import", "from"):
            return self._imported(b)
        if isinstance(node, ast.AnnAssign):
            return UNKNOWN if node.value is None else self.eval(node.value, scope)
        assert isinstance(node, ast.Assign)
        value = self.eval(node.value, scope)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self._assign(target, value, scope)
        return scope.names.get(name, value)

    def _imported(self, b: Bound) -> Any:
        if b.kind == "import":
            if b.source in self.outside:
                return self.outside[b.source]
            return Package(b.source) if self.sources.owns(b.source) else Ext(b.source)
        return self.name(b.source, b.name) if self.sources.owns(b.source) else self._ext(f"{b.source}.{b.name}")

    def _ext(self, name: str) -> Any:
        name = name.removeprefix("builtins.")
        return self.outside.get(name, Ext(name))

    # -- expressions -------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr, scope: Scope) -> Any:
        """The value of an expression; UNKNOWN where it cannot be told. Spent when the source asks for too much."""
        self._steps += 1
        if self._steps > STEPS or (self._steps & 1023 == 0 and time.monotonic() > self._until):
            raise Spent
        return _EVAL.get(type(node), _unknown)(self, node, scope)

    def truth(self, value: Any) -> bool | None:
        """None: it cannot be told."""
        if value is UNKNOWN or isinstance(value, (Made, Sub)) or id(value) in self.uncertain:
            return None
        if isinstance(value, (Class, Function, Package, Member)):
            return True
        if isinstance(value, Ext):
            return None
        return bool(value)

    def _display(self, nodes: list[ast.expr], scope: Scope) -> list[Any] | None:
        made: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                part = calls.items(self, self.eval(n.value, scope))
                if part is None:
                    return None
                made += part
            else:
                made.append(self.eval(n, scope))
        return made

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name`."""
        if isinstance(value, Package):
            return self.name(value.name, name)
        if isinstance(value, Ext):
            return self._ext(f"{value.name}.{name}")
        if isinstance(value, Member):
            return {"name": value.name, "value": value.value}.get(name, UNKNOWN)
        if isinstance(value, Class):
            return self.member(value, name, value)
        if isinstance(value, Made) and isinstance(value.of, Class):
            return value.kwargs[name] if name in value.kwargs else self.member(value.of, name, value)
        if isinstance(value, calls.Super):
            return self.member(value.of, name, value.bound, after=value.owner)
        if type(value) in calls.PLAIN or hasattr(value, "call_method"):
            return Method(value, name)
        return UNKNOWN

    def lineage(self, of: Class, depth: int = 0) -> list[Class]:
        """The class and its bases within the package, nearest first."""
        found = [of]
        for base in of.node.bases if depth < 12 else []:
            value = self.eval(base, of.scope)
            if isinstance(value, Class):
                found += [c for c in self.lineage(value, depth + 1) if c not in found]
        return found

    def bases(self, of: Class) -> set[str]:
        """The names outside the package that a class derives from."""
        values = [self.eval(b, c.scope) for c in self.lineage(of) for b in c.node.bases]
        values = [v.base if isinstance(v, Sub) else v for v in values]
        return {v.name.rpartition(".")[2] for v in values if isinstance(v, Ext)}

    def member(self, of: Class, name: str, bound: Any, after: Class | None = None) -> Any:
        """A class attribute: a method bound as its decorator says, a member of an enumeration, a field's default."""
        if name == "__name__":
            return of.name
        if name == "__doc__":
            return ""
        line = self.lineage(of)
        if after is not None:
            line = line[line.index(after) + 1 :] if after in line else []
        for c in line:
            for node in reversed(c.node.body):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return self._method(node, c, of, bound)
                target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
                if isinstance(target, ast.Name) and target.id == name and isinstance(node, (ast.Assign, ast.AnnAssign)):
                    if node.value is None:
                        break
                    value = calls.default_of(self, self.eval(node.value, self.inside(c)))
                    return Member(c, name, value) if self.enumeration(c) else value
        return UNKNOWN

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: Class, of: Class, bound: Any) -> Any:
        kinds = {ast.unparse(d) for d in node.decorator_list}
        if "staticmethod" in kinds:
            return Function(node, owner.scope, owner)
        if "classmethod" in kinds:
            return Function(node, owner.scope, owner, (bound.of if isinstance(bound, Made) else bound,))
        if kinds:
            return UNKNOWN  # a property, or wrapped in what nobody followed
        return Function(node, owner.scope, owner, (bound,) if isinstance(bound, Made) else ())

    def inside(self, of: Class) -> Scope:
        """The names that a class body sees: earlier ones of its own, then those around it."""
        if of not in self._inside:
            scope = Scope(of.scope.module, of.scope, of)
            scope.names = calls.ClassNames(self, of, scope)
            self._inside[of] = scope
        return self._inside[of]

    def enumeration(self, of: Class) -> bool:
        """Whether a class is an Enum."""
        return bool(self.bases(of) & {"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag", "EnumMeta"})

    def members(self, of: Class) -> list[Member]:
        """The members of an enumeration, in order."""
        found = []
        for node in of.node.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if not name.startswith("_"):
                    found.append(self.member(of, name, of))
        return [m for m in found if isinstance(m, Member)]

    def fields(self, of: Class) -> list[Field]:
        """The fields of a dataclass, in their order."""
        found: dict[str, Field] = {}
        for c in reversed(self.lineage(of)):
            for node in c.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    kind = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
                    kind = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
                    if kind not in ("ClassVar", "InitVar"):
                        found[node.target.id] = Field(node.target.id, node.annotation, node.value, self.inside(c))
        return list(found.values())

    def hint(self, field: Field) -> Any:
        """The type of a field."""
        return calls.forward(self, self.eval(field.hint, field.scope), field.scope)

    # -- calls and bodies --------------------------------------------------------------------------------------

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], where: str) -> Any:
        """What a call gives. Stop where a parser is used."""
        if isinstance(function, Function):
            hook = self.hooks.get(function.name)
            if hook is not None:
                return hook(self, [*function.bound, *args], kwargs)
            return self.body(function, [*function.bound, *args], kwargs)
        made = calls.call(self, function, args, kwargs)
        if made is UNKNOWN and any(hasattr(a, "call_method") for a in [*args, *kwargs.values()]):
            self.sources.miss(f"{where}: a call that adds arguments of its own")
        return made

    def body(self, function: Function, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a function of the package returns."""
        if self._depth >= DEPTH or isinstance(function.node, ast.AsyncFunctionDef):
            return UNKNOWN
        scope = Scope(function.scope.module, function.scope, function.owner)
        scope.names.update(calls.parameters(self, function, args, kwargs))
        self._depth += 1
        held = len(calls.returns(self))
        try:
            if isinstance(function.node, ast.Lambda):
                return self.eval(function.node.body, scope)
            self.run(function.node.body, scope)
            value = None
        except _Return as r:
            value = r.value
        finally:
            self._depth -= 1
            maybe = calls.returns(self)[held:]
            del calls.returns(self)[held:]
        return value if all(m is value for m in maybe) else UNKNOWN

    def run(self, body: list[ast.stmt], scope: Scope) -> None:
        """Follow statements."""
        for node in body:
            self._steps += 1
            _RUN.get(type(node), _nothing)(self, node, scope)

    def _assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            if self.maybe and target.id in scope.names and scope.names[target.id] is not value:
                value = UNKNOWN
            scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = calls.items(self, value)
            whole = parts is not None and len(parts) == len(target.elts)
            for i, t in enumerate(target.elts):
                self._assign(t, parts[i] if whole and parts is not None else UNKNOWN, scope)
        elif isinstance(target, ast.Subscript):
            of = self.eval(target.value, scope)
            key = self.eval(target.slice, scope)
            calls.put(self, of, key, value)


def _unknown(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    return UNKNOWN


def _nothing(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    return None


def _name(ev: Evaluator, node: ast.Name, scope: Scope) -> Any:
    held, value = scope.find(node.id)
    if held:
        return value
    if node.id in scope.module.bindings or scope.module.stars:
        value = ev.name(scope.module.name, node.id)
        if value is not UNKNOWN or node.id in scope.module.bindings:
            return value
    return Ext(node.id) if node.id in calls.BUILTINS else UNKNOWN


def _call(ev: Evaluator, node: ast.Call, scope: Scope) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.owner is not None and not node.args:
        return calls.super_of(scope)
    function = ev.eval(node.func, scope)
    args = ev._display(node.args, scope)
    kwargs: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg in TOLD:
            kwargs[k.arg] = ""
            continue
        value = ev.eval(k.value, scope)
        if k.arg is not None:
            kwargs[k.arg] = value
        elif isinstance(value, dict) and all(isinstance(n, str) for n in value):
            kwargs.update(value)
        else:
            kwargs["**"] = UNKNOWN
    where = f"{scope.module.path}:{node.lineno}"
    if args is None:
        kwargs["*"] = UNKNOWN
    return ev.call(function, args or [], kwargs, where)


def _dict(ev: Evaluator, node: ast.Dict, scope: Scope) -> Any:
    made: dict[Any, Any] = {}
    for k, v in zip(node.keys, node.values, strict=True):
        if k is None:
            part = ev.eval(v, scope)
            if not isinstance(part, dict):
                return UNKNOWN
            made.update(part)
            continue
        key = ev.eval(k, scope)
        if not calls.key(key):
            return UNKNOWN
        # A registry's values are classes of other modules: those need not be read to know its names.
        lazy = isinstance(v, (ast.Name, ast.Attribute)) and len(node.keys) > 8
        made[key] = UNKNOWN if lazy else ev.eval(v, scope)
    return made


def _subscript(ev: Evaluator, node: ast.Subscript, scope: Scope) -> Any:
    of = ev.eval(node.value, scope)
    if isinstance(of, (Ext, Class)) or isinstance(of, Sub):
        if isinstance(of, Class) and ev.enumeration(of):
            return ev.member(of, str(ev.eval(node.slice, scope)), of)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return Sub(of, tuple(ev._display(parts, scope) or ()))
    if isinstance(node.slice, ast.Slice):
        return calls.sliced(ev, of, node.slice, scope)
    return calls.got(of, ev.eval(node.slice, scope))


def _ifexp(ev: Evaluator, node: ast.IfExp, scope: Scope) -> Any:
    told = ev.truth(ev.eval(node.test, scope))
    if told is None:
        return UNKNOWN
    return ev.eval(node.body if told else node.orelse, scope)


def _boolop(ev: Evaluator, node: ast.BoolOp, scope: Scope) -> Any:
    stops = isinstance(node.op, ast.Or)
    value: Any = UNKNOWN
    open_ = False
    for part in node.values:
        value = ev.eval(part, scope)
        told = ev.truth(value)
        if told is None:
            open_ = True
        elif told is stops:
            return UNKNOWN if open_ and not isinstance(value, bool) else value
    return UNKNOWN if open_ else value


def _unary(ev: Evaluator, node: ast.UnaryOp, scope: Scope) -> Any:
    value = ev.eval(node.operand, scope)
    if isinstance(node.op, ast.Not):
        told = ev.truth(value)
        return UNKNOWN if told is None else not told
    if isinstance(value, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -value if isinstance(node.op, ast.USub) else value
    return UNKNOWN


def _binop(ev: Evaluator, node: ast.BinOp, scope: Scope) -> Any:
    # Texts that are put together from hundreds of pieces nest as deep.
    left, right = ev.eval(node.left, scope), ev.eval(node.right, scope)
    if isinstance(node.op, ast.BitOr) and not (isinstance(left, (set, dict, int)) and isinstance(right, type(left))):
        if UNKNOWN in (left, right) and isinstance(left, (set, dict)):
            return UNKNOWN
        return Sub(UNION, (left, NONE if right is None else right))
    return calls.binary(ev, node.op, left, right)


def _joined(ev: Evaluator, node: ast.JoinedStr, scope: Scope) -> Any:
    made = ""
    for part in node.values:
        value = ev.eval(part.value if isinstance(part, ast.FormattedValue) else part, scope)
        if isinstance(value, Member):
            value = value.value
        if not isinstance(value, (str, int, float)) or len(made) > 10_000:
            return UNKNOWN
        made += str(value)
    return made


def _comprehension(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    assert isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp))
    made: list[Any] = []
    inner = Scope(scope.module, scope, scope.owner)
    generators = node.generators

    def one(depth: int) -> bool:
        if depth == len(generators):
            if isinstance(node, ast.DictComp):
                made.append((ev.eval(node.key, inner), ev.eval(node.value, inner)))
            else:
                made.append(ev.eval(node.elt, inner))
            return True
        g = generators[depth]
        over = calls.items(ev, ev.eval(g.iter, inner))
        if over is None:
            return False
        for item in over:
            ev._assign(g.target, item, inner)
            tests = [ev.truth(ev.eval(t, inner)) for t in g.ifs]
            if None in tests:
                return False
            if all(tests) and not one(depth + 1):
                return False
        return True

    if not one(0):
        return UNKNOWN
    if isinstance(node, ast.DictComp):
        return dict(made) if all(calls.key(k) for k, _ in made) else UNKNOWN
    if isinstance(node, ast.SetComp):
        return set(made) if all(map(calls.key, made)) else UNKNOWN
    return made


def _if(ev: Evaluator, node: ast.If, scope: Scope) -> None:
    told = ev.truth(ev.eval(node.test, scope))
    if told is not None:
        ev.run(node.body if told else node.orelse, scope)
        return
    ev.maybe += 1
    try:
        for body in (node.body, node.orelse):
            try:
                ev.run(body, scope)
            except _Return as r:
                calls.returns(ev).append(r.value)
            except (_Break, _Continue):
                pass
    finally:
        ev.maybe -= 1


def _for(ev: Evaluator, node: ast.For, scope: Scope) -> None:
    over = calls.items(ev, ev.eval(node.iter, scope))
    if over is None:
        if _adds(node):
            ev.sources.miss(f"{scope.module.path}:{node.lineno}: a loop over what is not told")
        return
    for item in over:
        ev._assign(node.target, item, scope)
        try:
            ev.run(node.body, scope)
        except _Continue:
            continue
        except _Break:
            break


def _adds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "add_argument" for n in ast.walk(node))


def _while(ev: Evaluator, node: ast.While, scope: Scope) -> None:
    if _adds(node):
        ev.sources.miss(f"{scope.module.path}:{node.lineno}: a loop without a known end")


def _try(ev: Evaluator, node: ast.Try, scope: Scope) -> None:
    ev.run([*node.body, *node.orelse, *node.finalbody], scope)


def _augmented(ev: Evaluator, node: ast.AugAssign, scope: Scope) -> None:
    right = ev.eval(node.value, scope)
    left = ev.eval(node.target, scope)  # type: ignore[arg-type]
    if isinstance(left, list) and isinstance(node.op, ast.Add):
        calls.method(ev, left, "extend", [right], {})
        return
    value = calls.binary(ev, node.op, left, right)
    ev._assign(node.target, value, scope)


def _import(ev: Evaluator, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for name, bound in imported(node, scope.module.name, scope.module.package):
        scope.names[name] = ev._imported(bound)


def _raise(ev: Evaluator, node: ast.Raise, scope: Scope) -> None:
    if not ev.maybe:
        raise _Return(UNKNOWN)


def _delete(ev: Evaluator, node: ast.Delete, scope: Scope) -> None:
    for t in node.targets:
        if isinstance(t, ast.Subscript):
            calls.method(ev, ev.eval(t.value, scope), "pop", [ev.eval(t.slice, scope), None], {})


def _assigned(ev: Evaluator, node: ast.Assign, scope: Scope) -> None:
    value = ev.eval(node.value, scope)
    for t in node.targets:
        ev._assign(t, value, scope)


def _annotated(ev: Evaluator, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        ev._assign(node.target, ev.eval(node.value, scope), scope)


def _return(ev: Evaluator, node: ast.Return, scope: Scope) -> None:
    raise _Return(None if node.value is None else ev.eval(node.value, scope))


def _break(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    if not ev.maybe:
        raise _Break


def _continue(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    raise _Continue


def _define(ev: Evaluator, node: ast.FunctionDef, scope: Scope) -> None:
    scope.names[node.name] = Function(node, scope, scope.owner)


def _walrus(ev: Evaluator, node: ast.NamedExpr, scope: Scope) -> Any:
    value = ev.eval(node.value, scope)
    ev._assign(node.target, value, scope)
    return value


_EVAL: dict[type, Any] = {
    ast.Constant: lambda ev, n, s: n.value,
    ast.Name: _name,
    ast.Attribute: lambda ev, n, s: ev.attribute(ev.eval(n.value, s), n.attr),
    ast.Call: _call,
    ast.List: lambda ev, n, s: calls.displayed(ev, ev._display(n.elts, s), list),
    ast.Tuple: lambda ev, n, s: calls.displayed(ev, ev._display(n.elts, s), tuple),
    ast.Set: lambda ev, n, s: calls.displayed(ev, ev._display(n.elts, s), set),
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.IfExp: _ifexp,
    ast.BoolOp: _boolop,
    ast.UnaryOp: _unary,
    ast.BinOp: _binop,
    ast.Compare: lambda ev, n, s: calls.compared(ev, n, s),
    ast.JoinedStr: _joined,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: lambda ev, n, s: Function(n, s, s.owner),
    ast.NamedExpr: _walrus,
}
_RUN: dict[type, Any] = {
    ast.Expr: lambda ev, n, s: ev.eval(n.value, s),
    ast.Assign: _assigned,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Try: _try,
    ast.With: lambda ev, n, s: ev.run(n.body, s),
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _define,
    ast.Break: _break,
    ast.Continue: _continue,
}
