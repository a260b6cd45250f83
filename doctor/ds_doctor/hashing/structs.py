"""The values of this room: what is to be hashed, what came of it, how far it is; holds no logic.

`hash_files(jobs: Iterable[Job], *, threads: int | None = None, warm: bool = False, progress: Callable[[int], None] | None = None,
stop: threading.Event | None = None) -> Iterator[Done]` in `hashing/files.py` yields one Done a job, in the order in which they end;
`progress` is called with the bytes that were read since the last call, from any thread. When `stop` is set it ends within a moment, and jobs that were
not finished yield nothing. `threads` None: as many as the processors this process may use.
"""

from __future__ import annotations

import msgspec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One file, by a path that the system takes (surrogates for bytes that are not UTF-8), and the digests that are wanted: names
    of hashlib, or git-sha1. `size`: bytes as it was listed, for the order of work only."""

    path: str
    algorithms: tuple[str, ...] = ("sha256",)
    size: int = 0


class Identity(msgspec.Struct, frozen=True):
    """What tells that a file is still the one that was read. Times in nanoseconds since 1970."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one job. `problem`: None (hashed), changed (other content or size than when the reading began, or shrank), read-error, denied, missing,
    not-a-file; then `error` is the system's words and `offset` the byte where reading failed (None: at opening). `digests` by algorithm, lower-case
    hexadecimal; empty with a problem. `seconds` on the clock. `bytes`: how many were read. `identity` after the
    reading, `before` when it began."""

    job: Job
    digests: dict[str, str] = {}
    problem: str | None = None
    error: str | None = None
    offset: int | None = None
    bytes: int = 0
    seconds: float = 0.0
    identity: Identity | None = None
    before: Identity | None = None
