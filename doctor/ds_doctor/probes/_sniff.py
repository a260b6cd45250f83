"""What a file is by its first bytes, where it is certainly no safetensors file: a pointer, a page, an archive; never judges."""

from __future__ import annotations

import codecs
import re

from ._safetensors import HEADER_LIMIT

HEAD = 4096  # bytes of the first read: holds a pointer, an error page's start, and most small headers
# github.com/git-lfs/git-lfs docs/spec.md; hawser was its name before.
_LFS = (b"version https://git-lfs.github.com/spec/v1", b"version https://hawser.github.com/spec/v1")
_LFS_SIZE = re.compile(rb"^size (\d{1,19})\r?$", re.MULTILINE)
_MAGIC = (
    (b"GGUF", "gguf"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x89PNG\r\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"%PDF-", "pdf"),
    (b"\x89HDF\r\n", "hdf5"),
    (b"\x7fELF", "elf"),
    (b"lmgg", "ggml"),
    (b"fmgg", "ggml"),
    (b"tjgg", "ggml"),
    (b"algg", "ggml"),
)
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def sniff(head: bytes) -> str | None:
    """What the first bytes are when they are certainly no tensors: empty, lfs-pointer, html, xml, json, text, zeros, tar, or
    one of the formats above. None: they may be a safetensors file's, or nothing that is known here."""
    if not head:
        return "empty"
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= HEADER_LIMIT:
        return None  # a header's length may read like any magic
    if not head.strip(b"\0"):
        return "zeros"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[257:262] == b"ustar":
        return "tar"
    for mark, encoding in _BYTE_ORDER_MARKS:  # what a Windows shell writes when it redirects
        if head.startswith(mark):
            text = head[2 : len(head) & ~1].decode(encoding, "replace")
            return _words(text.encode("utf-8", "replace"))
    return _words(head.removeprefix(codecs.BOM_UTF8))


def _words(head: bytes) -> str | None:
    if head.startswith(_LFS):
        return "lfs-pointer"
    start = head[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return "html"
    if start.startswith((b"<?xml", b"<error", b"<!doctype", b"<!--")):
        return "html" if b"<html" in start else "xml"
    if not _is_text(head):
        return None
    return "json" if start.startswith((b"{", b"[")) else "text"


def _is_text(head: bytes) -> bool:
    """Whether all of it is somebody's words: a header's length has zero bytes from the fifth on (at most 100 MB)."""
    if any(b < 0x20 and b not in b"\t\n\f\r\x1b" for b in head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def pointer_size(head: bytes) -> int | None:
    """The size that a Git LFS pointer gives."""
    m = _LFS_SIZE.search(head.replace(b"\0", b""))
    return int(m[1]) if m else None
