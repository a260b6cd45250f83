"""What the program keeps between two runs, in the user's cache directory: its own files, by name; it knows no content.

Best effort: a cache that cannot be read or written costs a few milliseconds and nothing else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

LIMIT = 16 << 20  # bytes of one file
KEPT = 12  # files of one kind


def folder(env: Mapping[str, str]) -> str | None:
    """The user's cache directory of this program; None where there is no usable HOME."""
    base = env.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = env.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = home + "/.cache"
    return base + "/ds-doctor"


def read(path: str) -> bytes | None:
    """A file that this user or root wrote and nobody else may write; None for any other and for none."""
    try:
        # Looked at when it is open, and without waiting: a FIFO in its place must not hold the run.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        s = os.fstat(fd)
        # Another user's file in a shared cache directory, or one that others may write, could put words into our mouth.
        theirs = s.st_uid not in (0, os.geteuid()) or s.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISREG(s.st_mode) or theirs or s.st_size > LIMIT:
            return None
        with os.fdopen(fd, "rb", closefd=False) as f:
            return f.read(LIMIT)
    except OSError:
        return None
    finally:
        os.close(fd)


def write(cache: str, name: str, data: bytes) -> None:
    """Put a file called KIND-… into the cache directory; of each kind the last few stay."""
    import tempfile

    try:
        if _is_of_another(cache):
            return
        os.makedirs(cache, mode=0o700, exist_ok=True)
        _forget(cache, name.partition("-")[0])
        fd, path = tempfile.mkstemp(dir=cache, prefix=".new-")
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(path, os.path.join(cache, name))
    except OSError:
        return


def _is_of_another(cache: str) -> bool:
    """Whether root would leave its files in the home of a user, whose programs could not write there any more, or make a home that is not there."""
    home = os.path.dirname(os.path.dirname(cache))
    if os.path.basename(os.path.dirname(cache)) == ".cache" and not os.path.isdir(home):
        return True
    there = cache
    while not os.path.isdir(there) and there != "/":
        there = os.path.dirname(there)
    return os.geteuid() == 0 and os.stat(there).st_uid != 0


def _forget(cache: str, kind: str) -> None:
    """Of the states of a checkout the last few are kept: each is some megabytes."""
    old = [os.path.join(cache, n) for n in os.listdir(cache) if n.startswith(kind + "-") and n.endswith(".json")]
    for path in sorted(old, key=os.path.getmtime)[:-KEPT]:
        os.unlink(path)
