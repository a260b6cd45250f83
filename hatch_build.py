"""Compiles rules.toml and the data tables into the wheel, so that a start reads JSON; a text that is not right stops the build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
        for package in ("checks/ds_doctor_checks", "doctor/ds_doctor"):
            for table in sorted((root / package).rglob("*.toml")):
                if table.is_symlink():  # rules.toml, which has forms of its own
                    continue
                place = table.relative_to((root / package).parent).with_suffix(".json")
                made = folder / "-".join(place.parts)
                made.write_bytes(msgspec.json.encode(tomllib.loads(table.read_text("utf-8"))))
                build_data["force_include"][str(made)] = str(place)
