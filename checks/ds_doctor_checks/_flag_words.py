"""What each engine does to the words of its command before argparse sees them. It knows no flag but those named here.

vllm 0.33.0 vllm/utils/argparse_utils.py FlexibleArgumentParser.parse_args; sglang 0.5.23 sglang/cli/serve.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._flag_types import Refused, human_int


class Words(NamedTuple):
    """The words that argparse gets, and which word of the command each came from. `config`: the file of --config, whose
    words come to them; `repeated`: flags given twice, as vLLM warns of them; `moved`: --model was put in front."""

    words: list[str]
    origins: list[int]
    config: str | None = None
    repeated: tuple[str, ...] = ()
    moved: bool = False


class Stopped(Exception):
    """The engine ends before its parser begins. `at`: the word, `drop`: the words without which it goes on."""

    def __init__(self, kind: str, message: str, at: int | None, drop: Sequence[int] = ()) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.at = at
        self.drop = tuple(drop)


MODEL_FIRST = (
    "ValueError: `model` should be provided as the first positional argument when using `vllm serve`. "
    "i.e. `vllm serve <model> --<arg> <value>`."
)


# vllm 0.8.5 to 0.10.2 vllm/utils/__init__.py FlexibleArgumentParser.parse_args.
MODEL_REFUSED = (
    "ValueError: With `vllm serve`, you should provide the model as a positional argument or in a config file instead of "
    "via the `--model` option."
)


def vllm(arguments: Sequence[str], serve: bool, ways: frozenset[str]) -> Words:
    """`serve`: the words stand behind `vllm serve`. Raises Stopped."""
    words, origins = list(arguments), list(range(len(arguments)))
    moved = False
    if serve and "model-refused" in ways and "--model" in words:
        named = words.index("--model")
        raise Stopped("model-first", MODEL_REFUSED, named, range(named, min(named + 2, len(words))))
    if serve and "model-moved" in ways:
        at = next((i for i, w in enumerate(words) if re.match(r"--model(=.+|$)", w)), None)
        if at is not None:
            if words[at] == "--model" and at + 1 == len(words):
                raise Stopped("no-value", "IndexError: list index out of range", at, [at])
            stop = at + 2 if words[at] == "--model" else at + 1
            model = words[at + 1] if words[at] == "--model" else words[at].removeprefix("--model=")
            words = [model, *words[:at], *words[stop:]]
            origins = [origins[stop - 1], *origins[:at], *origins[stop:]]
            moved = True
    if serve and "model-first" in ways and words and words[0].startswith("-"):
        served = next((i for i, w in enumerate(words) if re.match(r"--served[-_]model[-_]name(=.+|$)", w)), None)
        if served is not None and not any(re.match(r"--config(=.+|$)", w) for w in words):
            raise Stopped("model-first", MODEL_FIRST, origins[served])
    config = None
    if "config-file" in ways and "--config" in words:
        words, origins, config = _config_file(words, origins)
    words, origins = _dashes(words, origins, ways)
    if "json-dots" in ways:
        words, origins, repeated = _dotted(words, origins, "list-plus" in ways)
    else:
        repeated = ()
    return Words(words, origins, config, repeated, moved)


def _config_file(words: list[str], origins: list[int]) -> tuple[list[str], list[int], str]:
    at = words.index("--config")
    if words.count("--config") > 1:
        again = words.index("--config", at + 1)
        message = "AssertionError: More than one config file specified!"
        raise Stopped("config-file", message, origins[again], [origins[again], *origins[again + 1 : again + 2]])
    if at == len(words) - 1:
        message = "ValueError: No config file specified! Please check your command-line arguments."
        raise Stopped("config-file", message, origins[at], [origins[at]])
    path = words[at + 1]
    extension = path.split(".")[-1]
    if extension not in ("yaml", "yml"):
        message = f"ValueError: Config file must be of a yaml/yml type. {extension} supplied"
        raise Stopped("config-file", message, origins[at + 1], [origins[at], origins[at + 1]])
    return [*words[:at], *words[at + 2 :]], [*origins[:at], *origins[at + 2 :]], path


def _dashed(name: str) -> str:
    """--max_model_len.x_y as --max-model-len.x_y: what stands between the dashes and the first dot."""
    head, dot, tail = name.partition(".")
    return "--" + head[2:].replace("_", "-") + dot + tail


def _dashes(words: list[str], origins: list[int], ways: frozenset[str]) -> tuple[list[str], list[int]]:
    """Underscores become dashes, -O3 becomes --optimization-level 3, in older versions -O.mode=3 or -O.level=3."""
    key = next((k for k in ("level", "mode") if f"optimization-{k}-dots" in ways), None)
    made: list[str] = []
    where: list[int] = []
    for i, word in enumerate(words):
        if word.startswith("--help="):
            new = ["--help"]
        elif word.startswith("--") and "underscores" in ways:
            name, equals, value = word.partition("=")
            new = [_dashed(name) + equals + value]
        elif word.startswith("-O") and word != "-O" and "optimization-level" in ways:
            new = ["--optimization-level", word[3:] if word[2] == "=" else word[2:]]
        elif word == "-O" and words[i + 1 : i + 2] and words[i + 1] in "0123" and "optimization-level" in ways:
            new = ["--optimization-level"]
        elif key and word.startswith("-O") and word != "-O" and word[2] != ".":
            new = [f"-O.{key}={word[3:] if word[2] == '=' else word[2:]}"]
        elif key and word == "-O" and words[i + 1 : i + 2] and words[i + 1] in "0123":
            new = [f"-O.{key}"]
        else:
            new = [word]
        made += new
        where += [origins[i]] * len(new)
    return made, where


def _nested(keys: list[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for k, v in new.items():
        old = into.get(k)
        if isinstance(v, dict) and isinstance(old, dict):
            _merge(old, v)
        elif isinstance(v, list) and isinstance(old, list):
            old += v
        else:
            into[k] = v


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        try:
            return human_int(text, "vllm")
        except (ValueError, Refused):
            return text


def _dotted(words: list[str], origins: list[int], plus: bool) -> tuple[list[str], list[int], tuple[str, ...]]:
    """--x.key value becomes --x '{"key": value}', put behind all other words."""
    gone: set[int] = set()
    made: dict[str, dict[str, Any]] = {}
    first: dict[str, int] = {}
    seen: set[str] = set()
    repeated: list[str] = []
    for i, word in enumerate(words):
        if i in gone:
            continue
        if word.startswith("--") and "." not in word:
            name = word.partition("=")[0]
            if name in seen:
                repeated.append(name)
            seen.add(name)
            continue
        if not (word.startswith("-") and "." in word):
            continue
        name, equals, text = word.partition("=")
        if equals:
            if "." not in name:
                continue
        elif i + 1 < len(words):
            text = words[i + 1]
            gone.add(i + 1)
        else:
            raise Stopped("no-value", "IndexError: list index out of range", origins[i], [origins[i]])
        if plus and name.endswith("+"):
            name, text = name[:-1], json.dumps(text.split(","))
        key, *keys = name.split(".")
        into = made.setdefault(key, {})
        first.setdefault(key, origins[i])
        _merge(into, _nested(keys, _value(text)))
        gone.add(i)
    kept = [i for i in range(len(words)) if i not in gone]
    flat = [w for key, value in made.items() for w in (key, json.dumps(value))]
    where = [first[key] for key in made for _ in range(2)]
    return [words[i] for i in kept] + flat, [origins[i] for i in kept] + where, tuple(repeated)


def sglang(arguments: Sequence[str], serve: bool, ways: frozenset[str]) -> Words:
    """`serve`: the words stand behind `sglang serve`. Raises Stopped."""
    words, origins = list(arguments), list(range(len(arguments)))
    if serve:
        words, origins = _without_backend(words, origins)
        if words and not words[0].startswith("-"):
            words, origins = ["--model-path", *words], [origins[0], *origins]
        given = any(w in ("--model-path", "--model") for w in words[:-1]) or any(
            w.startswith(("--model-path=", "--model=")) for w in words
        )
        if not given and not {"-h", "--help"} & set(words):
            message = "Exception: Error: --model-path is required. Please provide the path to the model."
            raise Stopped("required", message, None)
    config = None
    if "config-file" in ways and "--config" in words:
        at = words.index("--config")
        config = words[at + 1] if at + 1 < len(words) else None
        words, origins = [*words[:at], *words[at + 2 :]], [*origins[:at], *origins[at + 2 :]]
    return Words(words, origins, config)


def _without_backend(words: list[str], origins: list[int]) -> tuple[list[str], list[int]]:
    """--model-type is the verb's own and never reaches the parser."""
    kept: list[int] = []
    i = 0
    while i < len(words):
        if words[i] == "--model-type":
            if i + 1 >= len(words):
                raise Stopped("no-value", "ValueError: Error: --model-type requires a value.", origins[i], [origins[i]])
            i += 2
            continue
        if not words[i].startswith("--model-type="):
            kept.append(i)
        i += 1
    return [words[i] for i in kept], [origins[i] for i in kept]
