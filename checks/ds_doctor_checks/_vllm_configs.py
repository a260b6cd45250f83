"""vLLM's configuration classes as far as their fields say what JSON they take; it knows no rule between two fields."""

from __future__ import annotations

from typing import Any

from ds_doctor.probes.engine_flags import Flag


def faults(flag: Flag, made: dict[str, Any]) -> list[str]:
    """What pydantic would say of each wrong field, in its words."""
    return [f"{k}\n  Unexpected keyword argument" for k in made if flag.keys is not None and k not in flag.keys]
