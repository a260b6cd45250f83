"""Which nvidia wheel brings which CUDA library; it judges nothing."""

from __future__ import annotations

import re

from ds_doctor.probes.python_env import Package, Packages

# Their wheels for CUDA 11, 12 and, where there is a -cu13, CUDA 13 write the same nvidia/<name>/ (RECORD of the wheels on PyPI).
# NCCL's do as well, and are the nccl family's business.
SHARE_A_FOLDER = frozenset(
    {
        "cublas", "cuda-cupti", "cuda-nvrtc", "cuda-runtime", "cuda-nvcc", "cudnn", "cufft", "cufile", "curand", "cusolver",
        "cusparse", "cusparselt", "nvjitlink", "nvshmem", "nvtx",
    }
)  # fmt: skip
# The library's stem where the wheel is not called after it: RECORD of the wheels on PyPI.
WHEELS = {
    "cudart": "cuda-runtime",
    "nvrtc": "cuda-nvrtc",
    "cupti": "cuda-cupti",
    "cublaslt": "cublas",
    "cusparselt": "cusparselt",
    "nvtoolsext": "nvtx",
    "nvshmem_host": "nvshmem",
}


def wheel_of(name: str, packages: Packages) -> Package | None:
    """The nvidia wheel that brings a library: libcublasLt.so.12 is nvidia-cublas-cu12 or, from CUDA 13 on, nvidia-cublas."""
    stem = name.partition(".so.")[0].removeprefix("lib").lower()
    stem = WHEELS.get(stem, "cudnn" if stem.startswith("cudnn") else stem)
    names = [n for n in packages.packages if re.fullmatch(rf"nvidia-{stem}(-cu\d+)?", n)]
    return packages.packages[names[0]] if len(names) == 1 else None
