"""What vLLM refuses about sizes, ranks and nodes: vllm 0.33.0 engine/arg_utils.py (create_engine_config) and config/parallel.py."""

from __future__ import annotations

from ._launch_refusal import bad
from ._vllm_view import Refusals, View, no, value_error

_EXECUTORS = ("mp", "uni", "external_launcher")
_HEAD = "Invalid data-parallel launch options: "


def parallel(v: View) -> Refusals:
    """In the engine's order; it ends at the first one of _launch."""
    backend = v.distributed_executor_backend
    if v.pipeline_parallel_size > 1 and backend not in (None, "ray", "mp", "external_launcher") and "." not in backend:
        said = (
            "Pipeline Parallelism without Ray distributed executor or multiprocessing executor or external launcher "
            "is not supported. We recommend to remove Pipeline Parallelism without Ray distributed executor or "
            "multiprocessing executor or external launcher from your config."
        )
        yield no(
            "pp-executor", said, "pipeline_parallel_size", "distributed_executor_backend", kind="NotImplementedError"
        )
        return
    stopped = list(_launch(v))
    yield from stopped[:1]
    if not stopped:
        yield from _config(v)


def _launch(v: View) -> Refusals:
    hybrid, external = v.data_parallel_hybrid_lb, v.data_parallel_external_lb
    if hybrid and external:
        said = (
            _HEAD + "`--data-parallel-hybrid-lb` and `--data-parallel-external-lb` cannot be enabled together. "
            "Enable only one load-balancing mode."
        )
        yield no("balancing-modes", said, "data_parallel_hybrid_lb", "data_parallel_external_lb")
    if v.nnodes > 1:
        yield from _nodes(v)
    rank, local = v.data_parallel_rank, v.data_parallel_size_local
    inferred = v.nnodes > 1 and v.data_parallel_size > 1 and external
    outside = external or rank is not None
    if v.enable_fault_tolerance and not outside:
        said = (
            "Fault tolerance requires external load balancer mode (--data-parallel-external-lb or "
            "--data-parallel-rank). Internal LB mode is not supported."
        )
        yield no("fault-tolerance", said, "enable_fault_tolerance", "data_parallel_external_lb")
    if outside:
        if rank is None and not inferred:
            said = (
                _HEAD
                + "`--data-parallel-external-lb` requires a data-parallel rank. Set `--data-parallel-rank`, or set "
                "`--data-parallel-size` greater than 1 and use `--nnodes` with `--node-rank` so the rank can be inferred."
            )
            yield no("external-rank", said, "data_parallel_external_lb", "data_parallel_rank")
        if local not in (1, None):
            said = (
                _HEAD + f"an external data-parallel rank requires `--data-parallel-size-local 1`; got {local}. "
                "Set it to 1 or omit it."
            )
            yield no("external-local", said, "data_parallel_size_local", "data_parallel_rank")
    elif local is None and hybrid and v.nnodes == 1:
        said = (
            _HEAD + "`--data-parallel-hybrid-lb` requires `--data-parallel-size-local`. "
            "Set it to the number of data-parallel ranks on this node."
        )
        yield no("hybrid-local", said, "data_parallel_hybrid_lb", "data_parallel_size_local")
    backend = v.data_parallel_backend
    if v.data_parallel_address is None and backend not in ("ray", "mp"):
        said = f"('data_parallel_backend can only be ray or mp, got %s', '{backend}')"
        yield bad("dp-backend", said, "data_parallel_backend")


