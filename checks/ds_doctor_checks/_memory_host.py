"""The host memory that a launch command sets aside beside the GPUs, and what the host has; it judges nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ds_doctor.api import Undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.limits import Memory
from ds_doctor.probes.nvml import Nvml

from ._memory_ask import Ask
from ._memory_live import rooms

MIB_A_GIB = 1024
GIB = 1 << 30
GB = 10**9
SWAP_ENDS = "0.11"  # vllm 0.11.0 has no engine left that uses --swap-space


class Part(msgspec.Struct, frozen=True):
    """What is set aside, by the flag that asks for it, on this host."""

    flag: str
    gib: float


class HostRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that the engine may take on this host: RAM, or the limit of `where`. `sure` False: a limit may bind that
    could not be read."""

    where: str
    total_gib: float
    free_gib: float
    sure: bool = True


def needs(
    ask: Ask, launch: Launch, nvml: Nvml | None, environment: Environment | None, memory: Memory | None
) -> list[Part]:
    """What the flags set aside. It is taken in full when the engine starts, as pinned pages that cannot be swapped."""
    return [p for p in _parts(ask, launch, nvml, environment, memory) if p.gib]


def _parts(
    ask: Ask, launch: Launch, nvml: Nvml | None, environment: Environment | None, memory: Memory | None
) -> Iterator[Part]:
    given = ask.offload_gib or ask.kv_offload_gib or ask.swap_gib or (ask.hicache and ask.hicache_gb)
    if not given:
        return
    ranks = len(rooms(ask, launch, nvml, environment, memory))
    if ask.offload_gib:  # vllm config/offload.py: GiB a GPU; sglang likewise
        yield Part("--cpu-offload-gb", ask.offload_gib * ranks)
    if ask.kv_offload_gib:  # vllm config/cache.py: over all tensor-parallel ranks of one engine
        yield Part("--kv-offloading-size", ask.kv_offload_gib * max(1, ranks // ask.tp))
    if ask.swap_gib and not ask.at_least(SWAP_ENDS):
        yield Part("--swap-space", ask.swap_gib * ranks)
    if ask.hicache and ask.hicache_gb:  # sglang mem_cache/memory_pool_host.py: GB a rank
        yield Part("--hicache-size", round(ask.hicache_gb * GB / GIB * ranks, 1))


def host_room(launch: Launch, memory: Memory | None, cgroup: Cgroup | None) -> HostRoom:
    """Where the engine's host memory would come from. Undecided where /proc/meminfo cannot be read."""
    if memory is None:
        raise Undecided("memory-host-not-told")
    total, free, where, sure = memory.total_mib / MIB_A_GIB, memory.available_mib / MIB_A_GIB, "RAM", True
    if launch.container is not None:
        limit = None if launch.container.memory is None else launch.container.memory / GIB
        used = 0.0
        name = "--memory"
    else:
        limit = None if cgroup is None or cgroup.memory_limit is None else cgroup.memory_limit / GIB
        used = 0.0 if cgroup is None else max(0, (cgroup.memory_used or 0) - (cgroup.memory_cache or 0)) / GIB
        name = (cgroup.memory_limit_at if cgroup else None) or "cgroup"
        sure = cgroup is None or bool(cgroup.seen) or not cgroup.version or cgroup.path in ("", "/")
    if limit is not None and limit < total:
        return HostRoom(where=name, total_gib=limit, free_gib=min(free, max(0.0, limit - used)))
    return HostRoom(where=where, total_gib=total, free_gib=free, sure=sure)
