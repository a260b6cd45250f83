"""One file of a model folder: what kind of thing it is, read from its first bytes, header and directory only; never judges."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Trouble
from . import _gguf, _safetensors, _torch_zip
from ._safetensors import HeaderError
from ._said import SAID, clean
from ._sniff import HEAD, pointer_size, sniff
from .model_folder import WeightFile

# Bytes of a header that is parsed: 96,085 tensors take about 10 MB; a made-up header of the format's 100 MB would take
# five seconds and a gigabyte of memory.
PARSED = 24 << 20
_PIECE = 1 << 20  # bytes read at once of a header that is longer than PARSED
_BLANKS = re.compile(rb"[ \t\r\n]{64,}")
_FORMATS = {"safetensors": "safetensors", "gguf": "gguf", "bin": "pytorch", "pt": "pytorch", "pth": "pytorch"}
# Names under which only torch writes; other programs have a model.bin of their own (CTranslate2, Metal).
_TORCH_NAMES = re.compile(r"(.*/)?(pytorch_model|consolidated|diffusion_pytorch_model)[^/]*\Z", re.DOTALL)


class Seen(msgspec.Struct, frozen=True):
    """A file, and what no fact keeps whole: the names in its header (there can be 100,000) and the kinds of its tensors."""

    file: WeightFile
    names: frozenset[str] = frozenset()
    kinds: Counter[_safetensors.Kind] = Counter()


def format_of(name: str) -> str | None:
    """The format that a file's name promises: safetensors, gguf, pytorch; None: none of them."""
    return _FORMATS.get(name.rpartition(".")[2])


def look(host: Host, path: str, name: str, parsed: int = PARSED) -> Seen:
    """The weight file at `path`, called `name` in its folder; a header of more than `parsed` bytes is not parsed. A name without
    a known ending is no promise: what the content is, decides. Never raises: what hinders it becomes the kind."""
    shown = clean(name)
    try:
        stat = host.stat(path)
        if stat.kind != "file":
            return Seen(WeightFile(name=shown, kind=stat.kind))
        head = host.read_at(path, 0, HEAD)
        return _read(host, path, shown, stat.size, head, parsed)
    except Absent:
        return Seen(lost(host, path, shown))
    except Denied:
        return Seen(WeightFile(name=shown, kind="denied"))
    except Trouble as t:
        if leads_nowhere(host, path):
            return Seen(lost(host, path, shown))
        return Seen(
            WeightFile(name=shown, kind="unreadable", error=clean(str(t.reason.data.get("error", t.reason.id)), SAID))
        )


def leads_nowhere(host: Host, path: str) -> bool:
    """Whether the path is a link to nothing, or to itself."""
    try:
        host.stat(path)
        return False
    except Denied:
        return False
    except Trouble:
        pass
    try:
        return host.lstat(path).kind == "link"
    except Trouble:
        return False


def lost(host: Host, path: str, shown: str) -> WeightFile:
    try:
        return WeightFile(name=shown, kind="dangling", target=clean(host.link(path)))
    except Trouble:
        return WeightFile(name=shown, kind="missing")


def _read(host: Host, path: str, shown: str, size: int, head: bytes, parsed: int) -> Seen:
    kind = sniff(head)
    promised = format_of(shown)
    if kind == "lfs-pointer":
        return Seen(WeightFile(name=shown, kind=kind, size=size, should_be=pointer_size(head)))
    if kind == "gguf" and promised in ("gguf", None):
        return _gguf_file(host, path, shown, size)
    if promised == "pytorch" and kind == "tar" and head.partition(b"\0")[0] in _torch_zip.TAR_MEMBERS:
        return Seen(WeightFile(name=shown, kind="pytorch-legacy", size=size))
    if promised in ("pytorch", None) and (kind == "zip" or head.startswith(b"\x80")):
        return Seen(_torch_file(host, path, shown, size, head))
    may_be = kind is None and head[8:9] == b"{" and not any(head[5:8])
    if kind is None and (promised == "safetensors" or (promised is None and may_be)):
        return _safetensors_file(host, path, shown, size, head, parsed)
    if kind is None and promised != "gguf" and not (promised and _TORCH_NAMES.match(shown)):
        return Seen(WeightFile(name=shown, kind="unrecognised", size=size))
    return Seen(WeightFile(name=shown, kind=kind or "other", size=size))


