"""A sentence without any literal signature -> the entries that people mean by such words, with a score; does no I/O."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .index import PRINTED, Index, rarity
from .rank import Match
from .text import INFORMATION, mildness
from .words import tokens

# Measured by tests/bench/explain_words.py: above SURE nearly every first answer is right, below LEAST most are wrong.
SURE = 0.62
LEAST = 0.42
NEAR = 0.8  # what a word with a typing error is worth
ALIKE = 80  # of 100, by which two words are the same but for an error
_ERROR = re.compile(
    r"error|exception|fail|cannot|can't|could not|unable|unsupported|not (?:support|found|allow)|invalid|denied|refused|missing"
    r"|timed? ?out|killed|abort|fatal|panic|unexpected|mismatch|assert|错误|失败|无法|异常|超时|拒绝",
    re.IGNORECASE,
)
MOST_LINES = 60


def alike(index: Index, text: str, most: int = 8) -> list[Match]:
    """The entries whose phrases are like the text, best first, those worth showing only."""
    lines = [line for line in text.splitlines() if line.strip()]
    asked = lines
    if len(lines) > 1:  # a log: only what complains speaks of a fault
        asked = [line for line in lines if _ERROR.search(line) and mildness(line) < INFORMATION][-MOST_LINES:]
        if asked and len(lines) <= 3:
            asked.append(" ".join(lines))
    best: dict[int, float] = {}
    for line in asked:
        for entry, score in scores(index, line).items():
            best[entry] = max(best.get(entry, 0.0), score)
    order = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
    return [
        Match(index.entries[e].name, index.entries[e].kind, round(score, 2), (), score >= SURE)
        for e, score in order[:most]
        if score >= LEAST
    ]


def scores(index: Index, text: str, without: int = -1) -> dict[int, float]:
    """Entry -> how like it the text is, from 0 to 1; the phrase `without` is not looked at."""
    asked = tokens(text)[:80]
    if not asked:
        return {}
    known: list[tuple[str, float]] = []
    total = 0.0
    for word in asked:
        where = index.words.get(word)
        if where is not None:
            known.append((word, 1.0))
            total += rarity(len(where), len(index.about))
            continue
        near = _near(index, word)
        # A word that nobody uses says little of the fault, and something against every phrase.
        total += rarity(1, len(index.about)) * (0.5 if near is None else 1.0)
        if near is not None:
            known.append((near, NEAR))
    common: dict[int, float] = {}
    for word, worth in known:
        phrases = index.words[word]
        rare = rarity(len(phrases), len(index.about)) * worth
        for p in phrases:
            common[p] = common.get(p, 0.0) + rare
    best: dict[int, float] = {}
    for p, shared in common.items():
        if not index.weight[p] or p == without:
            continue
        asked_share, phrase_share = shared / total, shared / index.weight[p]
        score = index.worth[p] * (asked_share * phrase_share) ** 0.5
        if index.worth[p] == PRINTED and len(known) < 3:
            continue
        entry = index.about[p]
        if score > best.get(entry, 0.0):
            best[entry] = min(1.0, score)
    return best


def _near(index: Index, word: str) -> str | None:
    """The known word that this one is but for a typing error."""
    if len(word) < 4 or not word.isascii() or word[0].isdigit():
        return None
    try:
        from rapidfuzz import fuzz, process
    except ImportError:
        return _near_plainly(list(index.words), word)
    found = process.extractOne(word, index.words.keys(), scorer=fuzz.ratio, score_cutoff=ALIKE)
    return found[0] if found is not None else None


def _near_plainly(words: Sequence[str], word: str) -> str | None:
    import difflib

    near = difflib.get_close_matches(word, words, 1, ALIKE / 100)
    return near[0] if near else None
