"""A whole run over an NVML that lies, hangs, dies or is missing: the right rule, the right exit status, in time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parent / "nvml" / "fake.c"
CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")
# On a machine without any trace of NVIDIA the child is not started; here it must be.
TRACE = "import ds_doctor.probes.nvml as n\nn.TRACES = ('/',)\n"
RUN = [sys.executable, "-m", "ds_doctor", "run", "--format", "json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    assert CC is not None
    subprocess.run([CC, "-w", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    (folder / "sitecustomize.py").write_text(TRACE)
    return folder


def env(folder: Path, behaviour: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder), "LD_LIBRARY_PATH": str(folder), "FAKE_NVML": behaviour}


def run(folder: Path, behaviour: str, *args: str) -> tuple[int, dict[str, Any], float]:
    begun = time.monotonic()
    done = subprocess.run([*RUN, *args], capture_output=True, text=True, env=env(folder, behaviour), timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - begun


def failed(report: dict[str, Any]) -> set[str]:
    return {r["rule"] for r in report["results"] if r["status"] == "fail"}


@pytest.mark.parametrize(
    ("behaviour", "rule"),
    [
        ("18", "driver-mismatch"),
        ("4", "nvml-no-permission"),
        ("17", "nvml-blocked"),
        ("999", "nvml-unknown-error"),
        ("77", "nvml-error"),
        ("crash", "nvml-crashed"),
        ("lost", "gpu-lost"),
    ],
)
def test_each_trouble_of_nvml_is_told_as_what_it_is(folder: Path, behaviour: str, rule: str) -> None:
    status, report, _ = run(folder, behaviour, "--only", "driver")
    assert status == 1
    names = failed(report)
    assert rule in names or rule + "-container" in names, names
    assert "driver-missing" not in names, "the driver is there; it only does not answer"


def test_an_nvml_that_hangs_is_told_and_the_run_ends_in_time(folder: Path) -> None:
    status, report, seconds = run(folder, "hang", "--timeout", "5")
    assert status == 1 and "nvml-hung" in failed(report)
    assert seconds < 7


def test_a_missing_nvml_is_never_healthy(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TRACE)
    status, report, _ = run(tmp_path, "ok", "--only", "driver")
    assert status == 1 and failed(report)


def test_a_child_that_hangs_ends_with_the_run_that_is_killed(folder: Path) -> None:
    mark = f"FAKE_NVML=hang-{os.getpid()}"
    child = subprocess.Popen(RUN, env={**env(folder, "hang"), "MARK": mark}, stdout=subprocess.DEVNULL)

    def alive() -> list[int]:
        pids = []
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                if (
                    mark.encode() in (proc / "environ").read_bytes()
                    and b"_nvml_child" in (proc / "cmdline").read_bytes()
                ):
                    pids.append(int(proc.name))
            except OSError:
                continue
        return pids

    deadline = time.monotonic() + 10
    while not alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(), "the child was started"
    time.sleep(0.3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    time.sleep(0.3)
    assert not alive()


def test_a_usage_error_leaves_no_child_behind(folder: Path) -> None:
    begun = time.monotonic()
    done = subprocess.run([*RUN, "--bogus"], capture_output=True, text=True, env=env(folder, "hang"), timeout=60)
    assert done.returncode == 2 and time.monotonic() - begun < 5
