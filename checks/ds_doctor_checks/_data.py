"""Reads the vendor tables under data/, each once and only when a check asks; it judges nothing."""

from __future__ import annotations

import functools
import os
from typing import Any

from ds_doctor.api import read_table


@functools.cache
def table(name: str) -> dict[str, Any]:
    """The table `data/<name>.toml` of this package. Do not change what it gives: it is shared."""
    return read_table(os.path.join(os.path.dirname(__file__), "data"), name)


def profile(name: str) -> dict[str, Any]:
    """The profile `profiles/<name>.toml` of this package."""
    return read_table(os.path.join(os.path.dirname(__file__), "profiles"), name)
