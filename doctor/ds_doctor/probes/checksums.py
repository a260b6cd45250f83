"""What vouches for the content of the model's files: blob names, download records, checksum lists, a given manifest; never judges, never hashes.

The whole list (`Vouching`, up to 200,000 files) is looked at once and shared; the fact keeps counts and the first few names.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .model_folder import Names


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's content should be. `algorithm`: sha256, git-sha1, ...; `source`: manifest (given by the user), hub-blob (the blob's name),
    hub-metadata (`.cache/huggingface/download`), hub-tree (the list of the commit's files that the downloader keeps), sums (a checksum
    file in the folder); `where`: that file's name."""

    algorithm: str
    digest: str
    source: str
    where: str


class ModelFile(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One regular file of the model. `name`: relative to the model's folder, as it can be shown; `path`: as the system takes it (not for JSON);
    `role`: weights, config (the engine reads it: configuration, tokenizer, template), code (*.py), other. `size` in bytes as it is, `size_due` as a source says."""

    name: str
    path: str
    size: int
    role: str
    expected: tuple[Expected, ...] = ()
    size_due: int | None = None


class Lost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that something lists and that is not there. `source` as of Expected, or modelscope; `size` in bytes where it is told. `weight`: needed (the engine
    loads it, or cannot do without), wanted (the engine does something else without it), left-out."""

    name: str
    role: str
    source: str
    where: str
    weight: str
    size: int | None = None


class WrongSize(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file whose size (bytes) is not the one that a source says."""

    name: str
    role: str
    size: int
    due: int
    source: str
    where: str


class SumsFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of checksums, in the folder or `given`. `problem`: why nothing of it could be used (an id of manifest.NotAManifest or
    of the reading). `problems`: lines that were not understood or contradict others, `first` the kind of the first, with its line and text."""

    name: str
    given: bool = False
    entries: int = 0
    problem: str | None = None
    problems: int = 0
    first: str | None = None
    line: int | None = None
    text: str = ""


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """Two sources that say different things of the content of one file."""

    name: str
    role: str
    one: Expected
    other: Expected


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, and which files are recorded as fetched from it."""

    commit: str
    files: Names


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link that leads out of the model's folder and of its repository in the hub cache. `kind`: other-repository, outside."""

    name: str
    role: str
    kind: str
    target: str


class Snapshots(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The snapshots of the repository in the hub cache: how many, which one was looked at, and what each ref (`main`, `refs/pr/1` ...) means."""

    count: int
    this: str
    refs: dict[str, str] = {}


class Vouching(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found out about which content is due. `layout`: plain, file, hub-cache, local-dir, modelscope. `revision`: the commit.
    `given`: whether a manifest was given; `listed`: whether anything says which files there should be; `unseen`: files beyond the limit or the
    time; `copied` as of Checksums. `unlisted`: weight files that a list lacks, with that list, and whether the engine loads them and the list was given."""

    root: str
    layout: str
    repo: str | None = None
    revision: str | None = None
    files: tuple[ModelFile, ...] = ()
    unseen: int = 0
    given: bool = False
    listed: bool = False
    copied: bool = False
    lost: tuple[Lost, ...] = ()
    sizes: tuple[WrongSize, ...] = ()
    unlisted: tuple[tuple[str, str, bool], ...] = ()
    lists: tuple[SumsFile, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    revisions: tuple[Revision, ...] = ()
    links: tuple[Link, ...] = ()
    snapshots: Snapshots | None = None


class Checksums(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What vouches for the model's files, counted: `files` regular files, `vouched` of them with a digest that is due, `bytes` of all. `sized`: how many have
    a size that is due. Of `lost`, `sizes`, `unlisted`, `conflicts` and `links` (as of Vouching) the first hundred are here, weights first. `root`: the folder. `copied`: in a snapshot of the Hub's cache stand files where links to blobs should be."""

    of_command: ClassVar[bool] = True

    layout: str
    root: str = ""
    repo: str | None = None
    revision: str | None = None
    files: int = 0
    bytes: int = 0
    vouched: int = 0
    sized: int = 0
    unseen: int = 0
    given: bool = False
    listed: bool = False
    copied: bool = False
    unvouched_weights: Names = Names()
    lost: tuple[Lost, ...] = ()
    left_out: Names = Names()
    sizes: tuple[WrongSize, ...] = ()
    unlisted: tuple[tuple[str, str, bool], ...] = ()
    lists: tuple[SumsFile, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    revisions: tuple[Revision, ...] = ()
    links: tuple[Link, ...] = ()
    snapshots: Snapshots | None = None


@probe
def checksums(host: Host) -> Checksums:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _checksum_look

    return _checksum_look.counted(host.once(_checksum_look.look_at))
