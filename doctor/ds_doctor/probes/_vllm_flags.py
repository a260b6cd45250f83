"""The flags of an installed vLLM, read from its source: what `vllm serve` and the API server's module add to their parsers.

vllm 0.6 to 0.33: vllm/entrypoints/cli/serve.py (before: vllm/scripts.py), vllm/entrypoints/openai/api_server.py and what they
lead to: cli_args.py, vllm/engine/arg_utils.py, vllm/config/*.py.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import msgspec

from ..api import Host, Trouble
from ._argparse_flags import Parser, optional, parsed
from ._ast_eval import Evaluator
from ._ast_source import Sources
from ._ast_values import UNKNOWN, Class, Ext, Function, Made, Scope, Spent, Stop, hints, is_hint, literals
from ._engine_table import SPENT, Read, merged
from ._vllm_kwargs import Kwargs, get_field
from .engine_flags import Flag

SERVE, MODULE = "vllm serve", "vllm.entrypoints.openai.api_server"
ARGUMENTS = "vllm.engine.arg_utils"
# What the code asks of the machine, as a server with NVIDIA GPUs and no plug-ins answers.
_OUTSIDE: dict[str, Any] = {
    "vllm.platforms.current_platform": Ext("platform"),
    "platform.device_type": "cuda",
    "vllm.envs": Ext("vllm-environment"),
    "vllm.logger": Ext("vllm-logger"),
    "vllm.logger.init_logger": Ext("vllm-logger"),
    "sys.argv": ["vllm"],
    "sys.modules": {},
    "argparse.SUPPRESS": "==SUPPRESS==",
    "ssl.CERT_NONE": 0,
    "typing.TYPE_CHECKING": False,
}
_WAYS = (
    ("underscores", r"replace\(['\"]_['\"],\s*['\"]-['\"]\)"),
    ("enable-disable", r"class EnableDisableAction\b"),
    ("json-dots", r"def create_nested_dict\b"),
    ("list-plus", r"endswith\(['\"]\+['\"]\)"),
    ("config-file", r"def _pull_args_from_config\b"),
    ("optimization-level", r"['\"]--optimization-level['\"]"),
    ("optimization-level-dots", r"-O\.level="),
    ("optimization-mode-dots", r"-O\.mode="),
    ("model-first", r"should be provided as the first positional"),
    ("model-moved", r"Move <model> to the front"),
)
_REFUSED = re.compile(r"raise ValueError\(\s*['\"]With `vllm serve`, you should provide the model")


def flags(host: Host, folder: str) -> Read:
    """The table of the package in a folder. Malformed("engine-not-understood") where it holds no parser of vLLM."""
    sources = Sources(host, folder)
    tables: dict[str, list[Any]] = {}
    names: dict[str, tuple[str, ...]] = {}
    open_: tuple[str, ...] = ()
    parsers: list[Parser] = []
    ev = _evaluator(sources, parsers)
    try:
        for entry, read in ((SERVE, _serve), (MODULE, _module)):
            parser = read(ev, parsers)
            if parser is None or len(parser.flags) < 2:
                sources.miss(f"the parser of {entry}")
            if parser is not None and parser.flags:
                tables[entry] = parser.flags
        names, open_ = _names(ev)
    except (Spent, RecursionError, MemoryError):
        sources.miss(SPENT)
    return Read(_named(merged(tables), names), _ways(sources), tuple(tables), names, open_, tuple(sources.missed))


def _named(flags: tuple[Flag, ...], names: dict[str, tuple[str, ...]]) -> tuple[Flag, ...]:
    """A flag whose choices are a registry's names (vllm 0.8 to 0.10 --reasoning-parser) has those that were found."""
    made = []
    for f in flags:
        known = names.get(f.dest.replace("_", "-"))
        if f.choices is None and "choices" in f.unsure and known:
            f = msgspec.structs.replace(f, choices=known, unsure=tuple(u for u in f.unsure if u != "choices"))
        made.append(f)
    return tuple(made)


def _evaluator(sources: Sources, parsers: list[Parser]) -> Evaluator:
    kwargs: list[Kwargs] = []
    way = {"paired": False}

    def get_kwargs(ev: Evaluator, args: list[Any], named: dict[str, Any]) -> Any:
        if not kwargs:
            kwargs.append(Kwargs(ev, ARGUMENTS))
        return kwargs[0].of(args[0]) if args and isinstance(args[0], Class) else UNKNOWN

    def parser(ev: Evaluator, args: list[Any], named: dict[str, Any]) -> Any:
        made = Parser(paired=way["paired"], help_=named.get("add_help") is not False)
        made.abbreviates = named.get("allow_abbrev") is not False
        parsers.append(made)
        return made

    def nothing(ev: Evaluator, args: list[Any], named: dict[str, Any]) -> Any:
        return None

    way["paired"] = "class EnableDisableAction" in _utilities(sources)
    hooks: dict[str, Any] = {
        "get_kwargs": get_kwargs,
        "get_field": get_field,
        "optional_type": optional,
        "parse_type": parsed,
        "ArgumentParser": parser,
        "FlexibleArgumentParser": parser,
        "pre_register_and_update": nothing,  # only for other makers' devices
        "show_filtered_argument_or_group_from_help": nothing,
        **dict.fromkeys(("load_general_plugins", "cli_env_setup", "env_setup", "warn", "init_logger"), nothing),
    }
    return Evaluator(sources, hooks, _OUTSIDE, min(4.0, sources.host.time_left_s() / 2))


