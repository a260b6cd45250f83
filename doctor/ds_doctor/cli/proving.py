"""Hashes the files of a model that are not known from earlier, keeps what it learns, and can be stopped at any moment; judges nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import msgspec

from .. import kept, proofs
from ..hashing import Done, Job, hash_files
from ..host import Asked, Host
from ..model import Lang, Outcome, Trouble
from ..probes import _checksum_look
from ..probes.checksums import Vouching
from ..probes.proof import FileProof, Proof, home_of, is_remembered, recalled, tally
from ..report.verify_words import duration, size, word
from .look import Options, host_for

# For the look at names, sizes and headers; a file server that answers later than that is no use to an engine.
STRUCTURE_S = 600.0
SAVE_S = 5.0  # between two writes of what is known so far
LINE_S = 10.0  # between two lines where nobody looks at a bar
# A file that was changed this shortly before it was read could be changed again without another time: kernels stamp files
# every 1 to 10 ms, some network file systems every second.
FRESH_NS = 20_000_000
FRESH_COARSE_NS = 2_000_000_000


class Stopped(Exception):
    """A signal ended the hashing; `status` is the exit status, `said` the line for standard error."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """How to hash. `more`: an algorithm that every file needs besides those that are due; `part`: names of the weight files to be hashed (None: all);
    `remember`: use and keep what is known of unchanged files."""

    threads: int | None = None
    warm: bool = False
    remember: bool = True
    more: tuple[str, ...] = ()
    part: frozenset[str] | None = None
    quiet: bool = False


def _due(state: FileProof, wish: Wish) -> tuple[str, ...]:
    """The digests that are still to be made of a file."""
    if wish.part is not None and state.file.role == "weights" and state.file.name not in wish.part:
        return ()
    wanted = [e.algorithm for e in state.file.expected] or ["sha256"]
    return tuple(dict.fromkeys(a for a in (*wanted, *wish.more) if a not in state.digests))


def prove(
    host: Host, vouching: Vouching, wish: Wish, lang: Lang, meanwhile: Callable[[], None] | None = None
) -> tuple[list[FileProof], float]:
    """What is known of every file's content afterwards, and the seconds that it took. Stopped when a signal came in between.
    `meanwhile` is called when there is something to hash, before that begins; it must return at once."""
    states = list(recalled(host, vouching)) if wish.remember else [FileProof(file=f) for f in vouching.files]
    of_path: dict[str, list[int]] = {}  # two names can lead to one path
    due: dict[str, dict[str, None]] = {}
    for i, state in enumerate(states):
        algorithms = _due(state, wish)
        if not algorithms and wish.warm:  # known, and to be brought into memory all the same
            algorithms = tuple(state.digests)[:1]
        if algorithms:
            of_path.setdefault(state.file.path, []).append(i)
            due.setdefault(state.file.path, {}).update(dict.fromkeys(algorithms))
    todo = [Job(path=p, algorithms=tuple(a), size=states[of_path[p][0]].file.size) for p, a in due.items()]
    if not todo:
        return states, 0.0
    memory = _Memory(host, vouching) if wish.remember else None
    if meanwhile is not None:
        meanwhile()
    begun = time.monotonic()
    with _Signals() as signals, _Progress(sum(j.size for j in todo), lang, wish.quiet) as progress:
        for done in hash_files(todo, threads=wish.threads, warm=wish.warm, progress=progress.add, stop=signals.stop):
            for i in of_path[done.job.path]:
                states[i] = _after(states[i], done)
            if memory is not None and is_remembered(vouching, states[i].file):
                memory.add(states[i], done)
            progress.show()
    if memory is not None:
        memory.save()
    if signals.number is not None:
        hashed = sum(bool(s.digests) for s in states)
        safe = memory is not None and memory.is_kept()
        said = word("interrupted", lang, n=hashed, files=len(states)) if safe else word("interrupted.lost", lang)
        raise Stopped(128 + signals.number, said)
    return states, time.monotonic() - begun


def prove_all(options: Options, asked: list[Asked], gathered: list[dict[type, Outcome]], lang: Lang) -> float:
    """Put the proof that the hashing of each service's model gives in the place of what was recalled; the seconds that it took."""
    begun = time.monotonic()
    timer = signal.setitimer(signal.ITIMER_REAL, 0)  # the limit on the run is not one on reading hundreds of gigabytes
    for one, outcomes in zip(asked, gathered, strict=True):
        host = host_for(options, one)
        host.deadline = begun + STRUCTURE_S
        try:
            vouching = host.once(_checksum_look.look_at)
        except Trouble:  # the rules say what it is
            continue
        states, _ = prove(host, vouching, Wish(quiet=options.quiet), lang)
        outcomes[Proof] = Outcome(tally(states, hashed=True))
    signal.setitimer(signal.ITIMER_REAL, *timer)
    return time.monotonic() - begun


