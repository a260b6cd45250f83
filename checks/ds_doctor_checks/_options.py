"""The flags of a launch command as its engine's own parser takes them: the values, and every word that it refuses.

It judges nothing beyond the parser; what no parser sees (a GPU, a file, a model) it does not know.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from ds_doctor.probes.engine_flags import EngineFlags, Flag
from ds_doctor.probes.launch import OPEN, Launch

from ._flag_parser import Fault, HelpAsked, Parser, Use, names_of, shown
from ._flag_table import Chosen, choose
from ._flag_types import Refused, check_choice, value
from ._flag_words import Stopped, Words, sglang, vllm

MODULES = {"vllm": "vllm.entrypoints.openai.api_server", "sglang": "sglang.launch_server"}
_MOST = 30  # errors of one command beyond which nobody reads on


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """One flag as it was given. `word`: as typed, without its `=value`; `name`: the whole name that the parser took it for;
    `value`: what is stored; `words`: the value's own words; `at`: its index in Launch.arguments. `negated`: `--no-x`.
    `dotted`: `--x.key value`, whose value is put together from all words of that flag."""

    word: str
    name: str
    dest: str
    value: Any = None
    words: tuple[str, ...] = ()
    at: int = 0
    abbreviated: bool = False
    negated: bool = False
    dotted: bool = False


class Error(msgspec.Struct, frozen=True, kw_only=True):
    """What the parser refuses. `kind`: unknown, ambiguous, no-value, bool-value, type, choice, json, keys, extra (a word that
    nothing takes), required, model-first, config-file, retired. `message`: as the engine prints it, were this its first error;
    `first`: it is. `word`: as typed; `name`: the whole name; `value`: the refused word; `matches`: of an ambiguous one."""

    kind: str
    message: str
    word: str
    name: str = ""
    dest: str = ""
    value: str = ""
    words: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    at: int | None = None
    first: bool = False


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The flag table that was used. `version`: of the table; `wanted`: of the engine that would start, None: not known.
    `installed`: read from the installed engine. `exact`: it is that engine's own and complete."""

    engine: str
    version: str | None
    wanted: str | None
    installed: bool
    exact: bool


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`values`: dest -> what the engine gets, defaults included. `serves`: the entry is one whose parser is known; where it
    is not, all else is empty. `config`: the file of --config, whose words nobody saw. `help`: it prints its help and ends.
    `open`: dest -> the word that holds a variable which is filled in later (`${TP}`), `?` -> one that belongs to no flag;
    the parser's verdict on those is not known. `model`: what would be loaded. `repeated`: dests given more than once, of which the last one counts."""

    table: Table
    serves: bool = True
    values: dict[str, Any] = {}
    given: tuple[Given, ...] = ()
    errors: tuple[Error, ...] = ()
    config: str | None = None
    help: bool = False
    model: str | None = None
    open: dict[str, str] = {}

    def of(self, dest: str) -> Given | None:
        """How a flag was given, the last time; None: it was not."""
        return next((g for g in reversed(self.given) if g.dest == dest), None)

    def get(self, dest: str, default: Any = None) -> Any:
        """A flag's value; `default` where the engine has no such flag."""
        return self.values.get(dest, default)


def options(launch: Launch, installed: EngineFlags | None) -> Options:
    """What the engine's parser makes of the command. `installed`: the flag table of the engine in the command's Python."""
    return _options(launch.engine or "", launch.entry or "", launch.arguments, _Key(choose(launch, installed)))


