"""Hold memory of a GPU until standard input ends: `hold_gpu_memory.py GPU GIB`; prints what CUDA says of it as one JSON line.

Needs the driver's libcuda alone. For trials on a real GPU: it stands for another server that was left running.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys


def checked(code: int, what: str) -> None:
    if code:
        sys.exit(f"{what}: CUDA error {code}")


def main() -> None:
    index, gib = int(sys.argv[1]), float(sys.argv[2])
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total, where = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    checked(cuda.cuInit(0), "cuInit")
    checked(cuda.cuDeviceGet(ctypes.byref(device), index), "cuDeviceGet")
    checked(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    checked(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    checked(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    before = free.value
    if gib:
        size = ctypes.c_size_t(int(gib * (1 << 30)))
        checked(cuda.cuMemAlloc_v2(ctypes.byref(where), size), "cuMemAlloc")
        checked(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)), "cuMemGetInfo")
    said = {"pid": os.getpid(), "gpu": index, "total": total.value, "free_before": before, "free": free.value}
    print(json.dumps(said), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
