"""Shared memory: is /dev/shm there, large and free enough for the queues between the engine's processes?"""

from __future__ import annotations

from typing import Any

import msgspec

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.docker import Docker
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Container, Launch
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.shm import Shm
from ds_doctor.probes.system import System

from ._workers import Workers, visible_gpus, workers

MIB = 1 << 20
DOCKER_DEFAULT = 64 * MIB  # https://docs.docker.com/reference/cli/docker/container/run/ --shm-size

# vllm 0.33.0. v1/executor/multiproc_executor.py: one broadcast queue an engine, one answer queue a worker, both made as soon
# as there is more than one worker; distributed/device_communicators/shm_broadcast.py: 10 chunks each, 24 MiB a chunk unless
# given; envs.py: VLLM_MQ_MAX_CHUNK_BYTES_MB = 16 is given for the broadcast queue only. check_shm_free_space (from 0.27.0,
# vllm-project/vllm#48879) refuses a queue that is larger than what is free; older versions die of SIGBUS under load.
VLLM_CHUNKS = 10
VLLM_ANSWER_CHUNK_MIB = 24
VLLM_BROADCAST_CHUNK_MIB = 16
# distributed/parallel_state.py of both vllm 0.33.0 and sglang 0.5.23: 6 chunks of 4 MiB a process group.
GROUP_QUEUE_MIB = 24
# NCCL's own guide for containers: --shm-size=1g (Troubleshooting, Shared memory).
NCCL_MIB = 1024
LEFTOVERS_PART = 0.5  # proposal: from half of the space on, leftovers are worth a look


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The /dev/shm that the engine will have, in bytes."""

    size: int
    free: int


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """MiB: the largest single queue (it must fit, or the engine does not start), what all may come to, and what to give a
    container in GiB: all queues full beside what NCCL asks for."""

    one_mib: int
    all_mib: int
    size_gib: int


def need(engine: str | None, of: Workers, chunk_mib: int) -> Need:
    """What these workers need. An engine that is not named is taken for vLLM, which needs more."""
    count, engines = of.count, max(1, of.count // max(1, of.engine))
    shared = GROUP_QUEUE_MIB * (max(1, count // of.group) if of.group > 1 else 0)
    if engine == "sglang":
        # It switches NCCL's own allocator off (entrypoints/engine.py: NCCL_CUMEM_ENABLE=0), so NCCL's segments lie here too.
        return Need(one_mib=GROUP_QUEUE_MIB, all_mib=max(shared, NCCL_MIB), size_gib=-(-(shared + NCCL_MIB) // 1024))
    broadcast = VLLM_CHUNKS * chunk_mib
    answer = VLLM_CHUNKS * VLLM_ANSWER_CHUNK_MIB
    every = broadcast * engines + answer * count + shared
    return Need(one_mib=max(broadcast, answer), all_mib=every, size_gib=-(-(every + NCCL_MIB) // 1024))


def _of_container(container: Container, docker: Docker | None) -> int | None:
    """The size of /dev/shm in the container that would be started; None where it is this host's own."""
    if container.shm_mount == "/dev/shm" or (container.shm_mount is None and container.ipc == "host"):
        return None
    if container.shm_mount is not None:
        if container.shm_mount == "tmpfs" and container.shm_size is not None:
            return container.shm_size
        raise Undecided("shm-elsewhere", ipc=container.shm_mount)
    if container.ipc not in (None, "private", "shareable", ""):
        raise Undecided("shm-elsewhere", ipc=f"--ipc={container.ipc}")
    if container.shm_size is not None:
        return container.shm_size
    if container.program == "docker" and docker is not None:
        if any(f.error is not None for f in docker.files):
            raise Undecided("daemon-json-broken", path=next(f.path for f in docker.files if f.error is not None))
        given = {f.shm_size for f in docker.files if f.shm_size is not None}
        if given:
            return min(given)
    return DOCKER_DEFAULT


def _room(shm: Shm | None, launch: Launch | None, memory_mib: int | None, docker: Docker | None) -> Room:
    """Where the engine's segments will lie: here, or in the container that the command would start."""
    container = launch.container if launch else None
    size = _of_container(container, docker) if container is not None else None
    if size is not None:
        return Room(size=size, free=size)
    if shm is None:
        raise Undecided("shm-no-size")
    if not shm.present:
        raise NotApplicable("shm-said-elsewhere")
    if shm.size is None or shm.free is None:
        raise Undecided("shm-no-size")
    if shm.size == 0 and shm.fs_type in ("tmpfs", "ramfs"):  # mounted with size=0: no limit but memory
        free = (memory_mib or 1 << 20) * MIB
        return Room(size=free, free=free)
    return Room(size=shm.size, free=shm.free)