def _after(state: FileProof, done: Done) -> FileProof:
    if done.problem is not None:
        return FileProof(
            file=state.file, problem=done.problem, error=done.error, offset=done.offset, seconds=done.seconds
        )
    size_now = done.identity.size if done.identity is not None else state.file.size
    if size_now != state.file.size:  # between the listing and the reading
        return FileProof(file=state.file, problem="changed", seconds=done.seconds)
    return FileProof(
        file=state.file,
        digests={**state.digests, **done.digests},
        how="hashed",
        at=int(time.time()),
        seconds=done.seconds,
    )


class _Memory:
    """The proofs that are kept of this model, and the file that they are kept in."""

    def __init__(self, host: Host, vouching: Vouching) -> None:
        self.home = home_of(host, vouching)
        self.folder = kept.folder(host.env)
        self.known = proofs.Proofs()
        self.saved_at = time.monotonic()
        self.dirty = False

    def add(self, state: FileProof, done: Done) -> None:
        if self.folder is None or not done.digests or done.identity is None:
            return
        i = done.identity
        newest = max(i.mtime_ns, i.ctime_ns)
        fresh = FRESH_COARSE_NS if newest % 1_000_000_000 == 0 else FRESH_NS
        if time.time_ns() - int(done.seconds * 1e9) - newest < fresh:
            return
        identity = proofs.Identity(i.size, i.ino, i.mtime_ns, i.ctime_ns)
        path = os.path.realpath(done.job.path)
        self.known.add(path, proofs.Record(identity, dict(done.digests), state.at))
        self.dirty = True
        if time.monotonic() - self.saved_at > SAVE_S:
            self.save()

    def is_kept(self) -> bool:
        """Whether there is a file that a later run will read."""
        return self.folder is not None and kept.read(f"{self.folder}/{proofs.name_of(self.home)}") is not None

    def save(self) -> None:
        """Put what was learnt beside what is kept already; another run may have added to it meanwhile."""
        if self.folder is None or not self.dirty:
            return
        name = proofs.name_of(self.home)
        key = kept.read(f"{self.folder}/{proofs.KEY}")
        if key is None or len(key) != proofs.KEY_BYTES:
            kept.write(self.folder, proofs.KEY, os.urandom(proofs.KEY_BYTES))
            key = kept.read(f"{self.folder}/{proofs.KEY}")
        if key is None:
            return
        there = proofs.decode(key, self.home, kept.read(f"{self.folder}/{name}"))
        records: Mapping[str, proofs.Record] = {**there.all(), **self.known.all()}
        for path, record in self.known.all().items():
            old = there.all().get(path)
            if old is not None and old.identity == record.identity:
                records = {
                    **records,
                    path: proofs.Record(record.identity, {**old.digests, **record.digests}, record.at),
                }
        kept.write(self.folder, name, proofs.encode(key, self.home, records))
        self.saved_at = time.monotonic()
        self.dirty = False


class _Signals:
    """Ctrl-C and an orderly end from outside stop the hashing instead of the process, so that what is known is kept."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._came)
        return self

    def _came(self, number: int, _: object) -> None:
        if self.number is not None:  # a second one means it
            self._now(number)
        self.number = number
        self.stop.set()

    def _now(self, number: int) -> NoReturn:
        os._exit(128 + number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Progress:
    """A bar with rate and time left on a terminal, a plain line now and then elsewhere, on standard error."""

    def __init__(self, total: int, lang: Lang, quiet: bool) -> None:
        self.total = total
        self.lang = lang
        self.quiet = quiet
        self.done = 0
        self.begun = time.monotonic()
        self.said_at = self.begun
        self.lock = threading.Lock()
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> _Progress:
        if not self.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def _draw(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.bar.add_task(word("hashing", self.lang), total=self.total)
        try:
            self.bar.start()
        except RuntimeError:  # no thread to be had for it
            self.bar = None

    def add(self, count: int) -> None:
        """Called from the threads that read."""
        with self.lock:
            self.done += count
            done = self.done
        if self.bar is not None:
            self.bar.update(self.task, completed=min(done, self.total))
        elif not self.quiet and time.monotonic() - self.said_at >= LINE_S:
            self.show()

    def show(self) -> None:
        """A line, if it is time for one."""
        now = time.monotonic()
        with self.lock:
            if self.quiet or self.bar is not None or now - self.said_at < LINE_S:
                return
            self.said_at = now
            done = self.done
        rate = done / (now - self.begun)
        left = (self.total - done) / rate if rate else 0.0
        said = word(
            "progress",
            self.lang,
            done=size(done),
            all=size(self.total),
            rate=size(rate),
            left=duration(max(0.0, left), self.lang),
        )
        try:
            sys.stderr.write(f"ds-doctor: {said}\n")
            sys.stderr.flush()
        except OSError:
            pass


def of_part(part: str, names: Iterable[str]) -> frozenset[str]:
    """The weight files of part I of N, dealt out in the order of their names. ValueError for what is no I/N."""
    first, slash, of = part.partition("/")
    if (
        not slash
        or not (part.isascii() and first.isdecimal() and of.isdecimal() and len(part) < 12)
        or not 1 <= int(first) <= int(of)
    ):
        raise ValueError(part)
    return frozenset(sorted(names)[int(first) - 1 :: int(of)])
