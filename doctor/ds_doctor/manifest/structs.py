"""The values of this room: entries of a checksum list and what was wrong with it; holds no logic."""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA = "ds-doctor.manifest/1"  # of our own lists
Algorithm = Literal["sha256", "git-sha1", "sha1", "md5", "sha512", "sha384", "sha224"]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its name relative to the list's folder (`/` between parts, no `./` in front), size in bytes (None: the
    list does not say), and lower-case hexadecimal digests by algorithm; `git-sha1` is that of a Git blob."""

    name: str
    size: int | None = None
    digests: dict[str, str] = {}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A line or entry that was not understood or contradicts another. `id`: bad-line, bad-digest, escapes (a name that leads out
    of the folder), twice (the same name with another digest or size: then neither is kept), too-many; `line` counts from 1 (None: JSON); `text`: what stands there, shortened."""

    id: str
    line: int | None = None
    text: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A list of checksums. `kind`: ds-doctor, sums (GNU or BSD lines), hub (the hub's API), modelscope, git-lfs, json (a map or list
    of others). An entry without digests only says that there is such a file. `repo` and `revision` where it says
    them; `problem_count` counts all problems, `problems` holds the first few."""

    kind: str
    entries: tuple[Entry, ...] = ()
    repo: str | None = None
    revision: str | None = None
    problems: tuple[Problem, ...] = ()
    problem_count: int = 0


class NotAManifest(Exception):
    """The text is no list of checksums. `why`: empty, not-text, not-json, no-entries, too-large, too-deep, unknown-schema,
    unknown-algorithm (a list whose algorithm is none of ours: nothing is wrong with it); `line` where known."""

    def __init__(self, why: str, line: int | None = None) -> None:
        super().__init__(why, line)
        self.why = why
        self.line = line
