"""Files that the user names on the command line: read and written with one clear line when that fails; knows no subject."""

from __future__ import annotations

import errno
import os
import stat
import time

from . import Usage
from .lang import t

READER_S = 5.0  # for somebody to open the other end of a FIFO


def read(option: str, path: str, limit: int) -> bytes:
    """The whole of a regular file. Usage in one line otherwise."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Usage(t(f"{option} {path}: not a regular file", f"{option} {path}：不是普通文件"))
        with open(path, "rb") as f:
            data = f.read(limit + 1)
    except OSError as e:
        raise Usage(f"{option} {path}: {e.strerror}") from None
    except ValueError as e:
        raise Usage(f"{option} {path!r}: {e}") from None
    except MemoryError:
        raise Usage(
            t(f"{option} {path}: not enough memory to read it", f"{option} {path}：内存不足，无法读取")
        ) from None
    if len(data) > limit:
        raise Usage(t(f"{option} {path}: larger than {limit >> 20} MiB", f"{option} {path}：超过 {limit >> 20} MiB"))
    return data


def check(option: str, path: str) -> None:
    """Usage in one line, before the work, for what is no file that can be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Usage(t(f"{option} {path}: not a regular file", f"{option} {path}：不是普通文件"))
        with open(path, "rb"):
            pass
    except OSError as e:
        raise Usage(f"{option} {path}: {e.strerror}") from None
    except ValueError as e:
        raise Usage(f"{option} {path!r}: {e}") from None


def absolute(option: str, path: str) -> str:
    """The path from the root. Usage where the current folder is gone."""
    try:
        return os.path.abspath(path)
    except OSError as e:
        raise Usage(
            t(
                f"{option} {path}: the current folder cannot be used: {e.strerror}",
                f"{option} {path}：当前目录不可用：{e.strerror}",
            )
        ) from None


def writable(option: str, path: str) -> None:
    """Make sure before the work that the file can be written after it. Usage otherwise."""
    if path == "-":
        raise Usage(
            t(
                f"{option} -: give a file; standard output gets what --format says",
                f"{option} -：请给出文件名；标准输出的内容由 --format 决定",
            )
        )
    folder = os.path.dirname(absolute(option, path))
    if os.path.isdir(path):
        raise Usage(t(f"{option} {path}: is a folder", f"{option} {path}：是一个目录"))
    if not os.path.isdir(folder):
        raise Usage(t(f"{option} {path}: the folder {folder} does not exist", f"{option} {path}：目录 {folder} 不存在"))
    target = path if os.path.exists(path) else folder
    if not os.access(target, os.W_OK, effective_ids=True):
        raise Usage(t(f"{option} {path}: no permission to write", f"{option} {path}：没有写入权限"))


def write(path: str, data: bytes) -> None:
    """Whole or not at all; a link is followed. OSError when it cannot be done."""
    number = _descriptor(path)
    if number is not None:
        with os.fdopen(os.dup(number), "wb") as f:
            f.write(data)
        return
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a pipe
        with os.fdopen(_opened(path), "wb") as f:
            f.write(data)
        return
    new = f"{path}.new-{os.getpid()}"
    try:
        with open(new, "wb") as f:
            f.write(data)
        os.replace(new, path)
    except OSError:
        try:
            os.unlink(new)
        except OSError:
            pass
        raise


def _descriptor(path: str) -> int | None:
    """The number of an open file of this process that the path names, as /dev/stdout and /dev/fd/3 do: a file put in its place would be put
    in the place of the system's own link."""
    own = os.path.realpath("/proc/self/fd")
    for _ in range(40):  # the kernel's own limit on links
        folder, name = os.path.split(os.path.abspath(path))
        if os.path.realpath(folder) == own and name.isdecimal():
            return int(name)
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError:
            return None
    return None


def _opened(path: str) -> int:
    """A FIFO is not waited on for ever: its reader has READER_S to come."""
    end = time.monotonic() + READER_S
    while True:
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as e:
            if e.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() > end:
                raise OSError(e.errno, t("nobody reads from it", "没有进程在读取")) from None
            time.sleep(0.05)
        else:
            os.set_blocking(fd, True)
            return fd
