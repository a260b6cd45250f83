"""An argument parser that is only told its arguments: every `add_argument` that source code says becomes a Flag."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ._ast_plain import items, key
from ._ast_values import UNKNOWN, Class, Ext, Function, Made, Member, Stop
from .engine_flags import Flag, Kind, Plain

if TYPE_CHECKING:
    from ._ast_eval import Evaluator

FLAGS_LIMIT = 3000  # of one parser; sglang 0.5.23 has 548
SUPPRESS = "==SUPPRESS=="


class Conversion(NamedTuple):
    """What one word is turned into: the fields of Flag."""

    type: str
    made: str | None = None
    nullable: bool = False
    keys: tuple[str, ...] | None = None


STR, UNSURE = Conversion("str"), Conversion("unknown")
_NAMED = {
    "int": Conversion("int"),
    "float": Conversion("float"),
    "str": STR,
    "bool": Conversion("bool"),
    "loads": Conversion("json"),
    "human_readable_int": Conversion("human-int"),
    "human_readable_int_or_auto": Conversion("human-int-or-auto"),
    "union_dict_and_str": Conversion("json-or-str"),
    "nullable_str": Conversion("str", nullable=True),
}
# The converters that are written as a lambda, by what they say (vllm 0.33.0 arg_utils.py).
_LAMBDAS = {
    "s.lower().replace('-', '_')": "lower_name",
    "[int(device_id) if device_id.isdigit() else device_id for device_id in (part.strip() for part in s.split(','))]": (
        "device_ids"
    ),
}
_ACTIONS = {"LoRAParserAction": "lora_modules", "LoRAPathAction": "lora_paths"}


def conversion(value: Any) -> Conversion:
    """What `type=` of an argument does to a word."""
    if isinstance(value, Conversion):
        return value
    if isinstance(value, Ext):
        return _NAMED.get(value.name.rpartition(".")[2], UNSURE)
    if isinstance(value, Function):
        if isinstance(value.node, ast.Lambda):
            said = ast.unparse(value.node.body)
            return Conversion("function", _LAMBDAS.get(said, "lambda"))
        return _NAMED.get(value.name) or Conversion("function", value.name)
    return STR if value is None else UNSURE


def optional(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """vLLM's `optional_type(x)`: an empty word and `None` are no value."""
    return conversion(args[0] if args else None)._replace(nullable=True)


