"""Text on a grid of terminal cells: widths, wrapping, tables; knows no report.

Chinese characters are two cells wide and may be parted anywhere; words, paths and addresses are never parted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_WIDE = frozenset("WF")
# A run of wide characters may be parted between any two of them; everything else only at spaces.
_PIECES = r"\s+|[^\s\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef]+|."
_NOT_LAST = "（《「『“"
_NOT_FIRST = frozenset("，。；：！？、）》」』”’％,.;:!?)%…")


def printable(text: str) -> str:
    """Without what steers a terminal, whoever wrote it there."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def cells(text: str) -> int:
    """How many terminal cells a text takes."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in _WIDE else 0 if unicodedata.combining(c) else 1 for c in text)


def _pieces(text: str) -> Iterator[str]:
    """Words, single wide characters, and the blanks between them."""
    if not text.isascii():
        yield from re.findall(_PIECES, text, re.DOTALL)
        return
    for i, word in enumerate(text.split(" ")):
        if i:
            yield " "
        yield word


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells (longer only where one word is)."""
    if not text.isascii():
        width -= 2  # room for the one closing mark that may not begin a line
    lines: list[str] = []
    line = ""
    used = 0
    for piece in _pieces(printable(" ".join(text.split()))):
        n = cells(piece)
        if piece == " ":
            if line:
                line += " "
                used += 1
            continue
        if used + n > width and line.strip() and piece not in _NOT_FIRST:
            kept = line.rstrip().rstrip(_NOT_LAST)
            carried = line.rstrip()[len(kept) :]
            lines.append(kept.rstrip())
            line, used = carried, cells(carried)
        line += piece
        used += n
    if line.strip() or not lines:
        lines.append(line.rstrip())
    return lines


def pad(text: str, width: int, right: bool = False) -> str:
    """The text filled with blanks to `width` cells."""
    fill = " " * max(0, width - cells(text))
    return fill + text if right else text + fill


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = (), gap: str = "  ") -> list[str]:
    """Rows as lines with aligned columns; columns in `right` are flushed right."""
    if not rows:
        return []
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]))]
    flush = set(right)
    return [gap.join(pad(c, widths[i], i in flush) for i, c in enumerate(row)).rstrip() for row in rows]