def _nodes(v: View) -> Refusals:
    if v.data_parallel_backend != "mp":
        said = (
            _HEAD + f"`--nnodes {v.nnodes}` requires `--data-parallel-backend mp`; got `--data-parallel-backend "
            f"{v.data_parallel_backend}`. Use the MP backend or set `--nnodes 1`."
        )
        yield no("nodes-backend", said, "nnodes", "data_parallel_backend")
    within = v.pipeline_parallel_size * v.tensor_parallel_size * v.prefill_context_parallel_size
    world = v.data_parallel_size * within
    if world % v.nnodes:
        said = (
            _HEAD + f"`--nnodes {v.nnodes}` must evenly divide the total world size ({world}). Adjust `--nnodes`, "
            "`--data-parallel-size`, `--pipeline-parallel-size`, `--tensor-parallel-size`, or "
            "`--prefill-context-parallel-size`."
        )
        yield no("nodes-divide", said, "nnodes")
    if not 0 <= v.node_rank < v.nnodes:
        said = (
            _HEAD + f"`--node-rank` must be between 0 and {v.nnodes - 1}; got `--node-rank {v.node_rank}`. "
            "Set it to this node's zero-based index."
        )
        yield no("node-rank", said, "node_rank", "nnodes")
    if v.data_parallel_size > 1 and v.data_parallel_external_lb and v.data_parallel_rank is None:
        if v.nnodes % v.data_parallel_size:
            said = (
                _HEAD
                + "`--node-rank` cannot unambiguously identify external data-parallel ranks when `--nnodes` is not "
                "divisible by `--data-parallel-size`. Set a unique `--data-parallel-rank` for each external-LB process."
            )
            yield no("external-nodes", said, "nnodes", "data_parallel_size")


