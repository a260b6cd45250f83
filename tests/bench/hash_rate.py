"""How fast `ds-doctor verify` hashes, beside what else one would use on the same files, all in one run, warm and cold.

    python tests/bench/hash_rate.py [--files 8] [--mib 512] [--runs 5] [--folder DIR] [--hf PATH] [--threads N]

Makes a Hugging Face Hub cache of safetensors files below --folder (default: the temporary files; they should be on the disk that is
asked about) and removes it afterwards. In each round every command runs once, so that what else happens on the machine hits all of
them; best and median rate, the processor's seconds of the best run, and peak resident memory of the largest process are
printed (of small tools it is this program's own). `hf cache verify` asks a small server of ours for the list of files. Cold: dropped from the page cache before each
command, with drop_caches where root. The aims: warm at least 0.95 x openssl on all processors and 2 x `hf cache verify`; cold
at least 0.95 x the best rate of dd past the page cache; at most 64 MiB resident.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import json
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPO = "bench/hash-rate"
COMMIT = "0123456789abcdef0123456789abcdef01234567"

ROOM = """
import sys
from ds_doctor.hashing import Job, hash_files
threads = int(sys.argv[1]) or None
for done in hash_files([Job(path=p) for p in sys.argv[2:]], threads=threads):
    assert done.problem is None, done
"""


def make(folder: Path, count: int, mib: int) -> list[dict[str, object]]:
    """A cache with one snapshot, and the hub's list of its files."""
    repo = folder / f"models--{REPO.replace('/', '--')}"
    snapshot = repo / "snapshots" / COMMIT
    (repo / "blobs").mkdir(parents=True)
    (repo / "refs").mkdir()
    snapshot.mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    listed: list[dict[str, object]] = []

    def small(name: str, text: str) -> None:
        data = text.encode()
        oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        (repo / "blobs" / oid).write_bytes(data)
        (snapshot / name).symlink_to(f"../../blobs/{oid}")
        listed.append({"type": "file", "path": name, "oid": oid, "size": len(data)})

    block = bytearray(os.urandom(1 << 20))
    names = [f"model-{i:05}-of-{count:05}.safetensors" for i in range(1, count + 1)]
    for i, name in enumerate(names):
        header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [mib << 20], "data_offsets": [0, mib << 20]}}).encode()
        header += b" " * (-len(header) % 8)
        hashed = hashlib.sha256()
        with open(repo / "blobs" / "new", "wb") as f:
            for piece in (struct.pack("<Q", len(header)) + header, *range(mib)):
                if isinstance(piece, int):
                    block[:8] = struct.pack("<II", i, piece)
                f.write(piece if isinstance(piece, bytes) else block)
                hashed.update(piece if isinstance(piece, bytes) else block)
            size = f.tell()
            f.flush()
            os.fsync(f.fileno())
        oid = hashed.hexdigest()
        os.rename(repo / "blobs" / "new", repo / "blobs" / oid)
        (snapshot / name).symlink_to(f"../../blobs/{oid}")
        lfs = {"oid": oid, "size": size, "pointerSize": 135}
        listed.append({"type": "file", "path": name, "oid": oid[:40], "size": size, "lfs": lfs})
    weight_map = {f"t{i}": name for i, name in enumerate(names)}
    small(
        "model.safetensors.index.json",
        json.dumps({"metadata": {"total_size": count * mib << 20}, "weight_map": weight_map}),
    )
    small("config.json", json.dumps({"architectures": ["LlamaForCausalLM"], "model_type": "llama"}))
    return listed


class Hub(http.server.ThreadingHTTPServer):
    """Answers with the list of files, and to nothing else."""

    def __init__(self, listed: list[dict[str, object]]) -> None:
        body = json.dumps(listed).encode()

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if "/tree/" in self.path else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *given: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def drop(paths: list[Path]) -> None:
    os.sync()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        pass


class Rate:
    """What a command reached in several rounds: GB/s, processor seconds, peak KiB of its largest process."""

    def __init__(self, name: str, argv: list[str], environment: dict[str, str]) -> None:
        self.name = name
        self.argv = argv
        self.environment = {**os.environ, **environment}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.rates: list[float] = []
        self.cpu_s: list[float] = []
        self.peak_kib = 0
        self.status = 0

    def run(self, size: int) -> None:
        begun = time.perf_counter()
        null = subprocess.DEVNULL
        child = subprocess.Popen(self.argv, stdin=null, stdout=null, stderr=null, env=self.environment)
        _, status, usage = os.wait4(child.pid, 0)
        self.rates.append(size / (time.perf_counter() - begun) / 1e9)
        self.status = child.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_s.append(usage.ru_utime + usage.ru_stime)
        self.peak_kib = max(self.peak_kib, usage.ru_maxrss)

    def forget(self) -> None:
        self.rates, self.cpu_s, self.peak_kib = [], [], 0

    def row(self) -> str:
        said = "" if self.status == 0 else f"   exit {self.status}"
        return (
            f"{self.name:34} {max(self.rates):8.2f} {statistics.median(self.rates):8.2f} {min(self.cpu_s):8.2f} "
            f"{self.peak_kib / 1024:8.1f}{said}"
        )


