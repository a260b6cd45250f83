"""Reads the tables of this room, each once and only when asked for; the one place of the room that opens a file, and only its own."""

from __future__ import annotations

import functools
import os
from typing import Any

import msgspec


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The table `<name>.json` of this package. Do not change what it gives: it is shared."""
    with open(os.path.join(os.path.dirname(__file__), name + ".json"), "rb") as f:
        decoded: dict[str, Any] = msgspec.json.decode(f.read())
    return decoded
