"""Memory: do the weights, the KV cache and the engine's share fit what the GPUs and the host have free right now?

Thin: what a check needs is imported when a launch command is there.
"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, check, found, not_applicable, undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.limits import Memory
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages

GIB = 1 << 30
LEAST_SHARE = 0.1  # a smaller one is no advice
# vllm 0.9.0 v1/worker/gpu_worker.py is the first to refuse a start with less free than the share.
REFUSES_SINCE = "0.9"
ALIKE = 0.03  # part of the total by which GPUs of one group may differ: other boards of one model differ by less


@check("memory-share-not-free", "memory-share-tight")
def the_share_of_each_gpu_is_free(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
) -> Findings:
    from ._memory_ask import ask
    from ._memory_live import BEFORE_LOOKING, default_share, gib, held_by, rooms

    asks = ask(launch, flags, packages, environment)
    if not asks.vllm:
        raise NotApplicable("memory-no-fixed-share")
    if not asks.at_least(REFUSES_SINCE):
        raise NotApplicable("memory-share-not-demanded", version=asks.version, since=REFUSES_SINCE)
    share = asks.share or default_share(asks)
    taken = BEFORE_LOOKING[asks.ranks > 1]
    for room in rooms(asks, launch, nvml, environment, memory):
        left = room.free[0] - taken[1] * GIB
        data = {
            "gpu": room.on,
            "index": room.index,
            "free_gib": gib(room.free[1]),
            "total_gib": gib(room.total[1]),
            "share": share,
            "need_gib": gib(share * room.total[0]),
            "held_gib": gib(room.held),
            "holders": held_by(room),
            "fits_share": fitting if (fitting := int(left / room.total[1] * 100) / 100) >= LEAST_SHARE else [],
            "before_gib": taken[1],
        }
        if room.free[1] < share * room.total[0]:
            yield found("memory-share-not-free", on=room.on, **data)
        elif left < share * room.total[1]:
            yield found("memory-share-tight", on=room.on, **data)


@check("memory-gpus-differ")
def gpus_that_work_together_have_the_same_memory(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
) -> Findings:
    from ._memory_ask import ask
    from ._memory_live import gib, rooms

    asks = ask(launch, flags, packages, environment)
    used = rooms(asks, launch, nvml, environment, memory)
    if len(used) < 2 or asks.ranks < 2:
        raise NotApplicable("memory-one-gpu")
    for i in range(0, len(used), asks.ranks):
        group = used[i : i + asks.ranks]
        least = min(group, key=lambda r: r.total)
        most = max(group, key=lambda r: r.total)
        if least.total[1] < (1 - ALIKE) * most.total[0]:
            yield found(
                "memory-gpus-differ",
                on=f"{least.on}, {most.on}",
                least=f"{least.on} {least.name}",
                least_gib=gib(least.total[1]),
                most=f"{most.on} {most.name}",
                most_gib=gib(most.total[0]),
            )


@check(
    "memory-weights",
    "memory-weights-tight",
    "memory-context",
    "memory-context-tight",
    "memory-pool-short",
    "memory-kv-bytes",
    "memory-plan",
)
def the_model_fits_the_gpus(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    config: ModelConfig | None,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
) -> Findings:
    from ._memory_ask import ask
    from ._memory_live import rooms
    from ._memory_model import known, split_refused
    from ._memory_verdict import verdict
    from ._workers import visible_gpus

    asks = ask(launch, flags, packages, environment)
    used = rooms(asks, launch, nvml, environment, memory)
    model = known(asks, config)
    rule = split_refused(launch, flags, packages, environment, config)
    if rule is not None:
        raise NotApplicable("memory-told", other=rule)
    visible = max(len(used), len(visible_gpus(nvml, environment, launch)))
    yield from verdict(asks, model, used, visible)


@check("memory-host-short", "memory-host-tight")
def the_host_has_memory_for_what_stays_there(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    config: ModelConfig | None,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
    cgroup: Cgroup | None,
) -> Findings:
    from ._memory_ask import ask
    from ._memory_host import host_room, needs

    asks = ask(launch, flags, packages, environment)
    parts = needs(asks, config, launch, nvml, environment, memory)
    if not parts:
        raise NotApplicable("memory-nothing-on-host")
    room = host_room(launch, memory, cgroup)
    least, need = sum(p.least for p in parts), sum(p.gib for p in parts)
    data = {
        "need_gib": round(need, 1),
        "parts": ", ".join(f"{p.what} {round(p.gib, 1):g} GiB" for p in parts),
        "total_gib": round(room.total_gib, 1),
        "where": room.where,
        "free_gib": round(room.free_gib, 1),
    }
    if least > room.total_gib:
        yield found("memory-host-short", on=room.where, **data)
        yield not_applicable("memory-host-tight", "memory-told", other="memory-host-short")
    elif need > room.free_gib:
        yield found("memory-host-tight", on=room.where, **data)
    elif not room.sure:
        for rule in ("memory-host-short", "memory-host-tight"):
            yield undecided(rule, "limit-not-read", limit=room.where)
