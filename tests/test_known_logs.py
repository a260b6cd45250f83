"""Logs with a known cause give it first, whole hosts decide among its causes, and healthy logs find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import FIXTURES, tomllib
from test_explain import BROKEN, WHOLE, answer, explain
from test_signatures import explained, whole

LOGS = FIXTURES / "logs"
CAUSES: dict[str, str] = tomllib.loads((LOGS / "causes.toml").read_text("utf-8"))
HEALTHY = sorted((LOGS / "healthy").glob("*.log"))


def test_every_log_has_its_cause() -> None:
    assert sorted(p.stem for p in LOGS.glob("*.log")) == sorted(CAUSES)


@pytest.mark.parametrize("name", sorted(CAUSES))
@pytest.mark.parametrize("fast", [False, True])
def test_the_injected_cause_comes_first(name: str, fast: bool) -> None:
    if fast:
        pytest.importorskip("hyperscan")
    found = explained((LOGS / f"{name}.log").read_text("utf-8"), fast)
    assert found[0].name == CAUSES[name]
    assert found[0].literal


@pytest.mark.parametrize("path", HEALTHY, ids=lambda p: p.stem)
def test_a_healthy_log_finds_nothing(path: Path) -> None:
    assert explained(path.read_text("utf-8")) == []
    done = explain("--log", str(path))
    assert (done.returncode, done.stdout.count(b"\n")) == (1, 1)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda p: p.stem)
def test_no_line_of_a_healthy_log_alone_is_a_fault(path: Path) -> None:
    for line in path.read_text("utf-8").splitlines():
        assert [m.name for m in explained(line + "\n\n" + line) if m.literal] == [], line


def test_what_a_log_shows_is_found_or_ruled_out_on_the_host() -> None:
    log = str(LOGS / "09-compat-libcuda.log")
    for host, status in ((BROKEN, "found"), (WHOLE, "ruled_out")):
        [match, *_] = answer("--log", log, "--replay", host)["matches"]
        here = {c["rule"]: c["here"] for c in match["causes"]}
        assert here["libcuda-compat-older"]["status"] == status
    assert match["evidence"][0]["source"] == log


def test_a_cause_that_is_found_stands_first() -> None:
    [match, *_] = answer("--log", str(LOGS / "11-arch-8.0-only.log"), "--replay", BROKEN)["matches"]
    assert match["causes"][0]["here"]["status"] == "found"
    statuses = [c["here"]["status"] if c["here"] else "unknown" for c in match["causes"]]
    assert statuses == sorted(statuses, key=["found", "unknown", "ruled_out"].index)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("NVIDIA A100-SXM4-80GB, CUDA error 803", "A100"),
        ("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15 | CUDA error 803", "550.54.15"),
        ("NVIDIA H200, driver 580.159.04, CUDA error 803", None),
        ("CUDA error 803", None),
    ],
)
def test_a_log_of_another_host_is_noticed(line: str, says: str | None) -> None:
    found = answer(line, "--replay", WHOLE)["other_host"]
    assert (says is None) == (found is None)
    assert says is None or says in found


def test_the_index_speaks_of_more_than_three_hundred_causes() -> None:
    catalogue = whole()
    assert len(catalogue.rule) + len(catalogue.cause) > 800
