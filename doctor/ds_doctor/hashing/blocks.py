"""The content of one open file in order, read the way that suits where it lies: in the page cache or on the disk, here or far away.

- What is in the page cache is copied in steps that fit the processor's own, by the thread that hashes it.
- What is on a local disk is read past the page cache (O_DIRECT), several blocks ahead: that is the disk's own rate, and the cache
  stays as it was for the server that starts next.
- What a network or FUSE file system holds is read ahead through the page cache, several large blocks at once, since their clients
  are made for that. What was not in the cache before is let go of.
- What shall be warm afterwards, or cannot be read directly, is read ahead through the page cache by one thread a file: the kernel's
  own read-ahead sees it read in order (1.8 GB/s on a virtio disk, 1.5 where several threads read one file).
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import readers
from .buffers import Share
from .readers import Ahead, Ticket

PAGE = 4096
SMALL = 1 << 20  # up to here a file is simply read
WINDOW = 16 << 20  # one look whether the page cache has it


class Broken(Exception):
    """The system refused to read. `offset`: the first byte that cannot be read."""

    def __init__(self, error: OSError, offset: int) -> None:
        super().__init__(error, offset)
        self.error = error
        self.offset = offset


class Block(NamedTuple):
    at: int
    length: int
    slot: memoryview
    ticket: Ticket | None  # None: it is in the page cache, and is read with its turn
    fresh: tuple[int, int] | None  # what the page cache has only because of us: begin, length


Take = Callable[[memoryview], None]


class Blocks:
    """Reads one file of `size` bytes. `warm`: its content shall be in the page cache afterwards."""

    def __init__(self, path: str, fd: int, size: int, share: Share, ahead: Ahead, warm: bool) -> None:
        self.path = path
        self.fd = fd
        self.size = size
        self.share = share
        self.ahead = ahead
        self.warm = warm
        self.direct: int | None = None  # a second descriptor, past the page cache
        self.local = os.major(os.fstat(fd).st_dev) != 0  # a device of its own: neither NFS nor FUSE
        self.tried_direct = warm or not self.local
        self.can_look = hasattr(os, "RWF_NOWAIT")
        self.byte = memoryview(bytearray(1))

    def read(self, take: Take) -> None:
        """Gives the content to `take`, piece after piece, each gone when the next comes; ends early where the file does. Raises Broken,
        and what `take` raises."""
        if self.size <= SMALL:
            self._plain(0, self.size, take)
            return
        waiting: deque[Block] = deque()
        asked = self._ask()
        whole = True
        try:
            while whole:
                # Nothing is read ahead beyond a block that is cached, since that one takes the whole share.
                while (
                    len(waiting) < len(self.share.slots)
                    and not (waiting and waiting[-1].ticket is None)
                    and (block := next(asked, None))
                ):
                    waiting.append(block)
                if not waiting:
                    return
                whole = self._take(waiting, take)
        finally:
            for block in waiting:  # a descriptor is not closed under those who read it
                if block.ticket:
                    block.ticket.wait()
            if self.direct is not None:
                os.close(self.direct)

    def _ask(self) -> Iterator[Block]:
        """The blocks in order; those on the disk are asked for."""
        slots = itertools.cycle(self.share.slots)
        size = len(self.share.slots[0])
        for begin in range(0, self.size, WINDOW):
            end = min(begin + WINDOW, self.size)
            middle = (begin + end) // 2 // PAGE * PAGE
            cached = self._cached(middle)
            if cached:
                yield Block(begin, end - begin, self.share.whole, None, None)
                continue
            if cached is False and not self.tried_direct:
                self.tried_direct = True
                self.direct = self._open_direct()
            for at in range(begin, end, size):
                length = min(size, end - at)
                slot = next(slots)
                fresh = None
                if cached is False and self.direct is not None:
                    ticket = self.ahead.many.ask(self.direct, slot, at)
                    if at <= middle < at + length:
                        fresh = middle, PAGE
                else:
                    plain = self.ahead.one if self.local else self.ahead.many
                    ticket = plain.ask(self.fd, slot[:length], at)
                    if cached is False and not self.warm:
                        fresh = at, length
                yield Block(at, length, slot, ticket, fresh)

    def _take(self, waiting: deque[Block], take: Take) -> bool:
        """The first block; whether it was whole."""
        block = waiting[0]
        if block.ticket is None:
            waiting.popleft()
            return self._plain(block.at, block.length, take)
        came = block.ticket.wait()
        waiting.popleft()
        # Whatever a direct read was refused for, or did not bring, is asked for again in the plain way: that tells the byte.
        have = 0 if isinstance(came, OSError) else min(came, block.length)
        if have < block.length:
            have += fill(self.fd, block.slot[have : block.length], block.at + have)
        take(block.slot[:have])
        if block.fresh:
            os.posix_fadvise(self.fd, *block.fresh, os.POSIX_FADV_DONTNEED)
        return have == block.length

    def _plain(self, begin: int, length: int, take: Take) -> bool:
        size = self.share.step
        for at in range(begin, begin + length, size):
            step = self.share.whole[: min(size, begin + length - at)]
            have = fill(self.fd, step, at)
            take(step[:have])
            if have < len(step):
                return False
        return True

    def _cached(self, at: int) -> bool | None:
        """Whether the page cache has that byte; None where nobody can say.

        RWF_NOWAIT reads what is cached and else refuses. It has the missing page fetched all the same; marked as random for that moment,
        the file gets no read-ahead, so that this is one page, let go of with its block.
        """
        if not self.can_look:
            return None
        try:
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)
            try:
                readers.preadv(self.fd, [self.byte], at, os.RWF_NOWAIT)
            finally:
                os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_NORMAL)
        except BlockingIOError:
            return False
        except OSError:
            self.can_look = False
            return None
        return True

    def _open_direct(self) -> int | None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_DIRECT)
        except (AttributeError, OSError):
            return None
        ours, theirs = os.fstat(self.fd), os.fstat(fd)
        if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino):  # replaced in this moment
            os.close(fd)
            return None
        return fd


def fill(fd: int, into: memoryview, at: int) -> int:
    """Reads until `into` is full or the file ends, and gives the bytes read. Raises Broken with the first byte that cannot be read."""
    have, step = 0, len(into)
    while have < len(into):
        try:
            read = readers.preadv(fd, [into[have : have + step]], at + have)
        except OSError as e:
            if step <= PAGE:
                raise Broken(e, at + have) from None
            step = PAGE
            continue
        if not read:
            break
        have += read
    return have
