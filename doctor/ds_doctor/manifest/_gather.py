"""What a list's reader gathers: names made safe, digests merged, contradictions kept apart; bounded, whatever the list holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from .structs import Entry, Manifest, Problem

ENTRIES = 200_000  # files; a repository of the hub has at most some ten thousand
PROBLEMS = 20  # kept; the count is whole
NAME_BYTES = 4096  # PATH_MAX of Linux

# By the number of hexadecimal digits, as `sha256sum -c` and its kin tell them apart.
BY_DIGITS: dict[int, str] = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
DIGITS: dict[str, int] = {"git-sha1": 40, **{name: digits for digits, name in BY_DIGITS.items()}}

_HEX = re.compile(r"[0-9a-f]+")


def digest_of(algorithm: str, text: str) -> str | None:
    """`text` as a digest of that algorithm in lower case, or None when it cannot be one. A prefix `sha256:` is left out."""
    text = text.strip().lower().removeprefix(algorithm + ":")
    return text if len(text) == DIGITS.get(algorithm) and _HEX.fullmatch(text) else None


def shown(text: str) -> str:
    """A piece of a list as it can stand in a report: one line of at most 120 characters, what cannot be printed as U+FFFD."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[:121])
    return text if len(text) <= 120 else text[:119] + "…"


class Gathered:
    """Entries by name, in the order of the list. `roots`: folders (absolute) under which an absolute name means a file of
    this folder. `number` gives the line of an offset: counted only for the few problems that are kept."""

    def __init__(self, roots: Iterable[str] = (), number: Callable[[int], int] | None = None) -> None:
        self.sizes: dict[str, int | None] = {}
        self.digests: dict[str, dict[str, str]] = {}
        self.problems: list[Problem] = []
        self.problem_count = 0
        self.full = False  # no more entries are taken
        self.alike = False  # whether anything was like a line of a list
        self._number = number
        self._disputed: set[tuple[str, str]] = set()
        self._roots = tuple(r.rstrip("/") + "/" for r in roots)

    def problem(self, kind: str, text: str, offset: int | None = None) -> None:
        self.problem_count += 1
        self.alike = self.alike or kind not in ("bad-line", "too-many")
        if len(self.problems) < PROBLEMS:
            line = None if offset is None or self._number is None else self._number(offset)
            self.problems.append(Problem(id=kind, line=line, text=shown(text)))

    def add(self, name: str, digests: Mapping[str, str], size: int | None = None, offset: int | None = None) -> None:
        """One file of the list. What contradicts an earlier word on the same file takes away both: neither can vouch."""
        place = self._place(name, offset)
        if place is None:
            return
        self.alike = True
        known = self.digests.get(place)
        if known is None:
            if len(self.digests) >= ENTRIES:
                if not self.full:
                    self.problem("too-many", place, offset)
                self.full = True
                return
            self.digests[place] = dict(digests)
            self.sizes[place] = size
            return
        twice = False
        for algorithm, digest in digests.items():
            if (place, algorithm) in self._disputed:
                continue
            if known.setdefault(algorithm, digest) != digest:
                self._disputed.add((place, algorithm))
                del known[algorithm]
                twice = True
        if size is not None and (place, "size") not in self._disputed:
            if self.sizes[place] is None:
                self.sizes[place] = size
            elif self.sizes[place] != size:
                self._disputed.add((place, "size"))
                self.sizes[place] = None
                twice = True
        if twice:
            self.problem("twice", place, offset)

    def unalign(self) -> None:
        """Blanks before every name were put there by people, to align columns."""
        if len(self.digests) > 1 and all(n.startswith(" ") and n.strip() for n in self.digests):
            self.sizes = {n.lstrip(" "): size for n, size in self.sizes.items()}
            self.digests = {n.lstrip(" "): digests for n, digests in self.digests.items()}

    def forget(self, name: str) -> None:
        self.digests.pop(name, None)
        self.sizes.pop(name, None)

    def manifest(self, kind: str, repo: str | None = None, revision: str | None = None) -> Manifest:
        return Manifest(
            kind=kind,
            entries=tuple(Entry(name=n, size=self.sizes[n], digests=d) for n, d in self.digests.items()),
            repo=repo,
            revision=revision,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
        )

    def _place(self, name: str, offset: int | None) -> str | None:
        """The name relative to the list's folder, or None (then a problem is on record)."""
        for root in self._roots:
            if name.startswith(root):
                name = name[len(root) :]
                break
        if name.startswith("/"):
            self.problem("escapes", name, offset)
            return None
        if "/" in name:
            if name.endswith("/"):
                self.problem("bad-line", name, offset)
                return None
            parts = [p for p in name.split("/") if p not in ("", ".")]
            if ".." in parts:
                self.problem("escapes", name, offset)
                return None
            name = "/".join(parts)
        if name == "..":
            self.problem("escapes", name, offset)
            return None
        if name in ("", ".") or "\0" in name or len(name) > NAME_BYTES:
            self.problem("bad-line", name, offset)
            return None
        return name
