"""What huggingface_hub writes down beside what it downloads: records of files, lists of a commit's files; never judges.

Formats: huggingface_hub 0.23 to 2.4, `_local_folder.py` (`<name>.metadata`: commit, ETag, time) and `_tree_cache.py` (`trees/<commit>.json`).
A file's ETag is the sha256 of its content where the repository keeps it in LFS or Xet, else its SHA-1 as a Git blob.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..api import Host, Malformed, Trouble
from ._model_place import names_in

# Where records of a download into a folder lie; the second in version 0.23.0 only.
HOMES = (".cache/huggingface", ".huggingface")
_RECORD_LIMIT = 4096
_TREE_LIMIT = 64 << 20  # bytes; 200,000 files take about 40 MB
_RECORDS = 200_000
_DEEP = 32
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SHA1 = re.compile(r"[0-9a-f]{40}\Z")
_END = ".metadata"


class Record(msgspec.Struct, frozen=True):
    """Of one file: the commit it was fetched from, its ETag, where that stands."""

    commit: str
    etag: str
    where: str


class Listed(msgspec.Struct, frozen=True):
    """One file of a commit; size in bytes."""

    algorithm: str
    digest: str
    size: int | None


class _TreeFile(msgspec.Struct):
    size: int | None = None
    blob_id: str | None = None
    lfs_sha256: str | None = None
    lfs_size: int | None = None


class _Tree(msgspec.Struct):
    format_version: int
    files: dict[str, _TreeFile]


def algorithm_of(etag: str) -> str | None:
    """What kind of digest an ETag is; None where it is none."""
    if _SHA256.match(etag):
        return "sha256"
    return "git-sha1" if _SHA1.match(etag) else None


def parse_record(text: str, where: str) -> Record:
    """A `.metadata` file. Malformed when it has not its three lines."""
    lines = text.split("\n")
    if len(lines) < 3 or not _SHA1.match(lines[0].strip()) or not lines[1].strip():
        raise Malformed("not-a-download-record", path=where)
    return Record(lines[0].strip(), lines[1].strip().removeprefix("W/").strip('"'), where)


def parse_tree(text: bytes) -> dict[str, Listed]:
    """A commit's files by name. Malformed when it is no such list."""
    try:
        tree = msgspec.json.decode(text, type=_Tree)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Malformed("not-a-tree") from None
    if tree.format_version != 1:
        raise Malformed("not-a-tree")
    found = {}
    for name, file in tree.files.items():
        if file.lfs_sha256 is not None and _SHA256.match(file.lfs_sha256):
            found[name] = Listed("sha256", file.lfs_sha256, file.lfs_size)
        elif file.lfs_sha256 is None and file.blob_id is not None and _SHA1.match(file.blob_id):
            found[name] = Listed("git-sha1", file.blob_id, file.size)
    return found


def records(host: Host, root: str) -> dict[str, Record]:
    """The records of downloads into the folder `root`, by the file's name."""
    found: dict[str, Record] = {}
    for home in HOMES:
        below = f"{home}/download"
        for name in _below(host, f"{root}/{below}"):
            if name.endswith(_END) and len(found) < _RECORDS and host.time_left_s() > 0.5:
                where = f"{below}/{name}"
                try:
                    record = parse_record(host.text(f"{root}/{where}", limit=_RECORD_LIMIT), where)
                except Trouble:
                    continue
                found.setdefault(name.removesuffix(_END), record)
    return found


def halves(host: Host, root: str, home: str) -> list[str]:
    """The unfinished downloads below one of HOMES of the folder `root`."""
    below = f"{home}/download"
    return [f"{below}/{n}" for n in _below(host, f"{root}/{below}") if n.endswith(".incomplete")]


def _below(host: Host, folder: str) -> Iterator[str]:
    todo = [("", 0)]
    while todo:
        prefix, depth = todo.pop()
        for name in names_in(host, f"{folder}/{prefix}".rstrip("/")):
            if name.endswith((_END, ".lock", ".incomplete")):
                yield prefix + name
            elif depth < _DEEP and _is_folder(host, f"{folder}/{prefix}{name}"):
                todo.append((f"{prefix}{name}/", depth + 1))


def _is_folder(host: Host, path: str) -> bool:
    try:
        return host.lstat(path).kind == "directory"
    except Trouble:
        return False


def trees(host: Host, home: str) -> list[str]:
    """The commits whose lists are kept below `home`, a repository's folder in the cache or one of HOMES in a folder."""
    return [n.removesuffix(".json") for n in names_in(host, home + "/trees") if n.endswith(".json")]


def tree(host: Host, home: str, commit: str) -> dict[str, Listed]:
    """The files of a commit; none where no list of it is kept."""
    try:
        return parse_tree(host.read(f"{home}/trees/{commit}.json", limit=_TREE_LIMIT))
    except Trouble:
        return {}
