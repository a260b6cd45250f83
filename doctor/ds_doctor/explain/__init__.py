"""A text or log -> the entries of the catalogue that it speaks of, best first; never touches the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..pattern import literals
from . import elsewhere
from .index import Index
from .rank import SURE, Match, rank, touched
from .scan import Scan, masked
from .text import blocks

WHOLE = 1 << 18  # bytes of a text that are kept to be understood by their words


class Reading(msgspec.Struct):
    """What was read so far: may be asked at any time, also when reading was broken off."""

    index: Index
    scan: Scan
    text: bytearray
    whole: bool = True

    def read(self, source: int, pieces: Iterable[bytes]) -> Iterator[int]:
        """Read one text; gives the bytes read after each block, for whoever shows progress."""
        yield from self.scan.read(source, self._kept(blocks(pieces)))

    def _kept(self, found: Iterable[bytes]) -> Iterator[bytes]:
        for block in found:
            if self.whole and len(self.text) + len(block) <= WHOLE:
                self.text += block
            else:
                self.whole = False
            yield block

    def answer(self) -> list[Match]:
        """The entries that the texts speak of, best first; none where nothing is known.

        By literal signatures; where there is none, or only ones that hide the cause, by likeness of words.
        """
        from .likeness import alike

        found = rank(self.index, self.scan.hits)
        text = bytes(self.text).decode("utf-8", "replace") if self.whole else ""
        if any(m.score > SURE["consequence"] for m in found) or not text.strip():
            return found
        # What a pattern spoke of, or refused, is settled; only what stands beside it is left to likeness.
        told = [hit.text.strip("…")[:200] for m in found for hit in m.hits]
        left = "\n".join(line for line in text.split("\n") if not any(t in masked(line) for t in told))
        near = alike(self.index, left, touched(self.index, self.scan.hits))
        # A message that only wraps another stays; what its neighbours say for sure goes before it.
        return [*(m for m in near if m.sure), *found] if found else near


def reading(index: Index, fast: bool | None = None) -> Reading:
    """Ready to read texts. `fast`: with Hyperscan, without, or (None) as the size asks for."""
    patterns = (*index.patterns, *elsewhere.PATTERNS)
    runs = (*index.literals, *(literals(p) for p in elsewhere.PATTERNS))
    return Reading(index, Scan(patterns, runs, fast), bytearray())
