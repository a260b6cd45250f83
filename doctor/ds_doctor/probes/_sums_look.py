"""The checksum lists of a model folder and the one that was given: which there are, what they say of which file; never judges."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Set

import msgspec

from ..api import Host, Trouble
from ..manifest import is_list_name, parse
from ..manifest.structs import Entry, Manifest, NotAManifest
from ._folder_names import is_weights
from ._said import clean
from .checksums import SumsFile

LIMIT = 32 << 20  # bytes of a list; more is not parsed
LISTS = 500  # checksum files of one folder: one beside each of its shards
# A list of our own may have any name with "manifest".
_OWN = re.compile(r"[\w.-]*manifest[\w.-]*\.json\Z", re.IGNORECASE)


class Sums(msgspec.Struct, frozen=True, kw_only=True):
    """One list that was understood. `entries` by the name in the folder, `where` what it is called, `explicit`: it lists what should be here, not
    all that a repository has."""

    where: str
    entries: dict[str, Entry]
    repo: str | None = None
    revision: str | None = None
    explicit: bool = False


def is_list(name: str) -> bool:
    """Whether a file of this name is looked into."""
    base = name.rpartition("/")[2]
    return is_list_name(base) or bool(_OWN.match(base))


def in_folder(host: Host, root: str, names: Iterable[str], there: Set[str]) -> tuple[list[Sums], list[SumsFile]]:
    """The lists among the names; of each how it was understood."""
    found: list[Sums] = []
    told: list[SumsFile] = []
    left = 2 * LIMIT
    for name in [n for n in names if is_list(n)][:LISTS]:
        folder, _, base = name.rpartition("/")
        where = f"{root}/{folder}".rstrip("/")
        problem, line = None, None
        try:
            left -= host.stat(f"{root}/{name}").size
            if left < 0:
                break
            manifest = _parse(host, f"{root}/{name}", base, where, there, folder)
        except NotAManifest as e:
            if e.why == "unknown-algorithm":
                continue  # nothing is wrong with it
            problem, line = e.why, e.line
        except Trouble as t:
            problem = t.reason.id
        if problem is not None:
            if is_list_name(base):
                told.append(SumsFile(name=clean(name), problem=problem, line=line))
            continue
        if manifest.kind != "ds-doctor" and base.endswith(".json"):
            continue  # somebody else's manifest: what its entries are relative to, nobody knows
        found.append(Sums(where=name, entries=aligned(manifest.entries, there, folder, "" if folder else root)))
        told.append(_told(name, manifest))
    return found, told


def given(host: Host, path: str, root: str, there: Set[str]) -> tuple[Sums | None, SumsFile]:
    """The list that the user gave."""
    path = path if path.startswith("/") else f"{host.real('.').rstrip('/')}/{path}"
    base = posixpath.basename(path)
    try:
        manifest = _parse(host, path, base, root, there, "")
    except NotAManifest as e:
        return None, SumsFile(name=clean(base), given=True, problem=e.why, line=e.line)
    except Trouble as t:
        return None, SumsFile(name=clean(base), given=True, problem=t.reason.id)
    sums = Sums(
        where=clean(base),
        entries=aligned(manifest.entries, there, "", root),
        repo=manifest.repo,
        revision=manifest.revision,
        explicit=manifest.kind not in ("hub", "modelscope"),
    )
    return sums, msgspec.structs.replace(_told(base, manifest), given=True)


def _parse(host: Host, path: str, name: str, root: str, there: Set[str], folder: str) -> Manifest:
    data = host.read(path, limit=LIMIT)
    manifest = parse(data, name, [r for r in {root, host.real(root)} if r])
    if not manifest.entries and manifest.problem_count:
        # Absolute names of another machine, where the folder lay elsewhere: nothing but names that are here makes it this one.
        elsewhere = parse(data, name, ["/"])
        if not elsewhere.problem_count and not there.isdisjoint(aligned(elsewhere.entries, there, folder)):
            return elsewhere
    return manifest


def _told(name: str, manifest: Manifest) -> SumsFile:
    first = next(iter(manifest.problems), None)
    return SumsFile(
        name=clean(name),
        entries=len(manifest.entries),
        problems=manifest.problem_count,
        first=None if first is None else first.id,
        line=None if first is None else first.line,
        text="" if first is None else clean(first.text),
    )


def aligned(entries: Iterable[Entry], there: Set[str], folder: str, root: str = "") -> dict[str, Entry]:
    """The entries by names in the model's folder `root`. A list made higher up (`sha256sum */*`) has folders' names in front of each: where none
    of its names is here otherwise, those below the folder's own name are taken, or what all have in common is left off, or a list in a folder of
    its own is of the files beside that folder."""
    every = list(entries)
    prefix = f"{folder}/" if folder else ""
    if not any(prefix + e.name in there for e in every):
        parts = [p for p in root.split("/") if p]
        for up in range(1, len(parts) + 1):
            above = "/".join(parts[-up:]) + "/"
            if any(e.name.startswith(above) and e.name[len(above) :] in there for e in every):
                return {e.name[len(above) :]: e for e in every if e.name.startswith(above)}
        folders = [posixpath.dirname(e.name) for e in every if not e.name.startswith("/")]
        common = posixpath.commonpath(folders).split("/") if folders else []
        for cut in range(1, len(common) + 1):
            off = len("/".join(common[:cut])) + 1
            if any(prefix + e.name[off:] in there for e in every):
                return {prefix + e.name[off:]: e for e in every}
        if prefix and any(e.name in there and is_weights(posixpath.basename(e.name)) for e in every):
            return {e.name: e for e in every}  # `sha256sum *.safetensors > checksums/SHA256SUMS`
    return {prefix + e.name: e for e in every}