def beside(ours: Rate, theirs: list[Rate], aim: float, what: str) -> str:
    """Our rate over the best of theirs: of the best runs, and the median of the rounds."""
    best = max(ours.rates) / max(max(r.rates) for r in theirs)
    rounds = statistics.median(a / max(b) for a, *b in zip(ours.rates, *(r.rates for r in theirs), strict=True))
    return (
        f"{ours.name} / {what:32} {best:6.2f} of the best runs, {rounds:6.2f} median of rounds   (aim: at least {aim})"
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--files", type=int, default=8)
    options.add_argument("--mib", type=int, default=512)
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--threads", type=int, default=0)
    options.add_argument("--folder", type=Path, default=None)
    own = Path(sys.executable).parent
    options.add_argument("--hf", default=str(own / "hf") if (own / "hf").exists() else shutil.which("hf"))
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # gigabytes would stay behind
    doctor = str(own / "ds-doctor") if (own / "ds-doctor").exists() else shutil.which("ds-doctor")

    with tempfile.TemporaryDirectory(dir=given.folder, prefix="hash-rate-") as temporary:
        cache = Path(temporary)
        listed = make(cache, given.files, given.mib)
        snapshot = cache / f"models--{REPO.replace('/', '--')}" / "snapshots" / COMMIT
        blobs = sorted((snapshot.parent.parent / "blobs").iterdir())
        size = sum(blob.stat().st_size for blob in blobs)
        hub = Hub(listed)
        home = {
            "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
            "HF_HUB_CACHE": str(cache),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "XDG_CACHE_HOME": str(cache / "home"),
            "PYTHONPYCACHEPREFIX": str(cache / "pyc"),  # as installed: nothing is compiled in the runs that count
        }
        at_once = given.threads or len(os.sched_getaffinity(0))
        print(f"{given.files} files of {given.mib} MiB, {at_once} at once, {given.runs} rounds")
        print(f"{'command':34} {'best GB/s':>8} {'median':>8} {'cpu s':>8} {'peak MiB':>8}", flush=True)

        every = '"$@"'
        paths = list(map(str, blobs))

        def shell(name: str, text: str) -> Rate:
            return Rate(name, ["sh", "-c", text, "sh", *paths], home)

        threads = ["--threads", str(at_once)]
        room = Rate("the hashing alone", [sys.executable, "-c", ROOM, str(at_once), *paths], home)
        verify = Rate("ds-doctor verify", [doctor or "", "verify", "--no-cache", "-q", *threads, str(snapshot)], home)
        ours = [room, verify] if doctor else [room]
        tools = [
            shell(
                f"xargs -P{at_once} openssl dgst -sha256",
                f"printf '%s\\0' {every} | xargs -0 -P{at_once} -n1 openssl dgst -sha256",
            ),
            shell(f"xargs -P{at_once} sha256sum", f"printf '%s\\0' {every} | xargs -0 -P{at_once} -n1 sha256sum"),
        ]
        if given.hf:
            tools.append(Rate("hf cache verify", [given.hf, "cache", "verify", REPO], home))
        disk = [
            shell(
                f"dd bs={block} iflag=direct, {n} at once",
                f"printf '%s\\0' {every} | xargs -0 -P{n} -I[] dd if=[] of=/dev/null bs={block} iflag=direct",
            )
            for n, block in ((1, "16M"), (2, "4M"), (4, "4M"))
        ]

        print("warm")
        for path in blobs:
            with open(path, "rb", buffering=0) as f:
                while f.read(1 << 20):
                    pass
        python = [*ours, *(tools[2:] if given.hf else [])]
        for rate in python:  # once more, not counted, for what Python compiles
            rate.run(size)
            rate.forget()
        for _ in range(given.runs):
            for rate in (*ours, *tools):
                rate.run(size)
        for rate in (*ours, *tools):
            print(rate.row())
        for our in ours:
            print(beside(our, tools[:1], 0.95, "openssl"))
            print(beside(our, tools[1:2], 1, "sha256sum"))
            if given.hf:
                print(beside(our, tools[2:], 2, "hf cache verify"))

        print("cold", flush=True)
        cold = [Rate(r.name, r.argv, home) for r in (*ours, *tools[:1], *disk)]
        for _ in range(given.runs):
            for rate in cold:
                drop(blobs)
                rate.run(size)
        for rate in cold:
            print(rate.row())
        for our in cold[: len(ours)]:
            print(beside(our, cold[len(ours) + 1 :], 0.95, "the best dd of each"))
        print(f"peak memory {max(r.peak_kib for r in (*ours, *cold[: len(ours)])) / 1024:.1f} MiB   (aim: at most 64)")


if __name__ == "__main__":
    main()
