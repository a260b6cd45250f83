"""Which patterns stand in a stream of blocks, and on which lines; knows no entry of the catalogue.

A scanner tells for a block which patterns may be in it; each is then looked for line by line, so that all scanners give the
same answers. Short texts are scanned with Python alone; for long logs Hyperscan, where it is installed, reads all patterns
at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ..pattern import Matcher, loose
from .text import mildness

KEEP = 3  # lines kept for a pattern
WINDOW = 4000  # characters of a line that a pattern is tried on: what a match may stretch over
SHOWN = 400  # characters of a line that are quoted
SMALL = 4 << 20  # bytes after which the fast scanner is worth its start
# What must not be repeated, wherever it stood: tokens, keys, passwords in addresses.
_SECRET = re.compile(
    r"\b(?:hf_|sk-|ghp_|gho_|glpat-|nvapi-|xox[bp]-)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?<=Bearer )[\w.~+/-]{8,}"
    r"|(?<=AKIA)[A-Z0-9]{12,}|((?:api[_-]?key|token|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;]{12,}",
    re.IGNORECASE,
)
_WORDS = re.compile(rb"[a-z]{4,}")
Scanner = Callable[[bytes], Iterable[int]]


class Hit(msgspec.Struct, frozen=True, order=True):
    """One line in which a pattern stands. `source` counts the texts in the order given, `line` counts from 1."""

    source: int
    line: int
    at: int
    text: str
    mild: int


Hits = dict[int, list[Hit]]


class Scan:
    """Reads texts one after the other, and holds what was found so far."""

    def __init__(self, patterns: Sequence[str], literals: Sequence[str], fast: bool | None = None) -> None:
        """`fast`: with Hyperscan from the start, without it, or (None) once a text grows long."""
        self.hits: Hits = {}
        self.size = 0
        self._patterns = patterns
        self._literals = [text.encode() for text in literals]
        self._matchers: dict[int, Matcher] = {}
        self._full: set[int] = set()
        self._fast = fast
        self._scanner: Scanner = Words(self._literals)
        if fast:
            self._speed_up()

    def _speed_up(self) -> None:
        self._fast = False
        scanner = hyperscanner(self._patterns)
        if scanner is not None:
            self._scanner = scanner

    def read(self, source: int, blocks: Iterable[bytes]) -> Iterator[int]:
        """Scan one text; gives the number of bytes after each block, for whoever shows progress."""
        line = 1
        for block in blocks:
            if self._fast is None and self.size > SMALL:
                self._speed_up()
            todo = [p for p in self._scanner(block) if p not in self._full]
            if todo:
                lower = block.lower()
                for p in todo:
                    self._look(p, source, line, block, lower)
            line += block.count(b"\n")
            self.size += len(block)
            yield len(block)

    def _look(self, p: int, source: int, first: int, block: bytes, lower: bytes) -> None:
        """Try the pattern on the lines of the block that hold its literal."""
        literal = self._literals[p]
        matcher = self._matchers.get(p)
        at = lower.find(literal)
        while at >= 0:
            if matcher is None:
                matcher = self._matchers[p] = Matcher(self._patterns[p])
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            begin = max(start, at - WINDOW)
            raw = block[begin : min(end, at + WINDOW)]
            text = raw.decode("utf-8", "replace")
            if begin > start:
                text = text.lstrip("\N{REPLACEMENT CHARACTER}")
            span = matcher.find(text)
            if span is not None:
                kept = self.hits.setdefault(p, [])
                number = first + block.count(b"\n", 0, start)
                kept.append(Hit(source, number, span[0], quoted(text, *span), mildness(text)))
                if len(kept) >= KEEP:
                    self._full.add(p)
                    return
            # A long line is looked at in windows, each once.
            at = lower.find(literal, end if end <= at + WINDOW else at + WINDOW // 2)


def quoted(line: str, start: int, end: int) -> str:
    """The piece of a line around a match that is shown: between carriage returns, of sane length."""
    left = line.rfind("\r", 0, start) + 1
    right = line.find("\r", end)
    right = len(line) if right < 0 else right
    lead = "…" if start - left > SHOWN // 2 else ""
    left = max(left, start - SHOWN // 2)
    tail = "…" if right - left > SHOWN else ""
    return lead + masked(line[left : left + SHOWN] if tail else line[left:right]).strip() + tail


def masked(text: str) -> str:
    """The text without secrets."""
    return _SECRET.sub(lambda m: (m[1] or "") + "***", text)


class Words:
    """The plain scanner: a literal is looked for only where the block holds the words that it holds whole."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self._inner: list[bytes] | None = None

    def __call__(self, block: bytes) -> list[int]:
        lower = block.lower()
        if len(block) < 20_000:
            return [i for i, literal in enumerate(self._literals) if literal in lower]
        if self._inner is None:
            self._inner = [_whole_word(literal) for literal in self._literals]
        there = set(_WORDS.findall(lower))
        return [
            i
            for i, (literal, word) in enumerate(zip(self._literals, self._inner, strict=True))
            if (not word or word in there) and literal in lower
        ]


def _whole_word(literal: bytes) -> bytes:
    """The longest word that stands in the literal with its ends; the first and last may go on outside of it."""
    found = [m[0] for m in _WORDS.finditer(literal) if m.start() > 0 and m.end() < len(literal)]
    return max(found, key=len, default=b"")


def hyperscanner(patterns: Sequence[str]) -> Scanner | None:
    """All patterns in one automaton; None where Hyperscan is not installed or does not run here."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
    try:
        database.compile(
            expressions=[loose(p).encode() for p in patterns],
            ids=list(range(len(patterns))),
            flags=[flags] * len(patterns),
        )
    except hyperscan.HyperscanError:
        return None
    found: list[int] = []

    def hit(number: int, start: int, end: int, flags: int, context: object) -> None:
        found.append(number)

    def scan(block: bytes) -> list[int]:
        found.clear()
        database.scan(block, match_event_handler=hit)
        return sorted(found)

    return scan
