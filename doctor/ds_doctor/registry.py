"""What probes, checks and plugins are, and where they are found; it runs none of them."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from .host import Host
from .model import Findings, PluginError, Reason

GROUP = "ds_doctor.checks"
F = TypeVar("F", bound=Callable[..., Any])


class Probe(msgspec.Struct, frozen=True):
    """One source: asks the host and gives one fact of type `fact`."""

    name: str
    fact: type
    ask: Callable[[Host], Any]


class Want(msgspec.Struct, frozen=True):
    """One parameter of a check: the fact's type, and whether the check itself deals with its absence."""

    fact: type
    optional: bool


class Check(msgspec.Struct, frozen=True):
    """One check: its rules, the facts it wants in the order of its parameters, the function."""

    name: str
    family: str
    plugin: str
    rules: tuple[str, ...]
    wants: tuple[Want, ...]
    judge: Callable[..., Findings]


class Plugin(msgspec.Struct, frozen=True):
    """An installed distribution's checks, and where its rules.toml lies. `part`: only one family of the checks was loaded."""

    name: str
    checks: tuple[Check, ...]
    folder: str
    part: bool = False


def check(*rules: str) -> Callable[[F], F]:
    """Mark a pure function over facts as the check of these rules. Its parameters' annotations are the facts."""

    def mark(function: F) -> F:
        function.__ds_rules__ = rules  # type: ignore[attr-defined]
        return function

    return mark


def probe(function: F) -> F:
    """Mark a function `(Host) -> Fact` as the probe of the fact that its return annotation names.

    It stands in the module that defines the fact, or in the one that this module's PROBES names (a room without I/O):
    that is where the engine looks for it.
    """
    function.__ds_probe__ = True  # type: ignore[attr-defined]
    return function


def probe_of(fact: type) -> Probe:
    """The probe that gives `fact`. LookupError when the fact's module has none."""
    module = sys.modules[fact.__module__]
    elsewhere: str | None = getattr(module, "PROBES", None)
    if elsewhere is not None:
        module = importlib.import_module(elsewhere)
    for name, thing in vars(module).items():
        if getattr(thing, "__ds_probe__", False) and thing.__module__ == module.__name__:
            if _hints(thing).get("return") is fact:
                return Probe(name, fact, thing)
    raise LookupError(f"no probe in {fact.__module__} gives {fact.__name__}")


def fact_name(fact: type) -> str:
    """`KernelModule` -> `kernel_module`: the fact's name in snapshots and cases."""
    return "".join("_" + c.lower() if c.isupper() else c for c in fact.__name__).lstrip("_")


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a plain function's parameters; importing inspect for this costs 6 ms."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations as values; typing.get_type_hints takes ten times as long over them."""
    return {
        name: eval(hint, function.__globals__) if isinstance(hint, str) else hint
        for name, hint in function.__annotations__.items()
    }


def _want(annotation: Any, where: str) -> Want:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        args = [a for a in typing.get_args(annotation) if a is not type(None)]
        if len(args) == 1 and len(typing.get_args(annotation)) == 2:
            return Want(_fact(args[0], where), True)
    return Want(_fact(annotation, where), False)


def _fact(annotation: Any, where: str) -> type:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    raise TypeError(f"{where}: {annotation!r} is not a fact (a msgspec.Struct)")


def checks_in(module: types.ModuleType, plugin: str) -> Iterator[Check]:
    """The checks that a module defines itself, in the order of its text.

    Their family is the module's name, or its FAMILY where several modules share one subject.
    """
    family = getattr(module, "FAMILY", module.__name__.rpartition(".")[2].replace("_", "-"))
    for name, function in list(vars(module).items()):
        rules = getattr(function, "__ds_rules__", None)
        if rules is None or getattr(function, "__module__", None) != module.__name__:
            continue
        hints = _hints(function)
        wants = tuple(_want(hints[p], f"{module.__name__}.{name}({p})") for p in _parameters(function))
        yield Check(name, family, plugin, rules, wants, function)


def load_plugin(name: str, target: str, family: str | None = None) -> Plugin:
    """Import the package that an entry point names, and all its modules, or those of one family where the package says that they are called
    by it (BY_FAMILY). Whatever it raises is the caller's."""
    package = importlib.import_module(target)
    modules = [package]
    part = family is not None and getattr(package, "BY_FAMILY", False)
    for name_ in _modules_of(package):
        if not part or f"{name_}_".startswith(f"{family}_"):
            modules.append(importlib.import_module(f"{target}.{name_}"))
    checks = tuple(c for m in modules for c in checks_in(m, name))
    file = package.__file__ or ""
    return Plugin(name, checks, os.path.dirname(file), part)


def warm(plugins: Iterable[Plugin], engine: str) -> None:
    """Import what the checks of an engine's launch command import when they run, while the probes wait for other processes: a
    package's AHEAD names those modules by engine. What cannot be imported is left to the check that wants it."""
    for plugin in plugins:
        package = plugin.checks[0].judge.__module__.rpartition(".")[0] if plugin.checks else ""
        for name in getattr(sys.modules.get(package), "AHEAD", {}).get(engine, ()):
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{package}.{name}")


def _modules_of(package: types.ModuleType) -> list[str]:
    """The public modules of a package, by name; pkgutil would import inspect for this, which takes 4 ms."""
    names = set()
    for folder in getattr(package, "__path__", ()):
        for entry in os.scandir(folder):
            name, dot, ending = entry.name.partition(".")
            if ending == "py" or (not dot and os.path.exists(entry.path + "/__init__.py")):
                names.add(name)
    return sorted(n for n in names if n.isidentifier() and not n.startswith("_"))


def load_plugins(family: str | None = None) -> tuple[list[Plugin], list[PluginError]]:
    """All installed plugins, our own first; of those that allow it, one family only. One that cannot be imported becomes a PluginError."""
    plugins: list[Plugin] = []
    errors: list[PluginError] = []
    for name, target in entry_points():
        try:
            plugins.append(load_plugin(name, target, family))
        except (Exception, SystemExit) as e:  # noqa: BLE001 - a stranger's module may raise anything; it costs its own checks only
            reason = Reason("plugin-import-failed", {"plugin": name, "error": one_line(e)})
            errors.append(PluginError(name, reason))
    return plugins, errors


def one_line(e: BaseException) -> str:
    """An exception as one line of at most 200 characters."""
    text = " ".join(f"{type(e).__name__}: {e}".split())
    return text if len(text) <= 200 else text[:199] + "…"


def entry_points() -> list[tuple[str, str]]:
    """(name, module) of every entry point of the group on sys.path, our own first, then by name.

    Reads `*.dist-info/entry_points.txt` itself: importing importlib.metadata costs more than the whole of it.
    """
    seen: set[tuple[str, str]] = set()
    for folder in sys.path:
        try:
            entries = sorted(e.path for e in os.scandir(folder or ".") if e.name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for path in entries:
            try:
                with open(path + "/entry_points.txt", encoding="utf-8", errors="replace") as f:
                    text = f.read(1 << 20)
            except OSError:
                continue
            if GROUP in text:
                seen.update(_group(text))
    return sorted(seen, key=lambda p: (p[1] != "ds_doctor_checks", p[0]))


def _group(text: str) -> Iterator[tuple[str, str]]:
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, target = line.partition("=")
            yield name.strip(), target.partition("[")[0].partition(":")[0].strip()
