"""GPU architectures: reading lists of them as torch, FlashInfer and CMake do, and which GPU runs what; it judges nothing.

What runs where: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility and #ptx-compatibility;
the suffixes a and f: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#feature-availability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

# Tegra: machine code runs on the very same capability only (CUDA programming guide, binary compatibility).
TEGRA = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0)})

# torch/utils/cpp_extension.py of torch 2.11.0, `_get_cuda_arch_flags`; used where the installed file could not be read.
KNOWN = (
    "3.5", "3.7", "5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "9.0a",
    "10.0", "10.0a", "11.0", "11.0a", "10.3", "10.3a", "12.0", "12.0a", "12.1", "12.1a",
)  # fmt: skip
NAMED = {
    "Kepler+Tesla": "3.7",
    "Kepler": "3.5+PTX",
    "Maxwell+Tegra": "5.3",
    "Maxwell": "5.0;5.2+PTX",
    "Pascal": "6.0;6.1+PTX",
    "Volta+Tegra": "7.2",
    "Volta": "7.0+PTX",
    "Turing": "7.5+PTX",
    "Ampere+Tegra": "8.7",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell+Tegra": "11.0",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
}


class Arch(msgspec.Struct, frozen=True):
    """One target: machine code (`sm`) or PTX, capability, and the suffix a, f or none."""

    ptx: bool
    major: int
    minor: int
    suffix: str = ""

    def runs_on(self, cc: tuple[int, int]) -> bool:
        here = (self.major, self.minor)
        if self.suffix == "a":
            return cc == here
        family = cc[0] == self.major and cc[1] >= self.minor
        if self.suffix == "f":
            return family
        if self.ptx:
            return cc >= here
        return cc == here if cc in TEGRA or here in TEGRA else family


def capability(cc: str) -> tuple[int, int] | None:
    """`9.0` -> (9, 0)."""
    m = re.fullmatch(r"(\d{1,2})\.(\d)", cc)
    return (int(m[1]), int(m[2])) if m else None


def compiled(names: Iterable[str]) -> list[Arch]:
    """`sm_90a`, `compute_120` as fatbin headers name them."""
    hits = (re.fullmatch(r"(sm|compute)_(\d{1,2})(\d)([af]?)", n) for n in names)
    return [Arch(m[1] == "compute", int(m[2]), int(m[3]), m[4]) for m in hits if m]


def _dotted(text: str, ptx: bool) -> list[Arch]:
    """`9.0a` with or without +PTX: machine code, and PTX as well."""
    m = re.fullmatch(r"(\d{1,2})\.(\d)([af]?)", text)
    if m is None:
        return []
    one = Arch(False, int(m[1]), int(m[2]), m[3])
    return [one, msgspec.structs.replace(one, ptx=True)] if ptx else [one]


def torch_list(
    value: str, known: tuple[str, ...] = (), named: Mapping[str, str] | None = None
) -> tuple[list[Arch], list[str]]:
    """(targets, entries that torch refuses) of TORCH_CUDA_ARCH_LIST, as `_get_cuda_arch_flags` reads it: spaces are
    semicolons, names are replaced wherever they stand, and everything else, also an empty entry, must be known."""
    text = value.replace(" ", ";")
    for name, arches in (named or NAMED).items():
        text = text.replace(name, arches)
    good: list[Arch] = []
    bad: list[str] = []
    for entry in text.split(";"):
        arch = entry.removesuffix("+PTX")
        if arch in (known or KNOWN):
            good += _dotted(arch, entry.endswith("+PTX"))
        else:
            bad.append(entry)
    return good, bad


def flashinfer_list(value: str) -> tuple[list[Arch], list[str]]:
    """(targets, entries that end in an error) of FLASHINFER_CUDA_ARCH_LIST: flashinfer/compilation_context.py, 0.7.

    Single spaces separate; an entry is major.minor with or without a letter. Without one FlashInfer adds its own: a from 9.0 on, f for 12.0.
    """
    good: list[Arch] = []
    bad: list[str] = []
    for entry in value.split(" "):
        m = re.fullmatch(r"(\d{1,2})\.(\d)([af]?)", entry)
        if m is None:
            bad.append(entry)
            continue
        major, minor, suffix = int(m[1]), int(m[2]), m[3]
        if not suffix and major >= 9:
            suffix = "f" if (major, minor) == (12, 0) else "a"
        good.append(Arch(False, major, minor, suffix))
    return good, bad


def cmake_list(value: str) -> tuple[list[Arch], list[str]] | None:
    """(targets, entries that CMake refuses) of CUDAARCHS; None for a word that means all or the GPUs here.

    https://cmake.org/cmake/help/latest/prop_tgt/CUDA_ARCHITECTURES.html
    """
    if value in ("native", "all", "all-major"):
        return None
    if value.upper() in ("OFF", "FALSE", "NO", "0"):
        return None
    good: list[Arch] = []
    bad: list[str] = []
    for entry in value.split(";"):
        m = re.fullmatch(r"(\d{1,2})(\d)([af]?)(-real|-virtual)?", entry)
        if m is None:
            bad.append(entry)
            continue
        one = Arch(m[4] == "-virtual", int(m[1]), int(m[2]), m[3])
        good.append(one)
        if m[4] is None:
            good.append(msgspec.structs.replace(one, ptx=True))
    return good, bad
