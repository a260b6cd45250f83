"""What the sources say, laid beside the files that are there: what is due of each, what is not there, what nobody lists; asks nothing, judges nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from typing import Any

import msgspec

from ._file_roles import is_wanted, numbered_set, role
from ._folder_names import loaded
from ._folder_walk import Entry
from ._index_look import is_index
from ._said import clean
from ._sums_look import Sums, is_list
from .checksums import Conflict, Expected, Lost, ModelFile, WrongSize
from .model_folder import ModelFolder

# The digest that is compared where a list gives several: the fastest of the strong ones first.
_BEST = ("sha256", "sha512", "sha384", "sha224", "git-sha1", "sha1", "md5")
LOST = 10_000  # files that are not there, of which each is told

_SURER = ("manifest", "hub-blob", "hub-metadata", "hub-tree")
# In what files of one set differ: consolidated.00.pth, consolidated.01.pth.
_NUMBER = re.compile(r"(?<=[._-])\d{1,5}(?=[._-])")

# Algorithm (empty: no digest is told), digest, size in bytes, name of the file where it stands.
Due = tuple[str, str, "int | None", str]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One source: `kind` as of Expected; `due` by the file's name. `whole`: it lists all files of the repository (of which some may be left out by
    choice); `explicit`: it lists what should be here. Of the `silent` files it says that they exist, not what is in them."""

    kind: str
    due: Mapping[str, Due]
    whole: bool = False
    explicit: bool = False
    silent: frozenset[str] = frozenset()

    @classmethod
    def of_sums(cls, sums: Sums, kind: str) -> Source:
        due: dict[str, Due] = {}
        for name, entry in sums.entries.items():
            algorithm = next((a for a in _BEST if a in entry.digests), "")
            due[name] = (algorithm, entry.digests.get(algorithm, ""), entry.size, sums.where)
        return cls(kind=kind, due=due, whole=kind == "manifest", explicit=kind == "sums" or sums.explicit)


def lay_beside(
    sources: list[Source],
    entries: Mapping[str, Entry],
    folder: ModelFolder,
    parts: bool,
    alone: bool,
    is_there: Callable[[str], bool],
) -> dict[str, Any]:
    """The fields of Vouching that come of it. `alone`: one file was asked for, so that no other is missed."""
    files: list[ModelFile] = []
    sizes: list[WrongSize] = []
    conflicts: list[Conflict] = []
    for name in sorted(entries):
        entry = entries[name]
        if entry.kind != "file":
            continue
        what = _role(entry.name, parts)
        if alone and what == "other":  # it was asked about, whatever it is called: a blob, say
            what = "weights"
        expected: list[Expected] = []
        size_due = None
        for source in sources:
            due = source.due.get(entry.name)
            if due is None or entry.name in source.silent:
                continue
            algorithm, digest, size, where = due
            if source.kind == "sums" and where == entry.name:
                continue  # `sha256sum * > SHA256SUMS` lists itself, as it was when it was empty
            if algorithm:
                expected.append(Expected(algorithm=algorithm, digest=digest, source=source.kind, where=clean(where)))
            if size is not None and (size_due is None or size != entry.size):
                size_due = size
                if size != entry.size:
                    sizes.append(_wrong_size(entry, what, size, source.kind, where))
        conflict = _conflict(entry.name, what, expected)
        if any(e.source in _SURER for e in expected):
            # A list of the repository itself is often one of an older revision: what is told of it is the contradiction.
            expected = [e for e in expected if e.source != "sums" or any(_same(e, o) for o in expected if o is not e)]
        conflicts += [conflict] if conflict else []
        files.append(
            ModelFile(
                name=clean(entry.name),
                path=entry.path,
                size=entry.size,
                role=what,
                expected=tuple(expected),
                size_due=size_due,
            )
        )
    lost = [] if alone else _lost(sources, entries, folder, parts, is_there)
    order = {"weights": 0, "config": 1, "code": 2, "other": 3}
    return {
        "files": tuple(files),
        "listed": any(s.kind != "hub-blob" for s in sources),
        "lost": tuple(lost),
        "sizes": tuple(sorted(_once(sizes), key=lambda s: (order[s.role], s.name))),
        "conflicts": tuple(conflicts),
        "unlisted": tuple(_unlisted(sources, files, folder)),
    }


def _role(name: str, parts: bool) -> str:
    return "other" if is_list(name) else role(name, parts)


def _wrong_size(entry: Entry, what: str, due: int, source: str, where: str) -> WrongSize:
    return WrongSize(name=clean(entry.name), role=what, size=entry.size, due=due, source=source, where=clean(where))


def _once(sizes: list[WrongSize]) -> list[WrongSize]:
    return list({s.name: s for s in reversed(sizes)}.values())


