"""What stands between the GPUs on PCIe: their IOMMU groups, the bridges above them and those bridges' ACS bits; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, probe

PCI = "/sys/bus/pci/devices"
PCI_MAX = 4096
CONFIG_MAX = 4096  # bytes of PCI Express configuration space
ACS_ID = 0x000D  # PCI Express extended capability: Access Control Services
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


class GpuPath(msgspec.Struct, frozen=True, kw_only=True):
    """One NVIDIA GPU: its IOMMU group's type (identity, DMA, DMA-FQ; None: in no group, or not readable), the bridges above
    it from the root down, and its NUMA node (None where the firmware names none)."""

    bdf: str
    group: str | None = None
    group_type: str | None = None
    bridges: tuple[str, ...] = ()
    numa_node: int | None = None


class Iommu(msgspec.Struct, frozen=True, kw_only=True):
    """IOMMU groups of the GPUs and ACS of the PCIe bridges above them.

    `acs`: bridge -> ACS control word, 0 also where the bridge has no ACS; a bridge whose configuration space this user
    may not read whole is in `acs_denied`. `parameters`: the kernel's command line as far as it speaks of IOMMU and ACS.
    """

    gpus: tuple[GpuPath, ...]
    acs: dict[str, int] = {}
    acs_denied: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


def parse_acs(config: bytes) -> int | None:
    """The ACS control word of a device's configuration space; 0 without ACS; None when only the first part was readable.

    PCI Express Base Specification 7.7.11: the capability's header is at 0, its control register at 6.
    """
    if len(config) < CONFIG_MAX:
        return None
    at, steps = 0x100, 0
    while at >= 0x100 and at + 8 <= len(config) and steps < 96:  # a list that runs in a circle ends here
        header = int.from_bytes(config[at : at + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return 0
        if header & 0xFFFF == ACS_ID:
            return int.from_bytes(config[at + 6 : at + 8], "little")
        at, steps = header >> 20 & 0xFFC, steps + 1
    return 0


def parse_cmdline(text: str) -> tuple[str, ...]:
    """The words of the kernel's command line that speak of IOMMU and ACS."""
    return tuple(
        w for w in text.split() if re.match(r"(intel_iommu|amd_iommu|iommu[.a-z_]*|pcie_acs_override|pci)=", w)
    )[:16]


def bridges_of(real: str) -> tuple[str, ...]:
    """The PCI addresses above a device in its sysfs path, from the root down."""
    return tuple(part for part in real.split("/")[:-1] if ADDRESS.match(part))


def _gpu(host: Host, address: str) -> GpuPath | None:
    folder = f"{PCI}/{address}"
    try:
        if host.text(f"{folder}/vendor", 64).strip() != "0x10de":
            return None
        if not host.text(f"{folder}/class", 64).strip().startswith(("0x0300", "0x0302")):
            return None
    except Trouble:
        return None
    group = group_type = None
    try:
        group = host.link(f"{folder}/iommu_group").rpartition("/")[2]
        group_type = host.text(f"/sys/kernel/iommu_groups/{group}/type", 64).strip()
    except Trouble:
        pass
    try:
        bridges = bridges_of(host.real(folder))
    except Trouble:
        bridges = ()
    try:
        node: int | None = int(host.text(f"{folder}/numa_node", 64))
    except (Trouble, ValueError):
        node = None
    return GpuPath(
        bdf=address,
        group=group,
        group_type=group_type,
        bridges=bridges,
        numa_node=None if node is None or node < 0 else node,
    )


def _acs(host: Host, path: str) -> int | None:
    try:
        if host.stat(path).size == 256:  # conventional PCI: no extended capabilities, so no ACS
            return 0
        return parse_acs(host.read_at(path, 0, CONFIG_MAX))
    except Trouble:
        return None


@probe
def iommu(host: Host) -> Iommu:
    gpus = [g for g in (_gpu(host, a) for a in host.names(PCI)[:PCI_MAX]) if g is not None]
    if not gpus:
        raise Absent("no-gpu-on-pci")
    acs: dict[str, int] = {}
    denied: list[str] = []
    for bridge in sorted({b for g in gpus for b in g.bridges}):
        word = _acs(host, f"{PCI}/{bridge}/config")
        if word is None:
            denied.append(bridge)
        else:
            acs[bridge] = word
    try:
        parameters = parse_cmdline(host.text("/proc/cmdline", 1 << 16))
    except Trouble:
        parameters = ()
    return Iommu(gpus=tuple(gpus), acs=acs, acs_denied=tuple(denied), parameters=parameters)
