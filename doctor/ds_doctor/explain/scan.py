"""Which patterns stand in a stream of blocks, and on which lines; knows no entry of the catalogue.

A scanner tells which literals are in a block; the patterns that need them are then tried line by line, so that all scanners
give the same answers. Short texts are scanned with Python alone; in long logs Hyperscan, where it is installed, looks for all
literals at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from ..pattern import Matcher
from .text import mildness

KEEP = 3  # lines kept for a pattern
WINDOW = 4000  # characters of a line that a pattern is tried on: what a match may stretch over
SHOWN = 400  # characters of a line that are quoted
SHORT = 20_000  # bytes of a block that are not worth a look at its words first
THREADS = 2  # Hyperscan lets go of the interpreter; reading and counting keep a third one busy
SMALL = 4 << 20  # bytes after which the fast scanner is worth its start
# What must not be repeated, wherever it stood: tokens, keys, passwords in addresses.
_SECRET = re.compile(
    r"\b(?:hf_|sk-|ghp_|gho_|glpat-|nvapi-|xox[bp]-)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?<=Bearer )[\w.~+/-]{8,}"
    r"|(?<=AKIA)[A-Z0-9]{12,}|((?:api[_-]?key|token|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;]{12,}",
    re.IGNORECASE,
)
_LETTERS = re.compile(rb"[a-z]{3,}")
Literals = Sequence[bytes]
Scanner = Callable[[Iterable[bytes]], Iterator[tuple[bytes, list[int]]]]


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

    def __init__(self, patterns: Sequence[str], literals: Sequence[tuple[str, ...]], fast: bool | None = None) -> None:
        """`literals`: of each pattern, the runs of which one is in every match. `fast`: with Hyperscan from the start,
        without it, or (None) once a text grows long."""
        self.hits: Hits = {}
        self.size = 0
        self._patterns = patterns
        self._of: dict[bytes, list[int]] = {}
        for number, runs in enumerate(literals):
            for run in runs:
                self._of.setdefault(run.encode(), []).append(number)
        self._literals = tuple(self._of)
        self._matchers: dict[int, Matcher] = {}
        self._full: set[int] = set()
        self._fast = fast
        self._scanner: Scanner = (hyperscanner(self._literals) if fast else None) or plain_scanner(self._literals)

    def read(self, source: int, blocks: Iterable[bytes]) -> Iterator[int]:
        """Scan one text; gives the number of bytes after each block, for whoever shows progress."""
        line = 1
        stream = iter(blocks)
        while True:
            first = list(self._few(stream)) if self._fast is None else stream
            for block, found in self._scanner(first):
                if found:
                    self._confirm(source, line, block, found)
                line += block.count(b"\n")
                self.size += len(block)
                yield len(block)
            if self._fast is not None or not first:
                return
            if self.size > SMALL:
                self._fast = True
                self._scanner = hyperscanner(self._literals) or self._scanner

    def _few(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        """The next block while the text may still turn out to be short."""
        block = next(stream, None)
        if block is not None:
            yield block

    def _confirm(self, source: int, line: int, block: bytes, found: list[int]) -> None:
        """Look closely at the patterns whose literals are in the block."""
        lower = block.lower()
        for number in found:
            literal = self._literals[number]
            for p in self._of[literal]:
                if p not in self._full:
                    self._look(p, literal, source, line, block, lower)

    def _look(self, p: int, literal: bytes, source: int, first: int, block: bytes, lower: bytes) -> None:
        """Try the pattern on the lines of the block that hold its literal."""
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
                hit = Hit(source, first + block.count(b"\n", 0, start), span[0], quoted(text, *span), mildness(text))
                if hit not in kept:  # another literal of the pattern led to the same place
                    kept.append(hit)
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


def plain_scanner(literals: Literals) -> Scanner:
    """Which literals are in each block, with Python alone: a literal is looked for only where its longest word is."""
    words = [max(_LETTERS.findall(literal), key=len, default=b"") for literal in literals]

    def scan(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, list[int]]]:
        for block in blocks:
            lower = block.lower()
            if len(block) < SHORT:
                yield block, [i for i, literal in enumerate(literals) if literal in lower]
                continue
            there = b" ".join(set(_LETTERS.findall(lower)))
            yield block, [i for i, literal in enumerate(literals) if words[i] in there and literal in lower]

    return scan


def hyperscanner(literals: Literals) -> Scanner | None:
    """The same with all literals in one automaton, on several processors; None where Hyperscan is not to be had."""
    try:
        import hyperscan
    except ImportError:
        return None
    import threading
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH
    try:
        database.compile(
            expressions=[b"".join(b"\\x%02x" % c for c in literal) for literal in literals],
            ids=list(range(len(literals))),
            flags=[flags] * len(literals),
        )
        first = hyperscan.Scratch(database)
    except hyperscan.HyperscanError:  # a processor without SSSE3
        return None
    own = threading.local()

    def search(block: bytes) -> tuple[bytes, list[int]]:
        if not hasattr(own, "scratch"):
            own.scratch = first.clone()
        found: list[int] = []
        database.scan(block, match_event_handler=lambda number, *_: found.append(number), scratch=own.scratch)
        return block, sorted(found)

    def scan(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, list[int]]]:
        waiting: deque[Future[tuple[bytes, list[int]]]] = deque()
        pool = ThreadPoolExecutor(THREADS)
        for block in blocks:
            waiting.append(pool.submit(search, block))
            if len(waiting) > 2 * THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        pool.shutdown()

    return scan
