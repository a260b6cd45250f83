"""All entries below a model folder, in order, with what each link leads to; follows no linked folder, judges nothing."""

from __future__ import annotations

import posixpath

import msgspec

from ..api import Absent, Host, Trouble

FILES = 200_000  # entries of the whole tree
DEEP = 32  # folders within each other; published repositories have five
HOPS = 8  # links that lead to links
SPARE_S = 0.5  # seconds before the deadline in which no more is looked at
# Bookkeeping of git, of the hub's and ModelScope's downloaders and of Python: no part of a model.
_OWN_FOLDERS = (".git", ".huggingface", "._____temp", "__pycache__", ".ipynb_checkpoints", ".locks", ".lock")
_OWN_FILES = (".msc", ".mdl", ".mv", "._msc", ".DS_Store")


class Via(msgspec.Struct, frozen=True):
    """A link: what is written in it, the path of the first blob of a hub cache that it passes, and where it ends."""

    link: str
    blob: str | None
    end: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """`name` relative to the folder and `path`, both as the system takes them. `kind`: file (also at the end of a link), dangling, folder-link, or
    what it is instead (fifo, unreadable, denied ...). `size` in bytes. `via`: it is a link. `blob`: it is a blob itself, or a link to one."""

    name: str
    path: str
    kind: str
    size: int = 0
    via: Via | None = None

    @property
    def blob(self) -> str | None:
        if self.via is not None:
            return self.via.blob
        return self.path if is_blob(self.path) else None


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """`unseen`: at least so many entries were not looked at (limit, time, a folder that may not be listed)."""

    entries: tuple[Entry, ...] = ()
    unseen: int = 0


def walk(host: Host, root: str, blobs: str | None = None) -> Walk:
    """Everything below `root` but bookkeeping. `blobs`: the folder of the repository's blobs, where it is in the hub cache."""
    entries: list[Entry] = []
    unseen = 0
    real = Folders(host, blobs)
    todo = [("", 0)]
    while todo:
        prefix, depth = todo.pop()
        folder = f"{root}/{prefix}".rstrip("/")
        try:
            names = host.names(folder)
        except Trouble:
            unseen += 1
            continue
        deeper = []
        for n, name in enumerate(names):
            if len(entries) >= FILES or host.time_left_s() < SPARE_S:
                unseen += len(names) - n
                break
            if name in _OWN_FILES or (prefix == ".cache/" and name == "huggingface"):
                continue
            path = f"{folder}/{name}"
            try:
                seen = host.lstat(path)
            except Trouble:
                continue
            if seen.kind == "directory":
                if name in _OWN_FOLDERS:
                    continue
                if depth >= DEEP:
                    unseen += 1
                else:
                    deeper.append((f"{prefix}{name}/", depth + 1))
            elif seen.kind == "link":
                entries.append(followed(host, prefix + name, path, real))
            else:
                entries.append(Entry(name=prefix + name, path=path, kind=seen.kind, size=seen.size))
        todo += reversed(deeper)
    return Walk(entries=tuple(entries), unseen=unseen)


class Folders:
    """The real paths of folders, each asked for once: a snapshot's links all lead to one. `blobs` as of walk."""

    def __init__(self, host: Host, blobs: str | None = None) -> None:
        self._host = host
        self._known: dict[str, str] = {}
        # The repository's folder, or that of its blobs, may be a link to another disk, where it has another name.
        self.blobs = () if blobs is None else (f"{self.real(posixpath.dirname(blobs))}/blobs", self.real(blobs))

    def real(self, folder: str) -> str:
        if folder not in self._known:
            try:
                self._known[folder] = self._host.real(folder)
            except Trouble:
                self._known[folder] = folder
        return self._known[folder]


def followed(host: Host, name: str, path: str, folders: Folders) -> Entry:
    """The link at `path`: what stands at its end, and the blob of a hub cache that it passes."""
    blob = None
    here = path
    link = ""
    try:
        for _ in range(HOPS):
            target = host.link(here)
            link = link or target
            where = posixpath.join(folders.real(posixpath.dirname(here)), target)
            written = posixpath.normpath(where)
            here = f"{folders.real(posixpath.dirname(where)).rstrip('/')}/{posixpath.basename(where)}"
            for passed in (written, here):
                if blob is None and (posixpath.dirname(passed) in folders.blobs or is_blob(passed)):
                    blob = passed
            if host.lstat(here).kind != "link":
                break
    except Trouble:
        pass  # the end is not there, or may not be looked at: what stat says below
    kind, size = "dangling", 0
    try:
        end = host.stat(path)
        kind, size = "folder-link" if end.kind == "directory" else end.kind, end.size
    except Absent:
        pass
    except Trouble as t:
        kind = "denied" if t.kind == "denied" else "unreadable"
    return Entry(name=name, path=path, kind=kind, size=size, via=Via(link, blob, here))


def is_blob(path: str) -> bool:
    """Whether a path is that of a blob in a repository of a hub cache: `<type>s--<org>--<name>/blobs/<etag>`."""
    parts = path.split("/")
    return len(parts) >= 3 and parts[-2] == "blobs" and parts[-3].startswith(("models--", "datasets--", "spaces--"))