def _conflict(name: str, what: str, expected: list[Expected]) -> Conflict | None:
    first: dict[str, Expected] = {}
    for one in expected:
        other = first.setdefault(one.algorithm, one)
        if other.digest != one.digest:
            return Conflict(name=clean(name), role=what, one=other, other=one)
    return None


def _same(one: Expected, other: Expected) -> bool:
    return (one.algorithm, one.digest) == (other.algorithm, other.digest)


def _lost(
    sources: list[Source],
    entries: Mapping[str, Entry],
    folder: ModelFolder,
    parts: bool,
    is_there: Callable[[str], bool],
) -> list[Lost]:
    if not sources:
        return []
    there = {n for n, e in entries.items() if e.kind == "file"}
    found: dict[str, Lost] = {}
    rank = {"needed": 0, "wanted": 1, "left-out": 2}
    for source in sources:
        for name, (_, _, size, where) in source.due.items():
            if name in there or len(found) >= LOST or _is_outside(name):
                continue
            entry = entries.get(name)
            if entry is not None and entry.kind != "dangling":
                continue  # a FIFO, or a file that may not be read: other rules
            if entry is None and is_there(name):
                continue
            what = _role(name, parts)
            if what == "other" and not source.explicit:
                continue  # pictures and licences: engines that fetch a model themselves leave them out
            weight = _weight(name, what, source, there, folder, linked=entry is not None)
            old = found.get(name)
            if old is None or rank[weight] < rank[old.weight]:
                found[name] = Lost(
                    name=clean(name), role=what, source=source.kind, where=clean(where), weight=weight, size=size
                )
    return list(found.values())


def _is_outside(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")


def _weight(name: str, what: str, source: Source, there: Set[str], folder: ModelFolder, linked: bool) -> str:
    """How much a file is missed that a source lists."""
    if what == "other":
        return "left-out"
    if source.explicit and source.kind == "manifest":
        return "needed"
    if what == "weights":
        return "needed" if _is_of_the_set(name, source, there, folder) else "left-out"
    if source.explicit or linked:
        return "needed"
    if what != "config" or (source.kind == "hub-tree" and is_index(name)):
        return "left-out"  # `hf download --include "*.safetensors"` leaves the index out by choice
    return "wanted" if is_wanted(name, there) else "left-out"


def _is_of_the_set(name: str, source: Source, there: Set[str], folder: ModelFolder) -> bool:
    """Whether a weight file belongs to those that the engine loads: the index's, the numbered ones of a set of which others are there, and those
    of the format that is there. A repository may hold the same weights in several formats, of which one is enough."""
    if folder.index is not None and folder.index.problem is None and name in folder.index.missing.first:
        return True
    have = [f.name for f in folder.weights if f.kind not in ("missing", "dangling")]
    if not have:  # of a GGUF repository the engine is told which file to load, which may lie in a folder
        have = [t for t in there if role(t) == "weights"]
    if not have:
        # Of several quantisations nobody takes all; and the weights of parts lie in folders, each of which may be left out.
        if "/" in name or name.endswith(".gguf"):
            return False
        return name in loaded([n for n in (*there, *source.due) if "/" not in n], None, second_copy=False)
    mine = numbered_set(name)
    if mine is not None:
        return mine in {numbered_set(h) for h in have}
    if folder.index is not None and folder.index.problem is None:
        return False  # the index names all that is loaded
    if _NUMBER.sub("#", name) in {_NUMBER.sub("#", h) for h in have if _NUMBER.search(h)}:
        return True
    ending = name.rpartition(".")[2]
    if source.whole or ending == "gguf" or "/" in name or name not in loaded([*there, name], None):
        return False
    return ending in {h.rpartition(".")[2] for h in have}


def _unlisted(sources: list[Source], files: list[ModelFile], folder: ModelFolder) -> list[tuple[str, str, bool]]:
    """Weight files that the given list or the repository's own lacks; of each the list, and whether the engine loads what was not vouched for."""
    lists = [s for s in sources if s.kind in ("manifest", "hub-tree")]
    engine_loads = {f.name for f in folder.weights}
    found: dict[str, tuple[str, str, bool]] = {}
    for source in lists:
        listed = {clean(n) for n in source.due}
        where = next((d[3] for d in source.due.values()), "")
        for file in files:
            if file.role != "weights" or file.name in listed or file.name in found:
                continue
            is_loaded = file.name in engine_loads
            if is_loaded or source.kind == "manifest":  # people keep files of their own beside a download
                is_fault = source.kind == "manifest" and is_loaded
                found[file.name] = (file.name, clean(where), is_fault)
    return sorted(found.values(), key=lambda u: not u[2])
