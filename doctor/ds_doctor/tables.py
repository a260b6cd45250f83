"""Reads a package's data tables (TOML; in the wheel the same as JSON, read 20 times as fast); it understands none of them."""

from __future__ import annotations

import sys
from typing import Any

import msgspec


def read(folder: str, name: str) -> dict[str, Any]:
    """`<folder>/<name>.json` if it is there, else `<folder>/<name>.toml`."""
    path = f"{folder}/{name}"
    try:
        with open(path + ".json", "rb") as f:
            compiled: dict[str, Any] = msgspec.json.decode(f.read())
        return compiled
    except FileNotFoundError:  # a checkout: the build writes the JSON
        pass
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with open(path + ".toml", "rb") as f:
        table: dict[str, Any] = tomllib.load(f)
    return table
