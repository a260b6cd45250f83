"""What the kernel allows this process (rlimits, CPUs, capabilities) and the machine's memory; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Host, Malformed, Trouble, Unseen, probe

CAP_IPC_LOCK = 14  # linux/capability.h
CAP_SYS_RESOURCE = 24


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A resource limit; None is unlimited. Bytes, or a count for files and processes."""

    soft: int | None = None
    hard: int | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of this process.

    /proc/self/limits; a limit that could not be read is None. `cpus`: how many this process may run on. `ipc_lock`,
    `sys_resource`: whether it has the capability (memlock and process limits do not bind it then). `rdma`: the RDMA
    devices that it sees (mlx5_0, uverbs0).
    """

    open_files: Limit | None = None
    locked_memory: Limit | None = None
    address_space: Limit | None = None
    processes: Limit | None = None
    stack: Limit | None = None
    file_size: Limit | None = None
    cpus: int | None = None
    ipc_lock: bool | None = None
    sys_resource: bool | None = None
    rdma: tuple[str, ...] = ()


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the host.

    /proc/meminfo in MiB.
    """

    total_mib: int
    available_mib: int
    swap_total_mib: int = 0
    swap_free_mib: int = 0
    shmem_mib: int = 0
    huge_pages_mib: int = 0


_NAMES = {
    "Max open files": "open_files",
    "Max locked memory": "locked_memory",
    "Max address space": "address_space",
    "Max processes": "processes",
    "Max stack size": "stack",
    "Max file size": "file_size",
}
_VALUE = r"(unlimited|\d{1,20})"


def parse_limits(text: str) -> dict[str, Limit]:
    """The limits that matter, by the name of their field. Malformed when there is none."""
    found: dict[str, Limit] = {}
    for line in text.splitlines():
        m = re.match(rf"(Max [a-z ]+?)\s+{_VALUE}\s+{_VALUE}(?:\s|\Z)", line, re.ASCII)
        if m and m[1] in _NAMES:
            found[_NAMES[m[1]]] = Limit(
                soft=None if m[2] == "unlimited" else int(m[2]), hard=None if m[3] == "unlimited" else int(m[3])
            )
    if not found:
        raise Malformed("no-limits", path="/proc/self/limits")
    return found


def parse_status(text: str) -> tuple[int | None, int | None]:
    """(number of CPUs allowed, effective capabilities) out of /proc/self/status."""
    cpus = capabilities = None
    m = re.search(r"^Cpus_allowed_list:[ \t]*([0-9,\-]+)[ \t]*$", text, re.MULTILINE | re.ASCII)
    if m:
        cpus = count_list(m[1])
    m = re.search(r"^CapEff:[ \t]*([0-9a-fA-F]{1,32})[ \t]*$", text, re.MULTILINE)
    if m:
        capabilities = int(m[1], 16)
    return cpus, capabilities


def count_list(text: str) -> int | None:
    """How many numbers a kernel list such as `0-3,8` names; None when it is not one."""
    count = 0
    for part in text.split(","):
        m = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part, re.ASCII)
        if m is None or (m[2] and int(m[2]) < int(m[1])):
            return None
        count += int(m[2] or m[1]) - int(m[1]) + 1
    return count


def parse_meminfo(text: str) -> Memory:
    """Malformed without MemTotal. MemAvailable is missing on kernels before 3.14: free and cached are taken then."""
    kib = {
        m[1]: int(m[2])
        for m in re.finditer(r"^([A-Za-z_()]+):[ \t]+(\d{1,15})(?: kB)?[ \t]*$", text, re.MULTILINE | re.ASCII)
    }
    if not kib.get("MemTotal"):
        raise Malformed("no-meminfo", path="/proc/meminfo")
    available = kib.get("MemAvailable", kib.get("MemFree", 0) + kib.get("Cached", 0))
    return Memory(
        total_mib=kib["MemTotal"] >> 10,
        available_mib=available >> 10,
        swap_total_mib=kib.get("SwapTotal", 0) >> 10,
        swap_free_mib=kib.get("SwapFree", 0) >> 10,
        shmem_mib=kib.get("Shmem", 0) >> 10,
        huge_pages_mib=(kib.get("HugePages_Total", 0) * kib.get("Hugepagesize", 0)) >> 10,
    )


def _rdma(host: Host) -> tuple[str, ...]:
    found: list[str] = []
    for folder, prefix in (("/sys/class/infiniband", ""), ("/dev/infiniband", "uverbs")):
        try:
            found += [n for n in host.names(folder) if n.startswith(prefix)]
        except Trouble:
            continue
    return tuple(found[:64])


@probe
def limits(host: Host) -> Limits:
    if not host.live:
        raise Unseen("not-under-root")
    found = parse_limits(host.text("/proc/self/limits"))
    try:
        cpus, capabilities = parse_status(host.text("/proc/self/status"))
    except Trouble:
        cpus = capabilities = None
    return Limits(
        cpus=cpus,
        ipc_lock=None if capabilities is None else bool(capabilities >> CAP_IPC_LOCK & 1),
        sys_resource=None if capabilities is None else bool(capabilities >> CAP_SYS_RESOURCE & 1),
        rdma=_rdma(host),
        **found,
    )


@probe
def memory(host: Host) -> Memory:
    if not host.live:
        raise Unseen("not-under-root")
    return parse_meminfo(host.text("/proc/meminfo"))
