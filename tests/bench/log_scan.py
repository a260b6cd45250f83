"""How fast `explain --log` reads a long log, beside ripgrep with the same patterns on the same file, and how much memory it takes.

    python tests/bench/log_scan.py [--mib 1024] [--rg rg] [--runs 3] [--faults]

Writes a log of the kind that vLLM, SGLang and NCCL write (once, beside the temporary files), with a fault near its end where
--faults is given. Prints megabytes per second and the peak of resident memory. Ripgrep is measured with `-c -f` and, since our
patterns ignore the case, with `-i`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FAULT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 79.10 GiB"
)


def line(r: random.Random) -> str:
    kind = r.random()
    clock = f"11-{r.randint(1, 30):02d} {r.randint(0, 23):02d}:{r.randint(0, 59):02d}:{r.randint(0, 59):02d}"
    if kind < 0.4:
        return (
            f"(APIServer pid={r.randint(1, 99999)}) INFO {clock} [loggers.py:{r.randint(1, 900)}] Engine 000: Avg prompt "
            f"throughput: {r.random() * 9999:.1f} tokens/s, Avg generation throughput: {r.random() * 999:.1f} tokens/s, Running: "
            f"{r.randint(0, 256)} reqs, Waiting: 0 reqs, GPU KV cache usage: {r.random() * 100:.1f}%, Prefix cache hit rate: 0.0%"
        )
    if kind < 0.7:
        return f'INFO:     10.0.{r.randint(0, 255)}.{r.randint(0, 255)}:{r.randint(1024, 65535)} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    if kind < 0.85:
        return (
            f"[2026-{clock} TP{r.randint(0, 7)}] Decode batch. #running-req: {r.randint(1, 100)}, #token: {r.randint(1, 99999)}, "
            f"token usage: 0.{r.randint(10, 99)}, cuda graph: True, gen throughput (token/s): {r.random() * 1000:.2f}, #queue-req: 0"
        )
    return (
        f"node1:{r.randint(1, 9999)}:{r.randint(1, 9999)} [{r.randint(0, 7)}] NCCL INFO Channel {r.randint(0, 31):02d}/0 : "
        f"{r.randint(0, 7)}[{r.randint(0, 7)}] -> {r.randint(0, 7)}[0] via P2P/CUMEM/read"
    )


def write(path: Path, mib: int, faults: bool) -> None:
    r = random.Random(1)
    block = ("\n".join(line(r) for _ in range(50_000)) + "\n").encode()
    with open(path, "wb") as f:
        for _ in range(max(1, (mib << 20) // len(block))):
            f.write(block)
        if faults:
            f.write(FAULT.encode() + b"\n" + block[: 1 << 16])


def _for_rg(pattern: str) -> str:
    """The pattern as ripgrep takes it: without escapes that escape nothing, and literal braces escaped."""
    plain = re.sub(r"\\([^\w\s.*+?()\[\]{}|\\^$#&~-])", r"\1", pattern)
    return re.sub(r"(?<!\\)\{(?!\d+(?:,\d*)?\})", r"\\{", plain)


def measure(words: list[str]) -> tuple[float, float]:
    """Seconds of the whole process, and MiB resident at its peak."""
    start = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as one:
        assert one.stderr is not None
        said = one.stderr.read()
        _, status, usage = os.wait4(one.pid, 0)
        one.returncode = os.waitstatus_to_exitcode(status)
        if one.returncode not in (0, 1):
            sys.exit(f"{words[0]}: {said[-500:]}")
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--mib", type=int, default=1024)
    ask.add_argument("--rg", default="rg")
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--faults", action="store_true")
    given = ask.parse_args()

    from ds_doctor.cli.explaining import _folders
    from ds_doctor.explain import known

    index = known.load(_folders(), os.environ)[0].index
    with tempfile.TemporaryDirectory() as folder:
        log, patterns = Path(folder) / "big.log", Path(folder) / "patterns"
        write(log, given.mib, given.faults)
        patterns.write_text("".join(_for_rg(p) + "\n" for p in index.patterns))
        size = log.stat().st_size
        doctor = [sys.executable, "-m", "ds_doctor", "explain", "--no-here", "--log", str(log)]
        rows = {"ds-doctor explain --log": doctor}
        if shutil.which(given.rg):
            rows["rg -c -f"] = [given.rg, "-c", "-f", str(patterns), str(log)]
            rows["rg -i -c -f"] = [given.rg, "-i", "-c", "-f", str(patterns), str(log)]
        print(f"{size / 1e6:.0f} MB, {len(index.patterns)} patterns, {os.cpu_count()} cores")
        times: dict[str, list[float]] = {name: [] for name in rows}
        memory: dict[str, float] = {}
        for _ in range(given.runs):  # in turn, so that a busy moment meets all of them
            for name, words in rows.items():
                seconds, mib = measure(words)
                times[name].append(seconds)
                memory[name] = max(memory.get(name, 0.0), mib)
        for name, took in times.items():
            median = statistics.median(took)
            print(f"{name:26} {size / 1e6 / median:8.0f} MB/s  {median:6.2f} s  {memory[name]:6.1f} MiB resident")


if __name__ == "__main__":
    main()
