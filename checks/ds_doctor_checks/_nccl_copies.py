"""Which NCCL the installed torch was built with and which copies are used; pure, shared by the checks of NCCL."""

from __future__ import annotations

import re

from ds_doctor.api import NotApplicable
from ds_doctor.probes.nccl import NcclCopies, NcclCopy
from ds_doctor.probes.python_env import Packages

from ._data import table

ENGINES = {"VLLM_NCCL_SO_PATH": "vllm", "SGLANG_NCCL_SO_PATH": "sglang"}
CU13 = (2, 11)  # the first torch whose PyPI wheels are built with CUDA 13 (data/nccl.toml, pins)


def version(text: str) -> tuple[int, ...]:
    """2.28.9 -> (2, 28, 9)."""
    return tuple(int(n[:9]) for n in re.findall(r"\d+", text)[:3])


def pinned(packages: Packages) -> tuple[str, str] | None:
    """(wheel, version) of the NCCL that the installed torch requires; None when that is not known."""
    torch = packages.packages.get("torch")
    if torch is None:
        return None
    for line in torch.requires:
        m = re.match(r"(nvidia-nccl-cu\d+)\s*\(?==\s*([\d.]+)", line)
        if m:
            return m[1], m[2]
    if torch.requires or not torch.folder.endswith(".dist-info"):
        # A torch that was built against the NCCL of its own image or of its distribution (conda) names none.
        raise NotApplicable("nccl-pin-none")
    exact = table("nccl")["pins"].get(torch.version)
    if exact is None:
        return None
    return "nvidia-nccl-cu13" if version(torch.version) >= CU13 else "nvidia-nccl-cu12", exact


def owns_wheel(packages: Packages | None) -> bool:
    """Whether torch was installed together with an nvidia-nccl wheel. One that was built against the NCCL of its image
    (NGC) or of its distribution (conda) has nothing to do with such a wheel, which vLLM or another package brought."""
    torch = packages.packages.get("torch") if packages is not None else None
    if torch is None:
        return True
    if torch.requires:
        return any(line.startswith("nvidia-nccl-cu") for line in torch.requires)
    return torch.folder.endswith(".dist-info")


def is_foreign(copies: NcclCopies) -> bool:
    """Whether torch gets another copy than the one of its own wheels."""
    return copies.torch is not None and copies.own is not None and copies.torch.real != copies.own.real


def is_too_old(copies: NcclCopies, packages: Packages | None) -> bool:
    """Whether the copy that torch gets is older by a minor version than the one that it requires."""
    try:
        pin = pinned(packages) if packages is not None else None
    except NotApplicable:
        return False
    if pin is None or copies.torch is None or copies.torch.version is None:
        return False
    return version(copies.torch.version)[:2] < version(pin[1])[:2]


def used(copies: NcclCopies, packages: Packages) -> list[NcclCopy]:
    """The copies that torch or an installed engine would load."""
    reals = {copies.torch.real} if copies.torch else set()
    reals |= {a.real for a in copies.asked if a.real and ENGINES[a.variable] in packages.packages}
    return [c for c in copies.copies if c.real in reals]
