"""Asks the probes of the wanted facts at once and collects what they give; judges nothing, never ends the run.

A few daemon threads run the probes, which mostly read small files. One that raises, hangs or gives nonsense costs its own
fact: while probes wait and none comes back, another thread goes on with them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable

from .host import Host, looked_at
from .model import Outcome, Reason, Trouble
from .registry import fact_name, one_line, probe_of

WORKERS = 3
STALL_S = 0.1  # with probes waiting and no answer for so long, another thread is started
Waiting = Callable[[list[str], float], None]


class Gathering:
    """Facts on their way. `deadline` (of time.monotonic()) is when an answer is of no use any more."""

    def __init__(self, host: Host, deadline: float) -> None:
        self.host = host
        self.begun = time.monotonic()
        self.open: dict[type, None] = {}
        self.outcomes: dict[type, Outcome] = {}
        self.looked: dict[type, frozenset[str]] = {}  # what each probe asked the host for (host.looked_at)
        self._todo: queue.SimpleQueue[type] = queue.SimpleQueue()
        self._helped = False
        self._answers: queue.SimpleQueue[tuple[type, Outcome, frozenset[str]]] = queue.SimpleQueue()
        host.deadline = deadline

    def want(self, facts: Iterable[type]) -> None:
        """Start on the facts that are not on their way yet."""
        new = [f for f in facts if f not in self.open and f not in self.outcomes]
        for fact in new:
            self.open[fact] = None
            self._todo.put(fact)
        for _ in range(min(WORKERS, len(new))):
            self._help()

    def _help(self) -> None:
        try:
            threading.Thread(target=self._work, daemon=True, name="probes").start()
            self._helped = True
        except RuntimeError:  # no thread to be had (ulimit -u, the cgroup's pids.max)
            if not self._helped:
                self._work()  # here, then: the kernel ends the process should a probe hang

    def _work(self) -> None:
        while True:
            try:
                fact = self._todo.get_nowait()
            except queue.Empty:
                return
            start = time.monotonic()
            with looked_at() as looked:
                outcome = ask(self.host, fact)
            ms = round((time.monotonic() - start) * 1000, 2)
            self._answers.put((fact, Outcome(outcome.fact, outcome.trouble, outcome.reason, ms), frozenset(looked)))

    def adopt(self, other: Gathering) -> None:
        """Wait for the facts that another gathering has on their way, too."""
        other.host.deadline = self.host.deadline
        self.begun = min(self.begun, other.begun)
        self.open.update(other.open)
        self._answers = other._answers

    def collect(
        self, waiting: Waiting | None = None, meanwhile: Callable[[], None] | None = None
    ) -> dict[type, Outcome]:
        """Every fact's outcome; what has not answered by the deadline is timed out and left behind.

        `waiting(names, seconds)` is called a few times a second while probes are out, `meanwhile()` once when all that are
        out wait for other processes: sooner it would only take time from the others.
        """
        while self.open:
            if meanwhile is not None and all(getattr(f, "slow", False) for f in self.open):
                meanwhile()
                meanwhile = None
            left = self.host.deadline - time.monotonic()
            if left <= 0:
                break
            try:
                fact, outcome, looked = self._answers.get(timeout=min(left, STALL_S))
            except queue.Empty:
                if not self._todo.empty():
                    self._help()
                if waiting is not None:
                    waiting([fact_name(f) for f in self.open], time.monotonic() - self.begun)
                continue
            self.outcomes[fact] = outcome
            self.looked[fact] = looked
            self.open.pop(fact, None)
        seconds = time.monotonic() - self.begun
        for fact in self.open:
            reason = Reason("probe-timed-out", {"fact": fact_name(fact), "timeout_s": round(seconds, 1)})
            self.outcomes[fact] = Outcome(None, "timed-out", reason, round(seconds * 1000, 2))
        self.open.clear()
        return self.outcomes


def ask(host: Host, fact: type) -> Outcome:
    """What the fact's probe gives: the fact, its trouble, or `broken` for anything else that it raises."""
    try:
        answer = probe_of(fact).ask(host)
        if not isinstance(answer, fact):
            raise TypeError(f"the probe gave {type(answer).__name__}, not {fact.__name__}")
        return Outcome(answer)
    except Trouble as t:
        return Outcome(None, t.kind, t.reason)
    except BaseException as e:  # noqa: BLE001 - whatever a probe raises costs that fact only
        return Outcome(None, "broken", Reason("probe-broken", {"fact": fact_name(fact), "error": one_line(e)}))


def gather(host: Host, facts: Iterable[type], timeout_s: float, waiting: Waiting | None = None) -> dict[type, Outcome]:
    """Ask every fact's probe at once, for at most `timeout_s`."""
    gathering = Gathering(host, time.monotonic() + timeout_s)
    gathering.want(facts)
    return gathering.collect(waiting)
