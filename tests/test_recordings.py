"""Every probe gives the recorded fact again when the recorded calls of a real host are played to it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from ds_doctor.gather import ask
from ds_doctor.host import Asked
from ds_doctor.model import Outcome
from ds_doctor.registry import fact_name
from ds_doctor.replay import ReplayedHost
from record_host import every_fact
from support import FIXTURES

RECORDINGS = sorted((FIXTURES / "probes").glob("*/*/recording.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}")
def test_a_probe_gives_the_recorded_fact_again(path: Path) -> None:
    said = json.loads(path.read_text("utf-8"))
    (fact,) = [f for f in every_fact() if fact_name(f) == path.parent.parent.name]
    host = ReplayedHost(said["calls"], said["env"], msgspec.convert(said["asked"], Asked))
    want = msgspec.convert(said["outcome"], Outcome)
    got = ask(host, fact)
    assert (got.trouble, got.reason) == (want.trouble, want.reason)
    assert got.fact == (None if want.fact is None else msgspec.convert(want.fact, fact))


def test_every_probe_but_those_that_read_whole_libraries_has_a_recording() -> None:
    recorded = {p.parent.parent.name for p in (FIXTURES / "probes").glob("*/*/*.json")}
    looking = {fact_name(f) for f in every_fact() if not getattr(f, "of_asked_alone", False)}
    libraries = {"kernels", "nccl_copies", "torch_build", "torch_libs"}
    sources = {"engine_flags", "engine_models"}  # trees under fixtures/engines stand for them
    of_command = {
        "checksums",
        "companions",
        "model_access",
        "model_parts",
        "mounts",
        "proof",
        "zero_runs",
    }  # absent on every host without a command; real folders in their own tests
    assert looking - recorded <= libraries | sources | of_command
