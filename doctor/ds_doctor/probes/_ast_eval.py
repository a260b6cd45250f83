"""Evaluates expressions and function bodies of somebody's source by reading them: names, literals, calls of known meaning.

Nothing is imported or run. What reading does not tell is UNKNOWN and stays so through everything that depends on it; code behind
a test that cannot be told is followed on both ways, and what it adds counts as uncertain. Steps, depth and sizes are bounded.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import _ast_calls as calls
from . import _ast_nodes as nodes
from . import _ast_plain as plain
from ._ast_source import Bound, Module, Sources
from ._ast_values import UNKNOWN, Class, Ext, Field, Function, Made, Member, Method, Package, Return, Scope, Spent, Sub

STEPS = 600_000  # nodes; the largest table (vllm 0.33.0) takes about 12,000
DEPTH = 40

Hook = Callable[["Evaluator", list[Any], dict[str, Any]], Any]


class Evaluator:
    """`hooks`: what a call of a function of that name gives instead of what its body says; `outside`: what names outside the
    package stand for. `maybe`: whether the code being followed stands behind a test that cannot be told."""

    def __init__(
        self, sources: Sources, hooks: Mapping[str, Hook], outside: Mapping[str, Any], seconds: float = 4.0
    ) -> None:
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
            value, bound = self.bound(b, name, found), True
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

    def bound(self, b: Bound, name: str, module: Module) -> Any:
        """What one statement gives a name."""
        scope = Scope(module)
        node = b.node
        if b.kind == "class":
            return Class(node, scope)  # type: ignore[arg-type]
        if b.kind == "def":
            return Function(node, scope)  # type: ignore[arg-type]
        if b.kind in ("import", "from"):
            return self.imported(b)
        if isinstance(node, ast.AnnAssign):
            return UNKNOWN if node.value is None else self.eval(node.value, scope)
        assert isinstance(node, ast.Assign)
        value = self.eval(node.value, scope)
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.assign(target, value, scope)
        return scope.names.get(name, value)

    def imported(self, b: Bound) -> Any:
        """What an import gives a name."""
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
        return nodes.EVAL.get(type(node), nodes.unknown)(self, node, scope)

    def truth(self, value: Any) -> bool | None:
        """None: it cannot be told."""
        if value is UNKNOWN or isinstance(value, (Made, Sub)) or id(value) in self.uncertain:
            return None
        if isinstance(value, (Class, Function, Package, Member)):
            return True
        if isinstance(value, Ext):
            return None
        return bool(value)

    def display(self, parts: list[ast.expr], scope: Scope) -> list[Any] | None:
        """The items of a display; None where a starred one is not told."""
        made: list[Any] = []
        for n in parts:
            if isinstance(n, ast.Starred):
                part = plain.items(self, self.eval(n.value, scope))
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
        if type(value) in plain.PLAIN or hasattr(value, "call_method"):
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
                    said = node.annotation.value if isinstance(node.annotation, ast.Subscript) else node.annotation
                    if getattr(said, "attr", getattr(said, "id", "")) not in ("ClassVar", "InitVar"):
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
        except Return as r:
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
            nodes.RUN.get(type(node), nodes.nothing)(self, node, scope)

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """`target = value`."""
        if isinstance(target, ast.Name):
            if self.maybe and target.id in scope.names and scope.names[target.id] is not value:
                value = UNKNOWN
            scope.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = plain.items(self, value)
            whole = parts is not None and len(parts) == len(target.elts)
            for i, t in enumerate(target.elts):
                self.assign(t, parts[i] if whole and parts is not None else UNKNOWN, scope)
        elif isinstance(target, ast.Subscript):
            of = self.eval(target.value, scope)
            key = self.eval(target.slice, scope)
            plain.put(self, of, key, value)
