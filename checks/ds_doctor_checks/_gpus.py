"""The GPUs that checks speak of: those that answer, those that CUDA would see, what their names tell; it judges nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.environment import Environment
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

    `mig` are the MIG devices that it names. `cut` is the entry at which CUDA stopped reading; `why` is absent (no GPU is
    called so, or several are), malformed, negative (the usual way to end the list), repeated (that hides everything), or
    empty when the whole variable is. `sure` is False where indices may mean other GPUs: CUDA numbers unlike cards by
    speed unless CUDA_DEVICE_ORDER is PCI_BUS_ID.
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

    https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html, and where that is
    silent as measured with cuInit and cuDeviceGetCount (driver 580.159.04, tests/test_driver_visible.py): the list is cut
    at the first invalid entry, digits are read as strtol does, indices and UUIDs do not mix, a repeated GPU before the
    cut hides everything.
    """
    value = variables.get("CUDA_VISIBLE_DEVICES")
    alike = len({g.name for g in gpus}) <= 1 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if value is None:
        return Visible(gpus=gpus, sure=alike)
    if not value.strip():
        return Visible(gpus=(), value=value, why="empty")
    prefix = next((p for p in ("GPU-", "MIG-") if value.startswith(p)), None)
    chosen: list[Gpu | str] = []
    entries = value.split(",")
    for i, entry in enumerate(entries):
        if chosen and not any(e.strip() for e in entries[i:]):
            break  # a comma at the end
        fits, why = _fits(gpus, entry, prefix)
        if len(fits) != 1:
            return _left(chosen, value, entry.strip(), why, alike or prefix is not None)
        if fits[0] in chosen:
            return Visible(gpus=(), value=value, cut=entry.strip(), why="repeated")
        chosen += fits
    return _left(chosen, value, None, None, alike or prefix is not None)


def seen(nvml: Nvml | None, environment: Environment | None, alike: Callable[[Gpu], object]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA would see; all where CUDA_VISIBLE_DEVICES hides them all, for that is another rule's business.

    Undecided where its indices may mean other cards that are not `alike`: CUDA numbers unlike ones by speed, NVML by
    their place on the bus.
    """
    gpus = gpus_of(nvml)
    left = visible(gpus, environment.variables if environment else {})
    if left.gpus and not left.sure and len(left.gpus) < len(gpus) and len({alike(g) for g in gpus}) > 1:
        raise Undecided("gpu-order-unknown", value=left.value or "")
    return left.gpus or gpus


def _left(chosen: list[Gpu | str], value: str, cut: str | None, why: str | None, sure: bool) -> Visible:
    gpus = tuple(c for c in chosen if isinstance(c, Gpu))
    mig = tuple(c for c in chosen if isinstance(c, str))
    return Visible(gpus=gpus, mig=mig, value=value, cut=cut, why=why, sure=sure)


def _fits(gpus: tuple[Gpu, ...], entry: str, prefix: str | None) -> tuple[list[Gpu | str], str]:
    """What one entry names, and why that is nothing."""
    number = re.match(r"\s*([+-]?[0-9]{1,20})", entry)
    if number is not None and number[1].startswith("-"):
        return [], "negative"
    if prefix is None:
        if number is None:
            return [], "malformed"
        # CUDA counts the GPUs that it may use, which is their place here, not NVML's number.
        index = int(number[1]) & 0xFFFFFFFF
        return list(gpus[index : index + 1]), "absent"
    if not entry.startswith(prefix):
        return [], "malformed"
    if prefix == "MIG-":
        return list(_mig_named(gpus, entry)), "absent"
    return [g for g in gpus if g.uuid.lower().startswith(entry.lower())], "absent"


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
