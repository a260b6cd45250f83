"""Which libcuda a process would get, with real library files and the real loader's order, and what is said of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ds_doctor.host import Host
from ds_doctor.model import Finding, Verdict
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.loader import Loader, loader
from ds_doctor.probes.nvml import Gpu, Nvml
from ds_doctor_checks.driver_versions import the_loader_picks_the_drivers_libcuda as judge

CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="needs a C compiler")
DRIVER = "580.159.04"


def _library(folder: Path, version: str | None) -> str:
    folder.mkdir(parents=True)
    name = f"libcuda.so.{version}" if version else "libcuda.so"
    command = [str(CC), "-shared", "-o", str(folder / name), "-Wl,-soname,libcuda.so.1", "-x", "c", "/dev/null"]
    subprocess.run(command, check=True)
    (folder / "libcuda.so.1").symlink_to(name)
    return str(folder)


def _loader(*folders: str) -> Loader:
    return loader(Host(env={**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}))


def _rules(facts: Loader, name: str = "NVIDIA H200") -> list[str]:
    nvml = Nvml(driver=DRIVER, gpus=(Gpu(index=0, name=name),))
    said: list[Finding | Verdict] = list(
        judge(facts, KernelModule(version=DRIVER, flavour="open"), nvml, None, None, None)
    )
    return [w.rule for w in said if isinstance(w, Finding)]


def test_the_drivers_own_libcuda_finds_nothing(tmp_path: Path) -> None:
    assert _rules(_loader(_library(tmp_path / "lib", DRIVER))) == []


def test_an_older_compat_copy_in_front_is_found(tmp_path: Path) -> None:
    own = _library(tmp_path / "lib", DRIVER)
    compat = _library(tmp_path / "cuda-13.0/compat", "580.95.05")
    assert _rules(_loader(compat, own)) == ["libcuda-compat-older"]
    assert _rules(_loader(own, compat)) == []  # behind the driver's own it is never loaded


def test_a_newer_compat_copy_is_for_data_centre_cards(tmp_path: Path) -> None:
    compat = _library(tmp_path / "cuda-13.2/compat", "595.45.04")
    assert _rules(_loader(compat)) == []
    assert _rules(_loader(compat), "NVIDIA GeForce RTX 4090") == ["libcuda-compat-newer"]


def test_a_stub_is_found_through_its_link(tmp_path: Path) -> None:
    stubs = _library(tmp_path / "cuda/lib64/stubs", None)
    link = tmp_path / "links"
    link.mkdir()
    (link / "libcuda.so.1").symlink_to(f"{stubs}/libcuda.so")
    assert _rules(_loader(str(link))) == ["libcuda-stub"]


def test_a_libcuda_of_another_driver_is_found(tmp_path: Path) -> None:
    assert _rules(_loader(_library(tmp_path / "image", "570.86.15"))) == ["libcuda-mismatch"]
