"""Many files hashed beside each other, longest first; knows no model, judges nothing."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator

from . import buffers, digests
from .one import hash_one
from .readers import Readers
from .structs import Done, Job

THREADS = 32  # more of them only wait for Python's lock
LOOKS_S = 0.1  # how often the waiting side looks whether it was called off


def processors() -> int:
    """How many this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):
        return os.cpu_count() or 1


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
    count = max(1, min(threads or processors(), THREADS, len(listed)))
    return _work(listed, count, warm, progress, stop or threading.Event())


def _work(
    listed: list[Job], count: int, warm: bool, progress: Callable[[int], None] | None, called_off: threading.Event
) -> Iterator[Done]:
    ended: queue.SimpleQueue[Done | None] = queue.SimpleQueue()
    stop = _Either(called_off)
    slots = buffers.shares(count)
    ahead = Readers(sum(map(len, slots)), stop)

    def work(mine: buffers.Slots) -> None:
        try:
            while not stop.is_set():
                try:
                    job = listed.pop()
                except IndexError:
                    break
                done = hash_one(job, mine, ahead, warm=warm, stop=stop, progress=progress)
                if done:
                    ended.put(done)
        finally:
            ended.put(None)

    left = len(listed)
    workers = [
        threading.Thread(target=work, args=(mine,), name=f"hash-{i}", daemon=True) for i, mine in enumerate(slots)
    ]
    for worker in workers:
        worker.start()
    try:
        while left and count and not stop.is_set():
            try:
                done = ended.get(timeout=LOOKS_S)
            except queue.Empty:
                continue
            if done is None:
                count -= 1
            else:
                left -= 1
                yield done
        if left and not count and not stop.is_set():
            raise RuntimeError("the hashing ended early")
    finally:
        stop.own.set()
        ahead.end()  # nobody waits for a thread that a dead file server holds: they are daemons


class _Either(threading.Event):
    """Set when the caller's event is, or the reader of the results went away."""

    def __init__(self, called_off: threading.Event) -> None:
        super().__init__()
        self.called_off = called_off
        self.own = threading.Event()

    def is_set(self) -> bool:
        return self.own.is_set() or self.called_off.is_set()
