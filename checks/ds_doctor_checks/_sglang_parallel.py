"""SGLang's start-up checks of parallel sizes and nodes; sglang 0.5.23 srt/arg_groups/parallel_hook.py and validation_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View


def old_attention_dp(v: View) -> Refusals:
    """handle_deprecated_dp_attention: --dp-size N --enable-dp-attention is --attn-dp-size N."""
    if v.enable_dp_attention and v.attn_dp_size == 1:
        v.declare(attn_dp_size=v.dp_size, dp_size=1)
    v.declare(enable_dp_attention=False, said_dp_attention=bool(v.enable_dp_attention))
    return
    yield


def decode_context(v: View) -> Refusals:
    """handle_decode_context_parallelism."""
    if v.dcp_size < 1:
        yield no(
            "dcp-size",
            "Decode context parallel size (--dcp-size / --decode-context-parallel-size) must be >= 1, but got "
            f"dcp_size={v.dcp_size}.",
            "dcp_size",
        )
        return
    if v.dcp_size > 1 and v.enable_prefill_cp:
        yield no("dcp-prefill", "--dcp-size > 1 does not support --enable-prefill-cp.", "dcp_size", "enable_prefill_cp")
    backend = v.dcp_comm_backend
    if backend in ("a2a", "fi_a2a") and v.dcp_size <= 1:
        yield no(
            "dcp-backend",
            f"--dcp-comm-backend {backend} only affects the decode context-parallel attention reduction and therefore requires "
            f"--dcp-size / --decode-context-parallel-size > 1, but got dcp_size={v.dcp_size}.",
            "dcp_comm_backend",
            "dcp_size",
        )
    if v.dcp_replicate_q_proj:
        if v.dcp_size <= 1:
            yield no(
                "dcp-replicate", "--dcp-replicate-q-proj requires --dcp-size > 1.", "dcp_replicate_q_proj", "dcp_size"
            )
        elif backend is not None and backend not in ("a2a", "fi_a2a"):
            yield no(
                "dcp-replicate",
                "--dcp-replicate-q-proj only applies to the a2a/fi_a2a DCP communication backend (it removes the head-dim Q "
                f"all-gather); got --dcp-comm-backend={backend}.",
                "dcp_replicate_q_proj",
                "dcp_comm_backend",
            )


def weights_dp(v: View) -> Refusals:
    """handle_dwdp."""
    if v.dwdp_size <= 1:
        return
    if v.dwdp_size != v.tp_size:
        yield bad("dwdp", f"dwdp_size ({v.dwdp_size}) must equal tp_size ({v.tp_size})", "dwdp_size", "tp_size")
    for wrong, said, dest in (
        (
            v.disaggregation_mode not in ("null", "prefill"),
            "DWDP requires --disaggregation-mode null or prefill",
            "disaggregation_mode",
        ),
        (v.enable_eplb, "EPLB dynamic migration conflicts with static DWDP partitioning", "enable_eplb"),
        (
            v.speculative_algorithm is not None,
            "DWDP does not support speculative decoding (MTP/draft workers)",
            "speculative_algorithm",
        ),
        (v.pp_size != 1, "DWDP requires pp_size == 1", "pp_size"),
        (
            v.enable_two_batch_overlap,
            "DWDP's prefetch event protocol does not support two-batch overlap",
            "enable_two_batch_overlap",
        ),
    ):
        if wrong:
            yield bad("dwdp", said, "dwdp_size", dest)
            break
    v.declare(attn_dp_size=v.dwdp_size, dp_size=1, enable_dp_lm_head=True, moe_dense_tp_size=1)
    v.declare(ep_size=v.dwdp_size, moe_dp_size=1, moe_a2a_backend="none")


def data(v: View) -> Refusals:
    """handle_data_parallelism."""
    if v.attn_dp_size < 1:
        yield no("attn-dp-positive", f"--attn-dp-size must be positive (got {v.attn_dp_size}).", "attn_dp_size")
        return
    if v.attn_dp_size > 1 and v.dp_size > 1:
        yield no(
            "attn-dp-and-dp",
            f"--dp-size {v.dp_size} with --attn-dp-size {v.attn_dp_size}: data-parallel replicas combined with attention data "
            "parallelism are not supported.",
            "attn_dp_size",
            "dp_size",
        )
    if v.replicas == 1 and v.ep_join_mode != "scale":
        v.declare(enable_dp_lm_head=False)
    if v.attn_dp:
        if v.tp_size % v.attn_dp_size:
            yield bad("attn-dp-tp", "", "dp_size" if v.said_dp_attention else "attn_dp_size", "tp_size")
        if v.chunked_prefill_size is not None:
            v.declare(chunked_prefill_size=v.chunked_prefill_size // v.attn_dp_size)
    yield from _language_head(v)


def _language_head(v: View) -> Refusals:
    """_tp_lm_head_all_to_all_default and _dp_lm_head_validation."""
    if v.enable_dp_lm_head and not v.attn_dp:
        said = "--enable-dp-lm-head requires attention DP (--attn-dp-size)."
        yield bad("dp-lm-head", said, "enable_dp_lm_head", "attn_dp_size")
    if not v.enable_tp_lm_head_all_to_all:
        return
    about = "enable_tp_lm_head_all_to_all"
    name = "--enable-tp-lm-head-all-to-all"
    if not v.attn_dp:
        yield bad("tp-lm-head", f"{name} requires attention DP (--attn-dp-size).", about, "attn_dp_size")
    elif v.enable_dp_lm_head:
        yield bad(
            "tp-lm-head",
            f"{name} uses a TP-sharded LM head and is incompatible with --enable-dp-lm-head.",
            about,
            "enable_dp_lm_head",
        )
    elif v.tp_size != v.attn_dp_size:
        yield bad(
            "tp-lm-head",
            f"{name} currently requires tp_size == attn_dp_size, got tp_size={v.tp_size}, attn_dp_size={v.attn_dp_size}.",
            about,
            "tp_size",
            "attn_dp_size",
        )
    elif v.attn_cp_size != 1:
        yield bad(
            "tp-lm-head", f"{name} currently requires attn_cp_size == 1, got {v.attn_cp_size}.", about, "attn_cp_size"
        )


def context(v: View) -> Refusals:
    """handle_context_parallelism."""
    if v.enable_prefill_cp and v.cp_strategy is None:
        said = "--cp-strategy must be set when --enable-prefill-cp is enabled."
        yield no("cp-strategy", said, "enable_prefill_cp", "cp_strategy")
        return
    if v.attn_cp_size > 1:
        if v.tp_size % v.attn_cp_size:
            yield bad("attn-cp-tp", "tp_size must be divisible by attn_cp_size", "tp_size", "attn_cp_size")
        elif v.tp_size % (v.attn_dp_size * v.attn_cp_size):
            said = "tp_size must be divisible by attn_dp_size * attn_cp_size"
            yield bad("attn-dp-cp", said, "tp_size", "attn_dp_size", "attn_cp_size")
        if v.enable_aiter_allreduce_fusion:
            said = "Aiter allreduce fusion is not supported with context parallelism"
            yield bad("aiter-cp", said, "enable_aiter_allreduce_fusion", "attn_cp_size")
    if v.moe_dp_size > 1:
        yield from _moe_dp(v)
    if v.attn_cp_size != v.moe_dp_size and v.moe_dp_size != 1:
        said = "attn_cp_size != moe_dp_size is only supported when moe_dp_size == 1"
        yield bad("cp-moe-dp", said, "attn_cp_size", "moe_dp_size")


def _moe_dp(v: View) -> Refusals:
    if v.tp_size % v.moe_dp_size:
        yield bad("moe-dp-tp", "tp_size must be divisible by moe_dp_size", "tp_size", "moe_dp_size")
    elif v.ep_size * v.moe_dp_size > v.tp_size:
        said = "ep_size * moe_dp_size must be less than or equal to tp_size"
        yield bad("ep-moe-dp", said, "ep_size", "moe_dp_size", "tp_size")
    elif v.pp_size != 1:
        yield bad("moe-dp-pp", "PP is not supported with context parallelism", "pp_size", "moe_dp_size")
    elif v.ep_size > 1 and v.ep_size * v.moe_dp_size != v.tp_size:
        yield bad("ep-moe-dp", "ep_size * moe_dp_size must be equal to tp_size", "ep_size", "moe_dp_size", "tp_size")


def shared_experts(v: View) -> Refusals:
    """handle_shared_experts_tp; the model decides what is left."""
    size = v.shared_experts_tp_size
    if size is None:
        return
    width = v.tp_size // v.attn_dp_size // v.attn_cp_size
    if size < 1 or width % size:
        said = f"--shared-experts-tp-size ({size}) must be a positive divisor of attention TP size ({width})."
        yield no("shared-experts-tp", said, "shared_experts_tp_size")
    elif v.model.known and v.model.architecture != "KimiK3ForConditionalGeneration":
        said = "--shared-experts-tp-size is only supported for Kimi-K3."
        yield no("shared-experts-tp", said, "shared_experts_tp_size")


def eplb(v: View) -> Refusals:
    """handle_eplb_and_dispatch."""
    alone = v.moe_a2a_backend == "none"
    algorithm = v.ep_dispatch_algorithm
    if alone and algorithm in ("static", "lp"):
        yield no(
            "ep-dispatch",
            f"--ep-dispatch-algorithm {algorithm} picks a different physical replica per rank, which only holds up when an a2a "
            "backend routes each token to a single rank. Use --ep-dispatch-algorithm dynamic with --moe-a2a-backend none.",
            "ep_dispatch_algorithm",
            "moe_a2a_backend",
        )
    if v.enable_eplb and v.ep_join_mode != "scale" and not v.ep_size > 1:
        yield bad("eplb-ep", "", "enable_eplb", "ep_size")


def elastic(v: View) -> Refusals:
    """handle_elastic_ep, without what concerns a joining group's sizes."""
    backend = v.elastic_ep_backend
    if backend is not None:
        if v.enable_eplb and v.eplb_algorithm not in ("auto", "elasticity_aware", "elasticity_aware_hierarchical"):
            yield bad(
                "elastic-eplb",
                "Elastic EP requires eplb_algorithm to be set to 'auto' or 'elasticity_aware(_hierarchical)'.",
                "elastic_ep_backend",
                "eplb_algorithm",
            )
        if v.pp_size != 1:
            yield bad("elastic-pp", "PP size should be set to 1 under elastic EP", "elastic_ep_backend", "pp_size")
    if v.ep_join_mode is not None:
        if backend is None:
            said = "--elastic-ep-join-mode requires --elastic-ep-backend to be set."
            yield bad("elastic-join", said, "ep_join_mode")
        elif v.ep_join_mode == "scale" and v.node_rank != 1:
            said = f"Elastic EP scale-up requires one joining TP group at --node-rank 1 (got {v.node_rank})."
            yield bad("elastic-join", said, "ep_join_mode", "node_rank")
        elif v.ep_join_mode == "scale" and v.ep_join_rank_offset <= 0:
            said = (
                "Elastic EP scale joiners require --elastic-ep-join-rank-offset set to the current effective EP size."
            )
            yield bad("elastic-join", said, "ep_join_mode")
    if v.ep_join_rank_offset != 0 and v.ep_join_mode != "scale":
        said = "--elastic-ep-join-rank-offset is only valid with --elastic-ep-join-mode scale."
        yield bad("elastic-offset", said, "ep_join_rank_offset")
    if v.max_ep_size is not None:
        if backend is None:
            yield bad("elastic-max", "--max-ep-size requires --elastic-ep-backend to be set.", "max_ep_size")
        elif v.max_ep_size <= 0:
            yield bad("elastic-max", "--max-ep-size must be a positive integer.", "max_ep_size")
    growing = backend is not None and v.max_ep_size is not None and v.max_ep_size > v.tp_size
    if v.elastic_ep_initial_size is not None and not growing:
        yield bad(
            "elastic-initial",
            "--elastic-ep-initial-size is only valid for an Elastic EP deployment with --max-ep-size larger than its local TP size.",
            "elastic_ep_initial_size",
        )