def _serve(ev: Evaluator, parsers: list[Parser]) -> Parser | None:
    """What `vllm serve` adds."""
    command = ev.name("vllm.entrypoints.cli.serve", "ServeSubcommand")
    if isinstance(command, Class):
        top = Parser(paired="class EnableDisableAction" in _utilities(ev.sources))
        setup = ev.member(command, "subparser_init", Made(command, [], {}))
        if isinstance(setup, Function):
            try:
                ev.call(setup, [top], {}, command.scope.module.path)
            except Stop:
                pass
        return next(iter(top.commands.values()), None)
    main = ev.name("vllm.scripts", "main")
    if not isinstance(main, Function):
        return None
    return _stopped(ev, parsers, main).commands.get("serve")


def _module(ev: Evaluator, parsers: list[Parser]) -> Parser | None:
    """What `python -m vllm.entrypoints.openai.api_server` adds."""
    found = ev.sources.module(MODULE)
    for node in found.tree.body if found is not None else []:
        if found is not None and isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            return _stopped(ev, parsers, [node.body, Scope(found)])
    return None


def _stopped(ev: Evaluator, parsers: list[Parser], code: Any) -> Parser:
    """The parser that the code makes, when it comes to use it."""
    before = len(parsers)
    try:
        if isinstance(code, Function):
            ev.call(code, [], {}, code.scope.module.path)
        else:
            ev.run(*code)
        ev.sources.miss("a command that uses no parser")
    except Stop:
        pass
    return parsers[before] if len(parsers) > before else Parser()


def _utilities(sources: Sources) -> str:
    """The text of the module that holds FlexibleArgumentParser."""
    for name in ("vllm.utils.argparse_utils", "vllm.utils"):
        found = sources.module(name)
        if found is not None and "class FlexibleArgumentParser" in found.text:
            return found.text
    return ""


def _ways(sources: Sources) -> tuple[str, ...]:
    text = _utilities(sources)
    start = text.find("class FlexibleArgumentParser")
    body = text[start:] if start >= 0 else ""
    end = re.search(r"\n(?=[A-Za-z@])", body)
    body = body[: end.start()] if end else body
    found = [way for way, sign in _WAYS if re.search(sign, text if way == "enable-disable" else body)]
    if _REFUSED.search(body):
        found.append("model-refused")
    return tuple(found)


# -- what is chosen by name --------------------------------------------------------------------------------------------


def _names(ev: Evaluator) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """(names by topic, topics that could not be read whole)."""
    found: dict[str, tuple[str, ...] | None] = {
        "tool-call-parser": _registered(
            ev, ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"), "_TOOL_PARSERS_TO_REGISTER", "ToolParser"
        ),
        "reasoning-parser": _registered(
            ev,
            ("vllm.reasoning", "vllm.entrypoints.openai.reasoning_parsers"),
            "_REASONING_PARSERS_TO_REGISTER",
            "ReasoningParser",
        ),
        "quantization": _listed(ev, ("vllm.model_executor.layers.quantization.QUANTIZATION_METHODS",)),
        "kv-cache-dtype": _listed(ev, ("vllm.config.cache.CacheDType", "vllm.config.CacheDType")),
        "load-format": _listed(
            ev,
            (
                "vllm.model_executor.model_loader.LoadFormats",
                "vllm.config.load.LoadFormat",
                "vllm.config.LoadFormat",
            ),
        ),
        "attention-backend": _listed(
            ev,
            (
                "vllm.v1.attention.backends.registry.AttentionBackendEnum",
                "vllm.attention.backends.registry.AttentionBackendEnum",
                "vllm.attention.backends.registry._Backend",
                "vllm.platforms.interface._Backend",
            ),
        ),
        "speculative-method": _listed(
            ev, ("vllm.config.speculative.SpeculativeMethod", "vllm.config.SpeculativeMethod")
        ),
        "tokenizer-mode": _listed(ev, ("vllm.config.model.TokenizerMode", "vllm.config.TokenizerMode")),
    }
    whole = {topic: names for topic, names in found.items() if names}
    return whole, tuple(t for t in found if t not in whole)


def _listed(ev: Evaluator, places: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names in a list, in a Literal or in an enumeration, at the first of these places that there is."""
    for place in places:
        module, _, name = place.rpartition(".")
        value = ev.name(module, name)
        if isinstance(value, Class) and ev.enumeration(value):
            enumerated = ev.members(value)
            by_value = "str" in ev.bases(value)
            return tuple(str(m.value if by_value else m.name) for m in enumerated)
        texts: Any = value
        for hint in hints(value) if not isinstance(value, (list, tuple, dict)) or is_hint(value, "Literal") else []:
            texts = literals(hint) if is_hint(hint, "Literal") else texts
        if isinstance(texts, (list, tuple, dict)) and texts and all(isinstance(t, str) for t in texts):
            return tuple(texts)
    return None


def _registered(ev: Evaluator, places: tuple[str, ...], table: str, stem: str) -> tuple[str, ...] | None:
    """The keys of a package's table of lazy parsers; before there was one, the names in their decorators."""
    for place in places:
        found = ev.sources.module(place)
        if found is None or not found.package:
            continue
        value = ev.name(place, table) if table in found.bindings else UNKNOWN
        if isinstance(value, dict):
            return tuple(sorted(k for k in value if isinstance(k, str)))
        names: set[str] = set()
        sign = re.compile(stem + r"Manager\.register_module\(\s*(?:name=)?(\[[^\]]*\]|(['\"])[^'\"]*\2)")
        try:
            folder = found.path.rpartition("/")[0]
            for file in [n for n in ev.sources.host.names(folder) if n.endswith(".py")][:100]:
                for said in sign.findall(ev.sources.read(f"{folder}/{file}").decode("utf-8", "replace")):
                    names.update(re.findall(r"['\"]([^'\"]+)['\"]", said[0]))
        except Trouble:
            return None
        if names:
            return tuple(sorted(names))
    return None
