"""NVSwitches, the fabric manager and IMEX as this process can see them; never judges.

In a container only its own processes are seen, in a tenant's VM only those of the VM: what is missing here may run outside.
"""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, probe

PCI = "/sys/bus/pci/devices"
PCI_MAX = 4096
PIDS_MAX = 8192  # processes looked at; a host with more is not scanned to its end
DPKG_MAX = 32 << 20  # bytes of /var/lib/dpkg/status

PID_FILE = "/run/nvidia-fabricmanager/nv-fabricmanager.pid"
MANAGER = "nv-fabricmanage"  # the kernel cuts a name to 15 letters
IMEX = "nvidia-imex"

NVIDIA = "0x10de"
BRIDGE_OTHER = "0x0680"  # PCI class of an NVSwitch (DGX-2, HGX A100, HGX H100/H200)


class NvFabric(msgspec.Struct, frozen=True, kw_only=True):
    """NVSwitches and the fabric manager.

    `switches`: PCI addresses of NVSwitches; `switch_nodes`: /dev/nvidia-nvswitch<n>. `manager` and `imex`: whether such
    a process runs, None when the processes could not all be seen, or when nothing here would need it. `manager_version`: of the installed package, None when
    no package says. `imex_channels`: /dev/nvidia-caps-imex-channels/*. `imex_nodes`: lines of nodes_config.cfg.
    """

    switches: tuple[str, ...] = ()
    switch_nodes: tuple[str, ...] = ()
    manager: bool | None = None
    manager_version: str | None = None
    imex: bool | None = None
    imex_channels: tuple[str, ...] = ()
    imex_nodes: int | None = None


def parse_dpkg(status: bytes) -> str | None:
    """The version of the installed nvidia-fabricmanager package (without epoch and revision) in /var/lib/dpkg/status."""
    start = 0
    while True:
        start = status.find(b"\nPackage: nvidia-fabricmanager", start)
        if start < 0:
            return None
        end = status.find(b"\n\n", start + 1)
        entry = status[start : end if end > 0 else len(status)].decode("utf-8", "replace")
        start += 1
        if re.match(r"\nPackage: nvidia-fabricmanager(-dev|-devel)\b", entry):
            continue
        version = re.search(r"^Version: (?:\d+:)?(\d{3}\.\d+(?:\.\d+)?)", entry, re.MULTILINE | re.ASCII)
        if version and re.search(r"^Status: \S+ ok installed$", entry, re.MULTILINE):
            return version[1]


def _switches(host: Host) -> tuple[str, ...]:
    found = []
    try:
        addresses = host.names(PCI)[:PCI_MAX]
    except Trouble:
        return ()
    for address in addresses:
        try:
            if host.text(f"{PCI}/{address}/vendor", 64).strip() != NVIDIA:
                continue
            if host.text(f"{PCI}/{address}/class", 64).strip().startswith(BRIDGE_OTHER):
                found.append(address)
        except Trouble:
            continue
    return tuple(found)


def _comm(host: Host, pid: str) -> str:
    return host.text(f"/proc/{pid}/comm", 256).strip()


def _by_pid_file(host: Host) -> bool:
    """Whether the process that the service's pid file names is the fabric manager: spares the look at every process."""
    try:
        pid = host.text(PID_FILE, 64).strip()
        return pid.isdigit() and _comm(host, pid).startswith(MANAGER)
    except Trouble:
        return False


def _running(host: Host) -> tuple[bool | None, bool | None]:
    """(fabric manager, IMEX)."""
    manager = imex = False
    try:
        pids = [n for n in host.names("/proc") if n.isdigit()]
    except Trouble:
        return None, None
    whole = len(pids) <= PIDS_MAX
    for pid in pids[:PIDS_MAX]:
        if host.time_left_s() < 1.0:
            whole = False
            break
        try:
            name = _comm(host, pid)
        except Absent:
            continue
        except Trouble:
            whole = False
            continue
        manager = manager or name.startswith(MANAGER)
        imex = imex or name.startswith(IMEX)
    return manager or (False if whole else None), imex or (False if whole else None)


def _names(host: Host, folder: str, pattern: str) -> tuple[str, ...]:
    try:
        return tuple(f"{folder}/{n}" for n in host.names(folder) if re.fullmatch(pattern, n))[:256]
    except Trouble:
        return ()


@probe
def nv_fabric(host: Host) -> NvFabric:
    if not host.exists("/proc/driver/nvidia/version"):
        raise Absent("no-kernel-module")
    switches = _switches(host)
    nodes = _names(host, "/dev", r"nvidia-nvswitch\d+")
    channels = _names(host, "/dev/nvidia-caps-imex-channels", r"channel\d+")
    manager: bool | None = None
    imex: bool | None = None
    if switches or nodes or channels:  # looking at every process costs: only where it can matter
        if not channels and _by_pid_file(host):
            manager = True
        else:
            manager, imex = _running(host)
    version = None
    if switches or nodes or manager:  # the file is large: read only where the answer matters
        try:
            version = parse_dpkg(b"\n" + host.read("/var/lib/dpkg/status", DPKG_MAX))
        except Trouble:
            pass
    try:
        text = host.text("/etc/nvidia-imex/nodes_config.cfg", 1 << 20)
        imex_nodes: int | None = sum(1 for line in text.splitlines() if line.strip() and not line.startswith("#"))
    except Trouble:
        imex_nodes = None
    return NvFabric(
        switches=switches,
        switch_nodes=nodes,
        manager=manager,
        manager_version=version,
        imex=imex,
        imex_channels=channels,
        imex_nodes=imex_nodes,
    )