def sizes(v: View) -> Refusals:
    """The head of check_server_args."""
    if v.ep_join_mode != "scale":
        if v.nnodes == 0:
            yield no("nodes", "integer modulo by zero", "nnodes", kind="ZeroDivisionError")
        elif v.tp_size * v.pp_size % v.nnodes:
            yield bad("nodes", "tp_size must be divisible by number of nodes", "tp_size", "nnodes")
    if v.pp_max_micro_batch_size is not None and v.pp_max_micro_batch_size < 1:
        yield bad(
            "pp-micro-batch",
            "pp_max_micro_batch_size must be a positive integer or None (for auto-compute). Got: "
            f"{v.pp_max_micro_batch_size}",
            "pp_max_micro_batch_size",
        )
    if v.disable_cuda_graph_padding and v.enable_torch_compile:
        yield bad(
            "padding-compile",
            "--disable-cuda-graph-padding is incompatible with --enable-torch-compile. With padding disabled, every distinct "
            "batch size gets its own torch.compile + Triton autotune cycle (O(max_batch_size) compilations) instead of the "
            "small fixed set of padded bucket sizes, causing engine initialisation to stall for many minutes. Remove "
            "--disable-cuda-graph-padding or --enable-torch-compile.",
            "disable_cuda_graph_padding",
            "enable_torch_compile",
        )
    if v.pp_size > 1:
        yield from _pipeline(v)
    if v.dp_size > 1 and v.nnodes != 1:
        yield bad(
            "dp-nodes",
            "multi-node data-parallel replicas are not supported; use attention DP (--attn-dp-size) across nodes",
            "dp_size",
            "nnodes",
        )
    if v.base_gpu_id < 0:
        yield bad("base-gpu", "base_gpu_id must be non-negative", "base_gpu_id")
    if v.gpu_id_step < 1:
        yield bad("gpu-step", "gpu_id_step must be positive", "gpu_id_step")
    if v.moe_dense_tp_size not in (None, 1, v.tp_size):
        yield bad(
            "moe-dense-tp",
            "moe_dense_tp_size only supports None, 1, or tp_size currently",
            "moe_dense_tp_size",
            "tp_size",
        )
    name = v.served_model_name if v.served_model_name is not None else v.model_path
    if ":" in name and not name.lower().startswith(("s3://", "gs://", "az://")):
        yield bad(
            "name-colon",
            "served_model_name cannot contain a colon (':') character. The colon is reserved for the 'model:adapter' syntax used "
            f"in LoRA adapter specification. Invalid value: '{name}'",
            "served_model_name" if v.served_model_name is not None else "model_path",
        )


