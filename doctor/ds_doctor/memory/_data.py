"""Reads the tables of this room, each once and only when asked for; the one place of the room that opens a file, and only its own."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import msgspec


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The table `<name>.json` of this package, else `<name>.toml` (a checkout: the build writes the JSON). Do not change what it
    gives: it is shared."""
    path = os.path.join(os.path.dirname(__file__), name)
    decoded: dict[str, Any]
    try:
        with open(path + ".json", "rb") as f:
            decoded = msgspec.json.decode(f.read())
        return decoded
    except FileNotFoundError:
        pass
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(path + ".toml", "rb") as f:
        decoded = tomllib.load(f)
    return decoded
