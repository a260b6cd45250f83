"""The catalogue as `explain` searches it: patterns by number, words by phrase; made once, when the catalogue is compiled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from .. import pattern
from ..catalogue import Catalogue, Cause, Rule, Signs, Symptom, Tier
from .words import tokens

Kind = Literal["rule", "cause", "symptom"]
Entry_ = Rule | Cause | Symptom
# The kinds of texts, and how much a likeness to each is worth: what people say, a title, what a program printed.
SAID, TITLED, PRINTED = 0, 1, 2
WORTH = (1.0, 0.92, 0.9)
LONGEST = 40  # words of a printed text that are looked at


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One entry that can be recognised: its patterns by their number."""

    name: str
    kind: Kind
    tier: Tier
    match: tuple[int, ...]
    also: tuple[int, ...]
    unless: tuple[int, ...]
    over: tuple[str, ...]


class Packed(msgspec.Struct, frozen=True):
    """An index as it is kept: what a question does not touch is not taken apart.

    Patterns stand on lines, their literals on the same lines parted by tabs. `words` gives for each word the numbers of the
    phrases that hold it; of phrase p `about`, `worth` and `weight` say its entry, how much it is worth and how much it tells.
    """

    patterns: str
    literals: str
    entries: tuple[Entry, ...]
    words: dict[str, msgspec.Raw]
    about: bytes
    worth: bytes
    weight: bytes


class Index:
    """An index as it is asked."""

    def __init__(self, packed: Packed) -> None:
        from array import array

        self.entries = packed.entries
        self.patterns = packed.patterns.split("\n") if packed.patterns else []
        self._literals = packed.literals
        self._words = packed.words
        self.about = array("H", packed.about)
        self.worth = packed.worth
        self.weight = array("f", packed.weight)

    @property
    def literals(self) -> list[tuple[str, ...]]:
        """Of each pattern, the runs of characters of which every match holds one."""
        return [tuple(line.split("\t")) for line in self._literals.split("\n")] if self.patterns else []

    @property
    def words(self) -> Iterable[str]:
        """Every word that some phrase holds."""
        return self._words.keys()

    def phrases(self, word: str) -> list[int]:
        """The phrases that hold the word."""
        raw = self._words.get(word)
        return msgspec.json.decode(raw, type=list[int]) if raw is not None else []


def joined(first: Packed, second: Packed) -> Packed:
    """Two indexes as one; quick where the second is small. Both are of the same sort of entries, none of which is in both."""
    from array import array

    if not second.entries:
        return first
    patterns = len(first.patterns.split("\n")) if first.patterns else 0
    entries, phrases = len(first.entries), len(first.worth)

    def shifted(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(n + patterns for n in numbers)

    words = dict(first.words)
    for word, raw in second.words.items():
        before = msgspec.json.decode(words[word], type=list[int]) if word in words else []
        more = [n + phrases for n in msgspec.json.decode(raw, type=list[int])]
        words[word] = msgspec.Raw(msgspec.json.encode([*before, *more]))
    return Packed(
        patterns="\n".join(p for p in (first.patterns, second.patterns) if p),
        literals="\n".join(p for p in (first.literals, second.literals) if p),
        entries=(
            *first.entries,
            *(
                msgspec.structs.replace(e, match=shifted(e.match), also=shifted(e.also), unless=shifted(e.unless))
                for e in second.entries
            ),
        ),
        words=words,
        about=first.about + array("H", [n + entries for n in array("H", second.about)]).tobytes(),
        worth=first.worth + second.worth,
        weight=first.weight + second.weight,
    )


def every(catalogue: Catalogue) -> Iterator[tuple[str, Kind, Entry_]]:
    """All entries of a catalogue."""
    for name, rule in catalogue.rule.items():
        yield name, "rule", rule
    for name, cause in catalogue.cause.items():
        yield name, "cause", cause
    for name, symptom in catalogue.symptom.items():
        yield name, "symptom", symptom


def build(catalogue: Catalogue) -> Packed:
    """The index of a catalogue."""
    from array import array

    numbers: dict[str, int] = {}
    entries: list[Entry] = []
    phrases: list[tuple[int, int, list[str]]] = []

    def numbered(texts: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(numbers.setdefault(text, len(numbers)) for text in texts)

    outer = [
        pattern.Matcher(t) for _, _, e in every(catalogue) if e.tier in ("consequence", "wrapper") for t in e.match
    ]
    for name, kind, entry in every(catalogue):
        match, also, unless = numbered(entry.match), numbered(entry.also), numbered(entry.unless)
        entries.append(Entry(name, kind, entry.tier, match, also, unless, entry.over))
        for worth, text in _texts(entry):
            # A line that wraps other messages is printed beside all of them and tells none.
            if worth == PRINTED and any(m.find(text) for m in outer):
                continue
            phrases.append((len(entries) - 1, worth, tokens(text)[:LONGEST]))
    words: dict[str, list[int]] = {}
    for i, (_, _, bag) in enumerate(phrases):
        for word in bag:
            words.setdefault(word, []).append(i)
    rare = {word: rarity(len({phrases[p][0] for p in where}), len(entries)) for word, where in words.items()}
    return Packed(
        patterns="\n".join(numbers),
        literals="\n".join("\t".join(pattern.literals(t)) for t in numbers),
        entries=tuple(entries),
        words={word: msgspec.Raw(msgspec.json.encode(where)) for word, where in words.items()},
        about=array("H", [about for about, _, _ in phrases]).tobytes(),
        worth=bytes(worth for _, worth, _ in phrases),
        weight=array("f", [sum(rare[w] for w in bag) for _, _, bag in phrases]).tobytes(),
    )


def rarity(count: int, of: int) -> float:
    """How much a word tells that stands in `count` of so many entries."""
    import math

    return math.log(1 + of / (1 + count))


def _texts(entry: Entry_) -> Iterator[tuple[int, str]]:
    for text in (*entry.phrases.en, *entry.phrases.zh):
        yield SAID, text
    for text in (entry.title.en, entry.title.zh):
        yield TITLED, text
    for text in entry.seen:
        for line in text.splitlines():
            yield PRINTED, line


def signs(entry: Signs) -> bool:
    """Whether a text can show the entry at all."""
    return bool(entry.match or entry.phrases.en or entry.phrases.zh)
