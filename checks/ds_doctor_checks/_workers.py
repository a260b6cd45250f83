"""How many worker processes the launch would start here, and which GPUs form a tensor-parallel group; judges nothing."""

from __future__ import annotations

import msgspec

from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nvml import Gpu, Nvml

from ._gpus import gpus_of, visible


class Workers(msgspec.Struct, frozen=True, kw_only=True):
    """`count` processes that each drive a GPU on this host, in tensor-parallel groups of `group`; `engine` of them belong
    to one engine (data parallelism starts several). Where no command is given, one group over all visible GPUs."""

    count: int
    group: int
    engine: int


def workers(launch: Launch | None, gpus: int) -> Workers:
    """What the command asks for; without one, one worker for each visible GPU."""
    if launch is None or launch.engine is None:
        return Workers(count=gpus, group=gpus, engine=gpus)
    group = launch.tensor_parallel or 1
    # SGLang's data-parallel attention splits the tensor-parallel ranks instead of adding engines.
    split = launch.engine == "sglang" and "--enable-dp-attention" in launch.argv
    engine = group * (launch.pipeline_parallel or 1)
    count = engine * (1 if split else launch.data_parallel or 1)
    if launch.nodes and launch.nodes > 1:
        count = -(-count // launch.nodes)
    # What does not fit on this host is another rule's business; more workers than GPUs do not start here.
    count = min(count, gpus) if gpus else count
    return Workers(count=count, group=min(group, count), engine=min(engine, count))


def visible_gpus(nvml: Nvml | None, environment: Environment | None, launch: Launch | None = None) -> tuple[Gpu, ...]:
    """The GPUs that the engine would see, in its order. Raises as `gpus_of` does where NVML names none.

    MIG devices are left out: they have no links of their own.
    """
    gpus = gpus_of(nvml)
    variables = dict(environment.variables) if environment else {}
    if launch is not None and launch.container is not None:
        # Nothing of this environment is handed into a container; inside it the GPUs are numbered anew.
        if launch.container.gpus is not None:
            gpus = visible(gpus, {"CUDA_VISIBLE_DEVICES": ",".join(launch.container.gpus)}).gpus
        else:
            counts = [g.count for g in launch.container.asked_gpus if g.count is not None]
            gpus = gpus[: counts[-1]] if counts else gpus  # which of them, the runtime decides
        numbered = tuple(msgspec.structs.replace(g, index=i) for i, g in enumerate(gpus))
        inside = visible(numbered, launch.environment).gpus
        return tuple(gpus[g.index] for g in inside)
    if launch is not None:
        variables.update(launch.environment)
    return visible(gpus, variables).gpus


def groups(gpus: tuple[Gpu, ...], of: Workers) -> list[tuple[Gpu, ...]]:
    """The tensor-parallel groups: both engines hand out the visible GPUs in order."""
    if of.group < 2:
        return []
    used = gpus[: of.count]
    return [used[i : i + of.group] for i in range(0, len(used) - of.group + 1, of.group)]
