"""The digests of one file, fed in one pass: hashlib's by name, and Git's of a blob; knows no file."""

from __future__ import annotations

import hashlib

GIT = "git-sha1"  # sha1 of "blob <size>\\0" and the content: what names a small file in a Git repository


def check(algorithms: tuple[str, ...]) -> None:
    """Raises ValueError for a name that this Python cannot hash with, or whose digest has no length of its own (shake)."""
    for name in algorithms:
        if name != GIT and hashlib.new(name, usedforsecurity=False).digest_size == 0:
            raise ValueError(f"hash type of no fixed length: {name}")


class Digests:
    """What has been fed so far; `size` is that of the whole content, in bytes."""

    def __init__(self, algorithms: tuple[str, ...], size: int) -> None:
        # usedforsecurity: a checksum in md5 can be compared on a host in FIPS mode, too.
        self._hashes = {
            name: hashlib.new("sha1" if name == GIT else name, usedforsecurity=False) for name in algorithms
        }
        if GIT in self._hashes:
            self._hashes[GIT].update(b"blob %d\0" % size)

    def feed(self, data: memoryview) -> None:
        for hashed in self._hashes.values():
            hashed.update(data)

    def hex(self) -> dict[str, str]:
        return {name: hashed.hexdigest() for name, hashed in self._hashes.items()}
