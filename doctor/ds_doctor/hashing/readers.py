"""Threads that read ahead of the hashing; they know a descriptor, a place and a buffer, and no file."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable

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
    """Up to `count` threads for one who asks, one more with each read. Where the system gives none, the asker reads."""

    def __init__(self, count: int, stopped: Callable[[], bool]) -> None:
        self._left = count
        self._stopped = stopped
        self._asked: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._started = 0

    def ask(self, fd: int, into: memoryview, at: int) -> Ticket:
        ticket = Ticket(fd, into, at)
        if self._left:
            self._start()
        if self._started:
            self._asked.put(ticket)
        else:
            ticket.read()
        return ticket

    def end(self) -> None:
        """Nothing will be asked for any more."""
        for _ in range(self._started):
            self._asked.put(None)

    def _start(self) -> None:
        self._left -= 1
        try:
            threading.Thread(target=self._run, name=f"read-{self._started}", daemon=True).start()
        except RuntimeError:  # a limit of processes, a control group's or the user's
            self._left = 0
        else:
            self._started += 1

    def _run(self) -> None:
        while ticket := self._asked.get():
            if self._stopped():
                ticket.skip()
            else:
                ticket.read()


class Ahead:
    """The threads of one who hashes: `many` beside each other, and `one` that reads in order."""

    def __init__(self, count: int, stopped: Callable[[], bool]) -> None:
        self.many = Readers(count, stopped)
        self.one = Readers(1, stopped)

    def end(self) -> None:
        self.many.end()
        self.one.end()
