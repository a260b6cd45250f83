"""Files that the user names on the command line: read and written with one clear line when that fails; knows no subject."""

from __future__ import annotations

import os
import stat

from . import Usage


def read(option: str, path: str, limit: int) -> bytes:
    """The whole of a regular file. Usage in one line otherwise."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Usage(f"{option} {path}: not a regular file")
        with open(path, "rb") as f:
            data = f.read(limit + 1)
    except OSError as e:
        raise Usage(f"{option} {path}: {e.strerror}") from None
    except ValueError as e:
        raise Usage(f"{option} {path!r}: {e}") from None
    except MemoryError:
        raise Usage(f"{option} {path}: not enough memory to read it") from None
    if len(data) > limit:
        raise Usage(f"{option} {path}: larger than {limit >> 20} MiB")
    return data


def absolute(option: str, path: str) -> str:
    """The path from the root. Usage where the current folder is gone."""
    try:
        return os.path.abspath(path)
    except OSError as e:
        raise Usage(f"{option} {path}: the current folder cannot be used: {e.strerror}") from None


def writable(option: str, path: str) -> None:
    """Make sure before the work that the file can be written after it. Usage otherwise."""
    if path == "-":
        raise Usage(f"{option} -: give a file; standard output gets what --format says")
    folder = os.path.dirname(absolute(option, path))
    if os.path.isdir(path):
        raise Usage(f"{option} {path}: is a folder")
    if not os.path.isdir(folder):
        raise Usage(f"{option} {path}: the folder {folder} does not exist")
    target = path if os.path.exists(path) else folder
    if not os.access(target, os.W_OK, effective_ids=True):
        raise Usage(f"{option} {path}: no permission to write")


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
