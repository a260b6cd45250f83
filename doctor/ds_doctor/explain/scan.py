"""Which patterns stand in a stream of blocks, and on which lines; knows no entry of the catalogue.

A scanner tells which literals are in a block; the patterns that need them are then tried line by line, so that all scanners
give the same answers. Short texts are scanned with Python alone; in long logs Hyperscan, where it is installed, looks for all
literals at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ..pattern import Matcher, loose
from .text import mildness

KEEP = 3  # lines kept for a pattern
WINDOW = 4000  # characters of a line that a pattern is tried on: what a match may stretch over
SHOWN = 400  # characters of a line that are quoted
SHORT = 20_000  # bytes of a block that are not worth a look at its words first
NOISY = 200  # lines that hold a pattern's literal and not the pattern, after which the whole pattern is looked for
THREADS = 3  # Hyperscan lets go of the interpreter; reading, counting and looking closely keep another one busy
SMALL = 1 << 20  # bytes after which the fast scanner is worth its start
# What must not be repeated, wherever it stood: tokens, keys, passwords in addresses.
_SECRET = re.compile(
    r"\b(?:hf_|sk-|ghp_|gho_|glpat-|nvapi-|xox[bp]-)[A-Za-z0-9_-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?<=Bearer )[\w.~+/-]{8,}"
    r"|(?<=AKIA)[A-Z0-9]{12,}|((?:api[_-]?key|token|password|passwd|secret)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;]{12,}",
    re.IGNORECASE,
)
_LETTERS = re.compile(rb"[a-z]{3,}")
Literals = Sequence[bytes]


class Seen(msgspec.Struct):
    """A block, the literals in it, the narrowed patterns in it, and which were narrowed when it was read."""

    block: bytes
    literals: list[int]
    patterns: list[int] = []
    narrowed: frozenset[int] = frozenset()


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
        self._runs = literals
        self._of: dict[bytes, list[int]] = {}
        for number, runs in enumerate(literals):
            for run in runs:
                self._of.setdefault(run.encode(), []).append(number)
        self._literals = tuple(self._of)
        self._matchers: dict[int, Matcher] = {}
        self._full: set[int] = set()
        self._tries: dict[int, int] = {}
        self._narrow: set[int] = set()
        self._fast = fast
        self._scanner: Plain | Fast = Plain(self._literals)
        if fast:
            self._speed_up()

    def _speed_up(self) -> None:
        self._fast = True
        try:
            self._scanner = Fast(self._literals)
        except (ImportError, OSError):
            pass

    def read(self, source: int, blocks: Iterable[bytes]) -> Iterator[int]:
        """Scan one text; gives the number of bytes after each block, for whoever shows progress."""
        line = 1
        stream = iter(blocks)
        while True:
            first = list(self._few(stream)) if self._fast is None else stream
            for seen in self._scanner(first):
                if seen.literals or seen.patterns:
                    self._confirm(source, line, seen)
                line += seen.block.count(b"\n")
                self.size += len(seen.block)
                yield len(seen.block)
            if self._fast is not None or not first:
                return
            if self.size > SMALL:
                self._speed_up()

    def _few(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        """The next block while the text may still turn out to be short."""
        block = next(stream, None)
        if block is not None:
            yield block

    def _confirm(self, source: int, line: int, seen: Seen) -> None:
        """Look closely at the patterns that may be in the block."""
        todo = [(p, self._literals[i]) for i in seen.literals for p in self._of[self._literals[i]]]
        todo = [(p, literal) for p, literal in todo if p not in seen.narrowed and p not in self._full]
        todo += [(p, run.encode()) for p in seen.patterns for run in self._runs[p]]
        if todo:
            lower = seen.block.lower()
            for p, literal in todo:
                if p not in self._full:
                    self._look(p, literal, source, line, seen.block, lower)

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
            else:
                self._tries[p] = tries = self._tries.get(p, 0) + 1
                if tries >= NOISY and p not in self._narrow and self._scanner.narrow(p, self._patterns[p]):
                    self._narrow.add(p)
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


class Plain:
    """Which literals are in each block, with Python alone: a literal is looked for only where its longest word is."""

    def __init__(self, literals: Literals) -> None:
        self._literals = literals
        self._words: list[bytes] = []

    def __call__(self, blocks: Iterable[bytes]) -> Iterator[Seen]:
        for block in blocks:
            lower = block.lower()
            if len(block) < SHORT:
                yield Seen(block, [i for i, literal in enumerate(self._literals) if literal in lower])
                continue
            there = b" ".join(set(_LETTERS.findall(lower)))
            words = self._words = self._words or [_word(literal) for literal in self._literals]
            yield Seen(block, [i for i, x in enumerate(self._literals) if words[i] in there and x in lower])

    def narrow(self, number: int, text: str) -> bool:
        """Look for the whole pattern from now on, since its literal is everywhere; False: that cannot be done here."""
        return False


def _word(literal: bytes) -> bytes:
    """The longest run of letters in it."""
    return max(_LETTERS.findall(literal), key=len, default=b"")


class Fast:
    """The same with all literals in one automaton, on several processors."""

    def __init__(self, literals: Literals) -> None:
        """ImportError where Hyperscan is not installed, OSError where it does not run."""
        import hyperscan

        self._hyperscan = hyperscan
        try:
            self._first = self._database({i: re.escape(x) for i, x in enumerate(literals)})
        except hyperscan.HyperscanError as e:  # a processor without SSSE3
            raise OSError(str(e)) from None
        self._narrowed: dict[int, bytes] = {}
        self._second: Any = None

    def _database(self, expressions: dict[int, bytes]) -> Any:
        made = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        flags = self._hyperscan.HS_FLAG_CASELESS | self._hyperscan.HS_FLAG_SINGLEMATCH
        made.compile(expressions=list(expressions.values()), ids=list(expressions), flags=[flags] * len(expressions))
        return made, self._hyperscan.Scratch(made)

    def narrow(self, number: int, text: str) -> bool:
        """As `Plain.narrow`."""
        wanted = {**self._narrowed, number: loose(text).encode()}
        try:
            second = self._database(wanted)
        except self._hyperscan.HyperscanError:  # too large a pattern for it
            return True
        self._narrowed = wanted
        self._second = (*second, frozenset(wanted))
        return True

    def __call__(self, blocks: Iterable[bytes]) -> Iterator[Seen]:
        import threading
        from collections import deque
        from concurrent.futures import Future, ThreadPoolExecutor

        own = threading.local()

        def search(block: bytes) -> Seen:
            second = self._second  # as it is now: it may be another one before this block is looked at
            literals = self._scan(self._first, block, own, "first")
            if second is None:
                return Seen(block, literals)
            return Seen(block, literals, self._scan(second, block, own, "second"), second[2])

        waiting: deque[Future[Seen]] = deque()
        with ThreadPoolExecutor(THREADS) as pool:
            for block in blocks:
                waiting.append(pool.submit(search, block))
                if len(waiting) > 2 * THREADS:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _scan(self, database: Any, block: bytes, own: Any, name: str) -> list[int]:
        made, scratch = database[:2]
        kept = getattr(own, name, (None, None))
        if kept[0] is not made:  # a scratch belongs to one thread and one database
            kept = (made, scratch.clone())
            setattr(own, name, kept)
        found: list[int] = []
        made.scan(block, match_event_handler=lambda number, *_: found.append(number), scratch=kept[1])
        return sorted(found)