def _pipeline(v: View) -> Refusals:
    """check_pipeline_parallel_compat; overlap scheduling is switched off by the engine itself."""
    algorithm = v.speculative_algorithm
    staged = v.is_set("SGLANG_ENABLE_PP_SPEC")
    if algorithm == "DSPARK":
        if v.disaggregation_mode != "prefill":
            said = "Pipeline parallel DSPARK requires disaggregation-mode=prefill"
            yield bad("pp-dspark", said, "pp_size", "speculative_algorithm")
    elif algorithm is not None:
        if algorithm.upper() != "EAGLE" or v.enable_multi_layer_eagle:
            said = "Pipeline parallelism currently only supports EAGLE (non-multi-layer) speculative decoding"
            yield bad("pp-speculative", said, "pp_size", "speculative_algorithm")
        elif not staged and v.disaggregation_mode != "prefill":
            yield bad(
                "pp-speculative",
                "PP + speculative decoding (MTP) is only supported on prefill nodes (disaggregation-mode=prefill)",
                "pp_size",
                "speculative_algorithm",
            )
    if v.min_free_slots_delay is not None:
        yield bad(
            "pp-free-slots",
            "--min-free-slots-delay is not supported with pipeline parallelism: allocatable slots per microbatch are bounded by "
            "pp-max-micro-batch-size, so the threshold may never be reached",
            "min_free_slots_delay",
            "pp_size",
        )
