"""The sets of weights of a folder and of the folders in it: what an engine loads, what only lies there, which index says so; never judges."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

import msgspec

from ..api import Host
from . import _index_look, _shard_index
from ._folder_names import (
    copies,
    in_several,
    is_second_copy,
    is_weights,
    loaded,
    may_be_folder,
    numbered,
    numbering,
    without_numbers,
)
from ._index_look import Read
from ._model_place import is_there, names_in
from ._said import clean
from ._shard_index import names_of
from ._weight_file import Seen
from .model_folder import Numbering, ShardIndex, WeightFile

FOLDERS = 100  # folders in the model's folder that are looked into, one level deep
FILES = 1000  # names of one index in folders below


class Part(msgspec.Struct, frozen=True):
    """The weights of one folder; all names are relative to the model's folder. `main`: the index that says what the model is;
    `more`: those of what is loaded beside it; `wrong`: other indexes that are none."""

    names: list[str]
    main: Read | None
    more: list[Read]
    weights: list[str]
    spare: list[str]
    spare_missing: list[str]
    wrong: list[WeightFile]
    listed: set[str]


def look_into(host: Host, path: str, prefix: str, names: list[str], second_copy: bool) -> Part:
    """What lies in the folder `prefix` of the model's folder, whose names are given. `second_copy` as in `loaded`."""
    found = _index_look.read_all(host, path, prefix, names)
    there = {prefix + n for n in names}
    for one in found:  # an index may name files in folders of their own
        deeper = (f for f in sorted(one.files) if "/" in f[len(prefix) :] and not _shard_index.escapes(f))
        there.update(f for f in itertools.islice(deeper, FILES) if is_there(host, f"{path}/{f}"))
    main = _index_look.deciding(found, names, prefix)
    relative = sorted(n[len(prefix) :] for n in there)
    of_index = None
    if main is not None and main.parsed is not None and not main.index.of_torch:
        of_index = {n[len(prefix) :] for n in main.files}
    weights = loaded(relative, of_index, second_copy)
    if main is not None and main.index.of_torch:
        weights = sorted({*weights, *(n for n in relative if prefix + n in main.files)})
    more: list[Read] = []
    missing: list[str] = []
    wrong: list[WeightFile] = []
    for one in found:
        if one is main:
            continue
        if one.parsed is None:
            wrong.append(WeightFile(name=one.index.name, kind=one.index.problem or "unreadable"))
        elif not there & set(one.files):
            continue  # none of its files was fetched
        elif set(one.files) & {prefix + n for n in weights}:
            more.append(one)
        else:
            missing += [f for f in one.files if f not in there and not _shard_index.escapes(f)]
    used = set(weights)
    return Part(
        names=[prefix + n for n in relative],
        main=main,
        more=more,
        weights=[prefix + n for n in weights],
        spare=[prefix + n for n in relative if is_weights(n.rpartition("/")[2]) and n not in used],
        spare_missing=missing,
        wrong=wrong,
        listed={f for r in found if r is not main for f in r.files},
    )


def below(host: Host, path: str, names: Iterable[str], second_copy: bool) -> list[Part]:
    """The folders in the model's folder that hold weights or an index of some."""
    parts = []
    for name in itertools.islice(filter(may_be_folder, names), FOLDERS):
        if host.time_left_s() < 0.5:
            break
        inside = names_in(host, f"{path}/{name}")
        if any(is_weights(n) or _index_look.is_index(n) for n in inside):
            parts.append(look_into(host, path, f"{name}/", inside, second_copy))
    return parts


def together(top: Part, parts: list[Part], pipeline: bool) -> tuple[list[str], list[str], list[Read]]:
    """The names of the weights that make up the model, of those that only lie there, and the indexes beside the top one."""
    weights, spare = list(top.weights), list(top.spare)
    indexes = list(top.more)
    only_gguf = all(n.endswith(".gguf") for n in weights) and top.main is None
    for part in parts:
        named = set(weights)  # by the index above
        inside = [n for n in part.weights if n not in named]
        if pipeline:
            weights += inside
            spare += part.spare
            indexes += [r for r in (part.main, *part.more) if r is not None]
        elif only_gguf and inside and all(n.endswith(".gguf") for n in inside):
            # One folder for each quantisation is how they are published; an engine is given one of them.
            weights += inside
            spare += part.spare
        else:
            spare += [n for n in (*inside, *part.spare) if n not in named]
    return weights, spare, indexes


def described(read: Read, part: Part, seen: dict[str, Seen]) -> ShardIndex:
    """The index beside the names and headers. A file that another index names is not one too many."""
    main = read is part.main
    strays = [n for n in part.names if "/" not in n and n not in part.listed] if main else ()
    return _index_look.beside_headers(read, part.names, seen, strays)


def doubles(weights: list[str], decided: set[str], seen: dict[str, Seen]) -> list[tuple[str, str]]:
    """Files that no index decides about and all of whose tensors, in the same types and shapes, are in another file or set:
    each with the file or numbered set that has them. (In other types they are the same model in another precision; files
    whose names differ in nothing but a number are the parts of several ranks, which hold the same names.)"""
    sets: dict[str, list[str]] = {}
    for name in weights:
        if name in seen and seen[name].kinds and name not in decided and not is_second_copy(name):
            key = numbered(name)
            sets.setdefault(name if key is None else f"{key[0]}-*-of-{key[2]}.{key[1]}", []).append(name)
    if len(sets) < 2:
        return []
    whole = {of: set().union(*(seen[n].names for n in names)) for of, names in sets.items()}
    kinds = {of: sum((seen[n].kinds for n in names), Counter()) for of, names in sets.items()}
    found: list[tuple[str, str]] = []
    spare: set[str] = set()
    # The largest is what the others are held against; of two alike, a set before a file, and model.safetensors before its copy.
    rank = sorted(sets, key=lambda of: (-len(whole[of]), "*" not in of, of != "model.safetensors", of))
    for place, of in enumerate(rank):
        homes = [o for o in rank[:place] if o not in spare and whole[of] <= whole[o] and kinds[of] <= kinds[o]]
        home = next(iter(homes), None)
        if home is not None and "*" not in of and without_numbers(of) not in map(without_numbers, homes):
            spare.add(of)
            found.append((of, home))
    return found


def numbered_sets(weights: list[str], decided: set[str], seen: dict[str, Seen]) -> tuple[Numbering, ...]:
    """The numbered sets, and in those that no index decides about the shards that are another's copy."""
    sets: dict[tuple[str, str, int], dict[str, frozenset[str]]] = {}
    for name in weights:
        key = numbered(name)
        if key is not None:
            sets.setdefault((clean(key[0]), *key[1:]), {})[name] = seen[name].names if name in seen else frozenset()
    result = []
    for one in numbering(weights):
        files = sets.get((one.stem, one.ext, one.total), {})
        if decided & files.keys():
            one = msgspec.structs.replace(one, decided=True)
        else:
            doubled, tensors = copies(files)
            twice = tensors if doubled else in_several(files)
            if twice:
                one = msgspec.structs.replace(one, copies=names_of(doubled), twice=names_of(twice))
        result.append(one)
    return tuple(result)
