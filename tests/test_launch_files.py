"""Files that describe launches are read as Docker, Kubernetes, systemd and a shell would read them, and judged service by service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ds_doctor import engine
from ds_doctor.host import Asked
from ds_doctor.launch.file import services
from ds_doctor.launch.structs import Service
from ds_doctor.model import Outcome
from ds_doctor.probes.launch import Deployment, Launch
from ds_doctor.report import document, host, render
from support import FIXTURES, Case, case_outcomes, doctor

KINDS = ("compose", "kubernetes", "systemd", "script")
FILES = sorted(
    p
    for kind in KINDS
    for p in (FIXTURES / "launch" / kind).iterdir()
    if p.name.count(".") == 1 and p.suffix not in (".txt",)
)
MODULES = ("ds_doctor_checks.launch_container", "ds_doctor_checks.launch_deployment")


def read(path: Path) -> tuple[Service, ...]:
    return services(path.read_bytes(), path.name, path.name, {"PWD": "/srv"})


def without_defaults(value: Any) -> Any:
    """A struct as JSON without what nobody gave."""
    if isinstance(value, msgspec.Struct):
        fields = {f.name: f for f in msgspec.structs.fields(value)}
        return {
            n: without_defaults(getattr(value, n))
            for n, f in fields.items()
            if getattr(value, n) != f.default and getattr(value, n) not in (None, (), {}, [])
        }
    if isinstance(value, (list, tuple)):
        return [without_defaults(v) for v in value]
    if isinstance(value, dict):
        return {k: without_defaults(v) for k, v in value.items()}
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_file_gives_its_services(path: Path, golden: Callable[[Path, str], None]) -> None:
    said = [without_defaults(s) for s in read(path)]
    golden(path.with_name(path.name + ".facts.json"), json.dumps(said, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_files_services_have_their_findings(path: Path, lang: str, golden: Callable[[Path, str], None]) -> None:
    checks = [c for c in doctor().checks if c.judge.__module__ in MODULES]
    rules = {r for c in checks for r in c.rules}
    pages = []
    for service in read(path):
        facts = case_outcomes(Case(says="", expect={}, base="h200-x2"), checks, host.ALWAYS)
        facts[Launch] = Outcome(service.launch)
        facts[Deployment] = Outcome(service.deployment)
        results = engine.judge(checks, facts, doctor().catalogue, rules)
        alarms = [r for r in results if r.status in ("note", "warn", "fail", "error")]
        assert not [r for r in alarms if r.status == "error"]
        report = document.build(
            engine.conclude(alarms, [], set(), False),
            doctor().catalogue,
            lang,
            version="0",
            host=host.host_doc(facts),
            target=host.target_doc(Asked(), facts),
            started_at="2026-11-29T00:00:00Z",
            duration_s=0,
        )
        said = render("text", report, lang, quiet=True) if alarms else "-\n"
        pages.append(f"== {service.name}\n{said}")
    golden(path.with_name(f"{path.name}.{lang}.txt"), "\n".join(pages))


def test_no_secret_of_a_file_enters_a_fact() -> None:
    for path in FILES:
        for service in read(path):
            assert b"hf_fixture" not in msgspec.json.encode(service)
