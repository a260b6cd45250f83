"""The flags of an installed SGLang, read from its source: what `prepare_server_args` adds to its parser.

sglang 0.4 to 0.5.23: sglang/srt/server_args.py; since 0.5.11 most flags are fields of classes, annotated with `A[type, Arg(…)]`
(sglang/srt/arg_groups/arg_utils.py add_cli_args_from_dataclass), since 0.5.20 of the classes in sglang/srt/arg_groups/fields/.
"""

from __future__ import annotations

from typing import Any

from ..api import Host
from . import _ast_calls as calls
from ._argparse_flags import Parser
from ._ast_eval import Evaluator
from ._ast_source import Sources
from ._ast_values import UNKNOWN, Class, Ext, Field, Function, Made, Spent, Stop, Sub, is_hint, literals
from ._engine_table import SPENT, Read, merged

SERVE, MODULE = "sglang serve", "sglang.launch_server"
ARGUMENTS = "sglang.srt.server_args"
_OUTSIDE: dict[str, Any] = {
    "sys.argv": ["sglang"],
    "sys.modules": {},
    "argparse.SUPPRESS": "==SUPPRESS==",
    "typing.TYPE_CHECKING": False,
    "sglang.srt.environ.envs": Ext("sglang-environment"),
}
_TOPICS = {
    "tool-call-parser": "--tool-call-parser",
    "reasoning-parser": "--reasoning-parser",
    "quantization": "--quantization",
    "kv-cache-dtype": "--kv-cache-dtype",
    "load-format": "--load-format",
    "attention-backend": "--attention-backend",
    "speculative-method": "--speculative-algorithm",
    "tokenizer-mode": "--tokenizer-mode",
}


def flags(host: Host, folder: str) -> Read:
    """The table of the package in a folder."""
    sources = Sources(host, folder)
    parsers: list[Parser] = []
    ev = Evaluator(sources, _hooks(parsers), _OUTSIDE, min(4.0, sources.host.time_left_s() / 2))
    try:
        prepare = ev.name(ARGUMENTS, "prepare_server_args")
        if not isinstance(prepare, Function):
            sources.miss("prepare_server_args")
        else:
            ev.call(prepare, [[]], {}, prepare.scope.module.path)
            sources.miss("prepare_server_args uses no parser")
    except Stop:
        pass
    except (Spent, RecursionError, MemoryError):
        sources.miss(SPENT)
    entries = [MODULE]
    if sources.module("sglang.cli.serve") is not None:
        entries.insert(0, SERVE)
    parser = parsers[0] if parsers else Parser()
    found = parser.flags if parsers else []
    ways = ["config-file"] if any("--config" in f.names for f in found) else []
    if not parser.abbreviates:
        ways.append("no-abbreviations")
    names = {}
    for topic, flag in _TOPICS.items():
        one = next((f for f in found if flag in f.names), None)
        if one is not None and one.choices is not None and "choices" not in one.unsure:
            names[topic] = tuple(str(c) for c in one.choices if c is not None)
    return Read(
        merged({e: found for e in entries} if found else {}),
        tuple(ways),
        tuple(entries),
        names,
        tuple(t for t in _TOPICS if t not in names),
        tuple(sources.missed),
    )


def _hooks(parsers: list[Parser]) -> dict[str, Any]:
    def parser(ev: Evaluator, args: list[Any], named: dict[str, Any]) -> Any:
        made = Parser(help_=named.get("add_help") is not False)
        made.abbreviates = named.get("allow_abbrev") is not False
        parsers.append(made)
        return made

    return {
        "ArgumentParser": parser,
        "add_cli_args_from_dataclass": _from_class,
        "_declared_default": _declared,
        "defstruct": _own,
    }


