"""The host memory that a launch command sets aside beside the GPUs, and what the host has; it judges nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ds_doctor.api import Undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.limits import Memory
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml

from ._memory import planned
from ._memory_ask import Ask
from ._memory_live import Room, rooms
from ._memory_model import Known, known

MIB_A_GIB = 1024
GIB = 1 << 30
GB = 10**9
TABLES_AT_LEAST = 0.98  # of the size that is worked out
SWAP_ENDS = "0.11"  # vllm 0.11.0 has no engine left that uses --swap-space


class Part(msgspec.Struct, frozen=True):
    """GiB set aside on this host, by what asks for it; `least` where it is only known as a range."""

    what: str
    gib: float
    least: float


class HostRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The memory that the engine may take on this host: RAM, or the limit of `where`. `sure` False: a limit may bind that
    could not be read."""

    where: str
    total_gib: float
    free_gib: float
    sure: bool = True


def needs(
    ask: Ask,
    config: ModelConfig | None,
    launch: Launch,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
) -> list[Part]:
    """What is set aside. It is taken in full when the engine starts, as pinned pages that cannot be swapped."""
    try:
        model = known(ask, config)
    except Undecided:
        model = None
    tables = model is not None and model.sure and model.architecture.host_tables > 0
    ratio = ask.hicache and not ask.hicache_gb and ask.hicache_ratio
    if not (
        tables or ratio or ask.offload_gib or ask.kv_offload_gib or ask.swap_gib or (ask.hicache and ask.hicache_gb)
    ):
        return []
    used = rooms(ask, launch, nvml, environment, memory)
    parts = list(_given(ask, len(used)))
    if model is not None and (tables or ratio):
        parts += _worked_out(ask, model, used)
    return [p for p in parts if p.gib]


def _given(ask: Ask, ranks: int) -> Iterator[Part]:
    """The sizes that the command names."""
    if ask.offload_gib:  # vllm config/offload.py: GiB a GPU; sglang likewise
        yield _exact("--cpu-offload-gb", ask.offload_gib * ranks)
    if ask.kv_offload_gib:  # vllm config/cache.py: over all tensor-parallel ranks of one engine
        yield _exact("--kv-offloading-size", ask.kv_offload_gib * max(1, ranks // ask.tp))
    if ask.swap_gib and not ask.at_least(SWAP_ENDS):
        yield _exact("--swap-space", ask.swap_gib * ranks)
    if ask.hicache and ask.hicache_gb:  # sglang mem_cache/memory_pool_host.py: GB a rank
        yield _exact("--hicache-size", ask.hicache_gb * GB / GIB * ranks)


def _exact(what: str, gib: float) -> Part:
    return Part(what, gib, gib)


def _worked_out(ask: Ask, model: Known, used: tuple[Room, ...]) -> Iterator[Part]:
    """Sizes that follow from the model: its Engram tables, and SGLang's KV cache in RAM as a multiple of the one on the GPU."""
    made = planned(ask, model, used)
    kept = made.plan.weights.host / GIB - ask.offload_gib * ask.ranks
    if model.architecture.host_tables and kept > 1:
        # One copy for each host, shared by its engines (vllm config/engram.py dp_shared_memory; sglang's layout "shared"): of
        # several hosts each keeps the shards of its own ranks.
        share = min(1.0, len(used) / ask.ranks)
        yield Part("Engram", kept * share, kept * share * TABLES_AT_LEAST)
    if ask.hicache and not ask.hicache_gb and ask.hicache_ratio and made.plan.per_token:
        # sglang mem_cache/pool_host/base.py: ratio x tokens of the device's pool; of a latent cache one copy may do for all ranks.
        latent = all(x.attention is None or x.attention.kind == "mla" for x in model.architecture.layers)
        per_rank = ask.hicache_ratio * made.plan.per_token / GIB
        ranks = len(used)
        yield Part(
            "--hicache-ratio", per_rank * made.tokens[1] * ranks, per_rank * made.tokens[0] * (1 if latent else ranks)
        )


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
