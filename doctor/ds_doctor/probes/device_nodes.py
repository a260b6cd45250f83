"""The device files through which CUDA reaches the driver: /dev/nvidia*, and the numbers /proc/devices gives; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Host, Trouble, Unseen, probe

MODPROBE = "/usr/bin/nvidia-modprobe"
_NODE = re.compile(r"nvidia(\d{1,4}|ctl|-uvm|-uvm-tools|-modeset)\Z")
_OTHERS = ("dxg", "nvmap")  # WSL's, and the integrated GPUs' of Jetson boards


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One device file: what it is, its numbers, and whether this process may read and write it (None: not known)."""

    kind: str
    major: int
    minor: int
    mode: int
    usable: bool | None = None


class DeviceNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The NVIDIA device files and the numbers that the kernel gives them.

    `nodes` by name without /dev/; `majors` are the kernel's numbers (195 nvidia, nvidia-uvm changes from boot to
    boot). `on_demand`: a setuid nvidia-modprobe is there, with which CUDA makes missing nodes itself.
    """

    nodes: dict[str, Node]
    majors: dict[str, int] = {}
    on_demand: bool = False


def parse_devices(text: str) -> dict[str, int]:
    """The NVIDIA drivers among the character devices of /proc/devices, with their major numbers."""
    found: dict[str, int] = {}
    for line in text.partition("Block devices:")[0].splitlines():
        m = re.fullmatch(r"\s*(\d{1,6}) (nvidia[\w-]*)\s*", line, re.ASCII)
        if m is not None:
            found.setdefault(m[2], int(m[1]))
    return found


def numbers(rdev: int) -> tuple[int, int]:
    """(major, minor) of a Linux device number."""
    return (rdev >> 8) & 0xFFF | (rdev >> 32) & ~0xFFF, rdev & 0xFF | (rdev >> 12) & ~0xFF


def _node(host: Host, name: str) -> Node | None:
    path = f"/dev/{name}"
    try:
        s = host.stat(path)
    except Trouble:
        return None
    try:
        usable = host.may(path, "rw")
    except Trouble:
        usable = None
    major, minor = numbers(s.rdev)
    return Node(kind=s.kind, major=major, minor=minor, mode=s.mode, usable=usable)


@probe
def device_nodes(host: Host) -> DeviceNodes:
    if not host.live:
        raise Unseen("not-under-root")
    names = [n for n in host.names("/dev") if _NODE.match(n) or n in _OTHERS]
    nodes = {name: node for name in names if (node := _node(host, name)) is not None}
    try:
        majors = parse_devices(host.text("/proc/devices"))
    except Trouble:
        majors = {}
    try:
        tool = host.stat(MODPROBE)
        on_demand = tool.kind == "file" and bool(tool.mode & 0o4000) and tool.uid == 0
    except Trouble:
        on_demand = False
    return DeviceNodes(nodes=nodes, majors=majors, on_demand=on_demand)
