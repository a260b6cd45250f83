"""A small coverage-guided fuzzer in plain Python, for wherever atheris cannot be installed: it keeps every input that runs a line, a jump or comes to an
outcome that none before it did, and changes those that it kept."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

Target = Callable[[bytes], Any]
PACKAGE = "/ds_doctor/"
LONGEST = 4096  # bytes of an input
_TELLING = b'\0\n\r\t "\\/[]{}(),:=*-0159afzAZ\x7f\x80\xff'
SLOW_S = 2.0  # an input this small that takes longer is a finding


class Found(Exception):
    """An input that broke the target; the cause is the exception's own."""

    def __init__(self, data: bytes, said: str) -> None:
        super().__init__(f"{said}: {data[:200]!r}")
        self.data = data


class Coverage:
    """The jumps from line to line within the package that an input made, seen with sys.settrace (every Python has it)."""

    def __init__(self, package: str = PACKAGE) -> None:
        self.seen: set[Any] = set()
        self._package = package
        self._inside: dict[CodeType, bool] = {}
        self._new = False

    def run(self, target: Target, data: bytes) -> tuple[bool, Any]:
        """Whether the input did something new, and its outcome."""
        self._new = False
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            outcome = target(data)
        finally:
            sys.settrace(before)
        for place, part in enumerate(outcome if isinstance(outcome, tuple) else (outcome,)):
            self._note(("outcome", place, part))
        return self._new, outcome

    def _note(self, what: Any) -> None:
        if what not in self.seen:
            self.seen.add(what)
            self._new = True

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        code = frame.f_code
        inside = self._inside.get(code)
        if inside is None:
            inside = self._inside[code] = self._package in code.co_filename
        if not inside:
            return None
        last = 0

        def line(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal last
            if event == "line":
                self._note((code, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line


def mutate(data: bytes, kept: list[bytes], words: list[bytes], rnd: random.Random) -> bytes:
    """One to four small changes."""
    made = bytearray(data)
    for _ in range(rnd.choice((1, 1, 1, 2, 3, 4))):
        at = rnd.randint(0, len(made))
        to = min(len(made), at + rnd.choice((1, 1, 2, 4, 8, 16, 64)))
        what = rnd.randrange(8)
        if what == 0 and made:
            made[rnd.randrange(len(made))] ^= 1 << rnd.randrange(8)
        elif what == 1 and made:
            made[rnd.randrange(len(made))] = rnd.choice(_TELLING) if rnd.random() < 0.5 else rnd.randrange(256)
        elif what == 2:
            del made[at:to]
        elif what == 3:
            made[at:at] = made[at:to] * rnd.choice((1, 1, 2, 8))
        elif what in (4, 5) and words:
            made[at : to if what == 5 else at] = rnd.choice(words)
        elif what == 6:
            other = rnd.choice(kept)
            start = rnd.randint(0, len(other))
            made[at:to] = other[start : start + rnd.choice((4, 16, 64, 256))]
        else:
            digits = [i for i, byte in enumerate(made) if 48 <= byte < 58]
            if digits:
                made[(i := rnd.choice(digits)) : i + 1] = rnd.choice(
                    (b"0", b"1", b"7", b"9", b"64", b"255", b"4294967296", b"-1", b"")
                )
    return bytes(made[:LONGEST])


def fuzz(
    target: Target,
    seeds: Iterable[bytes],
    words: list[bytes],
    *,
    seconds: float | None = None,
    runs: int | None = None,
    seed: int = 0,
    package: str = PACKAGE,
) -> list[bytes]:
    """Runs until the time or the runs are over; the inputs that did something new, seeds among them. Found for the first that breaks the target."""
    rnd = random.Random(seed)
    coverage = Coverage(package)
    kept: list[bytes] = []
    end = None if seconds is None else time.monotonic() + seconds
    waiting = [*seeds, b""]
    done = 0
    while (runs is None or done < runs or waiting) and (end is None or time.monotonic() < end):
        done += 1
        data = waiting.pop(0) if waiting else mutate(rnd.choice(kept), kept, words, rnd)
        start = time.monotonic()
        try:
            new, _ = coverage.run(target, data)
        except Exception as e:
            raise Found(data, f"{type(e).__name__} {e}") from e
        if time.monotonic() - start > SLOW_S:
            raise Found(data, "slow")
        if new:
            kept.append(data)
    return kept
