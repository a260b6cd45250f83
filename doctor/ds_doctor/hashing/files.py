"""Many files hashed beside each other, longest first; knows no model, judges nothing."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from . import buffers, digests
from .one import hash_one
from .readers import Ahead
from .structs import Done, Job

THREADS = 32  # more of them only wait for Python's lock
READERS = 64  # threads that wait for the disk
LOOKS_S = 0.1  # how often the waiting side looks whether it was called off


def hash_files(
    jobs: Iterable[Job],
    *,
    threads: int | None = None,
    warm: bool = False,
    progress: Callable[[int], None] | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Done]:
    """One Done a job, in the order in which they end; see `structs`. Raises ValueError at once for an algorithm that is not known."""
    listed = sorted(jobs, key=lambda job: job.size)  # the longest is taken first, from the end
    for algorithms in {job.algorithms for job in listed}:
        digests.check(algorithms)
    count = min(threads or processors(), THREADS, len(listed))
    return _work(listed, count, warm, progress, stop or threading.Event())


def processors() -> int:
    """How many this process may use: its affinity, and the quota of its control group (version 2, as a container sees it)."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", "rb") as f:
            quota, period = f.read(64).split()
        count = min(count, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # none, or "max"
        pass
    return max(count, 1)


def _work(
    listed: list[Job], count: int, warm: bool, progress: Callable[[int], None] | None, stop: threading.Event
) -> Iterator[Done]:
    ended: queue.SimpleQueue[Done | None] = queue.SimpleQueue()
    left_alone = threading.Event()

    def stopped() -> bool:
        return stop.is_set() or left_alone.is_set()

    shares = buffers.shares(count) if count else []

    def work(mine: buffers.Share) -> None:
        ahead = Ahead(min(len(mine.slots), max(2, READERS // count)), stopped)
        try:
            while not stopped():
                try:
                    job = listed.pop()
                except IndexError:
                    break
                done = hash_one(job, mine, ahead, warm=warm, stopped=stopped, progress=progress)
                if done:
                    ended.put(done)
        finally:
            ahead.end()
            ended.put(None)

    left = len(listed)
    running = _start(work, shares)
    try:
        while running and not stopped():
            try:
                done = ended.get(timeout=LOOKS_S)
            except queue.Empty:
                continue
            if done:
                left -= 1
                yield done
            else:
                running -= 1
        if left and not stopped():
            raise RuntimeError("a thread of the hashing broke")
    finally:
        left_alone.set()  # nobody waits for a thread that a dead file server holds: they are daemons


def _start(work: Callable[[buffers.Share], None], shares: list[buffers.Share]) -> int:
    """A thread for each share of the memory, and how many there are; where the system gives none, the work is done here."""
    for i, mine in enumerate(shares):
        try:
            threading.Thread(target=work, args=(mine,), name=f"hash-{i}", daemon=True).start()
        except RuntimeError:  # a limit of processes, a control group's or the user's
            if not i:
                work(mine)
            return max(i, 1)
    return len(shares)
