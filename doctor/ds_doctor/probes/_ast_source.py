"""The modules of an installed package as parsed source, found by their names; nothing of them is imported or run.

Everything is bounded: the size of a file, how many files and bytes are read in all. What could not be read is named.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from ..api import Absent, Host, Trouble

FILE_LIMIT = 2 << 20  # bytes; the longest file that declares flags (sglang 0.5.15 server_args.py) has 0.4 MB
FILES_LIMIT = 240
BYTES_LIMIT = 12 << 20  # of all files
LONG = 24  # lines; what a default or a list of choices comes from is shorter
# What a function says that has to do with arguments; the last is vLLM's get_kwargs, whose branches are looked at.
PARSES = re.compile(r"add_argument|add_cli_args|arg_parser|parse_args|cli_kwargs|type_hints")


class Bound(NamedTuple):
    """One statement of a module that gives a name its value or changes it. `guards`: the tests of the `if`s around it, with
    what they must be. `kind`: def, class, assign, import, from, change (`x += …`, `x.append(…)`)."""

    kind: str
    node: ast.AST
    guards: tuple[tuple[ast.expr, bool], ...]
    source: str = ""  # import, from: the module
    name: str = ""  # from: the name there


class Module:
    """One parsed file. `bindings`: what each name of its top level is, in source order."""

    def __init__(self, name: str, path: str, package: bool, text: str, tree: ast.Module) -> None:
        self.name = name
        self.path = path
        self.package = package
        self.text = text
        self.tree = tree
        self.bindings: dict[str, list[Bound]] = {}
        self.stars: list[str] = []
        _shorten(tree.body, text.splitlines())
        self._bind(tree.body, ())

    def _bind(self, body: list[ast.stmt], guards: tuple[tuple[ast.expr, bool], ...]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._add(node.name, Bound("def", node, guards))
            elif isinstance(node, ast.ClassDef):
                self._add(node.name, Bound("class", node, guards))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    for name in _names(target):
                        self._add(name, Bound("assign", node, guards))
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._add(node.target.id, Bound("change", node, guards))
            elif isinstance(node, ast.Expr):
                self._changed(node, guards)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, bound in imported(node, self.name, self.package, guards):
                    if name == "*":
                        self.stars.append(bound.source)
                    else:
                        self._add(name, bound)
            elif isinstance(node, ast.If):
                self._bind(node.body, (*guards, (node.test, True)))
                self._bind(node.orelse, (*guards, (node.test, False)))
            elif isinstance(node, ast.Try):
                known = set(self.bindings)
                self._bind([*node.body, *node.orelse, *node.finalbody], guards)
                for handler in node.handlers:  # what is bound only where an import failed
                    before = {n: len(b) for n, b in self.bindings.items()}
                    self._bind(handler.body, guards)
                    for n in set(self.bindings) - known:
                        if before.get(n):
                            del self.bindings[n][before[n] :]
            elif isinstance(node, ast.With):
                self._bind(node.body, guards)

    def _changed(self, node: ast.Expr, guards: tuple[tuple[ast.expr, bool], ...]) -> None:
        call = node.value
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
        ):
            self._add(call.func.value.id, Bound("change", node, guards))

    def _add(self, name: str, bound: Bound) -> None:
        self.bindings.setdefault(name, []).append(bound)


def _shorten(body: list[ast.stmt], lines: list[str]) -> None:
    """Long functions that deal with no parser are left unread, which halves the memory: they give UNKNOWN."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            _shorten(node.body, lines)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            said = lines[node.lineno - 1 : node.end_lineno]
            if len(said) > LONG and not any(map(PARSES.search, said)):
                node.body = [ast.Return(ast.Name("function too long to be followed", ast.Load()))]


def _names(target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, (ast.Tuple, ast.List)):
        for part in target.elts:
            yield from _names(part)


def imported(
    node: ast.Import | ast.ImportFrom, module: str, package: bool, guards: tuple[tuple[ast.expr, bool], ...] = ()
) -> Iterator[tuple[str, Bound]]:
    """The names that an import statement binds, in a module of that name."""
    if isinstance(node, ast.Import):
        for a in node.names:
            whole = a.name if a.asname else a.name.partition(".")[0]
            yield a.asname or whole, Bound("import", node, guards, whole)
        return
    base = module.split(".")
    if node.level:
        base = base[: len(base) - node.level + (1 if package else 0)]
    else:
        base = []
    source = ".".join([*base, *([node.module] if node.module else [])])
    for a in node.names:
        yield a.asname or a.name, Bound("from", node, guards, source, a.name)


class Sources:
    """The package's modules, each read and parsed when it is first asked for. `missed`: what could not be, in one line each."""

    def __init__(self, host: Host, folder: str) -> None:
        self.host = host
        self.folder = folder
        self.package = folder.rpartition("/")[2]
        self.missed: dict[str, None] = {}
        self.files = 0
        self.bytes = 0
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """None: there is none of that name in the package, or it cannot be read (then it is in `missed`)."""
        if name not in self._modules:
            self._modules[name] = self._load(name)
        return self._modules[name]

    def owns(self, name: str) -> bool:
        """Whether a dotted name lies in this package."""
        return name == self.package or name.startswith(self.package + ".")

    def read(self, path: str) -> bytes:
        """A file of the package. Trouble as of Host.read; Absent also beyond the limits."""
        if self.files >= FILES_LIMIT or self.bytes >= BYTES_LIMIT:
            self.miss("more files than an engine has")
            raise Absent("file-missing", path=path)
        data = self.host.read(path, FILE_LIMIT)
        self.files += 1
        self.bytes += len(data)
        return data

    def miss(self, what: str) -> None:
        """Note what was not understood, a few dozen times."""
        if len(self.missed) < 40:
            self.missed[what[:200]] = None

    def _load(self, name: str) -> Module | None:
        if not self.owns(name):
            return None
        inside = name[len(self.package) + 1 :].replace(".", "/")
        base = f"{self.folder}/{inside}" if inside else self.folder
        for path, package in ((f"{base}/__init__.py", True), (f"{base}.py", False)):
            if not inside and not package:
                break
            try:
                data = self.read(path)
                with (
                    warnings.catch_warnings()
                ):  # an invalid escape in somebody else's string is not our user's business
                    warnings.simplefilter("ignore")
                    tree = ast.parse(data)  # of bytes: a coding line is heeded
                return Module(name, path, package, data.decode("utf-8", "replace"), tree)
            except Absent:
                continue
            except Trouble as t:
                self.miss(f"{path}: {t.reason.id}")
                return None
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as e:
                self.miss(f"{path}: {type(e).__name__}")
                return None
        return None