def _chunk_mib(environment: Environment | None, launch: Launch | None) -> int:
    variables = dict(environment.variables) if environment else {}
    if launch is not None:
        variables = {**({} if launch.container else variables), **launch.environment}
    text = variables.get("VLLM_MQ_MAX_CHUNK_BYTES_MB", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else VLLM_BROADCAST_CHUNK_MIB


@check("shm-missing")
def shared_memory_is_mounted(shm: Shm) -> Findings:
    if not shm.present:
        yield found("shm-missing")


@check("shm-not-writable", "shm-not-tmpfs")
def shared_memory_can_be_written(shm: Shm) -> Findings:
    if not shm.present:
        raise NotApplicable("shm-said-elsewhere")
    if shm.read_only or "ro" in shm.options[:1]:
        yield found("shm-not-writable", how="Read-only file system")
    elif shm.writable is False:
        yield found("shm-not-writable", how="Permission denied")
    elif shm.writable is None:
        yield undecided("shm-not-writable", "shm-no-access-answer")
    if shm.fs_type is None:
        yield undecided("shm-not-tmpfs", "shm-no-mount")
    # devtmpfs is a tmpfs of the kernel's own: /dev/shm as a mere folder of it.
    elif shm.fs_type not in ("tmpfs", "ramfs", "devtmpfs"):
        yield found("shm-not-tmpfs", type=shm.fs_type)


@check("shm-too-small", "shm-tight", "shm-tiny")
def shared_memory_holds_the_queues(
    shm: Shm | None,
    launch: Launch | None,
    nvml: Nvml | None,
    environment: Environment | None,
    system: System | None,
    docker: Docker | None,
) -> Findings:
    gpus = visible_gpus(nvml, environment, launch)
    of = workers(launch, len(gpus))
    room = _room(shm, launch, system.memory_total_mib if system else None, docker)
    have_mib, free_mib = room.size // MIB, room.free // MIB
    # One worker makes none of these queues (vLLM: UniProcExecutor). With data parallelism vLLM makes them also in engines
    # of one worker (config/parallel.py: mp from world_size_across_dp > 1 on), SGLang does not (GroupCoordinator).
    engine = launch.engine if launch else None
    if of.count < 2 or (engine == "sglang" and of.engine < 2):
        yield not_applicable("shm-too-small", "shm-one-worker")
        if of.count > 1 and room.free < NCCL_MIB * MIB:
            # Whether the engines exchange experts over NCCL, the model says, which is not looked into.
            yield undecided("shm-tight", "shm-data-parallel", free_mib=free_mib, nccl_mib=NCCL_MIB)
        else:
            yield not_applicable("shm-tight", "shm-one-worker")
        if room.size < DOCKER_DEFAULT:
            yield found("shm-tiny", have_mib=have_mib, default_mib=DOCKER_DEFAULT // MIB)
        return
    yield not_applicable("shm-tiny", "shm-many-workers")
    wants = need(engine, of, _chunk_mib(environment, launch))
    data: dict[str, Any] = {
        "have_mib": have_mib,
        "free_mib": free_mib,
        "workers": of.count,
        "need_mib": wants.one_mib,
        "all_mib": wants.all_mib,
        "size_gib": wants.size_gib,
        "grow_gib": -(-have_mib // 1024) + wants.size_gib,  # beside what is there: never a smaller mount than now
    }
    if room.free < wants.one_mib * MIB:
        yield found("shm-too-small", **data)
        yield not_applicable("shm-tight", "shm-too-small-says")
    elif room.free < wants.all_mib * MIB:
        yield found("shm-tight", **data)


@check("shm-leftovers")
def shared_memory_is_free_of_leftovers(shm: Shm) -> Findings:
    if not shm.present:
        raise NotApplicable("shm-said-elsewhere")
    if not shm.listed or shm.size is None:
        raise Undecided("shm-not-listed")
    engines = [f for f in shm.left if f.family != "other"]
    taken = sum(f.bytes for f in engines)
    if shm.size and taken > LEFTOVERS_PART * shm.size:
        largest = ", ".join(f"{f.family}: {f.files} ({f.bytes // MIB} MiB, {f.example})" for f in engines[:4])
        yield found(
            "shm-leftovers",
            taken_mib=taken // MIB,
            have_mib=shm.size // MIB,
            files=sum(f.files for f in engines),
            largest=largest,
        )


@check("shm-over-memory-limit")
def shared_memory_fits_the_memory_limit(shm: Shm | None, cgroup: Cgroup | None, launch: Launch | None) -> Findings:
    container = launch.container if launch else None
    if container is not None:
        limit = container.memory
        here = container.shm_mount not in (None, "tmpfs") or (container.shm_mount is None and container.ipc == "host")
        size = None if here else container.shm_size
        if limit is None or size is None:
            raise NotApplicable("no-memory-limit")
    else:
        if cgroup is not None and cgroup.version and not cgroup.seen and cgroup.path not in ("", "/"):
            raise Undecided("limit-not-read", limit=f"cgroup {cgroup.path}")
        if cgroup is None or cgroup.memory_limit is None:
            raise NotApplicable("no-memory-limit")
        if shm is None or shm.size is None:
            raise Undecided("shm-no-size")
        limit, size = cgroup.memory_limit, shm.size
    if size > limit:
        yield found("shm-over-memory-limit", have_mib=size // MIB, limit_mib=limit // MIB)
