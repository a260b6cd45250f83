"""The memory that files are read into: one piece of bounded size, shared out once; holds no data that outlives a block."""

from __future__ import annotations

import mmap
from typing import NamedTuple

MEMORY = 16 << 20  # bytes, whatever the number of threads: with the program around them under 64 MiB resident
HUGE = 2 << 20
LEAST = 512 << 10  # of a slot where there is room: with smaller ones many threads only wait for Python's lock
STEP = 256 << 10  # half the level 2 cache of a server's core, or less
TURN = 64 << 10  # so much more for each thread: after each step they take turns at Python's lock
MOST_SLOTS = 8


class Share(NamedTuple):
    """What one who reads files has: `slots` of one size (a power of two, at most 2 MiB) on pages' boundaries for blocks that are read
    ahead, or all of them together, of which `step` bytes are used at once."""

    slots: list[memoryview]
    whole: memoryview
    step: int


def shares(count: int) -> list[Share]:
    """For each of `count` threads its share.

    Huge pages are asked for: a direct read into them needs one segment a slot, where 4 KiB pages need 512, more than most
    block devices take in one request. On a virtio disk 1.3 GB/s became 3.6. They must be private (shared anonymous memory has
    another switch), and 2 MiB on either side stay untouched, since the piece may begin anywhere. A child does not get them: after a
    fork a page that is written to is copied, and what the disk still brings would land in the other copy.
    """
    each = MEMORY // count
    size = 1 << min(HUGE, max(each // 4, min(LEAST, each // 2))).bit_length() - 1
    slots = max(2, min(MOST_SLOTS, each // size))
    step = min(slots * size, max(STEP, 1 << (count * TURN - 1).bit_length()))
    piece = mmap.mmap(-1, count * slots * size + 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for advice in ("MADV_HUGEPAGE", "MADV_DONTFORK"):
        try:
            piece.madvise(getattr(mmap, advice))
        except (AttributeError, OSError):  # a kernel without huge pages reads the same, in smaller requests
            pass
    usable = memoryview(piece)[HUGE : HUGE + count * slots * size]
    wholes = [usable[i : i + slots * size] for i in range(0, len(usable), slots * size)]
    return [Share([w[i : i + size] for i in range(0, len(w), size)], w, step) for w in wholes]
