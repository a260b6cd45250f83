"""The shard index (model.safetensors.index.json) beside the shards' headers: what disagrees, counted; never judges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ._said import clean
from .model_folder import Names

LIMIT = 40 << 20  # bytes; 96,085 tensors take about 9 MB
FIRST = 5  # names kept of each kind; the count is whole


class _File(msgspec.Struct):
    weight_map: dict[str, str]
    metadata: msgspec.Raw = msgspec.Raw(b"null")


class _Metadata(msgspec.Struct):
    total_size: int | float | None = None


class Parsed(msgspec.Struct, frozen=True):
    """The index as it is written: tensors by file, and the size it claims."""

    tensors_of: dict[str, set[str]]
    total_size: int | None


class NotAnIndex(Exception):
    """The text is no index; the argument says why (not-json, no-weight-map)."""


def names_of(names: Iterable[str]) -> Names:
    every = sorted(names)
    return Names(len(every), tuple(clean(n) for n in every[:FIRST]))


def parse(text: bytes, prefix: str = "") -> Parsed:
    """An index file that lies in the folder `prefix` ("" or "part/"). NotAnIndex for anything else."""
    try:
        file = msgspec.json.decode(text, type=_File)
    except msgspec.ValidationError:
        raise NotAnIndex("no-weight-map") from None
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise NotAnIndex("not-json") from None
    if not file.weight_map:
        raise NotAnIndex("no-weight-map")
    tensors_of: dict[str, set[str]] = {}
    for tensor, name in file.weight_map.items():
        tensors_of.setdefault(name.removeprefix("./"), set()).add(tensor)
    if prefix:
        tensors_of = {n if escapes(n) else prefix + n: tensors for n, tensors in tensors_of.items()}
    return Parsed(tensors_of, _total_size(file.metadata))


def _total_size(metadata: msgspec.Raw) -> int | None:
    try:
        size = msgspec.json.decode(metadata, type=_Metadata | None)
        if size is None or size.total_size is None or not 0 <= size.total_size < 1 << 63:
            return None
        return int(size.total_size)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        return None


def escapes(name: str) -> bool:
    """Whether a file name of the index leads out of the folder (or cannot be a name)."""
    return name.startswith("/") or ".." in name.split("/") or "\0" in name or not name


class Disagreement(msgspec.Struct):
    """Between the index and the headers that could be read: tensors, each with the file where it should be, or is (`a → b`:
    the index says a, it is in b)."""

    absent: list[str] = []
    absent_heads: list[str] = []
    misplaced: list[str] = []
    twice: list[str] = []
    not_indexed: list[str] = []


def compare(parsed: Parsed, headers: Mapping[str, frozenset[str]]) -> Disagreement:
    """What disagrees; `headers` are the tensor names of each readable file of the index. A tensor whose file could not
    be read is left out: nothing is known of it."""
    found = Disagreement()
    if all(have == parsed.tensors_of.get(name, set()) for name, have in headers.items()):
        return found  # the ordinary folder, without a walk over 100,000 names
    home = {tensor: name for name, tensors in parsed.tensors_of.items() for tensor in tensors}
    places: dict[str, list[str]] = {}
    for name, have in headers.items():
        for tensor in have:
            places.setdefault(tensor, []).append(name)
    for tensor, where in places.items():
        if tensor not in home:
            found.not_indexed.append(f"{tensor} ({where[0]})")
        elif len(where) > 1:
            found.twice.append(f"{tensor} ({', '.join(sorted(where)[:3])})")
        elif home[tensor] != where[0]:
            found.misplaced.append(f"{tensor} ({home[tensor]} → {where[0]})")
    for tensor, name in home.items():
        if name in headers and tensor not in places:
            # Tied models leave the output head out; only the configuration tells whether that is so here.
            kind = found.absent_heads if tensor.endswith("lm_head.weight") else found.absent
            kind.append(f"{tensor} ({name})")
    return found
