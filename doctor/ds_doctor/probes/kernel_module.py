"""The kernel's side of the driver: /proc/driver/nvidia, /proc/modules, /sys/module; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Malformed, Trouble, probe


class KernelModule(msgspec.Struct, frozen=True, kw_only=True):
    """The loaded NVIDIA kernel module. `flavour` is open or proprietary; `params` is /proc/driver/nvidia/params."""

    version: str
    flavour: str
    params: dict[str, str] = {}


class Modules(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the loaded kernel modules that matter for GPUs (nvidia*, nouveau, vfio*, gdrdrv, nv_peer_mem, mlx5*)."""

    loaded: tuple[str, ...]


class DriverGpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as the kernel module knows it (/proc/driver/nvidia/gpus/<bdf>/information)."""

    bdf: str
    model: str | None = None
    uuid: str | None = None
    firmware: str | None = None
    minor: int | None = None
    excluded: bool = False


class DriverGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that the kernel module has taken. In a container: those handed to it, where the runtime masks the rest."""

    gpus: tuple[DriverGpu, ...]


_VERSION = re.compile(r"NVRM version:.*?\s(\d{3}\.\d+(?:\.\d+)?)\s")
_MATTERS = re.compile(r"(nvidia\w*|nouveau|nova\w*|vfio\w*|gdrdrv|nv_peer_mem|mlx5_\w+|ib_uverbs)\Z")


def parse_version(text: str) -> tuple[str, str]:
    """(version, flavour) out of /proc/driver/nvidia/version. Malformed when there is no version in it."""
    m = _VERSION.search(text)
    if m is None:
        raise Malformed("no-driver-version", path="/proc/driver/nvidia/version")
    return m[1], "open" if "Open Kernel Module" in text else "proprietary"


def parse_params(text: str) -> dict[str, str]:
    """`Name: value` lines."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip().strip('"') for name, colon, value in pairs if colon}


def parse_modules(text: str) -> tuple[str, ...]:
    """The names that matter out of /proc/modules."""
    names = (line.split(" ", 1)[0] for line in text.splitlines())
    return tuple(sorted(n for n in names if _MATTERS.match(n)))


def parse_information(text: str, bdf: str) -> DriverGpu:
    """`Name: value` lines of one GPU; what is missing is None."""
    said = parse_params(text)
    minor = said.get("Device Minor", "")
    return DriverGpu(
        bdf=bdf,
        model=said.get("Model") or None,
        uuid=said.get("GPU UUID") or None,
        firmware=said.get("GPU Firmware") or None,
        minor=int(minor) if re.fullmatch(r"[0-9]{1,6}", minor) else None,
        excluded=said.get("GPU Excluded") == "Yes",
    )


@probe
def driver_gpus(host: Host) -> DriverGpus:
    folder = "/proc/driver/nvidia/gpus"
    try:
        names = host.names(folder)
    except Absent:
        raise Absent("no-kernel-module") from None
    gpus = []
    for name in names:
        try:
            gpus.append(parse_information(host.text(f"{folder}/{name}/information"), name.lower()))
        except Trouble:
            gpus.append(DriverGpu(bdf=name.lower()))
    return DriverGpus(gpus=tuple(gpus))


@probe
def kernel_module(host: Host) -> KernelModule:
    try:
        text = host.text("/proc/driver/nvidia/version")
    except Absent:
        raise Absent("no-kernel-module") from None
    version, flavour = parse_version(text)
    try:
        params = parse_params(host.text("/proc/driver/nvidia/params"))
    except Trouble:
        params = {}
    return KernelModule(version=version, flavour=flavour, params=params)


@probe
def modules(host: Host) -> Modules:
    loaded = set(parse_modules(host.text("/proc/modules")))
    # A module that is built into the kernel stands in no list; /sys/module knows it.
    for name in ("nvidia", "nvidia_uvm", "nouveau"):
        if host.exists(f"/sys/module/{name}"):
            loaded.add(name)
    return Modules(loaded=tuple(sorted(loaded)))
