"""The words of an engine's command: its options, the numbers in them, and what is a secret; knows no flag's meaning."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .variables import HIDDEN, is_secret_flag

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
# What a shell, a manifest or a template would still have to fill in: $X, ${X}, $(command), `command`, $((1+1)).
OPEN = re.compile(r"\$(?:[A-Za-z_{(]|[@*#?]|[0-9])|`[^`]+`")
_SIZE_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def bytes_of(text: str) -> int | None:
    """`2g`, `512mb`, `67108864`, `1.5GiB` as docker reads sizes; None for anything else."""
    m = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*(?:([bkmgt])(?:i?b)?)?\s*", text.lower())
    return int(float(m[1]) * _SIZE_UNITS[m[2] or "b"]) if m else None


def option(argv: Sequence[str], flags: tuple[str, ...]) -> str | None:
    """The last value given to one of the flags; underscores count as dashes, as both engines' parsers have it."""
    found: str | None = None
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("_", "-")
        if name in flags:
            if equals:
                found = value
            elif i + 1 < len(argv) and not argv[i + 1].startswith("-"):
                found = argv[i + 1]
    return found


def has(argv: Sequence[str], flags: tuple[str, ...]) -> bool:
    """Whether one of the flags is given, with or without a value."""
    return any(w.partition("=")[0].replace("_", "-") in flags for w in argv)


def number(argv: Sequence[str], flags: tuple[str, ...]) -> int | None:
    """The positive number given to one of the flags; None where there is none."""
    text = option(argv, flags)
    return int(text) if text is not None and re.fullmatch(r"[1-9][0-9]{0,5}", text) else None


def hidden(argv: Sequence[str]) -> tuple[str, ...]:
    """The words without secrets: a fact is written to reports and snapshots."""
    words: list[str] = []
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if i and is_secret_flag(argv[i - 1]) and word and not OPEN.match(word):
            word = HIDDEN
        elif equals and value and is_secret_flag(name) and not OPEN.match(value):
            word = f"{name}={HIDDEN}"
        words.append(re.sub(r"(?<=://)[^/@\s]+@", HIDDEN + "@", word))
    return tuple(words)


def without_redirections(command: Sequence[str]) -> list[str]:
    """The words without what a shell keeps for itself (`> log 2>&1 &`, a pipe and what follows it): a command copied out
    of a script brings them along."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word in ("&", ";", "|", "|&", "||", "&&"):
            break
        if re.fullmatch(r"\d*>>?|&>>?|<", word):
            next(words, None)
        elif not re.match(r"\d*>>?\S|&>>?\S", word):
            kept.append(word)
    return kept


class Options:
    """Reads a wrapper's options off the front of its words, as getopt does.

    `bare`: those without a value. `valued`: those with one. One that is in neither counts as bare when it is short or
    `--name=value`, and is kept in `odd`: whether it takes the next word is not known.
    """

    def __init__(self, words: Sequence[str], valued: frozenset[str], bare: frozenset[str] | None = None) -> None:
        self.given: list[tuple[str, str]] = []
        self.odd: list[str] = []
        self.rest: list[str] = []
        i = 0
        while i < len(words) and words[i].startswith("-") and words[i] != "-":
            word = words[i]
            i += 1
            if word == "--":
                break
            name, equals, value = word.partition("=")
            if name in valued:
                if not equals:
                    value = words[i] if i < len(words) else ""
                    i += 1
                self.given.append((name, value))
            elif len(word) > 2 and not word.startswith("--") and word[:2] in valued:
                self.given.append((word[:2], word[2:].removeprefix("=")))
            else:
                self.given.append((name, value))
                if bare is not None and not equals and name not in bare:
                    self.odd.append(name)
        self.rest = list(words[i:])

    def values(self, *names: str) -> Iterator[str]:
        return (v for n, v in self.given if n in names)

    def last(self, *names: str) -> str | None:
        found = None
        for value in self.values(*names):
            found = value
        return found