def _local_size(v: View) -> int:
    """How many data-parallel engines this node holds, as create_engine_config has it."""
    if v.data_parallel_external_lb or v.data_parallel_rank is not None:
        return 1
    if v.data_parallel_size_local is not None:
        return int(v.data_parallel_size_local)
    if v.nnodes > 1:
        within = v.pipeline_parallel_size * v.tensor_parallel_size * v.prefill_context_parallel_size
        return max(int(v.data_parallel_size) * int(within) // int(v.nnodes) // int(within), 1)
    return int(v.data_parallel_size)


def _config(v: View) -> Refusals:
    """config/parallel.py. The first one ends it."""
    yield from list(_post_init(v))[:1] or list(_validated(v))[:1]


def _post_init(v: View) -> Refusals:
    outside = bool(v.data_parallel_external_lb) or v.data_parallel_rank is not None
    size, local = v.data_parallel_size, _local_size(v)
    start = v.data_parallel_start_rank
    hybrid = bool(v.data_parallel_hybrid_lb) or (
        not outside and v.data_parallel_size_local is not None and start is not None
    )
    rank = v.data_parallel_rank or 0
    if not outside and v.data_parallel_size_local is not None and start is not None:
        rank = start
    if v.enable_elastic_ep:
        if not v.enable_eplb:
            said = "Elastic EP is only supported with enable_eplb=True."
            yield value_error("elastic-eplb", "ParallelConfig", said, "enable_elastic_ep", "enable_eplb")
        elif v.pipeline_parallel_size > 1:
            said = (
                "Elastic EP is not supported with pipeline parallelism "
                f"(pipeline_parallel_size={v.pipeline_parallel_size})."
            )
            yield value_error("elastic-pp", "ParallelConfig", said, "enable_elastic_ep", "pipeline_parallel_size")
        elif hybrid and local != size and local != 1:
            said = "Elastic EP is not compatible with data_parallel_hybrid_lb."
            yield no("elastic-hybrid", said, "enable_elastic_ep", "data_parallel_hybrid_lb", kind="NotImplementedError")
    if v.distributed_executor_backend != "external_launcher":
        if (size > 1 or local == 0) and not 0 <= rank < size:
            said = f"data_parallel_rank ({rank}) must be in the range [0, {size})"
            about = "data_parallel_rank" if v.given("data_parallel_rank") else "data_parallel_start_rank"
            yield value_error("dp-rank", "ParallelConfig", said, about, "data_parallel_size")
    most = v.elastic_ep_max_dp_size
    if v.enable_elastic_ep and most is not None and most < size:
        said = f"--elastic-ep-max-dp-size must be greater than or equal to the initial data_parallel_size ({size})."
        yield value_error("elastic-max", "ParallelConfig", said, "elastic_ep_max_dp_size", "data_parallel_size")
    if v.nnodes > 1 and v.distributed_executor_backend not in (None, *_EXECUTORS):
        said = "nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher."
        yield value_error("nodes-executor", "ParallelConfig", said, "nnodes", "distributed_executor_backend")


def _validated(v: View) -> Refusals:
    name = "ParallelConfig"
    outside = bool(v.data_parallel_external_lb) or v.data_parallel_rank is not None
    size, local = v.data_parallel_size, _local_size(v)
    known_local = v.data_parallel_size_local is not None or v.nnodes > 1
    hybrid = v.data_parallel_hybrid_lb or (v.data_parallel_start_rank is not None and not v.headless)
    switched = not outside and known_local and hybrid and local == 1  # such a hybrid becomes an external one
    if local > size:
        said = f"data_parallel_size_local ({local}) must be <= data_parallel_size ({size})"
        yield value_error("local-size", name, said, "data_parallel_size_local", "data_parallel_size")
    if size <= 1 and (outside or switched):
        said = "data_parallel_external_lb can only be set when data_parallel_size > 1"
        modes = (
            "data_parallel_rank",
            "data_parallel_external_lb",
            "data_parallel_hybrid_lb",
            "data_parallel_start_rank",
        )
        about = next((d for d in modes if v.made.values.get(d) not in (None, False)), modes[1])
        yield value_error("external-size", name, said, about, "data_parallel_size")
    nodes, binds = v.numa_bind_nodes, v.numa_bind_cpus
    if not v.numa_bind and (nodes is not None or binds is not None):
        said = "numa_bind_nodes and numa_bind_cpus require numa_bind=True."
        yield value_error(
            "numa-bind", name, said, "numa_bind_nodes" if nodes is not None else "numa_bind_cpus", "numa_bind"
        )
    tp, pcp, dcp = v.tensor_parallel_size, v.prefill_context_parallel_size, v.decode_context_parallel_size
    redundant = v.config("eplb_config").get("num_redundant_experts", 0)
    if v.enable_eplb:
        if not v.enable_expert_parallel:
            said = "enable_expert_parallel must be True to use EPLB."
            yield value_error("eplb-ep", name, said, "enable_eplb", "enable_expert_parallel")
        elif tp * pcp * size <= 1:
            said = f"EPLB requires tensor, prefill-context, or data parallelism, but got TP={tp}, PCP={pcp}, DP={size}."
            yield value_error("eplb-size", name, said, "enable_eplb", "tensor_parallel_size")
    elif redundant not in (0, "0", False):
        said = (
            f"num_redundant_experts is set to {redundant} but EPLB is not enabled. "
            "Either enable EPLB or unset num_redundant_experts."
        )
        yield value_error("eplb-redundant", name, said, "eplb_config", "enable_eplb")
    if pcp == 1 and tp % dcp:
        said = f"tp_size={tp} must be divisible by dcp_size={dcp}."
        yield value_error("dcp-divides", name, said, "decode_context_parallel_size", "tensor_parallel_size")
    elif pcp != 1 and dcp not in (1, pcp, tp * pcp):
        said = (
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP axis. "
            f"Got TP={tp}, PCP={pcp}, DCP={dcp}; valid DCP sizes are {sorted({1, pcp, tp * pcp})}."
        )
        yield value_error("dcp-pcp", name, said, "decode_context_parallel_size", "prefill_context_parallel_size")
    if v.ray_workers_use_nsight and v.distributed_executor_backend != "ray" and v.data_parallel_backend != "ray":
        said = "Unable to use nsight profiling unless workers run with Ray."
        yield value_error("nsight-ray", name, said, "ray_workers_use_nsight", "distributed_executor_backend")
    batches = 2 if v.enable_dbo else v.ubatch_size
    if batches > 1 and min(v.dbo_decode_token_threshold, v.dbo_prefill_token_threshold) < batches:
        said = (
            "dbo_decode_token_threshold and dbo_prefill_token_threshold must be at least the number of "
            f"microbatches ({batches})."
        )
        given = [d for d in ("dbo_decode_token_threshold", "dbo_prefill_token_threshold", "ubatch_size") if v.given(d)]
        yield value_error("dbo-threshold", name, said, *given)
