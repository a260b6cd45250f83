"""One file of a model folder: what kind of thing it is, read from its first bytes and header only; never judges."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from ..api import Absent, Denied, Host, Trouble
from . import _safetensors
from .model_folder import WeightFile

HEAD = 4096  # bytes of the first read: holds a pointer, an error page's start, and most small headers
# Bytes of a header that is parsed: 96,085 tensors take about 10 MB; a made-up header of the format's 100 MB would take
# five seconds and a gigabyte of memory.
PARSED = 24 << 20
ZIP_END = b"PK\x05\x06"  # end of central directory; at most 22 bytes and a comment of 65,535 before the file's end
ZIP_TAIL = 22 + 65_535
LFS = b"version https://git-lfs.github.com/spec/v1"  # github.com/git-lfs/git-lfs docs/spec.md
_SURROGATES = re.compile("[\ud800-\udfff]")
_LFS_SIZE = re.compile(rb"^size (\d{1,19})$", re.MULTILINE)


class Seen(msgspec.Struct, frozen=True):
    """A file, and what no fact keeps whole: the names in its header (there can be 100,000) and the kinds of its tensors."""

    file: WeightFile
    names: frozenset[str] = frozenset()
    kinds: Counter[_safetensors.Kind] = Counter()


def clean(name: str) -> str:
    """A file's or tensor's name as it can stand in JSON: bytes that are not UTF-8 become U+FFFD; at most 200 characters."""
    name = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", name)
    return name if len(name) <= 200 else name[:199] + "…"


def sniff(head: bytes) -> str | None:
    """What the first bytes are when they are certainly no tensors: lfs-pointer, html, xml, text, zip, gguf, zeros, empty."""
    if not head:
        return "empty"
    if head.startswith(LFS):
        return "lfs-pointer"
    if head.startswith(b"GGUF"):
        return "gguf"
    if head.startswith(b"PK\x03\x04"):
        return "zip"
    if not head.strip(b"\0"):
        return "zeros"
    start = head[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "html"
    if start.startswith((b"<?xml", b"<error", b"<!doctype")):
        return "html" if b"<html" in start else "xml"
    # A header's length has zero bytes from the fifth on (at most 100 MB); printable bytes there are somebody's words.
    if len(head) >= 8 and all(0x20 <= b < 0x7F or b in b"\t\r\n" for b in head[:8]):
        return "text"
    return None


def pointer_size(head: bytes) -> int | None:
    """The size that a Git LFS pointer gives."""
    m = _LFS_SIZE.search(head)
    return int(m[1]) if m else None


def look(host: Host, path: str, name: str, parsed: int = PARSED) -> Seen:
    """The weight file at `path`, called `name` in its folder; a header of more than `parsed` bytes is not parsed. Never
    raises: what hinders it becomes the kind."""
    shown = clean(name)
    try:
        stat = host.stat(path)
        if stat.kind != "file":
            return Seen(WeightFile(name=shown, kind=stat.kind))
        head = host.read_at(path, 0, HEAD)
        return _read(host, path, shown, stat.size, head, parsed)
    except Absent:
        return Seen(_lost(host, path, shown))
    except Denied:
        return Seen(WeightFile(name=shown, kind="denied"))
    except Trouble as t:
        return Seen(
            WeightFile(name=shown, kind="unreadable", error=clean(str(t.reason.data.get("error", t.reason.id))))
        )


def _lost(host: Host, path: str, shown: str) -> WeightFile:
    try:
        return WeightFile(name=shown, kind="dangling", target=clean(host.link(path)))
    except Trouble:
        return WeightFile(name=shown, kind="missing")


def _has_zip_end(host: Host, path: str, size: int) -> bool:
    return ZIP_END in host.read_at(path, max(0, size - ZIP_TAIL), ZIP_TAIL)


def _read(host: Host, path: str, shown: str, size: int, head: bytes, parsed: int) -> Seen:
    kind = sniff(head)
    is_safetensors = shown.endswith(".safetensors")
    if kind == "lfs-pointer":
        return Seen(WeightFile(name=shown, kind=kind, size=size, should_be=pointer_size(head)))
    if kind == "gguf":
        return Seen(WeightFile(name=shown, kind=kind, size=size, version=int.from_bytes(head[4:8], "little")))
    if not is_safetensors and (kind == "zip" or head.startswith(b"\x80")):  # torch.save: a zip, before 1.6 a pickle
        cut = kind == "zip" and not _has_zip_end(host, path, size)
        return Seen(WeightFile(name=shown, kind="pytorch", size=size, error="NoCentralDirectory" if cut else None))
    if kind is not None or not is_safetensors:
        return Seen(WeightFile(name=shown, kind=kind or "other", size=size))
    try:
        length = _safetensors.header_length(head, size)
        if length > parsed:
            return Seen(WeightFile(name=shown, kind="header-not-parsed", size=size, header_bytes=length))
        header = head[_safetensors.LENGTH_BYTES : _safetensors.LENGTH_BYTES + length]
        if len(header) < length:
            rest = host.read_at(path, _safetensors.LENGTH_BYTES + len(header), length - len(header))
            header += rest
        layout = _safetensors.parse(header)
    except _safetensors.HeaderError as e:
        tensor = None if e.tensor is None else clean(e.tensor)
        wrong = WeightFile(
            name=shown, kind="malformed", size=size, error=e.error, tensor=tensor, want=e.want, got=e.got
        )
        return Seen(wrong)
    whole = WeightFile(
        name=shown,
        kind="safetensors",
        size=size,
        header_bytes=length,
        expected_size=_safetensors.LENGTH_BYTES + length + layout.data_bytes,
        tensors=len(layout.names),
        unknown_dtypes=tuple(clean(d) for d in layout.unknown_dtypes[:5]),
    )
    return Seen(whole, layout.names, layout.kinds)
