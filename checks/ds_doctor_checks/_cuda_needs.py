"""What the installed packages need in order to compile: who compiles, with which nvcc, into which folders; it judges nothing."""

from __future__ import annotations

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.caches import Folder
from ds_doctor.probes.python_env import Packages
from ds_doctor.probes.toolchain import Toolchain

# Packages that compile CUDA when a model starts: FlashInfer (flashinfer/jit/core.py), DeepGEMM (deep_gemm/jit).
COMPILE = ("flashinfer-python", "sgl-deep-gemm", "deep-gemm")
# With these FlashInfer's kernels come ready-made.
READY_MADE = "flashinfer-jit-cache"


def compiling(packages: Packages) -> list[str]:
    """The packages that compile CUDA code when they start. NotApplicable when there is none."""
    who = [n for n in COMPILE if n in packages.packages]
    if not who:
        raise NotApplicable("nothing-compiles")
    if who == ["flashinfer-python"] and READY_MADE in packages.packages:
        raise NotApplicable("kernels-ready-made", name=READY_MADE)
    return who


def building_with_ninja(packages: Packages) -> list[str]:
    """Those of them that start ninja: FlashInfer (flashinfer/jit/cpp_ext.py); DeepGEMM calls nvcc or NVRTC itself."""
    who = [n for n in compiling(packages) if n == "flashinfer-python"]
    if not who:
        raise NotApplicable("nothing-compiles")
    if READY_MADE in packages.packages:
        raise NotApplicable("kernels-ready-made", name=READY_MADE)
    return who


def needed(packages: Packages) -> set[str]:
    """Which of the folders the installed packages write to."""
    folders: set[str] = set()
    have = packages.packages
    if "triton" in have:
        folders |= {"triton", "torch-extensions"}
    if "vllm" in have:
        folders |= {"vllm", "inductor"}
    if "sglang" in have:
        folders |= {"inductor", "deep-gemm"}
    if "flashinfer-python" in have:
        folders.add("flashinfer")
    return folders


def where(folder: Folder) -> dict[str, str]:
    return {
        "what": folder.what,
        "path": folder.path,
        "nearest": folder.blocked or folder.nearest,
        "variable": folder.variable or "HOME",
    }


def nvcc_version(toolchain: Toolchain) -> str:
    """The version of the nvcc that would be used."""
    if toolchain.nvcc is None:
        raise NotApplicable("no-nvcc")
    if toolchain.nvcc_version is None:
        raise Undecided("nvcc-version-unread", path=toolchain.nvcc)
    return toolchain.nvcc_version
