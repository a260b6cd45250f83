"""The answer of `ds-doctor verify` as one value, worded in one language: what the JSON says and the text reads; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from ..probes.proof import FileProof
from .document import ResultDoc, ToolDoc

SCHEMA = "ds-doctor.verify/1"


class FileDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `digest` is its own and `expected` the one that is due, in hexadecimal of `algorithm`; `source`: what says so (manifest, hub-blob,
    hub-metadata, modelscope, sums). `status`: proven, wrong, unproven (nothing says what is due), not-hashed, changed (while it was read), unread. `how` the digest is
    known: hashed (now), cache (earlier, unchanged since). Sizes in bytes, `seconds` of hashing; null: not known."""

    name: str
    size: int
    role: Literal["weights", "config", "code", "other"]
    algorithm: str | None
    digest: str | None
    expected: str | None
    source: str | None
    status: Literal["proven", "wrong", "unproven", "not-hashed", "changed", "unread"]
    how: Literal["hashed", "cache"] | None
    seconds: float | None
    error: str | None


class SummaryDoc(msgspec.Struct, frozen=True, kw_only=True):
    """All files in numbers. `hashed_files` were read now, `cached_files` earlier; `rate_bytes_s` of reading and hashing (null: nothing was hashed)."""

    files: int
    bytes: int
    hashed_files: int
    hashed_bytes: int
    cached_files: int
    proven_files: int
    unproven_files: int
    not_hashed_files: int
    wrong_files: int
    unread_files: int
    rate_bytes_s: float | None


class VerifyDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One run of `ds-doctor verify`. `results` holds one result for every rule of the family weights, as in a report of `run`; `layout`: plain, file,
    hub-cache, local-dir, modelscope; `revision`: the commit. `quick`: nothing was to be hashed; `part`: which shards were (null: all)."""

    schema: str
    tool: ToolDoc
    path: str
    layout: str
    repo: str | None
    revision: str | None
    started_at: str
    duration_s: float
    verdict: Literal["pass", "warn", "fail", "unknown"]
    exit_code: int
    counts: dict[str, int]
    quick: bool
    part: str | None
    summary: SummaryDoc
    results: tuple[ResultDoc, ...]
    files: tuple[FileDoc, ...]


def file_doc(state: FileProof) -> FileDoc:
    """One file as a report shows it."""
    due = state.wrong() or state.right() or next(iter(state.file.expected), None)
    algorithm = due.algorithm if due is not None else next(iter(state.digests), None)
    return FileDoc(
        name=state.file.name,
        size=state.file.size,
        role=state.file.role,  # type: ignore[arg-type]
        algorithm=algorithm,
        digest=state.digests.get(algorithm) if algorithm is not None else None,
        expected=None if due is None else due.digest,
        source=None if due is None else due.source,
        status=state.status,  # type: ignore[arg-type]
        how=state.how,  # type: ignore[arg-type]
        seconds=None if state.seconds is None else round(state.seconds, 3),
        error=None if state.problem is None else state.error or state.problem,
    )


def summary_doc(states: Iterable[FileProof], seconds: float) -> SummaryDoc:
    """The files in numbers; `seconds` that the hashing of all took."""
    every = list(states)
    statuses = [s.status for s in every]
    hashed = [s for s in every if s.how == "hashed"]
    size = sum(s.file.size for s in hashed)
    return SummaryDoc(
        files=len(every),
        bytes=sum(s.file.size for s in every),
        hashed_files=len(hashed),
        hashed_bytes=size,
        cached_files=sum(s.how == "cache" for s in every),
        proven_files=statuses.count("proven"),
        unproven_files=statuses.count("unproven"),
        not_hashed_files=statuses.count("not-hashed"),
        wrong_files=statuses.count("wrong"),
        unread_files=statuses.count("unread") + statuses.count("changed"),
        rate_bytes_s=round(size / seconds) if size and seconds > 0 else None,
    )
