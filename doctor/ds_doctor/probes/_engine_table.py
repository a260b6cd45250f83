"""The flags of an engine's ways to start, put together into one table."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .engine_flags import Flag


class Read(NamedTuple):
    """What one engine's source says: the fields of EngineFlags."""

    flags: tuple[Flag, ...]
    ways: tuple[str, ...]
    entries: tuple[str, ...]
    names: dict[str, tuple[str, ...]]
    open_names: tuple[str, ...]
    missed: tuple[str, ...]


def merged(tables: dict[str, list[Flag]]) -> tuple[Flag, ...]:
    """Entry -> its flags: a flag that every entry has alike says nothing of entries, another one names its own."""
    if not tables:
        return ()
    where: dict[Flag, list[str]] = {}
    keyed: dict[bytes, Flag] = {}
    for entry, flags in tables.items():
        for f in flags:
            one = keyed.setdefault(msgspec.json.encode(f), f)
            where.setdefault(id(one), []).append(entry)  # type: ignore[call-overload]
    made = []
    for one in keyed.values():
        entries = where[id(one)]  # type: ignore[index]
        made.append(one if len(entries) == len(tables) else msgspec.structs.replace(one, entries=tuple(entries)))
    return tuple(made)
