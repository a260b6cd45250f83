"""The flags of an engine's ways to start, put together into one table."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .engine_flags import Flag

SPENT = "the source asks for more than a parser needs"  # or the machine was too slow for it: not to be kept


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
    keyed: dict[bytes, tuple[Flag, list[str]]] = {}
    for entry, flags in tables.items():
        for f in flags:
            keyed.setdefault(msgspec.json.encode(f), (f, []))[1].append(entry)
    every = len(tables)
    return tuple(f if len(e) == every else msgspec.structs.replace(f, entries=tuple(e)) for f, e in keyed.values())
