"""The System fact: what tells a virtual machine from metal, and a container from a host."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from ds_doctor.host import Host
from ds_doctor.probes import system as probe
from ds_doctor.replay import ReplayedHost
from ds_doctor.rooted import RootedHost
from support import FIXTURES

OVERLAY = "1 2 0:3 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/var/lib/docker/overlay2/x/diff"
EXT4 = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard"


def container(
    *,
    files: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    init: str = "",
    cgroup: str = "0::/\n",
    mounts: str = EXT4,
    host_pids: bool = False,
) -> str | None:
    root = probe.parse_root_mount(mounts)
    return probe.container_of({f: True for f in files}, env or {}, init, cgroup, root, host_pids)


def test_a_bare_host_is_no_container() -> None:
    assert container(host_pids=True) is None


def test_a_microvm_made_from_an_image_is_no_container() -> None:
    assert container(files=("/.dockerenv",), host_pids=True) is None


def test_each_kind_of_container_is_told_by_its_own_sign() -> None:
    assert container(files=("/.dockerenv",), mounts=OVERLAY) == "docker"
    assert container(files=("/.dockerenv",), mounts=OVERLAY, host_pids=True) == "docker"  # docker run --pid=host
    assert container(files=("/run/.containerenv",), mounts=OVERLAY) == "podman"
    assert container(files=("/.dockerenv",), env={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "kubernetes"
    assert container(cgroup="0::/kubepods.slice/kubepods-besteffort.slice/cri-containerd-1.scope") == "kubernetes"
    assert container(init="PATH=/bin\0container=lxc\0") == "lxc"
    assert container(mounts=EXT4.replace("ext4 /dev/vda rw", "overlay overlay rw,upperdir=/x")) == "unknown"


def test_a_live_system_on_an_overlay_is_no_container() -> None:
    assert container(mounts="1 2 0:3 / / rw - overlay overlay rw,upperdir=/cow/upper", host_pids=True) is None


def test_hypervisors_are_told_by_cpu_flag_and_firmware() -> None:
    def kind(
        virtual: bool, vendor: str = "", product: str = "", xen: str = "", cmd: str = "", kernel: str = "6.8"
    ) -> str | None:
        return probe.hypervisor_of(kernel, virtual, vendor, product, xen, cmd)

    assert kind(False, "Supermicro\n") is None
    assert kind(False, "Amazon EC2\n", "p5.metal") is None
    assert kind(False, "Microsoft Corporation\n", "Surface") is None
    assert kind(True, "Amazon EC2\n") == "kvm"
    assert probe.hypervisor_of("6.8", False, "Amazon EC2", "p6e-gb200.36xlarge", "", "", arm=True) == "kvm"
    assert probe.hypervisor_of("6.8", False, "Amazon EC2", "c7g.metal", "", "", arm=True) is None
    assert kind(True, "QEMU\n") == "kvm"
    assert kind(True, "Microsoft Corporation", "Virtual Machine") == "hyper-v"
    assert kind(True, "Xen", xen="xen\n") == "xen"
    assert kind(True, cmd="console=ttyS0 reboot=k panic=1 pci=off") == "firecracker"
    assert kind(True, cmd="ro quiet") == "unknown"
    assert kind(True, kernel="5.15.167.4-microsoft-standard-WSL2") == "wsl"


def test_the_c_library_is_told_by_the_loader_itself_or_by_its_name() -> None:
    assert probe.parse_glibc(b"\0ld.so (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39.\0") == "2.39"
    assert probe.parse_glibc(b"", "/lib/x86_64-linux-gnu/ld-2.31.so") == "2.31"
    assert probe.parse_glibc(b"musl", "/lib/ld-musl-x86_64.so.1") is None


def test_the_machine_of_another_root_is_told_by_its_shell(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "bin/sh").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\x00\xb7\x00" + b"\0" * 44)
    (tmp_path / "etc/os-release").write_text('NAME="Rocky Linux"\nVERSION_ID="9.4"\n')
    (tmp_path / "etc/hostname").write_text("node-7\n")
    fact = probe.system(RootedHost(str(tmp_path)))
    assert (fact.machine, fact.os_name, fact.hostname) == ("aarch64", "Rocky Linux 9.4", "node-7")
    assert (fact.kernel, fact.glibc, fact.container, fact.cpus) == ("", None, None, 0)


def test_a_pipe_where_a_file_should_be_costs_only_its_own_value(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/os-release")
    (tmp_path / "etc/hostname").write_bytes(b"\xff\xfe\n")
    fact = probe.system(RootedHost(str(tmp_path)))
    assert fact.os_name == ""
    assert fact.hostname == "\N{REPLACEMENT CHARACTER}" * 2


def test_this_machine_answers() -> None:
    fact = probe.system(Host())
    assert fact.kernel and fact.machine and fact.cpus and fact.memory_total_mib


def test_cpu_lists_are_counted() -> None:
    assert [probe.parse_cpu_list(t) for t in ("0-3,8\n", "0", "", "x", "5-2")] == [5, 1, 0, 0, 1]


@given(some.text(), some.binary(), some.text())
def test_no_text_breaks_a_parser(text: str, data: bytes, more: str) -> None:
    probe.parse_os_name(text)
    probe.parse_memory(text)
    probe.parse_cpu_list(text)
    probe.parse_glibc(data, text)
    probe.parse_machine(data)
    probe.parse_machine(b"\x7fELF" + data)
    probe.hypervisor_of(text, True, more, text, more, text)
    container(init=text, cgroup=more, mounts=text + " - " + more)


@pytest.mark.parametrize("folder", sorted((FIXTURES / "probes" / "system").iterdir()), ids=lambda p: p.name)
def test_a_recorded_machine_gives_the_fact_that_was_recorded(folder: Path) -> None:
    calls = json.loads((folder / "calls.json").read_text())
    fact = msgspec.json.decode((folder / "fact.json").read_bytes(), type=probe.System)
    assert probe.system(ReplayedHost(calls, {})) == fact
