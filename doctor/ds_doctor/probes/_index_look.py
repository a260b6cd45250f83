"""The shard indexes of a folder: each read once, which of them says what the model is, what disagrees with the headers; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ..api import Absent, Denied, Host, Trouble
from . import _shard_index
from ._folder_names import is_pytorch, is_second_copy, is_stray, is_weights
from ._said import clean
from ._shard_index import names_of
from ._sniff import HEAD, sniff
from ._weight_file import Seen, leads_nowhere
from .model_folder import ShardIndex, WeightFile

# A variant's name stands before the ending (diffusers) or before .json (transformers: model.safetensors.index.fp32.json).
_INDEX = re.compile(r".*\.(?P<of>safetensors|bin|pt|pth)\.index(\.[\w-]+)?\.json\Z", re.DOTALL)
_ENGINES_OWN = (
    "model.safetensors.index.json"  # transformers' SAFE_WEIGHTS_INDEX_NAME: the only one that the engines read
)
_LIMIT = 8  # indexes of one folder
_NO_INDEX = ("lfs-pointer", "html", "xml", "empty", "zeros", "text")


class Read(msgspec.Struct, frozen=True):
    """An index as it was read; `parsed` None: it is none, `index.problem` says why. File names are relative to the model's
    folder, those that lead out of it as they are written."""

    name: str
    index: ShardIndex
    parsed: _shard_index.Parsed | None

    @property
    def files(self) -> Iterable[str]:
        return self.parsed.tensors_of if self.parsed is not None else ()


def is_index(name: str) -> bool:
    return bool(_INDEX.match(name)) and not name.startswith(".")


def read_all(host: Host, path: str, prefix: str, names: Iterable[str]) -> list[Read]:
    """The indexes among the names of the folder `prefix` ("" or "part/") in the model's folder; a bounded number."""
    found = sorted((n for n in names if is_index(n)), key=lambda n: (n != _ENGINES_OWN, is_second_copy(n), n))
    return [read(host, path, prefix, name) for name in found[:_LIMIT]]


def read(host: Host, path: str, prefix: str, name: str) -> Read:
    """One index in that folder. Never raises: what hinders it becomes its problem."""
    name = prefix + name
    m = _INDEX.match(name)
    of_torch = m is not None and m["of"] != "safetensors"
    try:
        text = host.read(f"{path}/{name}", limit=_shard_index.LIMIT)
        kind = sniff(text[:HEAD])
        if kind in _NO_INDEX:
            return Read(name, ShardIndex(name=clean(name), problem=kind, of_torch=of_torch), None)
        parsed = _shard_index.parse(text, prefix)
    except _shard_index.NotAnIndex as e:
        return Read(name, ShardIndex(name=clean(name), problem=str(e), of_torch=of_torch), None)
    except Trouble as t:
        problem = "dangling" if leads_nowhere(host, f"{path}/{name}") else kind_of(t)
        return Read(name, ShardIndex(name=clean(name), problem=problem, of_torch=of_torch), None)
    index = ShardIndex(
        name=clean(name),
        files=len(parsed.tensors_of),
        tensors=sum(map(len, parsed.tensors_of.values())),
        total_size=parsed.total_size,
        of_torch=of_torch,
    )
    return Read(name, index, parsed)


def kind_of(trouble: Trouble) -> str:
    """The word for why a file that has a name in the folder could not be read."""
    if isinstance(trouble, Absent):
        return "dangling"
    if isinstance(trouble, Denied):
        return "denied"
    known = {"not-json": "not-json", "file-too-large": "too-large", "not-a-file": str(trouble.reason.data.get("kind"))}
    return known.get(trouble.reason.id, "unreadable")


def deciding(found: list[Read], names: list[str], prefix: str = "") -> Read | None:
    """The index that says which files make up the model in this folder; None: none does. `names` as in `loaded`."""
    weights = [n for n in names if is_weights(n)]
    there = {prefix + n for n in weights}
    plain = {prefix + n for n in weights if n.endswith(".safetensors") and not is_second_copy(n)}
    others = any(is_pytorch(n) or n.endswith(".gguf") for n in weights)
    for one in (r for r in found if not r.index.of_torch):
        files = set(one.files)
        if one.name != prefix + _ENGINES_OWN and not plain <= files:
            continue  # the engines do not read this one, and load all that is there
        if one.parsed is not None and not there & files and others and not any("/" in f[len(prefix) :] for f in files):
            continue  # fetched without its safetensors files: the engines then load the others and read no index
        return one
    if plain:
        return None
    torch = [r for r in found if r.index.of_torch]
    if torch and all(r.parsed is None for r in torch) and any(map(is_pytorch, weights)):
        return torch[0]  # broken: which files it names, nobody can tell
    return next((r for r in torch if r.parsed is not None and (not there or there & set(r.files))), None)


def beside_headers(one: Read, names: list[str], seen: dict[str, Seen], strays: Iterable[str]) -> ShardIndex:
    """What the index says against the names and headers that are there; `strays` are names that no index may leave out."""
    if one.parsed is None:
        return one.index
    there = set(names)
    tensors_of = one.parsed.tensors_of
    outside = {n for n in tensors_of if _shard_index.escapes(n)}
    missing = names_of(n for n in tensors_of if n not in there and n not in outside)
    if one.index.of_torch:
        return msgspec.structs.replace(one.index, missing=missing, escapes=names_of(outside))
    readable = {n: s for n, s in seen.items() if n in tensors_of and s.file.kind == "safetensors"}
    differ = _shard_index.compare(one.parsed, {n: s.names for n, s in readable.items()})
    every = len(readable) == len(tensors_of)
    return msgspec.structs.replace(
        one.index,
        missing=missing,
        escapes=names_of(outside),
        not_indexed_files=names_of(n for n in strays if n not in tensors_of and is_stray(n)),
        absent=names_of(differ.absent),
        absent_heads=names_of(differ.absent_heads),
        misplaced=names_of(differ.misplaced),
        twice=names_of(differ.twice),
        not_indexed=names_of(differ.not_indexed),
        tensor_bytes=sum(_data_bytes(s.file) for s in readable.values()) if every else None,
    )


def _data_bytes(file: WeightFile) -> int:
    return (file.expected_size or 0) - (file.header_bytes or 0) - 8
