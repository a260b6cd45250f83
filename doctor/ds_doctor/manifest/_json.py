"""Lists of files in JSON: our own manifest, the hub's API, ModelScope's, git-lfs's and plain maps of name to digest.

The hub's fields are those that huggingface_hub reads (hf_api.py: ModelInfo, RepoFile); `hf models ls ID -R --format json` writes its own
dataclasses. ModelScope's are those of /api/v1/models/ID/repo/files?Recursive=true (modelscope/hub/info.py). Only known fields are
built: what else a text holds is passed over without memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from ._gather import DIGITS, ENTRIES, Gathered, digest_of
from .structs import SCHEMA, Manifest, NotAManifest

OBJECTS = 1_000_000  # `{` in the text; five times what the largest list of 200,000 files holds
PARTS = 1_000_000  # commas, where each part of a text is kept apart

_ERRORS = (msgspec.MsgspecError, UnicodeError, ValueError, OverflowError)
_JOINT = re.compile(rb'"[^"]*"|([\]}])\s*(?=[\[{])')
_T = TypeVar("_T")
_Word = str | None
_Count = int | None


class _Lfs(msgspec.Struct, gc=False):
    oid: _Word = None  # /tree
    sha256: _Word = None  # ?blobs=true
    size: _Count = None


class Item(msgspec.Struct):
    """One file of any of the lists."""

    rfilename: _Word = None
    path: _Word = None
    path_: _Word = msgspec.field(default=None, name="Path")
    name: _Word = None
    filename: _Word = None
    file: _Word = None
    raw: _Word = None
    type: _Word = None
    type_: _Word = msgspec.field(default=None, name="Type")
    size: _Count = None
    size_: _Count = msgspec.field(default=None, name="Size")
    tree_id: _Word = None  # of a folder, in `hf models ls`
    oid: _Word = None
    oid_type: _Word = None
    blob_id: _Word = None
    blob_id_: _Word = msgspec.field(default=None, name="blobId")
    lfs: _Lfs | None = None
    lfs_sha256: _Word = None  # trees/COMMIT.json of huggingface_hub
    lfs_oid: _Word = None
    lfs_size: _Count = None
    xet_hash: _Word = None
    xet_hash_: _Word = msgspec.field(default=None, name="xetHash")
    sha256: _Word = None
    sha256_: _Word = msgspec.field(default=None, name="Sha256")
    sha512: _Word = None
    sha384: _Word = None
    sha224: _Word = None
    sha1: _Word = None
    md5: _Word = None
    git_sha1: _Word = msgspec.field(default=None, name="git-sha1")


class _Files(msgspec.Struct):
    files: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Files")


class _Top(msgspec.Struct):
    schema: msgspec.Raw = msgspec.Raw()
    siblings: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="Data")
    files: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    model_id: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="modelId")
    sha: msgspec.Raw = msgspec.Raw()
    repo: msgspec.Raw = msgspec.Raw()
    revision: msgspec.Raw = msgspec.Raw()


def read(data: bytes, roots: Iterable[str] = ()) -> Manifest:
    """The list. NotAManifest when the text is no JSON, or JSON of something else."""
    if data.count(b"{") > OBJECTS:
        raise NotAManifest("too-large")
    reader = _Reader(roots)
    try:
        for part in _parts(data):
            reader.part(part)
    except RecursionError:
        raise NotAManifest("too-deep") from None
    return reader.manifest()


def _parts(data: bytes) -> Iterator[bytes]:
    """The text, or each of the texts that were put one after the other (pages of an API, one object a line)."""
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except msgspec.DecodeError as e:
        if "trailing characters" not in str(e):
            raise NotAManifest("not-json", _line_of(data, e)) from None
    except _ERRORS:
        raise NotAManifest("not-json") from None
    else:
        yield data
        return
    if data.count(b"\\") > PARTS:
        raise NotAManifest("too-large")
    plain = re.sub(rb"\\.", b"__", data, flags=re.DOTALL)  # so that each quotation mark begins or ends a string
    start = 0
    for count, joint in enumerate(found for found in _JOINT.finditer(plain) if found[1]):
        if count > ENTRIES:
            raise NotAManifest("too-large")
        yield _whole(data[start : joint.end()])
        start = joint.end()
    yield _whole(data[start:])


def _whole(part: bytes) -> bytes:
    if _decoded(part, msgspec.Raw) is None:
        raise NotAManifest("not-json")
    return part


def _line_of(data: bytes, error: Exception) -> int | None:
    found = re.search(r"byte (\d+)", str(error))
    return data.count(b"\n", 0, int(found[1])) + 1 if found else None


class _Reader:
    def __init__(self, roots: Iterable[str]) -> None:
        self.gathered = Gathered(roots)
        self.kind: str | None = None
        self.repo: str | None = None
        self.revision: str | None = None

    def manifest(self) -> Manifest:
        if not self.gathered.alike and self.kind != "ds-doctor":
            raise NotAManifest("no-entries")
        return self.gathered.manifest(self.kind or "json", self.repo, self.revision)

    def part(self, text: bytes) -> None:
        if text.lstrip()[:1] == b"[":
            self.items(text, None)
        else:
            self.table(text)

    def table(self, text: bytes) -> None:
        top = _decoded(text, _Top)
        if top is None:
            raise NotAManifest("not-json")
        schema = _word(top.schema)
        if schema is not None and schema.startswith("ds-doctor."):
            if schema != SCHEMA:
                raise NotAManifest("unknown-schema")
            self.kind, self.repo, self.revision = "ds-doctor", _word(top.repo), _word(top.revision)
            self.items(top.files, "ds-doctor")
        elif top.siblings:
            self.repo, self.revision = _word(top.id) or _word(top.model_id), _word(top.sha)
            self.items(top.siblings, "hub")
        elif top.data and (inner := _decoded(top.data, _Files)) is not None and inner.files:
            self.items(inner.files, "modelscope")
        elif top.files:
            self.repo, self.revision = _word(top.repo) or _word(top.id), _word(top.revision) or _word(top.sha)
            self.items(top.files, None)
        elif (item := _decoded(text, Item)) is not None and _name(item):
            self.item(item, None)
        else:
            self.map(text)

    def items(self, text: bytes | msgspec.Raw, kind: str | None) -> None:
        if bytes(text).lstrip()[:1] == b"{":
            self.map(text)
            return
        items = _decoded(text, list[Item])
        if items is not None:
            for item in items:
                self.item(item, kind)
            return
        for raw in self.apart(text, list[msgspec.Raw]) or ():
            inner = bytes(raw).lstrip()[:1]
            if inner == b"[" and kind is None:  # pages that were put together in one list
                self.items(raw, "hub")
            elif inner == b"{" and (one := _decoded(raw, Item)) is not None:
                self.item(one, kind)
            else:
                self.gathered.problem("bad-line", bytes(raw)[:200].decode("utf-8", "replace"))

    def map(self, text: bytes | msgspec.Raw) -> None:
        """{name: digest}, {name: {size, sha256, …}}."""
        for name, raw in (self.apart(text, dict[str, msgspec.Raw]) or {}).items():
            word = _word(raw)
            if word is not None and (found := _by_length(word)):
                self.kind = self.kind or "json"
                self.gathered.add(name, found)
            elif (
                bytes(raw).lstrip()[:1] == b"{"
                and (item := _decoded(raw, Item)) is not None
                and (found := _digests(item)[0])
            ):
                self.kind = self.kind or "json"
                self.gathered.add(name, found, _size(item))

    def apart(self, text: bytes | msgspec.Raw, shape: type[_T]) -> _T | None:
        if bytes(text).count(b",") > PARTS:
            raise NotAManifest("too-large")
        return _decoded(text, shape)

    def item(self, item: Item, kind: str | None) -> None:
        if self.gathered.full or item.type == "directory" or item.type_ == "tree" or item.tree_id is not None:
            return
        name = _name(item)
        if not name:
            self.gathered.problem("bad-line", "")
            return
        digests, bad = _digests(item)
        kind = kind or _kind(item)
        if kind == "json" and not digests and bad is None:  # any object has a name
            self.gathered.problem("bad-line", name)
            return
        self.kind = self.kind or kind
        if bad is not None:
            self.gathered.problem("bad-digest", f"{name}: {bad}")
        self.gathered.add(name, digests, _size(item))


def _name(item: Item) -> str | None:
    if item.raw is not None:
        try:
            return bytes.fromhex(item.raw).decode("utf-8", "surrogateescape")
        except ValueError:
            return None
    return item.rfilename or item.path or item.path_ or item.name or item.filename or item.file


def _size(item: Item) -> int | None:
    sizes = (item.lfs.size if item.lfs else None, item.lfs_size, item.size, item.size_)
    size = next((s for s in sizes if s is not None), None)
    return size if size is not None and 0 <= size < 1 << 63 else None


def _kind(item: Item) -> str:
    if item.oid_type is not None:
        return "git-lfs"
    if item.path_ is not None:
        return "modelscope"
    hub = item.rfilename or item.oid or item.blob_id or item.blob_id_ or item.lfs or (item.path and item.type == "file")
    return "hub" if hub else "json"


def _digests(item: Item) -> tuple[dict[str, str], str | None]:
    """The digests of the content, and the first that is none. Of a file in LFS or Xet, `oid` and `blob_id` are those of the pointer; so may
    they be wherever a SHA-256 stands beside them."""
    claims: list[tuple[str, str | None]]
    sha256 = item.sha256 or item.sha256_
    if item.lfs is not None:
        claims = [("sha256", item.lfs.oid or item.lfs.sha256)]
    elif item.lfs_sha256 or item.lfs_oid:
        claims = [("sha256", item.lfs_sha256 or item.lfs_oid)]
    elif item.oid_type is None and (sha256 or item.xet_hash or item.xet_hash_):
        claims = []
    elif item.oid_type is not None:
        claims = [(item.oid_type, item.oid)]
    else:
        claims = [("git-sha1", item.oid or item.blob_id or item.blob_id_)]
    claims += [("sha256", sha256), ("git-sha1", item.git_sha1)]
    claims += [(a, getattr(item, a)) for a in ("sha512", "sha384", "sha224", "sha1", "md5")]
    digests: dict[str, str] = {}
    bad = None
    for algorithm, text in claims:
        if not text or algorithm not in DIGITS:
            continue
        digest = digest_of(algorithm, text)
        if digest is None or digests.setdefault(algorithm, digest) != digest:
            bad = bad or text
    return digests, bad


def _by_length(word: str) -> dict[str, str]:
    label, _, rest = word.rpartition(":")
    for algorithm in DIGITS:
        if algorithm != "git-sha1" and label.lower() in ("", algorithm) and (digest := digest_of(algorithm, rest)):
            return {algorithm: digest}
    return {}


def _decoded(text: bytes | msgspec.Raw, shape: type[_T]) -> _T | None:
    try:
        return msgspec.json.decode(text, type=shape)
    except _ERRORS:
        return None


def _word(raw: msgspec.Raw) -> str | None:
    return _decoded(raw, str) if raw else None
