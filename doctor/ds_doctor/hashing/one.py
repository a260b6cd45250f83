"""One file, opened with care, read whole and hashed; tells what came between. Knows nothing of the other files."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable

from .blocks import Blocks, Broken, fill
from .buffers import Share
from .digests import Digests
from .readers import Ahead
from .structs import Done, Identity, Job

DENIED = (errno.EACCES, errno.EPERM)
MISSING = (errno.ENOENT, errno.ENOTDIR)
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a FIFO in the place of a file must not hold us up
TOLD = 2 << 20  # bytes between two words about the progress


class NotAFile(Exception):
    """A folder, a FIFO, a device, a socket."""


class Stopped(Exception):
    """The work was called off."""


class Changed(Exception):
    """The file is not what it was when the reading began."""


def identity(s: os.stat_result) -> Identity:
    return Identity(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns)


def hash_one(
    job: Job,
    share: Share,
    ahead: Ahead,
    *,
    warm: bool,
    stopped: Callable[[], bool],
    progress: Callable[[int], None] | None = None,
) -> Done | None:
    """What came of one file; None where it was `stopped` before the end."""
    begun = time.perf_counter()
    reading = Reading(job, share, ahead, warm, stopped, progress)
    problem: str | None = None
    error: str | None = None
    offset: int | None = None
    digests: dict[str, str] = {}
    try:
        digests = reading.run()
    except Stopped:
        return None
    except Changed:
        problem = "changed"
    except Broken as e:
        problem, error, offset = _problem(e.error), _words(e.error), e.offset
    except NotAFile:
        problem = "not-a-file"
    except OSError as e:
        problem, error = _problem(e, opened=reading.before is not None), _words(e)
    except ValueError as e:  # a name that no system takes: a NUL, half a surrogate pair
        problem, error = "missing", str(e)
    return Done(
        job=job,
        digests=digests,
        problem=problem,
        error=error,
        offset=offset,
        bytes=reading.done,
        seconds=time.perf_counter() - begun,
        identity=reading.after,
        before=reading.before,
    )


def _problem(error: OSError, opened: bool = True) -> str:
    if error.errno == errno.ESTALE:  # a network file system: replaced or removed on the server
        return "changed"
    if not opened and error.errno in DENIED:
        return "denied"
    if not opened and error.errno in MISSING:
        return "missing"
    return "read-error"


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


class Reading:
    """One reading of one file. `done`: bytes read; `before` and `after`: what the file was, where that was seen."""

    def __init__(
        self,
        job: Job,
        share: Share,
        ahead: Ahead,
        warm: bool,
        stopped: Callable[[], bool],
        progress: Callable[[int], None] | None,
    ) -> None:
        self.job = job
        self.share = share
        self.ahead = ahead
        self.warm = warm
        self.stopped = stopped
        self.progress = progress
        self.done = 0
        self.before: Identity | None = None
        self.after: Identity | None = None

    def run(self) -> dict[str, str]:
        path = self.job.path
        named = os.stat(path)
        if not stat.S_ISREG(named.st_mode):  # not even opened: that alone can rewind a tape or arm a watchdog
            raise NotAFile
        fd = os.open(path, FLAGS)
        try:
            return self._whole(fd, named)
        finally:
            os.close(fd)

    def _whole(self, fd: int, named: os.stat_result) -> dict[str, str]:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile
        os.set_blocking(fd, True)
        for again in (False, True):
            self.before = identity(found)
            digests = Digests(self.job.algorithms, found.st_size)
            self._read(fd, found.st_size, digests, quiet=again)
            after = os.fstat(fd)
            self.after = identity(after)
            if (after.st_size, after.st_mtime_ns) != (found.st_size, found.st_mtime_ns) or self._replaced(named):
                raise Changed
            if after.st_ctime_ns == found.st_ctime_ns:
                return digests.hex()
            # Its mode, owner or links changed, or its content and then its time of change was set back: the second reading tells.
            found = after
        raise Changed

    def _replaced(self, named: os.stat_result) -> bool:
        """The name leads to another file than when the reading began. Asked twice of the name, since some file systems number
        an open file otherwise."""
        try:
            now = os.stat(self.job.path)
        except OSError as e:
            return e.errno in MISSING
        return (now.st_dev, now.st_ino) != (named.st_dev, named.st_ino)

    def _read(self, fd: int, size: int, digests: Digests, quiet: bool) -> None:
        self.done = told = 0
        progress = None if quiet else self.progress

        def take(piece: memoryview) -> None:
            nonlocal told
            if self.stopped():
                raise Stopped
            digests.feed(piece)
            self.done += len(piece)
            if progress and (self.done - told >= TOLD or self.done == size):
                progress(self.done - told)
                told = self.done

        Blocks(self.job.path, fd, size, self.share, self.ahead, self.warm).read(take)
        if self.done < size or fill(fd, self.share.whole[:1], size):  # it ends before its size, or goes on after it
            self.after = identity(os.fstat(fd))
            raise Changed
