"""Threads that read ahead of the hashing; they know a descriptor, a place and a buffer, and no file."""

from __future__ import annotations

import os
import queue
import threading

MOST = 64  # threads, most of which wait for the disk

preadv = os.preadv  # the one way in which content is read


class Ticket:
    """One read that was asked for; `wait` gives the bytes read, or the system's refusal."""

    def __init__(self, fd: int, into: memoryview, at: int) -> None:
        self.fd = fd
        self.into = into
        self.at = at
        self._came: queue.SimpleQueue[int | OSError] = queue.SimpleQueue()

    def read(self) -> None:
        try:
            self._came.put(preadv(self.fd, [self.into], self.at))
        except OSError as e:
            self._came.put(e)

    def skip(self) -> None:
        self._came.put(0)

    def wait(self) -> int | OSError:
        return self._came.get()


class Readers:
    """Up to `count` threads, one more with each read that is asked for."""

    def __init__(self, count: int, stop: threading.Event) -> None:
        self._left = min(count, MOST)
        self._stop = stop
        self._asked: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0

    def ask(self, fd: int, into: memoryview, at: int) -> Ticket:
        ticket = Ticket(fd, into, at)
        self._asked.put(ticket)
        if self._left:
            with self._lock:
                if self._left:
                    self._left -= 1
                    self._started += 1
                    threading.Thread(target=self._run, name=f"read-{self._started}", daemon=True).start()
        return ticket

    def end(self) -> None:
        with self._lock:
            self._left = 0
            for _ in range(self._started):
                self._asked.put(None)

    def _run(self) -> None:
        while ticket := self._asked.get():
            if self._stop.is_set():
                ticket.skip()
            else:
                ticket.read()
