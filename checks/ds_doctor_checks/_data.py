"""Reads the vendor tables under data/, each once and only when a check asks; it judges nothing."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The table `data/<name>.toml` of this package. Do not change what it gives: it is shared."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = os.path.join(os.path.dirname(__file__), "data", name + ".toml")
    with open(path, "rb") as f:
        tables: dict[str, Any] = tomllib.load(f)
    return tables
