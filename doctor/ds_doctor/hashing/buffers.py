"""The memory that files are read into: one piece of bounded size, shared out once; holds no data that outlives a block."""

from __future__ import annotations

import mmap

MEMORY = 16 << 20  # bytes, whatever the number of threads: with the program around them under 64 MiB resident
HUGE = 2 << 20
SMALLEST = 128 << 10
SLOTS = 8

Slots = list[memoryview]


def shares(count: int) -> list[Slots]:
    """For each of `count` readers of files its slots, all of one size (a power of two, at most 2 MiB) and on a page's boundary.

    Huge pages are asked for: a direct read into them needs one segment a slot, where 4 KiB pages need 512, more than most
    block devices take in one request. On a virtio disk 1.3 GB/s became 3.6. They must be private (shared anonymous memory has
    another switch), and a page of 2 MiB on either side stays untouched, since the piece may begin anywhere.
    """
    share = MEMORY // count
    size = max(SMALLEST, min(HUGE, 1 << (share // 4).bit_length() - 1))
    slots = max(2, min(SLOTS, share // size))
    piece = mmap.mmap(-1, count * slots * size + 2 * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        piece.madvise(mmap.MADV_HUGEPAGE)
    except (AttributeError, OSError):  # a kernel without them reads the same, in smaller requests
        pass
    whole = memoryview(piece)
    at = range(HUGE, HUGE + count * slots * size, size)
    return [[whole[i : i + size] for i in at[k * slots : (k + 1) * slots]] for k in range(count)]
