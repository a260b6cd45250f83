"""argparse of Python 3.11 over a flag table: which words are flags, what each takes, what is left over. It knows no engine.

It is written out here because argparse itself differs from Python to Python, ends the process at the first error and takes
longer to be told 500 flags than the whole lint may. CPython 3.11 Lib/argparse.py: _parse_known_args, _parse_optional,
_get_option_tuples, _get_nargs_pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ds_doctor.probes.engine_flags import Flag

NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")


class Fault(Exception):
    """The parser ends here. `at`: the word it is about; `drop`: the words without which the rest can be parsed."""

    def __init__(
        self,
        kind: str,
        message: str,
        at: int,
        drop: Sequence[int],
        flag: Flag | None = None,
        matches: Sequence[str] = (),
    ) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message
        self.at = at
        self.drop = tuple(drop)
        self.flag = flag
        self.matches = tuple(matches)


class HelpAsked(Exception):
    """The parser prints its help and ends well."""


class Use(NamedTuple):
    """One flag as it was used: under which name, at which word (None: the positional), with which words; `inline`: `--x=value`."""

    flag: Flag
    name: str
    at: int
    words: tuple[str, ...]
    indices: tuple[int, ...]
    inline: bool


class Meant(NamedTuple):
    """A word that looks like a flag: what it means, under which whole name, and what stands behind `=` or is glued on."""

    flag: Flag | None
    name: str
    explicit: str | None


def names_of(flag: Flag) -> tuple[str, ...]:
    """Every name that the parser takes for the flag, in the order in which it knows them."""
    return (*flag.names, *(n for n in flag.negative if n not in flag.names))


def shown(flag: Flag) -> str:
    """The flag as argparse names it in a message: all its names that stand in help, where vLLM's --no-enable-x does not
    if there is a --disable-x."""
    if flag.positional:
        return flag.dest
    names = names_of(flag)
    paired = any(n.startswith(("--enable-", "--disable-")) for n in names[1:]) and flag.kind == "pair"
    return "/".join(n for n in names if not (paired and n.startswith(("--no-enable-", "--no-disable-"))))


class Parser:
    """A flag table, made ready. `abbreviations`: whether argparse was left to complete names."""

    def __init__(self, flags: Sequence[Flag], abbreviations: bool = True) -> None:
        self.flags = tuple(flags)
        self.names = {name: f for f in flags if not f.positional for name in names_of(f)}
        self.positional = next((f for f in flags if f.positional), None)
        self.required = [f for f in flags if f.required and not f.positional]
        self.abbreviations = abbreviations

    def meant(self, word: str, at: int, following: int | None = None) -> Meant | None:
        """None: the word is no flag. Raises Fault for an abbreviation of several flags."""
        if not word.startswith("-"):
            return None
        if word in self.names:
            return Meant(self.names[word], word, None)
        if len(word) == 1:
            return None
        name, equals, value = word.partition("=")
        if equals and name in self.names:
            return Meant(self.names[name], name, value)
        found = self._completed(word)
        if len(found) > 1:
            matches = [m.name for m in found]
            message = f"ambiguous option: {word} could match {', '.join(matches)}"
            raise Fault("ambiguous", message, at, [at] if following is None else [at, following], matches=matches)
        if found:
            return found[0]
        if NEGATIVE_NUMBER.match(word) or " " in word:
            return None
        return Meant(None, word, None)

    def _completed(self, word: str) -> list[Meant]:
        if word.startswith("--"):
            if not self.abbreviations:
                return []
            prefix, equals, value = word.partition("=")
            return [Meant(f, n, value if equals else None) for n, f in self.names.items() if n.startswith(prefix)]
        short, glued = word[:2], word[2:]
        found = []
        for n, f in self.names.items():
            if n == short:
                found.append(Meant(f, n, glued))
            elif n.startswith(word):
                found.append(Meant(f, n, None))
        return found

    def parse(self, words: Sequence[str]) -> tuple[list[Use], list[int]]:
        """The uses in order, and the indices of the words that nothing takes. Raises Fault, HelpAsked."""
        meanings: dict[int, Meant] = {}
        pattern = ""
        for i, word in enumerate(words):
            if word == "--":
                pattern += "-" + "A" * (len(words) - i - 1)
                break
            behind = i + 1 if i + 1 < len(words) and not words[i + 1].startswith("-") else None
            m = self.meant(word, i, behind)
            if m is not None:
                meanings[i] = m
            pattern += "A" if m is None else "O"
        uses: list[Use] = []
        extras: list[int] = []
        open_positional = [self.positional] if self.positional is not None else []

        def positionals(start: int) -> int:
            if not open_positional:
                return start
            flag = open_positional.pop()
            m = re.match(_nargs(flag), pattern[start:])
            if m is None:
                open_positional.append(flag)
                return start
            stop = start + len(m[0])
            taken = [i for i in range(start, stop) if words[i] != "--"]
            if taken:
                uses.append(Use(flag, flag.dest, taken[0], tuple(words[i] for i in taken), tuple(taken), False))
            return stop

        i, last = 0, max(meanings, default=-1)
        while i <= last:
            following = min(k for k in meanings if k >= i)
            if i != following:
                stop = positionals(i)
                if stop > i:
                    i = stop
                    continue
            if i not in meanings:
                extras.extend(range(i, following))
                i = following
            i = self._take(words, pattern, i, meanings[i], uses, extras)
        stop = positionals(i)
        extras.extend(range(stop, len(words)))
        return uses, extras

    def _take(
        self, words: Sequence[str], pattern: str, at: int, meant: Meant, uses: list[Use], extras: list[int]
    ) -> int:
        """Take the flag at a word with what belongs to it; the index behind."""
        flag, name, explicit = meant
        if flag is None:
            extras.append(at)
            return at + 1
        before: list[Use] = []
        while explicit is not None:
            count = _count(flag, "A")
            if count is None:
                raise self._missing(flag, at)
            if count == 0 and not name.startswith("--") and explicit != "":
                before.append(Use(flag, name, at, (), (), False))
                glued = self.names.get(name[0] + explicit[0])
                if glued is None:
                    raise self._ignored(flag, explicit, at)
                name, flag, explicit = name[0] + explicit[0], glued, explicit[1:] or None
            elif count == 1:
                uses.extend(before)
                uses.append(Use(flag, name, at, (explicit,), (), True))
                return at + 1
            else:
                raise self._ignored(flag, explicit, at)
        count = _count(flag, pattern[at + 1 :])
        if count is None:
            raise self._missing(flag, at)
        uses.extend(before)
        if flag.dest == "help":
            raise HelpAsked
        taken = range(at + 1, at + 1 + count)
        uses.append(Use(flag, name, at, tuple(words[i] for i in taken), tuple(taken), False))
        return at + 1 + count

    def _ignored(self, flag: Flag, explicit: str, at: int) -> Fault:
        return Fault("bool-value", f"argument {shown(flag)}: ignored explicit argument {explicit!r}", at, [at], flag)

    def _missing(self, flag: Flag, at: int) -> Fault:
        expected = {
            None: "expected one argument",
            "?": "expected at most one argument",
            "+": "expected at least one argument",
        }
        text = expected.get(flag.nargs if isinstance(flag.nargs, str) else None)
        if isinstance(flag.nargs, int):
            text = f"expected {flag.nargs} argument{'s' if flag.nargs > 1 else ''}"
        return Fault("no-value", f"argument {shown(flag)}: {text}", at, [at], flag)


def _nargs(flag: Flag) -> str:
    """argparse's pattern over A (word), O (flag) and - (`--`)."""
    if flag.kind in ("switch", "pair"):
        pattern = "-*-*"
    elif flag.kind == "optional":
        pattern = "-*A?-*"
    elif flag.kind == "list":
        pattern = "-*[A-]*" if flag.nargs == "*" else "-*A[A-]*"
        if isinstance(flag.nargs, int):
            pattern = "-*" + "-*".join("A" * flag.nargs) + "-*"
    else:
        pattern = "-*A-*"
    return pattern if flag.positional else pattern.replace("-*", "").replace("-", "")


def _count(flag: Flag, pattern: str) -> int | None:
    m = re.match(_nargs(flag), pattern)
    return None if m is None else len(m[0])
