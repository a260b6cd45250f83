"""The driver's probes: recorded hosts give the recorded facts, real files under another root are read, junk is a trouble."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Absent, Trouble, Unseen
from ds_doctor.probes import device_nodes, kernel_module, pci
from ds_doctor.replay import ReplayedHost
from ds_doctor.rooted import RootedHost
from support import FIXTURES

PROBES = {
    "pci": "pci",
    "device_nodes": "device_nodes",
    "driver_gpus": "kernel_module",
    "kernel_module": "kernel_module",
    "modules": "kernel_module",
    "nvml": "nvml",
}
RECORDED = sorted(p.parent for name in PROBES for p in (FIXTURES / "probes" / name).glob("*/calls.json"))


@pytest.mark.parametrize("folder", RECORDED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_a_recorded_host_gives_its_fact_again(folder: Path) -> None:
    name = folder.parent.name
    probe = getattr(importlib.import_module(f"ds_doctor.probes.{PROBES[name]}"), name)
    fact = probe(ReplayedHost(json.loads((folder / "calls.json").read_text()), {}))
    assert fact == msgspec.json.decode((folder / "fact.json").read_bytes(), type=type(fact))


def _device(root: Path, bdf: str, **files: str) -> Path:
    folder = root / "sys/devices/pci0000:00/0000:00:01.0" / bdf
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
    (root / "sys/bus/pci/devices" / bdf).symlink_to(f"../../../devices/pci0000:00/0000:00:01.0/{bdf}")
    return folder


def test_the_pci_bus_is_read_from_sysfs(tmp_path: Path) -> None:
    gpu = _device(
        tmp_path, "0000:01:00.0", vendor="0x10de\n", **{"class": "0x030200\n"}, device="0x2335\n", numa_node="1"
    )
    (gpu / "config").write_bytes(b"\xff" * 64)
    (gpu / "driver").symlink_to("../../../../bus/pci/drivers/nouveau")
    _device(tmp_path, "0000:01:00.1", vendor="0x10de\n", **{"class": "0x040300\n"})  # its sound function
    _device(tmp_path, "0000:02:00.0", vendor="0x10de\n", **{"class": "0x068000\n"})
    _device(tmp_path, "0000:03:00.0", vendor="0x8086\n", **{"class": "0x030000\n"})
    _device(tmp_path, "0000:04:00.0", vendor="junk\n")
    fact = pci.pci(RootedHost(str(tmp_path)))
    assert fact.switches == ("0000:02:00.0",)
    (only,) = fact.gpus
    assert (only.bdf, only.device, only.driver, only.answers, only.numa_node) == (
        "0000:01:00.0", "0x2335", "nouveau", False, 1,
    )  # fmt: skip
    assert only.bridges == ("0000:00:01.0",)
    assert not only.virtual
    (gpu / "physfn").symlink_to("../0000:01:00.0")
    assert pci.pci(RootedHost(str(tmp_path))).gpus[0].virtual


def test_without_a_pci_bus_the_fact_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unseen):  # a disk or an image: nobody knows
        pci.pci(RootedHost(str(tmp_path)))
    (tmp_path / "sys/bus").mkdir(parents=True)
    with pytest.raises(Absent):
        pci.pci(RootedHost(str(tmp_path)))


def test_one_small_read_tells_a_host_without_any_nvidia_card(tmp_path: Path) -> None:
    (tmp_path / "proc/bus/pci").mkdir(parents=True)
    (tmp_path / "proc/bus/pci/devices").write_text("0000\t80860d57\t0\t0\n")
    assert pci.pci(RootedHost(str(tmp_path))) == pci.Pci(gpus=())


def test_fifos_and_junk_where_driver_files_should_be_do_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "information")
    (tmp_path / "proc/driver/nvidia/version").write_bytes(b"\xff\xfe\x00")
    assert kernel_module.driver_gpus(RootedHost(str(tmp_path))).gpus == (kernel_module.DriverGpu(bdf="0000:01:00.0"),)
    with pytest.raises(Trouble):
        kernel_module.kernel_module(RootedHost(str(tmp_path)))


def test_the_numbers_of_a_real_device_file_are_right() -> None:
    null = os.stat("/dev/null")
    assert device_nodes.numbers(null.st_rdev) == (os.major(null.st_rdev), os.minor(null.st_rdev)) == (1, 3)


@given(st.integers(0, 0xFFF), st.integers(0, 0xFFFFF))
def test_device_numbers_are_split_as_the_kernel_does(major: int, minor: int) -> None:
    assert device_nodes.numbers(os.makedev(major, minor)) == (major, minor)


def test_this_hosts_device_files_are_read() -> None:
    assert isinstance(device_nodes.device_nodes(Host()), device_nodes.DeviceNodes)


@given(st.text() | st.binary().map(lambda b: b.decode("utf-8", "replace")))
def test_any_text_is_a_fact_or_a_trouble(text: str) -> None:
    kernel_module.parse_params(text)
    kernel_module.parse_modules(text)
    kernel_module.parse_information(text, "0000:01:00.0")
    kernel_module.parse_information(f"Device Minor: {text}", "0000:01:00.0")
    device_nodes.parse_devices(text)
    device_nodes.parse_devices(f"{text} nvidia")
    pci.parse_node(text)
    pci.parse_bridges(text, "0000:01:00.0")
    for parse in (kernel_module.parse_version, pci.parse_hex):
        try:
            parse(text)
        except Trouble:
            pass


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)  ",
            ("580.159.04", "open"),
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.230.02  Fri Nov 29 12:34:56 UTC 2024",
            ("535.230.02", "proprietary"),
        ),
        ("NVRM version: NVIDIA UNIX aarch64 Kernel Module  570.86.15  Release", ("570.86.15", "proprietary")),
    ],
)
def test_the_kernel_modules_version_and_flavour_are_told(line: str, said: tuple[str, str]) -> None:
    assert kernel_module.parse_version(line + "\nGCC version:  gcc version 12.3.0\n") == said


def test_a_pci_bus_that_cannot_be_read_is_no_host_without_gpus(tmp_path: Path) -> None:
    (tmp_path / "proc/bus/pci").mkdir(parents=True)
    folder = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    folder.mkdir(parents=True)
    for junk in ("", "junk\n", "0000\t10de2335\t0\n", "0000\t80860d57\t0\nx\n"):
        (tmp_path / "proc/bus/pci/devices").write_text(junk)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        assert len(pci.pci(RootedHost(str(tmp_path))).gpus) == 1
        (folder / "vendor").write_bytes(b"\xff")
        with pytest.raises(Trouble):
            pci.pci(RootedHost(str(tmp_path)))
