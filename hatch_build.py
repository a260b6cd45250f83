"""Compiles rules.toml into the wheel, so that a start reads JSON; a rules.toml that is not right stops the build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileCatalogue(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return  # a checkout compiles on first use, keyed by the digest of the text
        root = Path(self.root)
        sys.path.insert(0, str(root / "doctor"))
        try:
            from ds_doctor.compiled import RULES, compile_
            from ds_doctor.explain.known import KNOWN
        finally:
            sys.path.pop(0)
        folder = Path(self.directory)
        folder.mkdir(parents=True, exist_ok=True)
        data = (root / "rules.toml").read_bytes()
        for form in (RULES, KNOWN):
            (folder / form.name).write_bytes(compile_(data, "rules.toml", form))
            build_data["force_include"][str(folder / form.name)] = f"ds_doctor_checks/{form.name}"
