"""Files that the user names on the command line: read and written with one clear line when that fails; knows no subject."""

from __future__ import annotations

import os
import stat

from . import Usage
from .lang import t


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
    """Whole or not at all. OSError when it cannot be done."""
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a pipe
        with open(path, "wb") as f:
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
