"""What `ds-doctor run` costs, beside what else one would start on the same machine, all in one run.

    python tests/bench/run_cost.py [--runs 9] [--python PYTHON_WITH_TORCH]

Prints median and range of the wall time, peak memory of the largest process, and the ratios and differences that the
project aims at: at most 0.15 s over a bare Python that opens NVML and names each GPU, with a launch command, too; without a GPU at least three
times faster than env-doctor and cuda-doctor; at most 40 MiB resident; --help at most 0.06 s over bare Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

BARE_NVML = """
import pynvml
try:
    pynvml.nvmlInit()
    for i in range(pynvml.nvmlDeviceGetCount()):
        print(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i)))
except pynvml.NVMLError as e:
    print(e)
"""

COMMAND = ("vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "32768")


class Cost:
    """Wall seconds and peak resident KiB of several runs of one command (the largest process, children included)."""

    def __init__(self, argv: list[str], runs: int) -> None:
        self.walls: list[float] = []
        self.peak_kib = 0
        for i in range(runs + 1):  # the first one warms the caches and is not counted
            begun = time.perf_counter()
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = status
            if i:
                self.walls.append(time.perf_counter() - begun)
                self.peak_kib = max(self.peak_kib, usage.ru_maxrss)

    @property
    def wall(self) -> float:
        return statistics.median(self.walls)

    def row(self, name: str) -> str:
        return f"{name:34} {self.wall:8.3f} {min(self.walls):8.3f} {max(self.walls):8.3f} {self.peak_kib / 1024:8.1f}"


def has(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def script(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--runs", type=int, default=9)
    options.add_argument(
        "--python", default=shutil.which("python3") or sys.executable, help="where torch is looked for"
    )
    given = options.parse_args()

    costs: dict[str, Cost] = {}
    print(f"{'command':34} {'median s':>8} {'min':>8} {'max':>8} {'peak MiB':>8}")

    def measure(name: str, argv: list[str], runs: int = given.runs) -> None:
        costs[name] = Cost(argv, runs)
        print(costs[name].row(name), flush=True)

    doctor = [script("ds-doctor") or sys.exit("ds-doctor is not installed")]
    measure("bare python", [sys.executable, "-c", "pass"])
    measure("bare python + NVML", [sys.executable, "-c", BARE_NVML])
    measure("ds-doctor --help", [*doctor, "--help"])
    measure("ds-doctor run", [*doctor, "run"])
    measure("ds-doctor run --format json", [*doctor, "run", "--format", "json"])
    measure("ds-doctor run -- COMMAND", [*doctor, "run", "--", *COMMAND])
    if has(given.python, "torch"):
        measure("torch.utils.collect_env", [given.python, "-m", "torch.utils.collect_env"], 2)
    for name, words in (("env-doctor", ["check"]), ("cuda-doctor", ["diagnose"])):
        path = script(name)
        if path:
            measure(f"{name} {words[0]}", [path, *words], min(given.runs, 5))
    if shutil.which("nvidia-smi"):
        measure("nvidia-smi", ["nvidia-smi"])

    run, nvml, bare = costs["ds-doctor run"], costs["bare python + NVML"], costs["bare python"]
    print()
    print(f"run - (python + NVML)        {run.wall - nvml.wall:+8.3f} s    (aim: at most +0.150)")
    command = costs["ds-doctor run -- COMMAND"]
    print(f"run -- COMMAND - (python + NVML) {command.wall - nvml.wall:+8.3f} s (aim: at most +0.150)")
    print(f"run -- COMMAND - run         {command.wall - run.wall:+8.3f} s")
    print(f"--help - python              {costs['ds-doctor --help'].wall - bare.wall:+8.3f} s    (aim: at most +0.060)")
    print(f"peak memory of run           {run.peak_kib / 1024:8.1f} MiB  (aim: at most 40)")
    for name, cost in costs.items():
        if name.startswith(("torch", "env-", "cuda-", "nvidia-smi")):
            print(f"{name + ' / run':28} {cost.wall / run.wall:8.1f} x")


if __name__ == "__main__":
    main()