class _Key:
    """A chosen table as a key of the cache: the same table is the same object or says the same."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen
        f = chosen.flags
        self.key = (f.engine, f.version, f.folder, len(f.flags), chosen.version, chosen.installed, chosen.exact)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.key == other.key and self.chosen.flags == other.chosen.flags


@functools.lru_cache(maxsize=64)
def _options(engine: str, entry: str, arguments: tuple[str, ...], key: _Key) -> Options:
    chosen = key.chosen
    table = Table(
        engine=engine,
        version=chosen.flags.version,
        wanted=chosen.version,
        installed=chosen.installed,
        exact=chosen.exact,
    )
    if entry not in (f"{engine} serve", MODULES.get(engine)):
        return Options(table=table, serves=False)
    return _Run(engine, entry, arguments, key, table).options()


class _Run:
    """One command parsed again and again without the words that were refused, until the parser takes what is left."""

    def __init__(self, engine: str, entry: str, arguments: tuple[str, ...], key: _Key, table: Table) -> None:
        self.engine = engine
        self.serve = entry.endswith(" serve")
        self.arguments = arguments
        self.table = table
        self.ways = frozenset(key.chosen.flags.ways)
        self.parser = _parser(key, entry)
        self.errors: list[Error] = []
        self.open: dict[str, str] = {}
        self.gone: set[int] = set()
        # argparse's prog: the sub-command for its own errors, the program for the words that are left over.
        if engine == "vllm":
            self.prog, self.outer = ("vllm serve", "vllm") if self.serve else ("api_server.py", "api_server.py")
        else:
            self.prog = self.outer = "sglang serve"

    def options(self) -> Options:
        words = Words([], [])
        uses: list[tuple[Use, Any]] = []
        asked = False
        ways = self.ways
        while len(self.errors) + len(self.open) < _MOST:
            kept = [i for i in range(len(self.arguments)) if i not in self.gone]
            try:
                words = self._words([self.arguments[i] for i in kept], ways)
            except Stopped as stop:
                self._stopped(stop, kept)
                if stop.kind in ("model-first", "required"):
                    ways -= {"model-first"}
                    if stop.kind == "required":
                        break
                continue
            words = words._replace(origins=[kept[i] for i in words.origins])
            try:
                used, extras = self.parser.parse(words.words)
                uses = self._values(used, words)
                self._left_over(extras, words)
                self._required(used)
            except HelpAsked:
                asked = True
            except Fault as fault:
                self._fault(fault, words)
                continue
            break
        return self._made(uses, words, asked)

    def _words(self, arguments: Sequence[str], ways: frozenset[str]) -> Words:
        return (vllm if self.engine == "vllm" else sglang)(arguments, self.serve, ways)

    def _add(self, error: Error) -> None:
        # What is filled in later is no word yet: the engine's parser will see another one, or several.
        if OPEN.search(" ".join((error.word, error.value, *error.words))):
            self.open[error.dest or "?"] = error.value or error.word
            return
        if error.kind in ("required", "model-first") and any(OPEN.search(a) for a in self.arguments):
            return
        self.errors.append(msgspec.structs.replace(error, first=not self.errors))

    def _stopped(self, stop: Stopped, kept: list[int]) -> None:
        at = None if stop.at is None else kept[stop.at]
        word = "" if at is None else self.arguments[at]
        self._add(Error(kind=stop.kind, message=stop.message, word=word.partition("=")[0], value=word, at=at))
        self.gone.update(kept[i] for i in stop.drop)

    def _fault(self, fault: Fault, words: Words) -> None:
        at = words.origins[fault.at]
        flag = fault.flag
        self._add(
            Error(
                kind=fault.kind,
                message=f"{self.prog}: error: {fault.message}",
                word=self.arguments[at].partition("=")[0],
                name=words.words[fault.at].partition("=")[0] if flag is None else flag.names[0],
                dest=flag.dest if flag else "",
                value=" ".join(words.words[i] for i in fault.drop[1:]) or words.words[fault.at].partition("=")[2],
                matches=fault.matches,
                choices=flag.choices or () if flag else (),
                at=at,
            )
        )
        self.gone.update(words.origins[i] for i in fault.drop)

    def _values(self, used: list[Use], words: Words) -> list[tuple[Use, Any]]:
        """Each use with what is stored. Raises Fault at the first word that is refused."""
        made = []
        for use in used:
            flag = use.flag
            try:
                made.append((use, self._value(flag, use)))
            except Refused as refused:
                message = refused.message
                if not message.startswith(("Invalid JSON format for --", "Invalid fields for --")):
                    message = f"argument {shown(flag)}: {message}"
                raise Fault(refused.kind, message, use.at, [use.at, *use.indices], flag) from None
            if flag.refuses is not None:
                raise Fault("retired", flag.refuses, use.at, [use.at, *use.indices], flag)
        return made

    def _value(self, flag: Flag, use: Use) -> Any:
        if flag.kind == "pair":
            return use.name not in flag.negative
        if flag.kind == "switch":
            return True if flag.const is None else flag.const
        stored = [value(flag, w, self.engine) for w in use.words]
        for v in stored:
            check_choice(flag, v)
        if flag.kind == "list":
            return stored
        if not stored:
            return True if flag.const is None else flag.const
        return stored[0]

    def _left_over(self, extras: list[int], words: Words) -> None:
        """The words that no flag took, each unknown flag with what stands behind it."""
        if not extras:
            return
        message = f"{self.outer}: error: unrecognized arguments: " + " ".join(words.words[i] for i in extras)
        groups: list[list[int]] = []
        for i in extras:
            before = groups[-1][-1] if groups else -9
            beside = before == i - 1 and words.origins[before] == words.origins[i] - 1
            if beside and not words.words[i].startswith(("-", "\u2013", "\u2014")):  # a long dash was meant as a flag's
                groups[-1].append(i)
            else:
                groups.append([i])
        for group in groups[:_MOST]:
            head = words.words[group[0]]
            typed = self.arguments[words.origins[group[0]]]
            flag = head.startswith("-") and head != "--"
            self._add(
                Error(
                    kind="unknown" if flag else "extra",
                    message=message,
                    word=typed.partition("=")[0] if flag else typed,
                    name=head.partition("=")[0] if flag else "",
                    value=head.partition("=")[2] or " ".join(words.words[i] for i in group[1 if flag else 0 :]),
                    words=tuple(words.words[i] for i in group),
                    at=words.origins[group[0]],
                )
            )

    def _required(self, used: list[Use]) -> None:
        seen = {u.flag.dest for u in used}
        missing = [f for f in self.parser.required if f.dest not in seen]
        if missing:
            message = f"{self.prog}: error: the following arguments are required: " + ", ".join(map(shown, missing))
            for flag in missing:
                self._add(
                    Error(kind="required", message=message, word=flag.names[0], name=flag.names[0], dest=flag.dest)
                )

    def _made(self, uses: list[tuple[Use, Any]], words: Words, asked: bool) -> Options:
        values: dict[str, Any] = {f.dest: f.default for f in self.parser.flags}
        given: list[Given] = []
        for use, stored in uses:
            flag = use.flag
            if flag.repeats:
                before = [g.value for g in given if g.dest == flag.dest]
                values[flag.dest] = [*before, stored]
            else:
                values[flag.dest] = stored
            if flag.positional:
                continue
            at = words.origins[use.at]
            typed = self.arguments[at].partition("=")[0]
            word = words.words[use.at]
            whole = word in names_of(flag) or word.partition("=")[0] in names_of(flag)
            given.append(
                Given(
                    word=typed,
                    name=use.name,
                    dest=flag.dest,
                    value=stored,
                    words=use.words,
                    at=at,
                    abbreviated=(not whole and word.startswith("--"))
                    or (not whole and not use.inline and word != use.name),
                    negated=use.name in flag.negative,
                    dotted="." in typed and typed.startswith("-"),
                )
            )
        for g in given:
            if any(OPEN.search(w) for w in g.words):
                self.open.setdefault(g.dest, " ".join(g.words))
        values.update({dest: word for dest, word in self.open.items() if dest in values})
        return Options(
            table=self.table,
            values=values,
            given=tuple(given),
            errors=tuple(self.errors),
            config=words.config,
            help=asked,
            model=self._model(values),
            open=self.open,
        )

    def _model(self, values: dict[str, Any]) -> str | None:
        """What the engine would load: the positional counts for `vllm serve` only."""
        if self.engine == "sglang":
            return values.get("model_path")
        return (values.get("model_tag") if self.serve else None) or values.get("model")


@functools.lru_cache(maxsize=8)
def _parser(key: _Key, entry: str) -> Parser:
    table = key.chosen.flags
    flags = [f for f in table.flags if f.entries is None or entry in f.entries]
    return Parser(flags, "no-abbreviations" not in table.ways)
