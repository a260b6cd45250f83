"""Logs that the user names: opened whatever compressed them, read in pieces, with one clear line when that fails."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from typing import Any

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
            yield from _whole(raw, option)
    except OSError as e:
        _say(f"{option}: {e.strerror or e}")


def standard_input() -> Iterator[bytes]:
    """Standard input, as it comes; compressed or not."""
    name = t("standard input", "标准输入")
    if sys.stdin is None:
        raise Usage(t("standard input is closed", "标准输入已关闭"))
    try:
        yield from _whole(sys.stdin.buffer, name)
    except OSError as e:
        raise Usage(f"{name}: {e.strerror}") from None


def _whole(raw: Any, option: str) -> Iterator[bytes]:
    start = _exactly(raw, 6)
    name = next((n for magic, n in _MAGIC if start.startswith(magic)), None)
    stream: Any = _Joined(start, raw)
    if name is not None:
        yield from _read(_opened(stream, name, option), option)
        return
    while piece := stream.read1(PIECE):
        yield piece


def _say(text: str) -> None:
    """One line on standard error, without what steers a terminal: names of files are anybody's."""
    sys.stderr.write(f"ds-doctor: {''.join(c if c.isprintable() else '?' for c in text)}\n")


def _exactly(raw: Any, n: int) -> bytes:
    data = b""
    while len(data) < n:
        more = raw.read(n - len(data))
        if not more:
            break
        data += more
    return data


class _Joined:
    """A stream whose first bytes were read already; pipes cannot be wound back."""

    def __init__(self, start: bytes, raw: Any) -> None:
        self._start = start
        # What is there, without waiting for more: a pipe may be slow.
        self._more = getattr(raw, "read1", raw.read)

    def read(self, n: int = -1) -> bytes:
        if self._start:
            start, self._start = self._start, b""
            return start
        return self._more(n) or b""

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
            _say(
                t(
                    f"{option}: breaks off: {what}; what stands before it was read",
                    f"{option}：数据不完整：{what}；此前的内容已读取",
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
