"""How many GPUs the command wants on this host, and which it would see; it judges nothing else.

vllm 0.33.0: vllm/config/parallel.py; sglang 0.5.23: sglang/srt/server_args.py, managers/data_parallel_controller.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.nvml import Gpu, Nvml

from ._gpus import gpus_of, visible
from ._model import Case, whole
from ._model_split import Fault
from ._workers import visible_gpus

# Who else places the workers: vllm/config/parallel.py distributed_executor_backend, data_parallel_backend.
ELSEWHERE = ("ray", "external_launcher")
SCHEDULERS = frozenset(("srun", "sbatch", "mpirun", "mpiexec"))  # the job may run on another machine than this one


def seen(case: Case, nvml: Nvml | None, environment: Environment | None) -> tuple[Gpu, ...]:
    """The GPUs that the engine would see. Undecided where they cannot be seen from here."""
    if nvml is None:
        raise Undecided("launch-gpus-unseen")
    return visible_gpus(nvml, environment, case.launch)


def needed(case: Case) -> int | None:
    """GPUs on this host; None where another program places the workers."""
    if SCHEDULERS.intersection(case.launch.wrappers):
        return None
    ranks = case.size("tensor") * case.size("pipeline")
    nodes, replicas = case.size("nodes"), case.size("data")
    if case.engine == "vllm":
        if case.value("distributed_executor_backend") in ELSEWHERE or case.value("data_parallel_backend") == "ray":
            return None
        ranks *= whole(case.value("prefill_context_parallel_size")) or 1
        if case.value("data_parallel_rank") is not None or case.value("data_parallel_external_lb"):
            replicas = 1
        local = whole(case.value("data_parallel_size_local"))
        if local is not None:
            replicas = local
        elif nodes > 1 or case.value("data_parallel_address") or case.value("data_parallel_hybrid_lb"):
            return -(-ranks // nodes)
        return -(-ranks // nodes) * replicas
    if not case.value("enable_dp_attention"):
        ranks *= replicas
    here = -(-ranks // nodes)
    first, step = case.value("base_gpu_id"), whole(case.value("gpu_id_step")) or 1
    return (first if isinstance(first, int) and first > 0 else 0) + (here - 1) * step + 1


def faults(case: Case, nvml: Nvml | None, environment: Environment | None) -> Iterator[Fault]:
    from . import _launch_inputs as inputs

    need = needed(case)
    if need is None:
        raise Undecided("launch-workers-elsewhere")
    container = case.launch.container
    if container is not None:
        if container.program == "kubernetes":
            raise Undecided("launch-pod-on-nodes")
        asked = inputs.asked(case.launch, container)
        if asked.count is not None and asked.count < need:
            raise NotApplicable("launch-said-by", by="launch-container-gpus-few")
    have = seen(case, nvml, environment)
    inside = case.launch.container is not None
    chosen = visible(gpus_of(nvml), case.variables) if not inside else None
    if (chosen is not None and chosen.mig) or any(g.mig for g in have):
        raise Undecided("launch-gpus-mig")
    if need <= len(have):
        return
    here = len(have)
    ranks = case.size("tensor") * case.size("pipeline")
    message = (
        f"World size ({ranks}) is larger than the number of available GPUs ({here}) in this node. If this is intentional and "
        "you are using: - ray, set '--distributed-executor-backend ray'. - multiprocessing, set '--nnodes' appropriately."
        if case.engine == "vllm" and ranks > here
        else "CUDA error: invalid device ordinal"
    )
    sizes = " × ".join(f"{w} {case.size(w)}" for w in ("tensor", "pipeline", "data") if case.size(w) > 1)
    hidden = len(gpus_of(nvml)) - here
    data = {"need": need, "have": here, "hidden": hidden, "sizes": sizes or "-", "message": message}
    yield Fault("launch-too-few-gpus", case.launch.engine or "", data)
