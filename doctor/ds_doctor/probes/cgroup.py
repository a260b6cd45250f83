"""The control group of this process and those above it: memory, CPU and process limits, v1 and v2; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Host, Malformed, Trouble, Unseen, probe

NO_LIMIT = 1 << 62  # v1 says "no limit" with PAGE_COUNTER_MAX, a little below 2^63
LEVELS_MAX = 32


class Cgroup(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and use of this control group: the tightest of its own and its parents' limits that can be seen.

    None: no limit, or not readable.

    `version` is 2, 1, or 0 when neither is mounted. Bytes. `memory_used` and `memory_cache` (file pages that the kernel
    takes back) are of the group that sets `memory_limit`, as are `pids_used` and `pids_limit`. `cpus` is the quota in
    CPUs. `oom_kills` counts in this group since it was made. `seen`: whether any controller file could be read.
    """

    version: int
    path: str = ""
    memory_limit: int | None = None
    memory_limit_at: str | None = None
    memory_used: int | None = None
    memory_cache: int | None = None
    cpus: float | None = None
    pids_limit: int | None = None
    pids_used: int | None = None
    oom_kills: int | None = None
    seen: bool = False


def parse_self(text: str) -> dict[str, str]:
    """Controller -> path out of /proc/self/cgroup; the unified hierarchy is "". Malformed when no line is one."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[0].isdigit() and parts[2].startswith("/"):
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    if not paths:
        raise Malformed("no-cgroup", path="/proc/self/cgroup")
    return paths


def parse_mounts(mountinfo: str) -> dict[str, tuple[str, str]]:
    """Controller -> (root inside the hierarchy, mount point); the unified hierarchy is ""."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) < 10 or "-" not in fields[6:]:
            continue
        after = fields[fields.index("-", 6) + 1 :]
        if not after:
            continue
        if after[0] == "cgroup2":
            mounts.setdefault("", (fields[3], fields[4]))
        elif after[0] == "cgroup" and len(after) > 2:
            for option in after[2].split(","):
                mounts.setdefault(option, (fields[3], fields[4]))
    return mounts


def levels(root: str, point: str, path: str) -> list[str]:
    """The folders of a group and of those above it, innermost first, as far as the mount shows them."""
    if root != "/" and (path == root or path.startswith(root + "/")):
        path = path[len(root) :]
    elif root != "/":
        path = "/"  # a mount of another part of the tree: only its top is ours for sure
    parts = [p for p in path.split("/") if p]
    if ".." in parts:
        parts = []  # above the namespace's root: not to be seen from here
    parts = parts[:LEVELS_MAX]
    base = point.rstrip("/")
    return ["/".join([base, *parts[:n]]) for n in range(len(parts), -1, -1)]


def number(text: str) -> int | None:
    """The number of a controller file; None for `max`, an absurdly large v1 value, or nonsense."""
    m = re.fullmatch(r"\s*(\d{1,20})\s*", text, re.ASCII)
    value = int(m[1]) if m else None
    return None if value is None or value >= NO_LIMIT else value


def field(text: str, name: str) -> int | None:
    """`name 123` out of memory.stat, memory.events, memory.oom_control."""
    m = re.search(rf"^{re.escape(name)} (\d{{1,20}})$", text, re.MULTILINE | re.ASCII)
    return int(m[1]) if m else None


def parse_cpu_max(text: str) -> float | None:
    """`200000 100000` of cpu.max as CPUs; None for `max`."""
    m = re.match(r"\s*(\d{1,15})\s+(\d{1,15})\s*\Z", text, re.ASCII)
    return round(int(m[1]) / int(m[2]), 2) if m and int(m[2]) else None


class _Reader:
    """Reads small controller files; what is not there is None."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.seen = False

    def text(self, path: str) -> str | None:
        try:
            text = self.host.text(path, 1 << 16)
        except Trouble:
            return None
        self.seen = True
        return text

    def number(self, path: str) -> int | None:
        text = self.text(path)
        return None if text is None else number(text)

    def field(self, path: str, name: str) -> int | None:
        text = self.text(path)
        return None if text is None else field(text, name)


def _v2(read: _Reader, folders: list[str]) -> dict[str, object]:
    got: dict[str, object] = {"oom_kills": read.field(f"{folders[0]}/memory.events", "oom_kill")}
    for folder in folders:
        limit = read.number(f"{folder}/memory.max")
        tightest = got.get("memory_limit")
        if limit is not None and (not isinstance(tightest, int) or limit < tightest):
            got.update(
                memory_limit=limit,
                memory_limit_at=folder,
                memory_used=read.number(f"{folder}/memory.current"),
                memory_cache=read.field(f"{folder}/memory.stat", "inactive_file"),
            )
        quota = parse_cpu_max(read.text(f"{folder}/cpu.max") or "")
        if quota is not None:
            least = got.get("cpus")
            got["cpus"] = min(quota, least) if isinstance(least, float) else quota
        _pids(read, folder, got)
    return got


def _pids(read: _Reader, folder: str, got: dict[str, object]) -> None:
    limit = read.number(f"{folder}/pids.max")
    if limit is None:
        return
    used = read.number(f"{folder}/pids.current")
    old, old_used = got.get("pids_limit"), got.get("pids_used")
    if not isinstance(old, int) or limit - (used or 0) < old - (old_used if isinstance(old_used, int) else 0):
        got.update(pids_limit=limit, pids_used=used)


def _v1(read: _Reader, of: dict[str, list[str]]) -> dict[str, object]:
    got: dict[str, object] = {}
    memory = of.get("memory", [])
    if memory:
        got["oom_kills"] = read.field(f"{memory[0]}/memory.oom_control", "oom_kill")
    for folder in memory:
        limit = read.number(f"{folder}/memory.limit_in_bytes")
        tightest = got.get("memory_limit")
        if limit is not None and (not isinstance(tightest, int) or limit < tightest):
            got.update(
                memory_limit=limit,
                memory_limit_at=folder,
                memory_used=read.number(f"{folder}/memory.usage_in_bytes"),
                memory_cache=read.field(f"{folder}/memory.stat", "total_inactive_file"),
            )
    for folder in of.get("cpu", []):
        quota = read.number(f"{folder}/cpu.cfs_quota_us")  # -1: no quota
        period = read.number(f"{folder}/cpu.cfs_period_us")
        if quota and period:
            cpus = round(quota / period, 2)
            least = got.get("cpus")
            got["cpus"] = min(cpus, least) if isinstance(least, float) else cpus
    for folder in of.get("pids", []):
        _pids(read, folder, got)
    return got


@probe
def cgroup(host: Host) -> Cgroup:
    if not host.live:
        raise Unseen("not-under-root")
    paths = parse_self(host.text("/proc/self/cgroup"))
    mounts = parse_mounts(host.text("/proc/self/mountinfo"))
    read = _Reader(host)
    of = {c: levels(*mounts[c], path) for c, path in paths.items() if c in mounts}
    got: dict[str, object] = {}
    # A host may run both: v1 controllers, and an empty unified hierarchy beside them.
    if "memory" in of or "pids" in of or "cpu" in of:
        version, path = 1, paths.get("memory", paths.get("pids", ""))
        got = _v1(read, of)
    elif "" in of:
        version, path = 2, paths[""]
        got = _v2(read, of[""])
    else:
        version, path = 0, ""
    return msgspec.convert({"version": version, "path": path, "seen": read.seen, **got}, Cgroup)
