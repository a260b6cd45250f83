"""--root judges what lies on a disk; what only the running machine knows is unknown, never passed and never waved off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.model import Absent, Unseen
from ds_doctor.probes.loader import loader
from ds_doctor.rooted import RootedHost


def run(root: Path, *words: str) -> tuple[int, dict[str, Any]]:
    argv = [sys.executable, "-m", "ds_doctor", "run", "--root", str(root), "--format", "json", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    return done.returncode, {r["rule"]: r["status"] for r in report["results"]}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    for folder in ("etc", "usr/bin", "lib", "proc", "sys", "dev", "run", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text('PRETTY_NAME="A disk"\n')
    return tmp_path


def test_a_disk_without_a_running_system_passes_nothing_that_it_cannot_show(disk: Path) -> None:
    status, results = run(disk)
    assert status == 3
    assert not [r for r, s in results.items() if s in ("pass", "note", "warn", "fail")]
    for rule in (
        "gpu-none",
        "driver-nouveau",
        "limits-locked-memory",
        "shm-missing",
        "nccl-variable-misspelt",
        "cuda-home-missing",
    ):
        assert results[rule] == "unknown", rule


def test_what_is_found_on_a_disk_stands(disk: Path) -> None:
    (disk / "etc/nccl.conf").write_text("NCCL_P2P_DISABEL=1\n")
    assert run(disk, "--only", "nccl-variable-misspelt")[1] == {"nccl-variable-misspelt": "warn"}


def test_a_folder_that_is_no_root_is_refused(tmp_path: Path) -> None:
    for root in (tmp_path, Path("/proc"), Path("/sys")):
        argv = [sys.executable, "-m", "ds_doctor", "run", "--root", str(root)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, "")
        assert "no root of a Linux system" in done.stderr and done.stderr.count("\n") == 1


def test_links_that_go_round_or_out_of_the_root_harm_nothing(disk: Path) -> None:
    for name, target in {
        "etc/passwd": "group",
        "etc/group": "passwd",
        "opt": "/",
        "lib64": "../../../../..",
        "self": "self",
    }.items():
        os.symlink(target, disk / name)
    os.mkfifo(disk / "etc/ld.so.cache")
    (disk / "etc/ld.so.conf").mkdir()
    run(disk)


def test_a_kernel_folder_that_is_filled_is_believed(disk: Path) -> None:
    with pytest.raises(Unseen):
        RootedHost(str(disk)).read("/proc/modules")
    (disk / "proc/version").write_text("x")
    with pytest.raises(Absent):
        RootedHost(str(disk)).read("/proc/modules")


def test_a_disk_without_libraries_does_not_say_what_the_loader_finds(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    with pytest.raises(Unseen):
        loader(RootedHost(str(tmp_path)))
    (tmp_path / "lib").mkdir()
    assert loader(RootedHost(str(tmp_path))).picked == {}
