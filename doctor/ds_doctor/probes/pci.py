"""The NVIDIA devices on the PCI buses, from /sys/bus/pci, also where no driver is loaded; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Malformed, Trouble, probe

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = "0x03"  # PCI base class of display controllers: VGA 0x0300, 3D 0x0302
BRIDGE = "0x0680"  # what NVSwitches say they are
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_LISTED = re.compile(r"[0-9a-f]{4}\t[0-9a-f]{8}\t")  # bus and function, vendor and device


class PciGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU function. `driver` is the kernel driver bound to it (nvidia, nouveau, vfio-pci), None where there is none;
    `answers` is False where reading its configuration gives only ones: it has fallen off the bus. `bridges` are the
    functions above it, from the root down. `virtual`: an SR-IOV function, cut from a card for a virtual machine."""

    bdf: str
    device: str
    driver: str | None = None
    answers: bool | None = None
    numa_node: int | None = None
    bridges: tuple[str, ...] = ()
    virtual: bool = False


class Pci(msgspec.Struct, frozen=True, kw_only=True):
    """All NVIDIA GPUs and NVSwitches that the kernel enumerated, whoever may use them. In a container: the host's."""

    gpus: tuple[PciGpu, ...]
    switches: tuple[str, ...] = ()


def parse_hex(text: str) -> str:
    """`0x10de`. Malformed for anything else."""
    value = text.strip().lower()
    if not re.fullmatch(r"0x[0-9a-f]{1,8}", value):
        raise Malformed("no-pci-id", text=value[:20])
    return value


def parse_node(text: str) -> int | None:
    """A NUMA node; None for -1, where the firmware does not say."""
    value = text.strip()
    return int(value) if re.fullmatch(r"\d{1,4}", value) else None


def parse_bridges(target: str, bdf: str) -> tuple[str, ...]:
    """The functions above a device, out of where its link in /sys/bus/pci/devices points."""
    return tuple(part for part in target.split("/") if _BDF.fullmatch(part) and part != bdf)


def numa_node(host: Host, bdf: str) -> int | None:
    """The NUMA node of a PCI function; None where nothing says."""
    try:
        return parse_node(host.text(f"{DEVICES}/{bdf}/numa_node"))
    except Trouble:
        return None


def nvidia_functions(host: Host) -> list[tuple[str, str]]:
    """(bdf, class) of every function of the vendor. Absent where there is no PCI bus to look at.

    Where none is found, a function whose vendor cannot be read may be one: trouble, and not a host without GPUs.
    """
    try:
        # One small read tells hosts without any such card apart from the others, which need one read a function.
        lines = host.text("/proc/bus/pci/devices").splitlines()
        if lines and all(_LISTED.match(line) and line[5:9] != "10de" for line in lines):
            return []
    except Trouble:
        pass
    try:
        names = host.names(DEVICES)
    except Absent:
        raise Absent("no-pci") from None
    found = []
    unread: Trouble | None = None
    for name in names:
        try:
            if _BDF.fullmatch(name) and parse_hex(host.text(f"{DEVICES}/{name}/vendor")) == NVIDIA:
                found.append((name, parse_hex(host.text(f"{DEVICES}/{name}/class"))))
        except Absent:
            continue  # gone between listing and reading
        except Trouble as t:
            unread = unread or t
    if unread is not None and not found:
        raise unread
    return found


def _gpu(host: Host, bdf: str) -> PciGpu:
    folder = f"{DEVICES}/{bdf}"
    try:
        driver = host.link(folder + "/driver").rpartition("/")[2]
    except Trouble:
        driver = None
    try:
        head = host.read_at(folder + "/config", 0, 4)
        answers = head != b"\xff\xff\xff\xff" if len(head) == 4 else None
    except Trouble:
        answers = None
    try:
        bridges = parse_bridges(host.link(folder), bdf)
    except Trouble:
        bridges = ()
    try:
        device = parse_hex(host.text(folder + "/device"))
    except Trouble:
        device = ""
    try:
        virtual = host.exists(folder + "/physfn")
    except Trouble:
        virtual = False
    return PciGpu(
        bdf=bdf,
        device=device,
        driver=driver,
        answers=answers,
        numa_node=numa_node(host, bdf),
        bridges=bridges,
        virtual=virtual,
    )


@probe
def pci(host: Host) -> Pci:
    functions = nvidia_functions(host)
    return Pci(
        gpus=tuple(_gpu(host, bdf) for bdf, kind in functions if kind.startswith(DISPLAY)),
        switches=tuple(bdf for bdf, kind in functions if kind.startswith(BRIDGE)),
    )
