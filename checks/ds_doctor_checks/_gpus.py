"""The GPUs that checks speak of: those that answer, those that CUDA would see, what their names tell; it judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.nvml import Gpu, Nvml

from ._data import table


def gpus_of(nvml: Nvml | None) -> tuple[Gpu, ...]:
    """The GPUs that answer. NotApplicable where there is none, Undecided where NVML does not say."""
    if nvml is None:
        raise NotApplicable("no-gpu")
    if nvml.error is not None:
        raise Undecided("nvml-silent", code=nvml.error, detail=nvml.detail)
    if not nvml.gpus:
        raise NotApplicable("no-gpu")
    answering = tuple(g for g in nvml.gpus if g.lost is None)
    if not answering:
        raise Undecided("gpus-lost")
    return answering


def label(gpu: Gpu) -> str:
    """How a finding names a GPU: `GPU 0 (0000:1b:00.0)`."""
    return f"GPU {gpu.index} ({gpu.bdf})" if gpu.bdf else f"GPU {gpu.index}"


class Visible(msgspec.Struct, frozen=True, kw_only=True):
    """What CUDA_VISIBLE_DEVICES leaves of the GPUs, in CUDA's order.

    `mig` are the MIG devices that it names. `cut` is the entry at which CUDA stopped reading; `why` is absent, repeated,
    ambiguous, negative, malformed, or empty when the whole variable is. `sure` is False where indices may mean other GPUs:
    CUDA numbers unlike cards by speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID.
    """

    gpus: tuple[Gpu, ...]
    mig: tuple[str, ...] = ()
    value: str | None = None
    cut: str | None = None
    why: str | None = None
    sure: bool = True

    @property
    def count(self) -> int:
        return len(self.gpus) + len(self.mig)


def visible(gpus: tuple[Gpu, ...], variables: Mapping[str, str]) -> Visible:
    """The GPUs that CUDA would see with these environment variables.

    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html: the list is cut at the
    first invalid entry. Repeated entries hide everything, and digits are read as strtoul does: torch/cuda/__init__.py,
    `_parse_visible_devices`, which follows the driver.
    """
    value = variables.get("CUDA_VISIBLE_DEVICES")
    alike = len({g.name for g in gpus}) <= 1 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if value is None:
        return Visible(gpus=gpus, sure=alike)
    if not value.strip():
        return Visible(gpus=(), value=value, why="empty")
    if value.startswith("MIG-"):
        return _named(gpus, value, "MIG-")
    if value.startswith("GPU-"):
        return _named(gpus, value, "GPU-")
    return _numbered(gpus, value, alike)


def _numbered(gpus: tuple[Gpu, ...], value: str, alike: bool) -> Visible:
    chosen: list[Gpu] = []
    seen: set[int] = set()
    every = {g.index: g for g in gpus}
    stop: tuple[str, str] | None = None
    for raw in value.split(","):
        entry = raw.strip()
        m = re.match(r"[+-]?\d+", entry)
        if m is None or len(m[0]) > 9:
            stop = stop or (entry, "malformed")
            break
        index = int(m[0])
        if index < 0:
            stop = stop or (entry, "negative")
            break
        if index in seen:
            return Visible(gpus=(), value=value, cut=entry, why="repeated", sure=alike)
        seen.add(index)
        if index not in every:
            stop = stop or (entry, "absent")
        elif stop is None:
            chosen.append(every[index])
    cut, why = stop or (None, None)
    return Visible(gpus=tuple(chosen), value=value, cut=cut, why=why, sure=alike)


def _named(gpus: tuple[Gpu, ...], value: str, prefix: str) -> Visible:
    entries = value.split(",")
    # What follows the first entry of another kind is not read at all.
    end = next((i for i, e in enumerate(entries) if not e.startswith(prefix)), len(entries))
    if len(set(entries[:end])) < end:
        repeated = next(e for i, e in enumerate(entries) if e in entries[:i])
        return Visible(gpus=(), value=value, cut=repeated, why="repeated")
    chosen: list[Gpu] = []
    mig: list[str] = []
    for entry in entries[:end]:
        if prefix == "GPU-":
            fits = [g for g in gpus if g.uuid.startswith(entry)]
            chosen += fits[:1]
            hits = len(fits)
        else:
            named = _mig_named(gpus, entry)
            mig += named[:1]
            hits = len(named)
        if hits != 1:
            if hits > 1:
                return Visible(gpus=(), value=value, cut=entry, why="ambiguous")
            return Visible(gpus=tuple(chosen), mig=tuple(mig), value=value, cut=entry, why="absent")
    if end < len(entries):
        return Visible(gpus=tuple(chosen), mig=tuple(mig), value=value, cut=entries[end], why="malformed")
    return Visible(gpus=tuple(chosen), mig=tuple(mig), value=value)


def _mig_named(gpus: tuple[Gpu, ...], entry: str) -> list[str]:
    """The MIG devices that an entry names; the old form MIG-GPU-<uuid>/<gi>/<ci> is taken at its GPU's word."""
    if entry.startswith("MIG-GPU-"):
        owner = entry[len("MIG-") :].partition("/")[0]
        return [entry] if any(g.uuid == owner and g.mig for g in gpus) else []
    return [uuid for g in gpus for uuid in g.mig_uuids if uuid.startswith(entry)]


# -- what a name or a PCI id tells ---------------------------------------------------------------------------------


def known(name: str) -> Mapping[str, Any] | None:
    """The entry of data/gpus.toml that fits an NVML name; None for a GPU that the table does not know."""
    for row in table("gpus")["gpu"]:
        if re.search(row["pattern"], name):
            entry: Mapping[str, Any] = row
            return entry
    return None


def line_of(name: str) -> str | None:
    """data-center, workstation, geforce, jetson or spark; None where the name does not tell."""
    entry = known(name)
    if entry is not None:
        line: str | None = entry.get("line")
        return line
    if "GeForce" in name or "TITAN" in name:
        return "geforce"
    return None


def architecture_of_pci(device: str) -> str | None:
    """The architecture of an NVIDIA PCI device id such as `0x2335`; None where the id does not tell."""
    high = device.lower().removeprefix("0x")[:2]
    for name, bytes_ in table("gpus")["pci_architecture"].items():
        if name != "source" and len(device.lower().removeprefix("0x")) == 4 and high in bytes_:
            found: str = name
            return found
    return None
