"""The catalogue as `explain` searches it: patterns by number, words by phrase; made once, when the catalogue is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from .. import pattern
from ..catalogue import Catalogue, Cause, Rule, Signs, Symptom, Tier
from .words import tokens

Kind = Literal["rule", "cause", "symptom"]
Entry_ = Rule | Cause | Symptom
# How much a likeness to each kind of text is worth: what people say, a title, what a program printed.
SAID, TITLED, PRINTED = 1.0, 0.92, 0.9
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


class Index(msgspec.Struct, frozen=True):
    """`words[w]` are the numbers of the phrases that hold the word w; phrase p speaks of entry `about[p]`."""

    patterns: tuple[str, ...] = ()
    literals: tuple[tuple[str, ...], ...] = ()
    entries: tuple[Entry, ...] = ()
    words: dict[str, tuple[int, ...]] = {}
    about: tuple[int, ...] = ()
    worth: tuple[float, ...] = ()
    weight: tuple[float, ...] = ()


def every(catalogue: Catalogue) -> Iterator[tuple[str, Kind, Entry_]]:
    """All entries of a catalogue."""
    for name, rule in catalogue.rule.items():
        yield name, "rule", rule
    for name, cause in catalogue.cause.items():
        yield name, "cause", cause
    for name, symptom in catalogue.symptom.items():
        yield name, "symptom", symptom


def build(catalogue: Catalogue) -> Index:
    """The index of a catalogue."""
    numbers: dict[str, int] = {}
    entries: list[Entry] = []
    phrases: list[tuple[int, float, list[str]]] = []

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
    return Index(
        patterns=tuple(numbers),
        literals=tuple(pattern.literals(t) for t in numbers),
        entries=tuple(entries),
        words={word: tuple(where) for word, where in words.items()},
        about=tuple(about for about, _, _ in phrases),
        worth=tuple(worth for _, worth, _ in phrases),
        weight=tuple(round(sum(rare[w] for w in bag), 3) for _, _, bag in phrases),
    )


def rarity(count: int, of: int) -> float:
    """How much a word tells that stands in `count` of so many entries."""
    import math

    return math.log(1 + of / (1 + count))


def _texts(entry: Entry_) -> Iterator[tuple[float, str]]:
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
