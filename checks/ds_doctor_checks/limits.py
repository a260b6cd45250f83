"""Limits: may the engine's processes open, lock, start, load and store what they need here?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.disk import Disk, Place
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.limits import Limit, Limits, Memory
from ds_doctor.probes.nvml import Nvml

from ._workers import visible_gpus, workers

MIB = 1 << 20
GIB = 1 << 30

# Both engines raise their soft limit to this at start and warn when the hard limit forbids it:
# vllm 0.33.0 utils/system_utils.py set_ulimit, sglang 0.5.23 srt/utils/common.py set_ulimit.
OPEN_FILES = 65535
# Measured: with 24 open files CUDA fails with "CUDA-capable device(s) is/are busy or unavailable". 256 is a proposal: an
# engine's process has some hundred open (devices, libraries, sockets, pipes).
OPEN_FILES_FEW = 256
# Proposal: a worker with its threads for OpenMP, NCCL, CUDA and the tokenizer has a few hundred tasks.
TASKS_PER_WORKER = 512
# Proposal, for the process alone without weights or offload: torch with CUDA and the engine take 2 to 4 GiB a worker.
MEMORY_PER_WORKER_MIB = 4096
# vLLM's rule: one core each for the API server and the engine core, one for each worker
# (docs/configuration/optimization.md, "CPU resources for GPU deployments").
CPUS_BESIDE_WORKERS = 2
DISK_FULL_MIB = 100  # proposal: not even the compile caches of a small model fit
DISK_LOW_MIB = 2048  # proposal: compile caches (torch inductor, Triton, FlashInfer) grow to this
FILES_LEFT = 1000  # proposal
RDMA_LOCKED_MIB = 1024  # less cannot register the buffers of one NCCL communicator; NCCL's guide asks for no limit


def _least(limit: Limit) -> int | None:
    return limit.soft if limit.soft is not None else limit.hard


def _unread(cgroup: Cgroup | None, rule: str) -> Findings:
    """`unknown` where this process is in a control group of which no file could be read. The topmost group has none."""
    if cgroup is not None and cgroup.version and not cgroup.seen and cgroup.path not in ("", "/"):
        yield undecided(rule, "limit-not-read", limit=f"cgroup {cgroup.path}")


@check("limits-open-files", "limits-open-files-few")
def files_can_be_opened(limits: Limits) -> Findings:
    if limits.open_files is None:
        raise Undecided("limit-not-read", limit="open files")
    soft, hard = limits.open_files.soft, limits.open_files.hard
    if soft is not None and soft < OPEN_FILES_FEW:
        yield found("limits-open-files-few", have=soft, need=OPEN_FILES_FEW)
    # A soft limit below the hard one is raised by the engines themselves.
    elif hard is not None and hard < OPEN_FILES:
        yield found("limits-open-files", have=hard, need=OPEN_FILES)


@check("limits-locked-memory")
def rdma_memory_can_be_locked(limits: Limits) -> Findings:
    if not limits.rdma:
        raise NotApplicable("no-rdma")
    if limits.locked_memory is None:
        raise Undecided("limit-not-read", limit="locked memory")
    have = _least(limits.locked_memory)
    # The kernel does not hold a process with CAP_IPC_LOCK to the limit (drivers/infiniband/core/umem.c).
    if have is not None and have < RDMA_LOCKED_MIB * MIB and not limits.ipc_lock:
        if limits.ipc_lock is None:
            raise Undecided("limit-not-read", limit="CapEff")
        yield found("limits-locked-memory", have_kib=have >> 10, device=limits.rdma[0])


@check("limits-address-space")
def address_space_holds_cuda(
    limits: Limits, nvml: Nvml | None, memory: Memory, environment: Environment | None, launch: Launch | None
) -> Findings:
    gpus = visible_gpus(nvml, environment, launch)
    if limits.address_space is None:
        raise Undecided("limit-not-read", limit="address space")
    have = _least(limits.address_space)
    if have is None:
        return
    # CUDA's unified addressing reserves room for the memory of all GPUs that it sees and of the host.
    need_mib = memory.total_mib + sum(g.memory_total_mib or 0 for g in gpus)
    if have < need_mib * MIB:
        yield found("limits-address-space", have_gib=round(have / GIB, 1), need_gib=-(-need_mib // 1024))


@check("limits-processes")
def processes_can_be_started(
    limits: Limits,
    cgroup: Cgroup | None,
    launch: Launch | None,
    nvml: Nvml | None,
    environment: Environment | None,
) -> Findings:
    count = workers(launch, len(visible_gpus(nvml, environment, launch))).count
    need = TASKS_PER_WORKER * max(1, count)
    if cgroup is not None and cgroup.pids_limit is not None:
        room = max(0, cgroup.pids_limit - (cgroup.pids_used or 0))
        if room < need:
            yield found("limits-processes", on="pids.max", have=cgroup.pids_limit, room=room, need=need, workers=count)
    # The limit per user does not bind root and CAP_SYS_RESOURCE (kernel/fork.c, copy_process).
    root = environment is not None and environment.uid == 0
    if limits.sys_resource or root:
        pass
    elif limits.processes is None:
        yield undecided("limits-processes", "limit-not-read", limit="processes")
    else:
        have = _least(limits.processes)
        if have is not None and have < need:
            if limits.sys_resource is None:
                yield undecided("limits-processes", "limit-not-read", limit="CapEff")
            else:
                yield found("limits-processes", on="ulimit -u", have=have, room=have, need=need, workers=count)
    yield from _unread(cgroup, "limits-processes")


@check("limits-memory")
def memory_holds_the_workers(
    memory: Memory,
    cgroup: Cgroup | None,
    launch: Launch | None,
    nvml: Nvml | None,
    environment: Environment | None,
) -> Findings:
    count = max(1, workers(launch, len(visible_gpus(nvml, environment, launch))).count)
    have, on = memory.available_mib, "/proc/meminfo"
    if launch is not None and launch.container is not None:
        if launch.container.memory is not None:
            limit_mib = launch.container.memory // MIB
            have, on = (limit_mib, "--memory") if limit_mib < have else (have, on)
    elif cgroup is not None and cgroup.memory_limit is not None:
        # File pages in the group are taken back before anything is killed.
        used = max(0, (cgroup.memory_used or 0) - (cgroup.memory_cache or 0))
        room = max(0, cgroup.memory_limit - used) // MIB
        if room < have:
            have, on = room, cgroup.memory_limit_at or "cgroup"
    need = MEMORY_PER_WORKER_MIB * count
    if have < need:
        yield found("limits-memory", on=on, have_mib=have, need_mib=need, workers=count)
    elif launch is None or launch.container is None:
        yield from _unread(cgroup, "limits-memory")


@check("limits-oom-kills")
def nothing_was_killed_for_memory(cgroup: Cgroup) -> Findings:
    if cgroup.oom_kills is None:
        raise NotApplicable("no-oom-count")
    if cgroup.oom_kills:
        yield found("limits-oom-kills", kills=cgroup.oom_kills)


@check("limits-cpus")
def cpus_suffice(
    limits: Limits,
    cgroup: Cgroup | None,
    launch: Launch | None,
    nvml: Nvml | None,
    environment: Environment | None,
) -> Findings:
    count = max(1, workers(launch, len(visible_gpus(nvml, environment, launch))).count)
    if launch is not None and launch.container is not None:
        raise NotApplicable("container-not-started")
    have: float | None = limits.cpus
    if cgroup is not None and cgroup.cpus is not None:
        have = cgroup.cpus if have is None else min(have, cgroup.cpus)
    if have is None:
        raise Undecided("limit-not-read", limit="Cpus_allowed_list")
    need = count + CPUS_BESIDE_WORKERS
    if have < need:
        yield found("limits-cpus", have=f"{have:g}", need=need, workers=count)


def _by_file_system(disk: Disk, judged: tuple[str, ...]) -> list[tuple[str, Place]]:
    """One place a file system (told by its size and free space), with the roles that lie on it."""
    grouped: dict[tuple[int | None, int | None, bool], list[Place]] = {}
    for place in disk.places:
        if place.role in judged and place.free is not None:
            grouped.setdefault((place.size, place.free, place.read_only), []).append(place)
    return [(", ".join(dict.fromkeys(p.path for p in places)), places[0]) for places in grouped.values()]


WRITTEN = ("hf-home", "hf-hub", "vllm-cache", "triton-cache", "tmp")
DOWNLOADED = ("hf-home", "hf-hub")  # whether compiled kernels can be kept is the cuda family's question


@check("limits-disk-full", "limits-disk-low")
def disks_have_room(disk: Disk) -> Findings:
    places = _by_file_system(disk, WRITTEN)
    if not places:
        raise Undecided("no-disk-read")
    for paths, place in places:
        # A file system without a size holds no files at all (/proc, where HOME=/proc leads): not a question of room.
        if place.read_only or place.free is None or not place.size:
            continue
        free_mib = place.free // MIB
        if free_mib < DISK_FULL_MIB:
            yield found("limits-disk-full", on=paths, left=f"{free_mib} MiB")
        elif place.files_free is not None and place.files_free < FILES_LEFT:
            yield found("limits-disk-full", on=paths, left=f"{place.files_free} inodes")
        elif free_mib < DISK_LOW_MIB:
            yield found("limits-disk-low", on=paths, free_mib=free_mib, need_mib=DISK_LOW_MIB)


@check("limits-cache-read-only")
def caches_can_be_written(disk: Disk) -> Findings:
    if not disk.places:
        raise Undecided("no-disk-read")
    for paths, place in _by_file_system(disk, DOWNLOADED):
        if place.read_only:
            yield found("limits-cache-read-only", on=paths, at=place.at)
