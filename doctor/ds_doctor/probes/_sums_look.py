"""The checksum lists of a model folder and the one that was given: which there are, what they say of which file; never judges."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable

import msgspec

from ..api import Host, Trouble
from ..manifest.structs import Entry, Manifest, NotAManifest
from ._weight_file import clean
from .checksums import SumsFile

LIMIT = 16 << 20  # bytes of a list in the folder
GIVEN_LIMIT = 128 << 20  # bytes of the one that the user gives: the API's answer for 200,000 files has 80 MB
LISTS = 500  # checksum files of one folder: one beside each of its shards
# checklist.chk: Meta's own in the first Llama releases. A list of our own may have any name with "manifest".
_SURE = re.compile(
    r"(SHA\d*|MD5)-?SUMS?(\.txt|\.asc)?\Z|(sha\d*|md5)-?sums?(\.txt)?\Z|checklist\.chk\Z|.+\.(sha1|sha224|sha256|sha384|sha512|md5)(sums?)?(\.txt)?\Z",
    re.IGNORECASE,
)
_MAYBE = re.compile(r"checksums?([._-][\w.-]*)?\Z|[\w.-]*manifest[\w.-]*\.(json|txt)\Z", re.IGNORECASE)
_OTHERS = (".safetensors", ".bin", ".gguf", ".index.json")


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
    return bool(_SURE.match(base) or _MAYBE.match(base)) and not base.endswith(_OTHERS)


def in_folder(host: Host, root: str, names: Iterable[str], there: set[str]) -> tuple[list[Sums], list[SumsFile]]:
    """The lists among the names; of each how it was understood."""
    found: list[Sums] = []
    told: list[SumsFile] = []
    for name in [n for n in names if is_list(n)][:LISTS]:
        folder, _, base = name.rpartition("/")
        try:
            data = host.read(f"{root}/{name}", limit=LIMIT)
            manifest = _parse(data, base)
        except NotAManifest as e:
            if _SURE.match(base):
                told.append(SumsFile(name=clean(name), problem=e.why, line=e.line))
            continue
        except Trouble as t:
            if _SURE.match(base):
                told.append(SumsFile(name=clean(name), problem=t.reason.id))
            continue
        if manifest.kind != "ds-doctor" and base.endswith(".json"):
            continue  # somebody else's manifest: what its entries are relative to, nobody knows
        entries = aligned(manifest.entries, there, folder)
        found.append(Sums(where=name, entries=entries))
        told.append(_told(name, manifest))
    return found, told


def given(host: Host, path: str, there: set[str]) -> tuple[Sums | None, SumsFile]:
    """The list that the user gave."""
    path = path if path.startswith("/") else f"{host.real('.').rstrip('/')}/{path}"
    base = posixpath.basename(path)
    try:
        manifest = _parse(host.read(path, limit=GIVEN_LIMIT), base)
    except NotAManifest as e:
        return None, SumsFile(name=clean(base), given=True, problem=e.why, line=e.line)
    except Trouble as t:
        return None, SumsFile(name=clean(base), given=True, problem=t.reason.id)
    sums = Sums(
        where=clean(base),
        entries=aligned(manifest.entries, there, ""),
        repo=manifest.repo,
        revision=manifest.revision,
        explicit=manifest.kind not in ("hub", "modelscope"),
    )
    return sums, msgspec.structs.replace(_told(base, manifest), given=True)


def _parse(data: bytes, name: str) -> Manifest:
    from .. import manifest

    read: Callable[[bytes, str], Manifest] | None = getattr(manifest, "parse", None)
    if read is None:
        raise NotAManifest("unknown-schema")
    return read(data, name)


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


def aligned(entries: Iterable[Entry], there: set[str], folder: str) -> dict[str, Entry]:
    """The entries by names in the model's folder. A list made a folder higher (`sha256sum model/*`) has the folder's name in front of
    each: it is left off where none of the names is here otherwise."""
    every = list(entries)
    prefix = f"{folder}/" if folder else ""
    if not any(prefix + e.name in there for e in every):
        folders = [posixpath.dirname(e.name) for e in every if not e.name.startswith("/")]
        common = posixpath.commonpath(folders) if folders else ""
        parts = common.split("/") if common else []
        for cut in range(1, len(parts) + 1):
            off = len("/".join(parts[:cut])) + 1
            if any(prefix + e.name[off:] in there for e in every):
                return {prefix + e.name[off:]: e for e in every}
    return {prefix + e.name: e for e in every}
