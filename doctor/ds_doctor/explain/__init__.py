"""A text or log -> the entries of the catalogue that it speaks of, best first; never touches the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..pattern import literals
from . import elsewhere
from .index import Index
from .rank import SURE, Match, rank, touched
from .scan import Scan
from .text import blocks

SAME = 0.97  # the likeness of a phrase that is asked as it stands
WHOLE = 1 << 18  # bytes of a text that are kept to be understood by their words


class Reading:
    """What was read so far: may be asked at any time, also when reading was broken off."""

    def __init__(self, index: Index, scan: Scan) -> None:
        self.index = index
        self.scan = scan
        self.texts: dict[int, bytearray] = {}
        self.whole = True

    def read(self, source: int, pieces: Iterable[bytes]) -> Iterator[int]:
        """Read one text; gives the bytes read after each block, for whoever shows progress."""
        yield from self.scan.read(source, self._kept(source, blocks(pieces)))

    def _kept(self, source: int, found: Iterable[bytes]) -> Iterator[bytes]:
        text = self.texts.setdefault(source, bytearray())
        for block in found:
            if self.whole and sum(map(len, self.texts.values())) + len(block) <= WHOLE:
                text += block
            else:
                self.whole = False
            yield block

    def answer(self) -> list[Match]:
        """The entries that the texts speak of, best first; none where nothing is known.

        By literal signatures; where there is none, or only ones that hide the cause, by likeness of words.
        """
        from .likeness import alike_log, alike_sentence

        found = rank(self.index, self.scan.hits)
        texts = {n: bytes(t).decode("utf-8", "replace") for n, t in self.texts.items()} if self.whole else {}
        names = {m.name for m in found}
        if len(texts) == 1 and "\n" not in (only := texts.popitem()[1].strip()):
            # A sentence, or one line: it may be about more than the words that a pattern knows.
            least = SAME if any(m.score >= SURE["usual"] for m in found) else 0.0
            near = [m for m in alike_sentence(self.index, only) if m.name not in names and m.score >= least]
            return [*found, *(m for m in near if m.sure)] if found else near
        if any(m.score > SURE["consequence"] for m in found):
            return found
        texts = {n: bytes(t).decode("utf-8", "replace") for n, t in self.texts.items()} if self.whole else {}
        # What a pattern spoke of, or refused, is settled; only what stands beside it is left to likeness.
        told = {(hit.source, hit.line) for m in found for hit in m.hits}
        lines = [
            (source, n, line)
            for source, text in texts.items()
            for n, line in enumerate(text.split("\n"), 1)
            if line.strip() and (source, n) not in told
        ]
        near = alike_log(self.index, lines, touched(self.index, self.scan.hits))
        # A message that only wraps another stays; what its neighbours say goes before it.
        return [*near, *found]


def reading(index: Index, fast: bool | None = None) -> Reading:
    """Ready to read texts. `fast`: with Hyperscan, without, or (None) as the size asks for."""
    patterns = (*index.patterns, *elsewhere.PATTERNS)
    runs = (*index.literals, *(literals(p) for p in elsewhere.PATTERNS))
    return Reading(index, Scan(patterns, runs, fast))
