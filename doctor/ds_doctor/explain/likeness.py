"""A sentence without any literal signature -> the entries that people mean by such words, with a score; does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from .index import PRINTED, WORTH, Index, rarity
from .rank import Match
from .scan import Hit, quoted
from .text import mildness
from .words import tokens

# Measured by tests/bench/explain_words.py on phrases that are not in the catalogue: above SURE the first answer is right in 80 of
# 100 and one of three in 92; below LEAST sentences about something else begin to be answered.
SURE = 0.6
LEAST = 0.45
SPOKEN = 0.4  # the share of a score that all phrases of an entry give together
CONTENT = 3  # words that tell what is meant
ALONE = 0.75  # of its score: fewer words say little
SAME = 0.99  # the likeness of a phrase that is asked as it stands
DOUBT = 0.59  # the score of a phrase of one or two words that is asked as it stands: not sure
NEAR = 0.8  # what a word with a typing error is worth
ALIKE = 80  # of 100, by which two words are the same but for an error
_ERROR = re.compile(
    r"error|exception|fail|cannot|can't|could not|unable|unsupported|not (?:support|found|allow)|invalid|denied|refused|missing"
    r"|timed? ?out|killed|abort|fatal|panic|unexpected|mismatch|assert|错误|失败|无法|异常|超时|拒绝",
    re.IGNORECASE,
)
MOST = 8  # answers
MOST_LINES = 60  # of a log that are asked
WORDY = 5  # words that a line of a log must have to be asked
FEW = 3  # lines that may belong together as one message
ENOUGH = 4  # known words that a text must have to be taken for a printed one


class _Likest(msgspec.Struct):
    """How like an entry the likest line is, and which one that is."""

    score: float
    source: int
    number: int
    line: str


def alike_sentence(index: Index, text: str) -> list[Match]:
    """The entries that people mean by such a sentence, best first; those worth showing only."""
    best = {entry: _Likest(score, 0, 1, text) for entry, score in scores(index, text).items()}
    return _matches(index, best, LEAST)


def alike_log(index: Index, lines: Sequence[tuple[int, int, str]], without: frozenset[str]) -> list[Match]:
    """The same for lines of logs, each with its source and number; not the entries in `without`.

    Only what complains speaks of a fault; headings, settings and warnings complain of nothing. What is not sure is not said.
    """
    asked = [(s, n, x) for s, n, x in lines if _ERROR.search(x) and not mildness(x) and len(tokens(x)) >= WORDY]
    asked = asked[-MOST_LINES:]
    if asked and len(lines) <= FEW:  # one message on several lines
        asked.append((*asked[0][:2], " ".join(x for _, _, x in lines)))
    best: dict[int, _Likest] = {}
    for source, number, line in asked:
        for entry, score in scores(index, line).items():
            if index.entries[entry].name not in without and (entry not in best or score > best[entry].score):
                best[entry] = _Likest(score, source, number, line)
    return _matches(index, best, SURE)


def _matches(index: Index, best: dict[int, _Likest], least: float) -> list[Match]:
    order = sorted(best.items(), key=lambda pair: (-pair[1].score, pair[0]))
    return [
        Match(
            index.entries[e].name,
            index.entries[e].kind,
            round(like.score, 2),
            (Hit(like.source, like.number, 0, quoted(like.line, 0, 0), 0),),
            like.score >= SURE,
            literal=False,
        )
        for e, like in order
        if like.score >= least
    ][:MOST]


def scores(index: Index, text: str, without: int = -1) -> dict[int, float]:
    """Entry -> how like it the text is, from 0 to 1; the phrase `without` is not looked at.

    How like its likest phrase, and how much of what is asked stands anywhere in its phrases.
    """
    known: list[_Word] = []
    total = 0.0
    known_words = index.words
    asked = tokens(text)[:80]
    for word in asked:
        near = word if word in known_words else _near(known_words, word)
        if near is None:
            # A word that nobody uses says little of the fault, and something against every entry.
            total += rarity(1, len(index.entries)) / 2
            continue
        every = index.phrases(near)
        phrases = [p for p in every if p != without]
        about = {index.about[p] for p in every}
        rare = rarity(len(about), len(index.entries))
        total += rare
        worth = rare if near == word else rare * NEAR
        known.append(_Word(worth, phrases, {index.about[p] for p in phrases}))
    shared: dict[int, float] = {}
    spoken: dict[int, float] = {}
    for one in known:
        for p in one.phrases:
            shared[p] = shared.get(p, 0.0) + one.worth
        for entry in one.about:
            spoken[entry] = spoken.get(entry, 0.0) + one.worth
    best: dict[int, float] = {}
    for p, common in shared.items():
        if not index.weight[p] or (index.worth[p] == PRINTED and len(known) < ENOUGH):
            continue
        entry = index.about[p]
        likeness = (common / total * common / index.weight[p]) ** 0.5
        score = (1 - SPOKEN) * WORTH[index.worth[p]] * likeness + SPOKEN * spoken[entry] / total
        if len(asked) < CONTENT:  # a word or two may mean anything, unless somebody said just that
            score = min(score, DOUBT) if likeness > SAME else score * ALONE if len(asked) > 1 else 0.0
        best[entry] = max(best.get(entry, 0.0), min(1.0, score))
    return best


class _Word(msgspec.Struct):
    """A word of the question that some entry uses: what it is worth, the phrases that hold it, their entries."""

    worth: float
    phrases: list[int]
    about: set[int]


def _near(words: Iterable[str], word: str) -> str | None:
    """The known word that this one is but for a typing error."""
    if len(word) < 4 or not word.isascii() or word[0].isdigit():
        return None
    try:
        from rapidfuzz import fuzz, process
    except ImportError:
        return _near_plainly(list(words), word)
    found = process.extractOne(word, words, scorer=fuzz.ratio, score_cutoff=ALIKE)
    return found[0] if found is not None else None


def _near_plainly(words: Sequence[str], word: str) -> str | None:
    import difflib

    near = difflib.get_close_matches(word, words, 1, ALIKE / 100)
    return near[0] if near else None