def _own(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """ServerArgs made anew of its own class and of the fields: its methods are still the class's."""
    module = ev.sources.module(ARGUMENTS)
    bound = [] if module is None or not args else module.bindings.get(str(args[0]), [])
    classes = [b for b in bound if b.kind == "class"]
    return ev.bound(classes[0], str(args[0]), module) if classes and module is not None else UNKNOWN


def _server_args(ev: Evaluator) -> tuple[list[Field], list[Class]]:
    """(the fields of ServerArgs in their order, the classes that declare them)."""
    module = ev.sources.module(ARGUMENTS)
    bound = [] if module is None else [b for b in module.bindings.get("ServerArgs", ()) if b.kind == "class"]
    own = [ev.bound(b, "ServerArgs", module) for b in bound if module is not None]
    parts = ev.name(ARGUMENTS, "_INPUT_NAMESPACES")
    classes = [c for c in parts if isinstance(c, Class)] if isinstance(parts, list) else []
    if isinstance(parts, list) and len(classes) < len(parts):
        ev.sources.miss("a class of ServerArgs' fields")
    found = {f.name: f for c in [*classes, *own] for f in ev.fields(c)}
    order = ev.name("sglang.srt.arg_groups.field_order", "POSITIONAL_FIELD_ORDER") if classes else ()
    first = [n for n in order if n in found] if isinstance(order, (tuple, list)) else []
    return [found[n] for n in dict.fromkeys([*first, *found])], [*own, *classes]


def _declared(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    for f in _server_args(ev)[0]:
        if args and f.name == args[0]:
            return None if f.default is None else calls.default_of(ev, ev.eval(f.default, f.scope))
    return UNKNOWN


def _from_class(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """add_cli_args_from_dataclass(parser, cls): an argument for every field whose annotation says so."""
    parser = args[0] if args else None
    if not isinstance(parser, Parser) or "fields" in kwargs or len(args) < 2:
        ev.sources.miss("arguments from a class that is not told")
        return UNKNOWN
    if isinstance(args[1], Class) and args[1].name != "ServerArgs":
        fields = ev.fields(args[1])
    else:
        fields = _server_args(ev)[0]
    for f in fields:
        hint = ev.hint(f)
        if hint is UNKNOWN:
            ev.sources.miss(f"the field {f.name}")
            continue
        inner, said = _annotated(hint)
        if said is not None and said.get("no_cli") is not True:
            _argument(ev, parser, f, inner, said)
    return UNKNOWN


def _annotated(hint: Any) -> tuple[Any, dict[str, Any] | None]:
    """(the type, what `Arg(…)` says; a bare text is its help)."""
    if not (isinstance(hint, Sub) and is_hint(hint, "Annotated")):
        return hint, None
    for a in hint.args[1:]:
        if isinstance(a, Made) and isinstance(a.of, Class) and a.of.name == "Arg":
            return hint.args[0], {**({"help": a.args[0]} if a.args else {}), **a.kwargs}
        if isinstance(a, str):
            return hint.args[0], {}
    return hint.args[0], None


def _argument(ev: Evaluator, parser: Parser, f: Field, hint: Any, said: dict[str, Any]) -> None:
    named = said.get("cli_name") or "--" + f.name.replace("_", "-")
    aliases = said.get("aliases") or []
    names = [named, *aliases] if isinstance(aliases, list) else [UNKNOWN]
    kwargs: dict[str, Any] = {}
    if not isinstance(named, str) or named.lstrip("-").replace("-", "_") != f.name:
        kwargs["dest"] = f.name
    if f.default is not None:
        kwargs["default"] = calls.default_of(ev, ev.eval(f.default, f.scope))
    if said.get("action") is not None:
        more = said.get("action_kwargs") or {}
        parser.add(
            ev, names, {**kwargs, "action": said["action"], **(more if isinstance(more, dict) else {"**": UNKNOWN})}
        )
        return
    if said.get("const") is not None:
        kwargs["const"] = said["const"]
    inner = _without_none(hint)
    own = said.get("type_parser")
    if isinstance(inner, Sub) and is_hint(inner, "Literal"):
        values = literals(inner)
        kind = Ext(type(values[0]).__name__) if values and values[0] is not UNKNOWN else UNKNOWN
        kwargs.update(type=own or _converter(kind), choices=said.get("choices") or values)
    elif is_hint(inner, "list") and own is None:
        element = inner.args[0] if isinstance(inner, Sub) and inner.args else Ext("str")
        kwargs.update(type=_converter(element), nargs=said.get("nargs") or "+")
        if said.get("choices"):
            kwargs["choices"] = said["choices"]
    elif inner == Ext("bool"):
        kwargs["action"] = "store_true"
        kwargs.pop("const", None)
    else:
        kwargs["type"] = own or _converter(inner)
        for k in ("choices", "nargs"):
            if said.get(k):
                kwargs[k] = said[k]
        needed = said.get("required")
        kwargs["required"] = needed is True or (needed is None and f.default is None)
    parser.add(ev, names, kwargs)


def _without_none(hint: Any) -> Any:
    """X of `X | None`; a union of more than one other type stays as it is."""
    if isinstance(hint, Sub) and isinstance(hint.base, Ext):
        name = hint.base.name.rpartition(".")[2]
        if name == "Optional":
            return hint.args[0]
        if name == "Union":
            others = [a for a in _united(hint) if a not in (None, Ext("None"))]
            return others[0] if len(others) == 1 else hint
    return hint


def _united(hint: Any) -> list[Any]:
    if isinstance(hint, Sub) and isinstance(hint.base, Ext) and hint.base.name.rpartition(".")[2] == "Union":
        return [u for a in hint.args for u in _united(a)]
    return [hint]


def _converter(hint: Any) -> Any:
    """_infer_type_func: anything but int and float is taken as it is typed."""
    return hint if hint in (Ext("int"), Ext("float")) or hint is UNKNOWN else Ext("str")
