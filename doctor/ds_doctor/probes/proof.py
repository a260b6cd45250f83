"""What is proven of the content of the model's files: hashed now, or hashed before and unchanged since; never hashes itself, never judges.

`verify` and `run --verify-weights` put what their hashing came to in the place of what this probe recalls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec

from ..api import Absent, Host, Trouble, probe
from .checksums import Expected, ModelFile, Vouching
from .model_folder import Names

# Files of a model up to which everything is remembered; a folder of 100,000 small files is sooner hashed again than looked up.
REMEMBERED = 2000
NAMED = 1000  # the largest public checkpoints have about 200 shards
SHOWN = 100  # wrong or unread files that the fact keeps; the counts are whole


class WrongFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose digest is not the one that is due. `role` as of ModelFile, `source` and `where` as of Expected; size in bytes."""

    name: str
    role: str
    algorithm: str
    expected: str
    actual: str
    source: str
    where: str
    size: int = 0


class UnreadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be read whole. `problem`: changed (while it was read), read-error, denied, missing, not-a-file; `offset`: the byte where
    it failed (None: at opening)."""

    name: str
    role: str
    problem: str
    error: str = ""
    offset: int | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What is proven. `hashed`: whether the files were read for this report (else it is recalled from earlier). `files` were looked at, `proven` of
    them have the digest that is due; `weights` and `weights_proven` are those that hold weights, `right` the names of the latter (the first
    thousand). `unvouched`: weight files for which nothing says
    what is due; `unhashed`: weight files that could be proven and were not read. `wrong` and `unread` hold the first hundred, the counts are whole.
    `sources`: what vouched for the proven ones. `since`: when the oldest proof was made (UTC)."""

    of_command: ClassVar[bool] = True

    hashed: bool = False
    files: int = 0
    proven: int = 0
    weights: int = 0
    weights_proven: int = 0
    right: tuple[str, ...] = ()
    unvouched: Names = Names()
    unhashed: Names = Names()
    wrong: tuple[WrongFile, ...] = ()
    wrong_count: int = 0
    unread: tuple[UnreadFile, ...] = ()
    unread_count: int = 0
    sources: tuple[str, ...] = ()
    since: str | None = None


class FileProof(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one file's content. `digests` by algorithm; `at`: when they were made (seconds since 1970); `how`: hashed (now), cache (earlier),
    None (they are not known); `problem`, `error` and `offset` as of UnreadFile; `seconds` of hashing."""

    file: ModelFile
    digests: Mapping[str, str] = {}
    how: str | None = None
    at: int = 0
    seconds: float | None = None
    problem: str | None = None
    error: str | None = None
    offset: int | None = None

    def wrong(self) -> Expected | None:
        """The first source that another content is due to."""
        return next((e for e in self.file.expected if self.digests.get(e.algorithm, e.digest) != e.digest), None)

    def right(self) -> Expected | None:
        """The first source whose digest this content has."""
        return next((e for e in self.file.expected if self.digests.get(e.algorithm) == e.digest), None)

    @property
    def status(self) -> str:
        """wrong, proven, changed, unread, not-hashed, unproven (hashed, and nothing says what is due)."""
        if self.problem is not None:
            return "changed" if self.problem == "changed" else "unread"
        if self.wrong() is not None:
            return "wrong"
        if self.right() is not None:
            return "proven"
        return "unproven" if self.digests and not self.file.expected else "not-hashed"


def tally(states: Iterable[FileProof], hashed: bool) -> Proof:
    """All files as one fact."""
    every = list(states)
    by: dict[str, list[FileProof]] = {}
    for state in every:
        by.setdefault(state.status, []).append(state)
    proven, wrong = by.get("proven", []), by.get("wrong", [])
    unread = by.get("changed", []) + by.get("unread", [])
    weights = [s for s in every if s.file.role == "weights"]
    right = [s.file.name for s in weights if s.status == "proven"]
    since = min((s.at for s in proven if s.at), default=None)
    return Proof(
        hashed=hashed,
        files=len(every),
        proven=len(proven),
        weights=len(weights),
        weights_proven=len(right),
        right=tuple(right[:NAMED]),
        unvouched=_names(s for s in weights if not s.file.expected and s.problem is None),
        unhashed=_names(s for s in weights if s.file.expected and s.status == "not-hashed"),
        wrong=tuple(_wrong(s) for s in _weights_first(wrong)[:SHOWN]),
        wrong_count=len(wrong),
        unread=tuple(_unread(s) for s in _weights_first(unread)[:SHOWN]),
        unread_count=len(unread),
        sources=tuple(sorted({e.source for s in proven if (e := s.right()) is not None})),
        since=None if since is None else time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(since)),
    )


def _names(states: Iterable[FileProof]) -> Names:
    names = [s.file.name for s in states]
    return Names(len(names), tuple(names[:5]))


def _weights_first(states: list[FileProof]) -> list[FileProof]:
    return sorted(states, key=lambda s: (s.file.role != "weights", s.file.name))


def _wrong(state: FileProof) -> WrongFile:
    due = state.wrong()
    assert due is not None
    return WrongFile(
        name=state.file.name,
        role=state.file.role,
        algorithm=due.algorithm,
        expected=due.digest,
        actual=state.digests[due.algorithm],
        source=due.source,
        where=due.where,
        size=state.file.size,
    )


def _unread(state: FileProof) -> UnreadFile:
    return UnreadFile(
        name=state.file.name,
        role=state.file.role,
        problem=state.problem or "",
        error=state.error or "",
        offset=state.offset,
    )


def home_of(host: Host, vouching: Vouching) -> str:
    """The folder whose records hold for the model: in the hub cache that of the repository, whose snapshots share files."""
    root = host.real(vouching.root)
    repository, found, _ = root.rpartition("/snapshots/")
    return repository if found and repository.rpartition("/")[2].startswith("models--") else root


def is_remembered(vouching: Vouching, file: ModelFile) -> bool:
    """Whether what is learnt of the file is kept for later."""
    return file.role == "weights" or len(vouching.files) <= REMEMBERED


def recalled(host: Host, vouching: Vouching) -> Iterable[FileProof]:
    """Of each file what was kept when it was hashed, if it is unchanged since."""
    from .. import proofs

    home = home_of(host, vouching)
    kept = proofs.decode(host.recall(proofs.KEY), home, host.recall(proofs.name_of(home)))
    for file in vouching.files:
        record = None
        if kept.all() and is_remembered(vouching, file):
            try:
                s = host.stat(file.path)
                identity = proofs.Identity(s.size, s.ino, s.mtime_ns, s.ctime_ns)
                record = kept.find(host.real(file.path), identity)
            except Trouble:  # it is gone, or may not be looked at: other rules say so
                pass
        if record is None:
            yield FileProof(file=file)
        else:
            yield FileProof(file=file, digests=record.digests, how="cache", at=record.at)


@probe
def proof(host: Host) -> Proof:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _checksum_look

    return tally(recalled(host, host.once(_checksum_look.look_at)), hashed=False)