def _malformed(shown: str, size: int, of: str, e: HeaderError) -> WeightFile:
    tensor = None if e.tensor is None else clean(e.tensor, SAID)
    return WeightFile(
        name=shown, kind="malformed", format=of, size=size, error=e.error, tensor=tensor, want=e.want, got=e.got
    )


def _safetensors_file(host: Host, path: str, shown: str, size: int, head: bytes, parsed: int) -> Seen:
    try:
        length = _safetensors.header_length(head, size)
        header = head[_safetensors.LENGTH_BYTES : _safetensors.LENGTH_BYTES + length]
        if length > parsed:
            shorter = _without_blanks(host, path, length, parsed)
            if shorter is None:
                return Seen(WeightFile(name=shown, kind="header-not-parsed", size=size, header_bytes=length))
            header = shorter
        elif len(header) < length:
            header += host.read_at(path, _safetensors.LENGTH_BYTES + len(header), length - len(header))
        layout = _safetensors.parse(header)
    except HeaderError as e:
        return Seen(_malformed(shown, size, "safetensors", e))
    whole = WeightFile(
        name=shown,
        kind="safetensors",
        size=size,
        header_bytes=length,
        expected_size=_safetensors.LENGTH_BYTES + length + layout.data_bytes,
        tensors=len(layout.names),
        unknown_dtypes=tuple(clean(d, SAID) for d in layout.unknown_dtypes[:5]),
    )
    return Seen(whole, layout.names, layout.kinds)


def _without_blanks(host: Host, path: str, length: int, most: int) -> bytes | None:
    """A header whose room was reserved with blanks, without these; None where more than `most` bytes remain."""
    header = bytearray()
    end = _safetensors.LENGTH_BYTES + length
    for start in range(_safetensors.LENGTH_BYTES, end, _PIECE):
        header += _BLANKS.sub(b" ", host.read_at(path, start, min(_PIECE, end - start)))
        if len(header) > most:
            return None
    return bytes(header)


def _gguf_file(host: Host, path: str, shown: str, size: int) -> Seen:
    try:
        layout = _gguf.parse(lambda at, count: host.read_at(path, at, count), size)
    except HeaderError as e:
        return Seen(_malformed(shown, size, "gguf", e))
    except _gguf.TooLong:
        return Seen(WeightFile(name=shown, kind="header-not-parsed", size=size))
    expected = None
    if layout.ends is not None:  # the padding after the last tensor may be there or not
        least, most = layout.ends
        expected = least if size < least else most if size > most else size
    split: dict[str, Any] = {}
    if layout.split is not None:
        split = dict(zip(("part", "parts", "tensors_of_all"), layout.split, strict=True))
    whole = WeightFile(
        name=shown,
        kind="gguf",
        size=size,
        header_bytes=layout.header_bytes,
        expected_size=expected,
        tensors=len(layout.names),
        unknown_dtypes=layout.unknown_types[:5],
        version=layout.version,
        **split,
    )
    return Seen(whole, layout.names)


def _torch_file(host: Host, path: str, shown: str, size: int, head: bytes) -> WeightFile:
    if head.startswith(b"\x80"):
        # torch.load refuses a pickle that does not begin with its number.
        if _torch_zip.LEGACY_MAGIC in head[:64]:
            return _legacy_file(host, path, shown, size)
        return WeightFile(name=shown, kind="malformed", format="pytorch", size=size, error="InvalidMagicNumber")
    try:
        layout = _torch_zip.parse(lambda at, count: host.read_at(path, at, count), size)
    except HeaderError as e:
        return _malformed(shown, size, "pytorch", e)
    except _torch_zip.TooLong:
        return WeightFile(name=shown, kind="header-not-parsed", size=size)
    if not layout.is_torch:
        return WeightFile(name=shown, kind="zip", size=size)
    return WeightFile(name=shown, kind="pytorch", size=size, expected_size=layout.size, tensors=layout.storages)


def _legacy_file(host: Host, path: str, shown: str, size: int) -> WeightFile:
    from . import _torch_legacy  # few need it

    try:
        storages, end = _torch_legacy.end_of(lambda at, count: host.read_at(path, at, count), size)
    except HeaderError as e:
        return _malformed(shown, size, "pytorch", e)
    except _torch_legacy.Untold:
        return WeightFile(name=shown, kind="pytorch-legacy", size=size)
    return WeightFile(name=shown, kind="pytorch", size=size, expected_size=end, tensors=storages)
