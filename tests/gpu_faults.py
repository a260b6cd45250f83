"""Brings about real faults on a real GPU host, one process each, and checks that `ds-doctor run` finds them and nothing else.

    python tests/gpu_faults.py [--doctor ds-doctor]

Needs an NVIDIA GPU, root (private mount namespaces) and torch; it changes nothing outside the processes it starts.
Prints a table: the fault, the rules that it must raise, what was raised beyond the healthy run, and whether that is right.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

ALARM = ("fail", "warn", "error")


class Fault(NamedTuple):
    """How it is brought about: variables (None: unset), commands run before in a private mount namespace; what it must raise.

    `wants`: patterns of rules of which each must be raised by at least one; empty: nothing may be raised.
    `may`: patterns of rules that may be raised as well, since they follow from the same fault.
    """

    name: str
    wants: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    env: dict[str, str | None] = {}
    mounts: str = ""
    options: tuple[str, ...] = ()


def output(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True).stdout


def library_path(*folders: str) -> str:
    return ":".join([*folders, os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")


def system_nccl() -> str:
    for line in output("ldconfig", "-p").splitlines():
        if "libnccl.so.2" in line:
            return line.rpartition("=> ")[2].strip()
    return ""


def gpus() -> list[str]:
    return [line for line in output("nvidia-smi", "-L").splitlines() if line.startswith("GPU ")]


def faults() -> list[Fault]:
    cuda = os.path.realpath(os.environ.get("CUDA_HOME") or "/usr/local/cuda")
    driver = sorted(
        {
            os.path.dirname(p)
            for p in (os.environ.get("LD_LIBRARY_PATH") or "").split(":")
            if p.startswith("/usr/local/nvidia")
        }
    )
    nccl = system_nccl()
    every: list[Fault] = [
        Fault("nothing", (), env={}),
        Fault("TORCH_CUDA_ARCH_LIST=8.0", ("arch-list-misses-gpu",), env={"TORCH_CUDA_ARCH_LIST": "8.0"}),
        Fault("TORCH_CUDA_ARCH_LIST=8.0 9.9", ("arch-list-invalid",), env={"TORCH_CUDA_ARCH_LIST": "8.0 9.9"}),
        Fault("TORCH_CUDA_ARCH_LIST=8.0+PTX", (), env={"TORCH_CUDA_ARCH_LIST": "8.0+PTX"}),
        Fault("TORCH_CUDA_ARCH_LIST unset", (), env={"TORCH_CUDA_ARCH_LIST": None}),
        Fault(
            "compat libcuda first", ("libcuda-compat-older",), env={"LD_LIBRARY_PATH": library_path(f"{cuda}/compat")}
        ),
        Fault(
            "stub libcuda first",
            ("libcuda-stub",),
            mounts=f"mkdir -p /tmp/stub && ln -sf {cuda}/lib64/stubs/libcuda.so /tmp/stub/libcuda.so.1",
            env={"LD_LIBRARY_PATH": library_path("/tmp/stub")},
        ),
        Fault("CUDA_VISIBLE_DEVICES=7", ("visible-none",), env={"CUDA_VISIBLE_DEVICES": "7"}),
        Fault("NCCL_SOCKET_IFNAME=ens99", ("nccl-interface-missing",), env={"NCCL_SOCKET_IFNAME": "ens99"}),
        Fault(
            "1 MiB /dev/shm",
            ("shm-too-small" if len(gpus()) > 1 else "shm-tiny",),
            mounts="mount -t tmpfs -o size=1m tmpfs /dev/shm",
        ),
        Fault("/dev/nvidia-uvm masked", ("device-node-wrong",), mounts="mount --bind /dev/null /dev/nvidia-uvm"),
        Fault("/dev/nvidiactl masked", ("device-node-wrong",), mounts="mount --bind /dev/null /dev/nvidiactl"),
        Fault(
            "no driver libraries",
            ("driver-library-missing",),
            mounts="mount -t tmpfs none /usr/local/nvidia" if driver else "true",
            env={"LD_LIBRARY_PATH": ""},
        ),
        Fault(
            "HOME=/proc",
            ("cuda-cache-unwritable",),
            env={"HOME": "/proc", "XDG_CACHE_HOME": None},
        ),
        Fault(
            "no C compiler",
            ("cuda-no-c-compiler",),
            may=("cuda-*",),
            env={"CC": "/none/cc", "PATH": os.path.dirname(sys.executable)},
            options=("--python", shutil.which("python3") or ""),
        ),
        Fault("CUDA_HOME=/none", ("cuda-home-missing",), env={"CUDA_HOME": "/none"}),
        Fault("NCCL_P2P_DISABLE=1", ("nccl-p2p-disabled",) if len(gpus()) > 1 else (), env={"NCCL_P2P_DISABLE": "1"}),
        Fault("NCCL_P2P_DISABEL=1", ("nccl-variable-misspelt",), env={"NCCL_P2P_DISABEL": "1"}),
        Fault("24 open files", ("limits-open-files-few",), mounts="ulimit -n 24"),
        Fault("8 GB of address space", ("limits-address-space",), mounts="ulimit -v 8000000"),
        Fault("CUDA_VISIBLE_DEVICES=0", (), env={"CUDA_VISIBLE_DEVICES": "0"}),
    ]
    if nccl:
        every.append(Fault("LD_PRELOAD of the system NCCL", ("nccl-preloaded",), env={"LD_PRELOAD": nccl}))
        every.append(
            Fault(
                "LD_LIBRARY_PATH with the system NCCL", (), env={"LD_LIBRARY_PATH": library_path(os.path.dirname(nccl))}
            )
        )
    return every


def run(doctor: str, fault: Fault) -> dict[str, Any]:
    env = {k: v for k, v in {**os.environ, **fault.env}.items() if v is not None}
    argv = [doctor, "run", "--format", "json", *fault.options]
    if fault.mounts:
        argv = ["unshare", "-m", "sh", "-ec", f"{fault.mounts}; exec " + " ".join(argv)]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60)
    if not done.stdout.startswith("{"):
        return {"results": [], "exit_code": done.returncode, "stderr": done.stderr}
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def raised(report: dict[str, Any]) -> dict[str, str]:
    return {r["rule"]: r["status"] for r in report["results"] if r["status"] in ALARM}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--doctor", default=shutil.which("ds-doctor") or "ds-doctor")
    given = options.parse_args()
    healthy = run(given.doctor, Fault("healthy"))
    before = raised(healthy)
    print(f"healthy run: exit {healthy['exit_code']}, alarms {before or 'none'}\n")
    wrong = 0
    for fault in faults():
        report = run(given.doctor, fault)
        new = {r: s for r, s in raised(report).items() if before.get(r) != s}
        seen = all(any(fnmatchcase(r, p) for r in new) for p in fault.wants)
        extra = [r for r in new if not any(fnmatchcase(r, p) for p in (*fault.wants, *fault.may))]
        right = seen and not extra and bool(report["results"])
        wrong += not right
        lines = [f"{s} {r}" for r, s in new.items()] or ["-"]
        print(
            f"{'ok   ' if right else 'WRONG'} {fault.name:38} exit {report['exit_code']}  {'; '.join(lines)}{report.get('stderr', '')}"
        )
        for r in report["results"]:
            if r["rule"] in new:
                print(f"        {r['title'] if r['status'] != 'error' else r['reason']}")
    sys.exit(1 if wrong or any(s == "fail" for s in before.values()) else 0)


if __name__ == "__main__":
    main()
