"""Switches, fabric manager, IMEX, IOMMU groups and ACS bits are found in the files that the kernel keeps of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.model import Absent
from ds_doctor.probes.fabric import nv_fabric, parse_dpkg
from ds_doctor.probes.iommu import bridges_of, iommu, parse_acs, parse_cmdline
from probe_host import Tree, only_trouble

DPKG = b"""
Package: nvidia-fabricmanager-dev-580
Status: install ok installed
Version: 1.0

Package: nvidia-fabricmanager-570
Status: deinstall ok config-files
Version: 570.86.15-1

Package: nvidia-fabricmanager-580
Status: install ok installed
Architecture: amd64
Version: 580.159.04-0ubuntu1

Package: zlib1g
Status: install ok installed
Version: 1:1.3
"""


def test_the_installed_package_tells_the_version() -> None:
    assert parse_dpkg(DPKG) == "580.159.04"
    assert parse_dpkg(b"\nPackage: nvidia-fabricmanager\nStatus: hold ok installed\nVersion: 1:570.1-1\n") == "570.1"
    assert parse_dpkg(b"") is None


def hgx(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.put("/proc/driver/nvidia/version", "NVRM version: x")
    tree.put("/proc/1/comm", "systemd\n")
    tree.put("/sys/bus/pci/devices/0000:80:00.0/vendor", "0x10de\n")
    tree.put("/sys/bus/pci/devices/0000:80:00.0/class", "0x068000\n")
    tree.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n")
    tree.put("/sys/bus/pci/devices/0000:1b:00.0/class", "0x030200\n")
    tree.put("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    tree.put("/dev/nvidia-nvswitch0")
    tree.put("/dev/nvidia-nvswitchctl")
    return tree


def test_switches_and_a_running_manager_are_seen(tmp_path: Path) -> None:
    tree = hgx(tmp_path)
    tree.put("/proc/2811/comm", "nv-fabricmanage\n")  # the kernel cuts the name
    tree.put("/var/lib/dpkg/status", DPKG)
    got = nv_fabric(tree)
    assert got.switches == ("0000:80:00.0",) and got.switch_nodes == ("/dev/nvidia-nvswitch0",)
    assert (got.manager, got.manager_version, got.imex) == (True, "580.159.04", False)


def test_the_pid_file_spares_the_look_at_every_process(tmp_path: Path) -> None:
    tree = hgx(tmp_path)
    tree.put("/run/nvidia-fabricmanager/nv-fabricmanager.pid", "2811\n")
    tree.put("/proc/2811/comm", "nv-fabricmanage\n")
    got = nv_fabric(tree)
    assert (got.manager, got.imex) == (True, None)
    tree.put("/proc/2811/comm", "bash\n")  # a number that was given to another process since
    assert nv_fabric(tree).manager is False


def test_without_switches_no_process_is_looked_at(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/driver/nvidia/version", "NVRM version: x")
    tree.put("/proc/7/comm", "nv-fabricmanage\n")
    assert nv_fabric(tree).manager is None


def test_a_manager_that_does_not_run_is_told_from_one_that_is_hidden(tmp_path: Path) -> None:
    assert nv_fabric(hgx(tmp_path)).manager is False
    if os.geteuid() == 0:
        pytest.skip("root sees every process")
    tree = hgx(tmp_path)
    tree.put("/proc/99/comm", "x")
    os.chmod(tmp_path / "proc/99", 0)
    assert nv_fabric(tree).manager is None


def test_without_the_kernel_module_there_is_no_fabric(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        nv_fabric(Tree(tmp_path))


def test_imex_is_seen(tmp_path: Path) -> None:
    tree = hgx(tmp_path)
    tree.put("/proc/7/comm", "nvidia-imex\n")
    tree.put("/dev/nvidia-caps-imex-channels/channel0")
    tree.put("/etc/nvidia-imex/nodes_config.cfg", "# nodes\n10.0.0.1\n10.0.0.2\n")
    got = nv_fabric(tree)
    assert (got.imex, got.imex_channels, got.imex_nodes) == (True, ("/dev/nvidia-caps-imex-channels/channel0",), 2)


def config(*capabilities: tuple[int, bytes]) -> bytes:
    """A configuration space of 4096 bytes with these extended capabilities, in a chain from 0x100."""
    space = bytearray(4096)
    at = 0x100
    for i, (number, body) in enumerate(capabilities):
        after = at + 0x40 if i + 1 < len(capabilities) else 0
        space[at : at + 4] = (number | 1 << 16 | after << 20).to_bytes(4, "little")
        space[at + 4 : at + 4 + len(body)] = body
        at = after
    return bytes(space)


def test_the_acs_word_is_found_in_the_chain() -> None:
    assert parse_acs(config((1, b""), (0x0D, b"\x1f\x00\x1d\x00"))) == 0x1D
    assert parse_acs(config((1, b""), (3, b""))) == 0
    assert parse_acs(bytes(4096)) == 0
    assert parse_acs(bytes(64)) is None  # what others than root may read
    circle = bytearray(4096)
    circle[0x100:0x104] = (1 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert parse_acs(bytes(circle)) == 0


def test_the_path_of_a_gpu_names_its_bridges() -> None:
    real = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
    assert bridges_of(real) == ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0")
    assert bridges_of("/sys/bus/pci/devices/0000:00:06.0") == ()


def test_groups_bridges_and_acs_are_read(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    device = "/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("numa_node", "-1")):
        tree.put(f"{device}/{name}", text + "\n")
    tree.put("/sys/devices/pci0000:15/0000:15:01.0/config", config((0x0D, b"\x1f\x00\x1d\x00")))
    tree.put("/sys/kernel/iommu_groups/12/type", "DMA-FQ\n")
    tree.put("/proc/cmdline", "root=/dev/sda1 intel_iommu=on iommu=pt quiet\n")
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    os.symlink("../../../devices/pci0000:15/0000:15:01.0/0000:18:00.0", bus / "0000:18:00.0")
    os.symlink("../../../devices/pci0000:15/0000:15:01.0", bus / "0000:15:01.0")
    os.symlink("../../../../kernel/iommu_groups/12", tmp_path / device[1:] / "iommu_group")
    got = iommu(tree)
    assert got.gpus[0].group_type == "DMA-FQ" and got.gpus[0].bridges == ("0000:15:01.0",)
    assert got.gpus[0].numa_node is None
    assert got.acs == {"0000:15:01.0": 0x1D} and got.acs_denied == ()
    assert got.parameters == ("intel_iommu=on", "iommu=pt")


def test_a_bus_without_gpus_gives_no_fact(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    with pytest.raises(Absent):
        iommu(tree)


@given(st.binary(max_size=300), st.binary(max_size=4096))
def test_no_bytes_break_the_parsers(head: bytes, body: bytes) -> None:
    only_trouble(parse_dpkg, b"\nPackage: nvidia-fabricmanager" + head)
    only_trouble(parse_acs, (body + bytes(4096))[:4096])
    only_trouble(parse_cmdline, head.decode("utf-8", "replace"))