def parsed(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """vLLM's `parse_type(x)`: the same value, another message where it is refused."""
    one = conversion(args[0] if args else None)
    return one if one.type == "unknown" else one._replace(made="_parse_type")


class Parser:
    """Stands for an ArgumentParser, its groups and its sub-parsers alike. `paired`: --enable-x has --disable-x as well."""

    def __init__(self, paired: bool = False, help_: bool = True, group: str | None = None) -> None:
        self.paired = paired
        self.group = group
        self.abbreviates = True
        self.flags: list[Flag] = []
        self.taken: set[str] = set()
        self.commands: dict[str, Parser] = {}
        self.defaults: dict[str, Any] = {}
        if help_:
            self.flags.append(Flag(names=("-h", "--help"), dest="help", kind="switch", default=False))
            self.taken.update(("-h", "--help"))

    def call_method(self, ev: Evaluator, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What the engine's code calls on its parser."""
        if name == "add_argument":
            self.add(ev, args, kwargs)
            return Made(Ext("argument"), [], {})
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            title = kwargs.get("title", args[0] if args else None)
            return _Group(self, title if isinstance(title, str) else None)
        if name == "add_subparsers":
            return self
        if name == "add_parser":
            self.commands[str(args[0] if args else "")] = made = Parser(self.paired)
            return made
        if name in ("parse_args", "parse_known_args"):
            raise Stop
        if name == "set_defaults":
            self.defaults.update(kwargs)
        elif name not in ("register", "format_help", "error", "print_help"):
            ev.sources.miss(f"the parser's {name}")
        return UNKNOWN

    def add(self, ev: Evaluator, args: list[Any], kwargs: dict[str, Any], group: str | None = None) -> None:
        """One add_argument. What cannot be told of it goes into Flag.unsure; without its names or its kind it is missed."""
        if len(self.flags) >= FLAGS_LIMIT:
            ev.sources.miss(f"more than {FLAGS_LIMIT} arguments")
            return
        if "*" in kwargs or not args or not all(isinstance(a, str) and a for a in args):
            ev.sources.miss("an argument whose names are not told")
            return
        if "**" in kwargs or kwargs.get("action") is UNKNOWN or kwargs.get("nargs") is UNKNOWN:
            ev.sources.miss(f"{args[0]}: what it takes is not told")
            return
        flag = _flag(ev, tuple(args), kwargs, self.paired, group)
        if isinstance(flag, str):
            ev.sources.miss(flag)
            return
        names = {*flag.names, *flag.negative}
        if not flag.positional and names & self.taken:  # argparse ends here: the way to it was a wrong one
            if not ev.maybe:
                ev.sources.miss(f"{args[0]} twice")
            return
        self.taken |= names
        self.flags.append(flag)


class _Group:
    """A group of a parser's arguments."""

    def __init__(self, parser: Parser, title: str | None) -> None:
        self.parser = parser
        self.title = title

    def call_method(self, ev: Evaluator, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """As the parser's own."""
        if name == "add_argument":
            self.parser.add(ev, args, kwargs, self.title)
            return Made(Ext("argument"), [], {})
        if name == "add_mutually_exclusive_group":
            return self
        return self.parser.call_method(ev, name, args, kwargs)


def _flag(ev: Evaluator, names: tuple[str, ...], kwargs: dict[str, Any], paired: bool, group: str | None) -> Flag | str:
    positional = not names[0].startswith("-")
    unsure: list[str] = ["names"] if ev.maybe else []
    kind, nargs, const, more = _kind(ev, kwargs)
    if kind is None:
        return f"{names[0]}: its action is not told"
    negative: tuple[str, ...] = ()
    if kind == "pair":
        names, negative = _pair(names, paired)
    one = conversion(kwargs.get("type"))
    if "made" in more:
        one = Conversion("function", more["made"])
    if kind in ("switch", "pair"):
        one = STR
    if one.type == "unknown":
        unsure.append("type")
    if one.type == "config" and one.keys is None:
        unsure.append("keys")
    choices = None
    if kwargs.get("choices") is not None and kind not in ("switch", "pair"):
        choices = _choices(ev, kwargs["choices"])
        if choices is None or id(kwargs["choices"]) in ev.uncertain:
            unsure.append("choices")
    dest = kwargs.get("dest")
    if not isinstance(dest, str):
        long = next((n for n in names if n.startswith("--")), names[0])
        dest = names[0] if positional else long.lstrip("-").replace("-", "_")
    default = plain(kwargs.get("default", False if kind == "switch" and const is None else None))
    if default is UNKNOWN:
        unsure.append("default")
    refuses = kwargs.get("error_message") if more.get("refuses") else None
    return Flag(
        names=names,
        dest=dest,
        kind=kind,
        type=one.type,
        choices=choices,
        default=None if default in (UNKNOWN, SUPPRESS) else default,
        nargs=nargs,
        const=const,
        negative=negative,
        nullable=one.nullable,
        repeats=kwargs.get("action") == "append",
        required=kwargs.get("required") is True,
        positional=positional,
        deprecated=kwargs.get("deprecated") is True or bool(more.get("deprecated")),
        refuses=refuses if isinstance(refuses, str) else None,
        made=one.made,
        keys=one.keys,
        group=group,
        unsure=tuple(unsure),
    )


_SWITCHES: dict[str, Plain] = {"store_true": None, "store_false": False, "count": 1, "help": None, "version": None}


def _kind(ev: Evaluator, kwargs: dict[str, Any]) -> tuple[Kind | None, str | int | None, Plain, dict[str, Any]]:
    """(kind, nargs, const, what a class of the engine's own adds). None for an action that is not told."""
    action, nargs = kwargs.get("action", "store"), kwargs.get("nargs")
    more: dict[str, Any] = {}
    const = plain(kwargs.get("const"))
    const = const if isinstance(const, (str, int, float)) and const is not True else None
    if isinstance(action, Ext):
        last = action.name.rpartition(".")[2]
        if last == "BooleanOptionalAction":
            return "pair", None, None, {}
        action = {"_StoreAction": "store", "_AppendAction": "append"}.get(last, action)
    elif isinstance(action, Class):
        nargs, more = _own(ev, action, kwargs)
        if nargs is UNKNOWN:
            return None, None, None, {}
        if nargs == 0:
            value = plain(kwargs.get("const_value", kwargs.get("const")))
            const = value if isinstance(value, (str, int, float)) and value is not True else None
            return "switch", None, const, more
        action = "store"
    if action in _SWITCHES:
        return "switch", None, _SWITCHES[action], more
    if action in ("store_const", "append_const"):
        return "switch", None, const, more
    if action not in ("store", "append", "extend"):
        return None, None, None, {}
    if nargs is None:
        return "value", None, None, more
    if nargs == "?":
        return "optional", None, const, more
    if nargs in ("+", "*") or (isinstance(nargs, int) and nargs > 0):
        return "list", nargs, None, more
    return None, None, None, {}


def _own(ev: Evaluator, action: Class, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """(nargs, more) of an action that the engine defines: as given, else as its __init__ says."""
    if "BooleanOptionalAction" in ev.bases(action):
        return UNKNOWN, {}
    nargs = kwargs.get("nargs")
    said = ""
    for c in ev.lineage(action):
        for node in c.node.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                args = node.args
                pairs = zip(args.args[len(args.args) - len(args.defaults) :], args.defaults, strict=True)
                for p, d in pairs:
                    if p.arg == "nargs" and "nargs" not in kwargs:
                        nargs = ev.eval(d, c.scope)
                for call in (n for n in ast.walk(node) if isinstance(n, ast.Call)):
                    for k in call.keywords:
                        if k.arg == "nargs" and isinstance(k.value, ast.Constant):
                            nargs = k.value.value
            said += node.name + " " if isinstance(node, ast.FunctionDef) else ""
    more: dict[str, Any] = {"deprecated": "Deprecated" in action.name}
    if action.name in _ACTIONS:
        more["made"] = _ACTIONS[action.name]
    elif "Deprecated" not in action.name:
        more["made"] = action.name  # what it does with its words nobody followed
    if "error_message" in kwargs:
        more["refuses"] = True
    return nargs, more


def _pair(names: tuple[str, ...], paired: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(all names, those that store False), in the order in which argparse and vLLM's EnableDisableAction register them."""
    every: list[str] = []
    for n in names:
        every.append(n)
        if n.startswith("--"):
            every.append("--no-" + n[2:])
    if paired:
        for n in names:
            if n.startswith("--enable-"):
                every.append("--disable-" + n[9:])
            elif n.startswith("--disable-"):
                every.append("--enable-" + n[10:])
    return tuple(every), tuple(n for n in every if n not in names)


def _choices(ev: Evaluator, value: Any) -> tuple[Plain, ...] | None:
    """None: not told whole. An empty list is a registry that is filled while the engine starts."""
    parts = items(ev, value)
    if not parts:
        return None
    found = [plain(p) for p in parts]
    if not all(isinstance(p, (str, int, float, type(None))) for p in found):
        return None
    return tuple(dict.fromkeys(found)) if all(map(key, found)) else None


def plain(value: Any) -> Any:
    """A value as a Flag holds it; UNKNOWN for what is not plain."""
    if isinstance(value, Member):
        value = value.value
    if isinstance(value, (str, int, float, type(None))):
        return value
    if type(value) in (list, tuple):
        parts = tuple(plain(v) for v in value)
        return parts if all(isinstance(p, (str, int, float, type(None))) for p in parts) else UNKNOWN
    if type(value) is dict:
        made = {k: plain(v) for k, v in value.items()}
        whole = all(isinstance(k, str) and isinstance(v, (str, int, float, type(None))) for k, v in made.items())
        return made if whole else UNKNOWN
    return UNKNOWN
