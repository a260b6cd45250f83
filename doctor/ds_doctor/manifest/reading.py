"""Any list of checksums: which kind it is, and what it says; reads no file, knows no host."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .structs import Manifest, NotAManifest

LIMIT = 32 << 20  # bytes; 200,000 lines of sha256sum take 20 MB, the hub's list of 96,000 files as much

_LISTS = re.compile(
    r"(?:.*[._-])?(?:sha|md)-?\d{1,3}(?:sums?)?(?:\.txt)?|(?:.*[._-])?check-?sums?(?:[._-](?:sha|md)\d{1,3})?(?:\.(?:txt|md5|sha\d{1,3}))?"
    r"|checklist\.chk",
    re.IGNORECASE,
)


def is_list_name(name: str) -> bool:
    """Whether a file of this name in a model's folder is a list of checksums by custom: SHA256SUMS, x.sha256, checksums.txt, checklist.chk."""
    return len(name) < 256 and _LISTS.fullmatch(name) is not None


def parse(data: bytes, name: str, roots: Iterable[str] = ()) -> Manifest:
    """What the list called `name` says. `roots`: absolute paths of its folder, under which absolute names are names of
    this folder. NotAManifest when it is none; raises nothing else."""
    from . import _json, _sums  # most models have no list, and theirs are many patterns

    if len(data) > LIMIT:
        raise NotAManifest("too-large")
    name = name.rpartition("/")[2]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell's `>` writes
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            raise NotAManifest("not-text") from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    start = data[:4096].lstrip()[:1]
    if not start and not data.strip():
        raise NotAManifest("empty")
    if start in (b"{", b"[") and _is_utf8(data):
        try:
            return _json.read(data, roots)
        except NotAManifest as e:
            if start == b"{" or e.why != "not-json":
                raise
            try:  # `[SHA256]` as a heading
                return _sums.read(data, name, roots)
            except NotAManifest:
                raise e from None
    return _sums.read(data, name, roots)


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeError:
        return False
