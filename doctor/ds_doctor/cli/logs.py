"""Logs that the user names: opened whatever compressed them, read in pieces, with one clear line when that fails."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import IO, Any

from . import Usage
from .lang import t

PIECE = 1 << 18
ENOUGH = 1 << 18
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bzip2"))


def check(path: str) -> None:
    """Usage before anything is read, for a path that cannot be a log."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise Usage(t(f"--log {path}: is a folder; name the log file", f"--log {path}：是目录；请给出日志文件"))
        if stat.S_ISREG(mode):
            with open(path, "rb"):
                pass
    except OSError as e:
        raise Usage(f"--log {path}: {e.strerror}") from None
    except ValueError as e:
        raise Usage(f"--log {path!r}: {e}") from None


def pieces(path: str) -> Iterator[bytes]:
    """The log as it was before it was compressed. A log that breaks off is read up to there, and that is said."""
    option = f"--log {path}"
    try:
        with open(path, "rb", buffering=0) as raw:
            start = _exactly(raw, 6)
            name = next((n for magic, n in _MAGIC if start.startswith(magic)), None)
            stream: Any = _Joined(start, raw)
            yield from _read(_opened(stream, name, option) if name else stream, option)
    except OSError as e:
        sys.stderr.write(f"ds-doctor: {option}: {e.strerror or e}\n")


def standard_input() -> Iterator[bytes]:
    """Standard input, as it comes."""
    stream: Any = sys.stdin.buffer
    while True:
        try:
            piece = stream.read1(PIECE)
        except OSError as e:
            raise Usage(t(f"standard input: {e.strerror}", f"标准输入：{e.strerror}")) from None
        if not piece:
            return
        yield piece


def _exactly(raw: IO[bytes], n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = raw.read(n - len(data))
        if not more:
            break
        data += more
    return data


class _Joined:
    """A stream whose first bytes were read already; pipes cannot be wound back."""

    def __init__(self, start: bytes, raw: IO[bytes]) -> None:
        self._start = start
        self._raw = raw

    def read(self, n: int = -1) -> bytes:
        if self._start:
            start, self._start = self._start, b""
            return start
        return self._raw.read(n) or b""

    read1 = read


def _opened(stream: Any, name: str, option: str) -> Any:
    whole: Any = io.BufferedReader(_Raw(stream), PIECE)
    if name == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=whole)
    if name == "xz":
        import lzma

        return lzma.LZMAFile(whole)
    if name == "bzip2":
        import bz2

        return bz2.BZ2File(whole)
    try:
        import zstandard
    except ImportError:
        raise Usage(
            t(
                f"{option}: to read .zst install zstandard (pip install zstandard), or give zstd -dc … | ds-doctor explain -",
                f"{option}：读取 .zst 需安装 zstandard（pip install zstandard），或使用 zstd -dc … | ds-doctor explain -",
            )
        ) from None
    reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(whole, read_across_frames=True)
    return io.BufferedReader(reader, PIECE)


def _read(stream: Any, option: str) -> Iterator[bytes]:
    import zlib

    errors: tuple[type[Exception], ...] = (EOFError, zlib.error, OSError)
    for module, name in (("lzma", "LZMAError"), ("zstandard", "ZstdError")):
        if module in sys.modules:
            errors = (*errors, getattr(sys.modules[module], name))
    held = b""
    while True:
        try:
            piece = stream.read1(PIECE)  # what came before a break is kept
        except errors as e:
            what = getattr(e, "strerror", None) or e
            sys.stderr.write(
                t(
                    f"ds-doctor: {option}: breaks off: {what}; what stands before it was read\n",
                    f"ds-doctor: {option}：数据不完整：{what}；此前的内容已读取\n",
                )
            )
            piece = b""
        held += piece
        if held and (len(held) >= ENOUGH or not piece):  # decompressors give small pieces
            yield held
            held = b""
        if not piece:
            return


class _Raw(io.RawIOBase):
    """What the decompressors read from."""

    def __init__(self, stream: _Joined) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        if len(data) > len(buffer):
            raise OSError("a piece longer than asked for")
        buffer[: len(data)] = data
        return len(data)
