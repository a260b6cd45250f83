"""The command-line flags of the engine that the command would start, read from its installed source; never imports or runs it.

The source is parsed with `ast` and followed as far as it says what it adds to its parser. What it does not say is named in
`Flag.unsure` and `EngineFlags.missed`: a flag that is missing from an incomplete table proves nothing.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ..api import Absent, Host, probe

Plain = bool | int | float | str | None
Kind = Literal["value", "switch", "pair", "optional", "list"]


class Flag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One argument of the engine's parser.

    `names`: its option strings (`--tensor-parallel-size`, `-tp`), for a positional the bare name. `negative`: the option
    strings of a pair that store False (`--no-x`, `--disable-x`), hidden ones too.
    `kind`: value (takes one), switch (takes none), pair (takes none; x or no-x), optional (nargs `?`), list (nargs `+`, `*`
    or a number).
    `type`: what one word is turned into: str, int, float, bool, json (any JSON), json-or-str (JSON where it stands in
    braces), config (a JSON object of the engine's class `made`, whose fields are `keys`), human-int (32k, 32K), human-int-or-auto,
    function (the engine's own, `made` is its name), unknown. `nullable`: an empty word and `None` stand for no value.
    `choices`: the values that the parser takes, after `type`; None: any.
    `default`: as far as it is plain; `const`: what an `optional` without its word, or a switch, stores (None: True).
    `repeats`: every occurrence adds to a list. `required`: the parser refuses the command without it.
    `deprecated`: the engine says so when it is used. `refuses`: the message with which it ends then (None: it goes on).
    `entries`: only these entries have it (None: all of the engine's).
    `unsure`: which of the fields above the source did not tell (type, choices, keys, default, names).
    """

    names: tuple[str, ...]
    dest: str
    kind: Kind = "value"
    type: str = "str"
    choices: tuple[Plain, ...] | None = None
    default: Plain | tuple[Plain, ...] | dict[str, Plain] = None
    nargs: str | int | None = None
    const: Plain = None
    negative: tuple[str, ...] = ()
    nullable: bool = False
    repeats: bool = False
    required: bool = False
    positional: bool = False
    deprecated: bool = False
    refuses: str | None = None
    made: str | None = None
    keys: tuple[str, ...] | None = None
    entries: tuple[str, ...] | None = None
    group: str | None = None
    unsure: tuple[str, ...] = ()


class EngineFlags(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The flag table of one installed engine. `folder` is its package; `version` None where its metadata does not say.

    `ways`: what the parser does to words before argparse: underscores (count as dashes in long flags), enable-disable (each
    --enable-x has --disable-x), json-dots (--x.key value), list-plus (--x.key+ value), config-file (--config FILE is read
    into the words), optimization-level (-O3, -O 3; before 0.13 optimization-level-dots or optimization-mode-dots: -O.mode=3), model-first (a `serve` without positional but with --served-model-name ends),
    model-moved (--model is moved to the front of `serve`), model-refused (`serve` with --model ends), no-abbreviations
    (argparse takes whole names only).
    `entries`: how this version can be started: `vllm serve`, or the module behind `python -m`.
    `names`: what else is chosen by name, by topic: tool-call-parser, reasoning-parser, quantization, load-format,
    attention-backend, speculative-method, tokenizer-mode; a topic that could not be read whole is in `open_names` too.
    `complete`: every argument was seen; else `missed` says what was not (a file, a call), in one line each.
    `release`: all files that decide the flags are, byte for byte, those of this release, whose table stands with the checks;
    then it is left out here.
    """

    of_command: ClassVar[bool] = True

    engine: str
    version: str | None
    folder: str
    flags: tuple[Flag, ...]
    ways: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    names: dict[str, tuple[str, ...]] = {}
    open_names: tuple[str, ...] = ()
    complete: bool = True
    missed: tuple[str, ...] = ()
    release: str | None = None


@probe
def engine_flags(host: Host) -> EngineFlags:
    """Absent: no command, none of an engine, one inside a container, or the engine is not installed in its Python."""
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    from . import _engine_source

    return _engine_source.flags(host)
