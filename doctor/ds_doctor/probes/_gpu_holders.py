"""Who the processes are that hold memory of a GPU: their program and container out of /proc; never judges.

NVML's process numbers are those of the host in some containers and of the container in others. A number is looked up only
where it certainly means the same process: in the host's own PID namespace, or where that process has a GPU open.
"""

from __future__ import annotations

import re

import msgspec

from ..api import Host, Trouble
from ._said import clean
from .nvml import Gpu, Holder

HOST_NAMESPACE = "pid:[4026531836]"  # linux/proc_ns.h PROC_PID_INIT_INO 0xEFFFFFFC
PROCESSES = 64  # looked up; a GPU that hundreds share is an exhibition
FILES = 4096  # open files of one process that are looked at
_ID = r"([0-9a-f]{12})[0-9a-f]{52}"
_CONTAINERS = (
    ("docker", re.compile(rf"/docker[-/]{_ID}")),
    ("podman", re.compile(rf"/libpod-{_ID}")),
    ("containerd", re.compile(rf"/(?:cri-containerd-|crio-|[^/]*:cri-containerd:)?{_ID}")),
)
_POD = re.compile(r"\bpod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})\b")
_SLURM = re.compile(r"/job_(\d{1,12})\b")
_PYTHON = re.compile(r"(pypy|python)[0-9.]*\Z")
_MODULE = re.compile(r"[A-Za-z_][\w.]{0,100}\Z")


def command_of(cmdline: bytes) -> str | None:
    """The program of /proc/PID/cmdline, and what a Python runs; no further word. None for a kernel thread or a zombie."""
    words = [w.decode("utf-8", "replace") for w in cmdline.split(b"\0")]
    # A process that gave itself a title has it as one word (VLLM::EngineCore, sglang::scheduler_TP0).
    first = words[0].split(" ")[0] if words else ""
    name = first.rpartition("/")[2] if not re.match(r"\w+::", first) else first
    if not name:
        return None
    if _PYTHON.match(name):
        for i, word in enumerate(words[1:8], 1):
            if word == "-m" and i + 1 < len(words) and _MODULE.match(words[i + 1]):
                return f"{name} -m {words[i + 1]}"
            if word == "-c":
                break
            if not word.startswith("-"):
                script = word.rpartition("/")[2]
                return f"{name} {clean(script)}" if script else name
    return clean(name)


def container_of(cgroup: str) -> str | None:
    """The container that /proc/PID/cgroup names, its id cut to what `docker ps` shows; None on the host."""
    pod = _POD.search(cgroup)
    if pod is not None:
        return "pod:" + pod[1].replace("_", "-")
    for kind, pattern in _CONTAINERS:
        found = pattern.search(cgroup)
        if found is not None:
            return f"{kind}:{found[1]}"
    job = _SLURM.search(cgroup)
    return f"slurm:{job[1]}" if job else None


class _Processes:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.seen: dict[int, tuple[str | None, str | None]] = {}
        try:
            self.at_home = host.link("/proc/self/ns/pid") == HOST_NAMESPACE
        except Trouble:
            self.at_home = False

    def of(self, pid: int) -> tuple[str | None, str | None]:
        """(command, container), each None where it cannot be told."""
        if pid not in self.seen:
            known = len(self.seen) < PROCESSES and (self.at_home or self._has_a_gpu_open(pid))
            self.seen[pid] = (self._command(pid), self._container(pid)) if known else (None, None)
        return self.seen[pid]

    def _has_a_gpu_open(self, pid: int) -> bool:
        folder = f"/proc/{pid}/fd"
        try:
            names = self.host.names(folder)
        except Trouble:  # another user's, or another process altogether
            return False
        for name in names[:FILES]:
            try:
                if re.match(r"/dev/nvidia(ctl|\d)", self.host.link(f"{folder}/{name}")):
                    return True
            except Trouble:
                continue
        return False

    def _command(self, pid: int) -> str | None:
        try:
            return command_of(self.host.read_at(f"/proc/{pid}/cmdline", 0, 4096))
        except Trouble:
            return None

    def _container(self, pid: int) -> str | None:
        try:
            return container_of(self.host.text(f"/proc/{pid}/cgroup", 1 << 16))
        except Trouble:
            return None


def named(host: Host, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The same GPUs, their holders with program and container."""
    processes = _Processes(host)

    def all_of(holders: tuple[Holder, ...]) -> tuple[Holder, ...]:
        known = []
        for holder in holders:
            command, container = processes.of(holder.pid)
            known.append(msgspec.structs.replace(holder, command=command, container=container))
        return tuple(known)

    return tuple(
        msgspec.structs.replace(
            g,
            holders=all_of(g.holders),
            mig_devices=tuple(msgspec.structs.replace(m, holders=all_of(m.holders)) for m in g.mig_devices),
        )
        for g in gpus
    )
