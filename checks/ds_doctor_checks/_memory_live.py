"""The memory that the engine would find on each GPU that it uses, and who holds the rest; it judges nothing."""

from __future__ import annotations

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.limits import Memory
from ds_doctor.probes.nvml import Gpu, Holder, MigDevice, Nvml

from ._gpus import gpus_of, label, line_of, visible
from ._memory_ask import Ask
from ._workers import visible_gpus

MIB = 1 << 20
GIB = 1 << 30
SHOWN = 4  # processes that a text names
# What NVML counts as memory and CUDA does not, where an old driver does not tell it apart: 0.4 to 2.0 % measured
# (H200 616 of 143,771 MiB, RTX 4090 483 of 24,564).
RESERVED = (0.0, 0.025)
# GiB that an engine has taken by the time it looks at what is free (at least, at most): the CUDA context, with several ranks
# NCCL's buffers, too. Printed by starts of vLLM 0.6 to 0.33 on T4 to B200: 0.2 to 0.6 on one GPU, 1.1 to 2.5 on several.
BEFORE_LOOKING = {False: (0.2, 0.6), True: (0.2, 2.5)}
UNIFIED = ("spark", "jetson")  # lines of GPUs that share the host's memory


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or MIG device, as CUDA sees its memory: bytes. `total` and `free` are (at least, at most). `unified`: it is
    the host's memory, too. `holders`: who has the rest, as far as it is told."""

    on: str
    index: int
    name: str
    total: tuple[int, int]
    free: tuple[int, int]
    holders: tuple[Holder, ...] = ()
    unified: bool = False
    capability: tuple[int, int] | None = None

    @property
    def held(self) -> int:
        """Bytes that are certainly in use now."""
        return max(0, self.total[0] - self.free[1])


def rooms(
    ask: Ask, launch: Launch, nvml: Nvml | None, environment: Environment | None, memory: Memory | None
) -> tuple[Room, ...]:
    """The GPUs of this host that the command would use, in the engine's order. NotApplicable without any, Undecided where
    NVML does not say, or where nobody can tell which part of a divided GPU is meant."""
    gpus = visible_gpus(nvml, environment, launch)
    parts = _mig(nvml, environment, launch)
    if parts:
        found = [_room(part, f"MIG {part.uuid[4:12]}", i, part.name, None) for i, part in enumerate(parts)]
    else:
        if not gpus:
            raise NotApplicable("memory-no-visible-gpu")
        gpus = _chosen(ask, gpus)
        if any(g.mig for g in gpus):
            raise Undecided("memory-mig-unnamed")
        found = [_room(g, label(g), g.index, g.name, memory) for g in gpus]
    local = _local(ask, len(found))
    if local > len(found):
        raise NotApplicable("memory-too-few-gpus", want=local, have=len(found))
    return tuple(found[:local])


def _chosen(ask: Ask, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The visible GPUs that the engine's own flags leave, in their order."""
    if ask.devices is None:
        return gpus[ask.first_device :: ask.device_step]
    found = visible(gpus, {"CUDA_VISIBLE_DEVICES": ",".join(ask.devices)})
    if found.cut is not None or not found.gpus:
        raise Undecided("memory-option-unread", option="--device-ids", value=",".join(ask.devices)[:60])
    return found.gpus


def _local(ask: Ask, have: int) -> int:
    """How many GPUs of this host the command drives."""
    every = ask.ranks * (1 if ask.dp_attention else ask.dp)
    if ask.nodes > 1:
        return -(-every // ask.nodes)
    # Data-parallel engines may stand on other hosts (--data-parallel-size-local, Ray): one whole engine must be here.
    return every if every <= have else max(ask.ranks, have // ask.ranks * ask.ranks)


def _mig(nvml: Nvml | None, environment: Environment | None, launch: Launch) -> list[MigDevice]:
    """The MIG devices that CUDA_VISIBLE_DEVICES names, or the only one there is."""
    gpus = gpus_of(nvml)
    every = [m for g in gpus for m in g.mig_devices]
    if launch.container is not None:
        names: tuple[str, ...] = launch.container.gpus or ()
    else:
        variables = {**(environment.variables if environment else {}), **launch.environment}
        names = visible(gpus, variables).mig
    named = [m for n in names for m in every if m.uuid.startswith(n)]
    if named or not every:
        return named
    return every if len(every) == 1 and all(g.mig for g in gpus) and not names else []


def _capability(part: Gpu | MigDevice) -> tuple[int, int] | None:
    major, _, minor = getattr(part, "cc", "").partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None


def _room(part: Gpu | MigDevice, on: str, index: int, name: str, memory: Memory | None) -> Room:
    if part.memory_total_mib is None:
        if memory is None or line_of(name) not in UNIFIED:
            raise Undecided("memory-not-told", gpu=on)
        # CUDA tells what is free at this moment, vLLM takes what the kernel could free (vllm/utils/mem_utils.py).
        return Room(
            on=on,
            index=index,
            name=name,
            total=(memory.total_mib * MIB, memory.total_mib * MIB),
            free=(memory.available_mib * MIB, memory.available_mib * MIB),
            unified=True,
            holders=part.holders,
            capability=_capability(part),
        )
    total = part.memory_total_mib * MIB
    if part.memory_reserved_mib is not None:
        sure = total - part.memory_reserved_mib * MIB
        least, most = sure, sure
    else:
        least, most = int(total * (1 - RESERVED[1])), int(total * (1 - RESERVED[0]))
    if part.memory_free_mib is None:
        raise Undecided("memory-not-told", gpu=on)
    free = min(part.memory_free_mib * MIB, most)
    return Room(
        on=on,
        index=index,
        name=name,
        total=(least, most),
        free=(free, free),
        holders=part.holders,
        capability=_capability(part),
    )


def held_by(room: Room) -> str:
    """Who holds memory of a GPU, the largest first: `pid 412 VLLM::EngineCore (docker:4f5e6d7c8b9a) 102400 MiB`."""
    holders = sorted(room.holders, key=lambda h: (-(h.memory_mib or 0), h.pid))
    said = [_process(h) for h in holders[:SHOWN]]
    if len(holders) > SHOWN:
        said.append(f"… ({len(holders)})")
    told = sum((h.memory_mib or 0) * MIB for h in {h.pid: h for h in holders}.values())
    untold = room.held - told
    if all(h.memory_mib is not None for h in holders) and untold >= GIB:
        said.append(f"? {untold // MIB} MiB")
    return ", ".join(said) or "?"


def _process(holder: Holder) -> str:
    words = [
        f"pid {holder.pid}",
        holder.command or holder.name or "",
        f"({holder.container})" if holder.container else "",
    ]
    words.append(f"{holder.memory_mib} MiB" if holder.memory_mib is not None else "")
    return " ".join(w for w in words if w)


def gib(size: float) -> float:
    """Bytes as GiB with one digit; below 1 with two."""
    value = size / GIB
    return round(value, 1 if abs(value) >= 1 else 2)


def default_share(ask: Ask) -> float:
    """What vLLM takes without --gpu-memory-utilization (class defaults in its wheels)."""
    return 0.92 if ask.at_least("0.20") else 0.9
