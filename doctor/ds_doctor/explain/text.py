"""Bytes of a log, whatever wrote them, into blocks of whole lines of UTF-8; knows no pattern and opens no file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

BLOCK = 1 << 18  # bytes of a line that are waited for
ENOUGH = 64  # bytes that show the encoding
OVERLAP = 1 << 12  # a line longer than a block is cut; a match over the cut is still found
_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_ANSI_JSON = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_MESSAGE = ("log", "MESSAGE", "message", "msg", "textPayload")  # Docker, journald, and what log shippers call it
_LEVEL = re.compile(r"\b(DEBUG|TRACE|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b|\b([IWEF])\d{4} \d\d:\d\d")
_MILD = {"DEBUG": 2, "TRACE": 2, "INFO": 2, "I": 2, "WARNING": 1, "W": 1}


def blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces as blocks of whole lines, plain UTF-8 without colours. A line longer than BLOCK is cut."""
    return _lines(_decoded(pieces))


def _decoded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """UTF-16 and UTF-32 as UTF-8; everything else as it is."""
    stream = iter(pieces)
    first = b""
    stopped: KeyboardInterrupt | None = None
    try:
        while len(first) < ENOUGH and (more := next(stream, b"")):
            first += more
    except KeyboardInterrupt as e:
        stopped = e
    name = _encoding(first)
    decoder = codecs.getincrementaldecoder(name)("replace") if name is not None else None
    yield decoder.decode(first).lstrip("\ufeff").encode() if decoder else first.removeprefix(codecs.BOM_UTF8)
    if stopped is not None:
        raise stopped
    for piece in stream:
        yield decoder.decode(piece).encode("utf-8", "replace") if decoder else piece


def _encoding(start: bytes) -> str | None:
    for bom, name in (
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if start.startswith(bom):
            return name
    head = start[:400]
    if len(head) >= 8:  # without a mark: Latin text has its zeros on one side
        even, odd = head[::2].count(0), head[1::2].count(0)
        if odd > len(head) * 0.4 and even < len(head) * 0.05:
            return "utf-16-le"
        if even > len(head) * 0.4 and odd < len(head) * 0.05:
            return "utf-16-be"
    return None


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    plain = _Plain()
    try:
        for piece in pieces:
            end = piece.rfind(b"\n") + 1
            if end:
                yield plain(rest + piece[:end] if rest else piece[:end])
                rest = piece[end:]
            else:
                rest += piece
            if len(rest) >= BLOCK:
                yield plain(rest)
                rest = rest[-OVERLAP:]
    except KeyboardInterrupt:  # a stream that has no end: what came of it is still looked at
        yield plain(rest)
        raise
    if rest:
        yield plain(rest)


class _Plain:
    """Blocks without colours and without the JSON that a container runtime or shipper wrapped every line in."""

    def __init__(self) -> None:
        self._first = True

    def __call__(self, block: bytes) -> bytes:
        if b"\x1b" in block:
            block = _ANSI.sub(b"", block)
        # A wrapped log is wrapped throughout; only its head may hold other lines. Looking for it everywhere takes a while.
        wrapped = block[:64].lstrip()[:1] == b"{" or (self._first and b'\n{"' in block)
        self._first = False
        return b"\n".join(_unwrapped(line) for line in block.split(b"\n")) if wrapped else block


def _unwrapped(line: bytes) -> bytes:
    """The message of a log line that a container runtime, journald or a shipper wrapped in JSON; other lines as they are."""
    start = line.strip()
    if not (start.startswith(b"{") and start.endswith(b"}")):
        return line
    try:
        wrapped: Any = msgspec.json.decode(start)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return line
    for key in _MESSAGE if isinstance(wrapped, dict) else ():
        text = wrapped.get(key)
        if isinstance(text, list) and all(isinstance(n, int) and 0 <= n < 256 for n in text):
            text = bytes(text).decode("utf-8", "replace")  # journald's form for what is no plain text
        if isinstance(text, str):
            # A line of ours stays a line, or the numbers of the lines would shift.
            return _ANSI_JSON.sub("", text.rstrip("\n").replace("\n", "\r")).encode("utf-8", "replace")
    return line


def mildness(line: str) -> int:
    """0 an error or of no level, 1 a warning, 2 information: by the first level that the line names."""
    found = _LEVEL.search(line[:200])
    if found is None or "NCCL WARN" in line[:300]:
        return 0
    return _MILD.get(found[1] or found[2], 0)
