"""SGLang's start-up checks of attention, experts, graphs and state kernels; sglang 0.5.23 attention_hook.py, moe_hook.py, cuda_graph_hook.py, mamba_hook.py."""

from __future__ import annotations

from ._sglang_view import Refusals, View, bad, no

_DETERMINISTIC = ["ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton"]
_RADIX_DETERMINISTIC = ["ascend", "fa3", "fa4", "triton"]
_ABSORBED = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM")
# overrides.py: _A2A_EP_SPANNING_BACKENDS
SPANNING = (
    "deepep",
    "deepep_v2",
    "mooncake",
    "nixl",
    "mori",
    "ascend_fuseep",
    "flashinfer",
    "flashinfer_megamoe",
    "megamoe",
    "pplx",
)


def mega(v: View) -> Refusals:
    """handle_mega_moe."""
    if v.moe_runner_backend == "megamoe":
        v.declare(moe_runner_backend="auto", moe_a2a_backend="megamoe")
    if v.moe_a2a_backend == "megamoe" and (v.enable_two_batch_overlap or v.enable_single_batch_overlap):
        yield no(
            "megamoe-overlap",
            "--moe-a2a-backend megamoe has no two-batch / single-batch overlap decomposition; disable --enable-two-batch-overlap "
            "and --enable-single-batch-overlap.",
            "moe_a2a_backend",
            "enable_two_batch_overlap" if v.enable_two_batch_overlap else "enable_single_batch_overlap",
        )


_KEYS: dict[str, tuple[str, ...]] = {
    "decode": ("backend", "max_bs", "bs"),
    "prefill": (
        *("backend", "max_bs", "bs", "max_context_size", "full_prefill_max_req"),
        *("full_prefill_prefix_chunk_tokens", "max_seq_len"),
    ),
}


def graphs(v: View) -> Refusals:
    """handle_cuda_graph_config."""
    config = v.cuda_graph_config
    # The words of the parser's own function for this flag (model_executor/cuda_graph_config.py).
    name, about = "argument --cuda-graph-config: --cuda-graph-config", "cuda_graph_config"
    if config is not None and not isinstance(config, dict):
        said = f"{name} must be a JSON object, got {type(config).__name__}"
        yield no("graph-config", said, about, kind="sglang serve: error")
        return
    for phase, settings in (config or {}).items():
        said = ""
        if phase not in _KEYS:
            said = f"{name}: unknown phase '{phase}', expected one of {tuple(_KEYS)}"
        elif not isinstance(settings, dict):
            said = f"{name}['{phase}'] must be a JSON object, got {type(settings).__name__}"
        elif settings.get("backend") == "tc_piecewise":
            said = "argument --cuda-graph-config: tc_piecewise was removed; select breakable, full, or disabled"
        else:
            for key in settings:
                if key not in _KEYS[phase]:
                    said = f"{name}['{phase}']: unknown key '{key}', expected one of {_KEYS[phase]}"
                    break
        if said:
            yield no("graph-config", said, about, kind="sglang serve: error")
            return
        backend = settings.get("backend", "full")
        if backend not in ("full", "breakable", "disabled"):
            yield no(
                "graph-backend",
                f"--cuda-graph-config[{phase}].backend={backend!r} not allowed; allowed: ('full', 'breakable', 'disabled')",
                "cuda_graph_config",
            )
            return


def graph_context(v: View) -> Refusals:
    """finalize_cuda_graph_prefill_max_context; against the model's context it is the model's affair."""
    size = v.cuda_graph_prefill_max_context
    config = v.cuda_graph_config
    if isinstance(config, dict):
        size = config.get("prefill", {}).get("max_context_size", size)
    if isinstance(size, int) and size <= 0:
        said = "--cuda-graph-prefill-max-context must be a positive integer"
        yield no("graph-context", said, "cuda_graph_prefill_max_context")


def deterministic(v: View) -> Refusals:
    """handle_deterministic_inference."""
    if v.rl_on_policy_target is not None:
        v.declare(enable_deterministic_inference=True)
    if not v.enable_deterministic_inference:
        return
    v.declare(sampling_backend="pytorch")
    backend = v.attention_backend
    about = ("enable_deterministic_inference", "attention_backend")
    if backend is not None and backend not in _DETERMINISTIC:
        yield no(
            "deterministic-attention",
            f"Currently only {_DETERMINISTIC} attention backends are supported for deterministic inference, but you explicitly "
            f"specified '{backend}'.",
            *about,
        )
    elif backend is not None and v.model.architecture in _ABSORBED and backend not in _RADIX_DETERMINISTIC:
        yield no(
            "deterministic-attention",
            f"Currently only {_RADIX_DETERMINISTIC} attention backends are supported for deterministic inference with absorbed-MLA "
            f"models. But you're using {backend}.",
            *about,
        )


def prefill_dequant(v: View) -> Refusals:
    """handle_nvfp4_prefill_kv_dequant_dtype."""
    if v.kv_cache_dtype != "nvfp4" and v.prefill_kv_cache_dequant_dtype != "auto":
        said = "--prefill-kv-cache-dequant-dtype applies only with --kv-cache-dtype=nvfp4."
        yield no("prefill-dequant", said, "prefill_kv_cache_dequant_dtype", "kv_cache_dtype")


def attention(v: View) -> Refusals:
    """handle_attention_backend_compatibility, without what depends on the GPU."""
    if v.attention_backend == "flex_attention" and v.speculative_algorithm is not None:
        said = "Speculative decoding is currently not supported with Flex Attention backend"
        yield bad("flex-speculative", said, "attention_backend", "speculative_algorithm")
    if v.prefill_attention_backend == "cutedsl_mla":
        said = "CuteDSL MLA only supports decoding for now"
        yield bad("cutedsl-prefill", said, "prefill_attention_backend")


def mamba(v: View) -> Refusals:
    """handle_mamba_backend and handle_int8_mamba_checkpoint."""
    if v.mamba_cache_philox_rounds < 0:
        said = "--mamba-cache-philox-rounds must be non-negative."
        yield no("mamba-rounds", said, "mamba_cache_philox_rounds")
    states = v.mamba_max_states_per_path
    if states == 0 or states < -1:
        said = f"--mamba-max-states-per-path must be -1 (unlimited) or a positive integer, got {states}."
        yield no("mamba-states", said, "mamba_max_states_per_path")
    if v.enable_mamba_cache_stochastic_rounding and v.mamba_ssm_dtype != "float16":
        yield no(
            "mamba-rounding",
            f"Stochastic rounding for the Mamba SSM cache requires --mamba-ssm-dtype float16, got {v.mamba_ssm_dtype!r}. Run with "
            "--mamba-ssm-dtype float16 or disable --enable-mamba-cache-stochastic-rounding.",
            "enable_mamba_cache_stochastic_rounding",
            "mamba_ssm_dtype",
        )
    if v.enable_int8_mamba_checkpoint:
        name, about = "--enable-int8-mamba-checkpoint", "enable_int8_mamba_checkpoint"
        if v.enable_hierarchical_cache:
            yield no(
                "mamba-int8",
                f"{name} is not supported together with --enable-hierarchical-cache: the host-offload path is not int8-aware. "
                "Disable one of them.",
                about,
                "enable_hierarchical_cache",
            )
        elif v.radix_cache_backend is not None:
            yield no(
                "mamba-int8",
                f"{name} only supports the built-in mamba radix cache; --radix-cache-backend={v.radix_cache_backend!r} is not "
                "int8-aware. Omit --radix-cache-backend.",
                about,
                "radix_cache_backend",
            )
        elif v.enable_lmcache:
            yield no(
                "mamba-int8",
                f"{name} is not supported together with --enable-lmcache: LMCache is not int8-aware. Disable one of them.",
                about,
                "enable_lmcache",
            )


def linear(v: View) -> Refusals:
    """handle_linear_attn_backend, without what depends on the GPU."""
    decode = v.linear_attn_decode_backend or v.linear_attn_backend
    if v.linear_attn_decode_backend == "flashkda":
        yield no(
            "linear-decode",
            "--linear-attn-decode-backend flashkda is not supported: FlashKDA is prefill-only. Use --linear-attn-prefill-backend "
            "flashkda (decode stays on triton).",
            "linear_attn_decode_backend",
        )
        return
    decode = "triton" if decode == "flashkda" else decode
    if v.enable_linear_replayssm:
        about = "enable_linear_replayssm"
        if decode not in ("triton", "helion"):
            yield no(
                "linear-replay",
                "--enable-linear-replayssm requires Triton, or Helion for KDA, as the linear-attn decode backend; got "
                f"--linear-attn-decode-backend={decode!r}.",
                about,
                "linear_attn_decode_backend",
            )
        elif v.disaggregation_mode != "null":
            yield no(
                "linear-replay",
                "--enable-linear-replayssm is not supported under PD disaggregation yet (follow-up). Got "
                f"--disaggregation-mode={v.disaggregation_mode!r}.",
                about,
                "disaggregation_mode",
            )
        elif v.linear_replayssm_cache_len < 1:
            said = f"--linear-replayssm-cache-len must be >= 1, got {v.linear_replayssm_cache_len}."
            yield no("linear-replay", said, "linear_replayssm_cache_len")
    if v.enable_linear_replayssm_spec:
        yield from _replay_spec(v, decode)


def _replay_spec(v: View, decode: str | None) -> Refusals:
    about, name = "enable_linear_replayssm_spec", "--enable-linear-replayssm-spec"
    for wrong, said, dest in (
        (
            v.speculative_eagle_topk not in (None, 1),
            f"{name} requires a linear draft chain (--speculative-eagle-topk in {{None, 1}}); the chunked verify kernel uses a "
            "strictly-lower causal mask and is invalid for EAGLE tree verify. Got "
            f"--speculative-eagle-topk={v.speculative_eagle_topk!r}.",
            "speculative_eagle_topk",
        ),
        (
            decode not in ("triton", "flashinfer"),
            f"{name} requires the triton or flashinfer linear-attn decode backend, got --linear-attn-decode-backend={decode!r}.",
            "linear_attn_decode_backend",
        ),
        (
            v.disaggregation_mode == "prefill",
            f"{name} is not supported on a PD prefill server: the ring is spec-verify-only scratch and the prefill server never "
            "runs spec verify.",
            "disaggregation_mode",
        ),
        (
            v.enable_linear_replayssm,
            f"{name} and --enable-linear-replayssm are mutually exclusive: they share the ring storage but drive it with "
            "incompatible cursor protocols (per-decode-forward vs per-verify-commit advance).",
            "enable_linear_replayssm",
        ),
    ):
        if wrong:
            yield no("linear-replay-spec", said, about, dest)
            return


def scoring(v: View) -> Refusals:
    """handle_multi_item_scoring."""
    if not v.enable_mis:
        return
    v.declare(disable_radix_cache=True, chunked_prefill_size=-1)
    prefill, decode = v.backends()
    if (prefill is not None and prefill != "flashinfer") or (decode is not None and decode != "flashinfer"):
        if None not in (prefill, decode):
            yield bad(
                "multi-item",
                "Multi-item scoring requires flashinfer attention backend for custom attention mask support. Please set "
                f"--attention-backend flashinfer when using --enable-mis. Current backends: prefill={prefill}, decode={decode}",
                "enable_mis",
                "attention_backend",
            )


def experts(v: View) -> Refusals:
    """handle_moe_kernel_config, as far as --quantization is given: unset, the checkpoint may name one."""
    runner, quantization = v.moe_runner_backend, v.quantization
    about = ("moe_runner_backend", "quantization")
    if runner == "flashinfer_cutlass" and v.ep_size not in (1, v.tp_size):
        said = "The expert parallel size must be 1 or the same as the tensor parallel size"
        yield bad("moe-runner-ep", said, "moe_runner_backend", "ep_size")
    if runner == "cutlass" and quantization in ("fp8", "mxfp8") and v.ep_size != 1:
        yield bad("moe-runner-ep", "FP8/MXFP8 Cutlass MoE is only supported with ep_size == 1", *about, "ep_size")
    if quantization is None or quantization == "unquant":
        return
    allowed, said = _RUNNERS.get(runner, (None, ""))
    if (
        runner == "flashinfer_cutedsl"
        and quantization not in ("modelopt_fp4", "modelopt_mixed", "nvfp4_online")
        and v.model.known
    ):
        said = "FlashInfer CuteDSL MOE currently supports only: 'modelopt_fp4', 'modelopt_mixed' (with NVFP4 MoE layers), 'nvfp4_online', or hybrid NVFP4 models."
        allowed = ()
    if allowed is not None and quantization not in allowed:
        yield bad("moe-runner-quantization", f"Invalid quantization '{quantization}'. \n{said}", *about)


_TRTLLM = (
    ("modelopt_fp4", "nvfp4_online", "fp8", "mxfp8", "modelopt_fp8", "modelopt_mixed", "compressed-tensors"),
    "FlashInfer TRTLLM MOE supports only: 'modelopt_fp4', 'nvfp4_online', 'fp8', 'modelopt_fp8', 'modelopt_mixed', "
    "'compressed-tensors', or bfloat16 (None).",
)
_RUNNERS = {
    "flashinfer_cutlass": (
        ("modelopt_fp4", "modelopt_fp8", "modelopt_mixed"),
        "FlashInfer Cutlass MOE supports only: 'modelopt_fp4', 'modelopt_fp8', 'modelopt_mixed', or bfloat16 (None).",
    ),
    "flashinfer_trtllm": _TRTLLM,
    "experimental_sgl_trtllm": _TRTLLM,
    "flashinfer_trtllm_routed": (
        ("fp8", "mxfp8", "modelopt_fp4", "modelopt_mixed", "nvfp4_online", "minimax_m3_nvfp4"),
        "FlashInfer TRTLLM routed MOE supports only: 'fp8', 'mxfp8', 'modelopt_fp4', 'modelopt_mixed', 'nvfp4_online', "
        "'minimax_m3_nvfp4', or bfloat16 (None).",
    ),
}


def all_to_all(v: View) -> Refusals:
    """handle_a2a_moe."""
    backend = v.moe_a2a_backend
    if v.enable_waterfill and backend not in ("deepep", "megamoe"):
        backend = "deepep"
        v.declare(moe_a2a_backend=backend)
    if backend in SPANNING:
        v.declare(ep_size=v.tp_size)
    about = "moe_a2a_backend"
    if backend != "flashinfer" and v.flashinfer_a2a_dispatch_type not in (None, "auto"):
        said = "--flashinfer-a2a-dispatch-type requires --moe-a2a-backend flashinfer."
        yield no("a2a-dispatch", said, "flashinfer_a2a_dispatch_type", about)
    if backend == "deepep" and v.moe_runner_backend == "flashinfer_cutedsl" and v.deepep_mode == "normal":
        yield no(
            "deepep-cutedsl",
            "flashinfer_cutedsl FP4 MoE only supports DeepEP low_latency dispatch (masked layout). DeepEP normal (prefill) "
            "dispatch has no CuteDSL FP4 handler. Pass --deepep-mode low_latency or auto.",
            "moe_runner_backend",
            "deepep_mode",
        )
    if backend == "flashinfer" and not (v.attn_dp and v.attn_dp_size == v.tp_size):
        if v.model.known:
            yield bad(
                "a2a-flashinfer",
                "Flashinfer MoE A2A requires --attn-dp-size equal to --tp-size, except for Muse Spark TP4/EP4 or TP8/EP8 prefill "
                "sequence parallelism.",
                about,
                "attn_dp_size",
                "tp_size",
            )
    if backend == "pplx":
        yield from _pplx(v)
    chunk = v.chunked_prefill_size
    capacity = "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
    if backend == "mori" and v.disaggregation_mode != "decode" and chunk is not None and chunk > 4096:
        if capacity not in v.environment:
            said = f"{capacity} (default 4096) must be >= the per-rank MoRI dispatch tokens (chunked_prefill_size by default)"
            yield bad("a2a-mori", said, about, "chunked_prefill_size")
    if backend == "ascend_tp":
        v.declare(moe_a2a_backend="none")


def _pplx(v: View) -> Refusals:
    about = "moe_a2a_backend"
    if v.deepep_mode == "normal":
        said = "moe_a2a_backend='pplx' only supports low-latency mode; set --deepep-mode to 'low_latency' or 'auto'."
        yield no("a2a-pplx", said, about, "deepep_mode")
    elif v.attn_dp_size < 2:
        said = "moe_a2a_backend='pplx' requires attention DP with at least 2 groups (--attn-dp-size >= 2)."
        yield bad("a2a-pplx", said, about, "attn_dp_size")
    elif v.moe_runner_backend not in ("deep_gemm", "auto"):
        said = "moe_a2a_backend='pplx' is only supported with --moe-runner-backend deep_gemm (or auto)."
        yield bad("a2a-pplx", said, about, "moe_runner_backend")


def draft_exchange(v: View) -> Refusals:
    """validate_deepep_v2_speculative_draft."""
    backend = v.speculative_moe_a2a_backend
    if backend is None and v.speculative_algorithm not in (None, "NGRAM"):
        backend = v.moe_a2a_backend
    if backend == "deepep_v2":
        yield no(
            "deepep-v2-draft",
            "DeepEP v2 MoE is not validated as a speculative draft backend. Select another --speculative-moe-a2a-backend.",
            "speculative_moe_a2a_backend" if v.speculative_moe_a2a_backend is not None else "moe_a2a_backend",
        )


def overlap(v: View) -> Refusals:
    """check_two_batch_overlap and PD multiplexing of check_server_args."""
    if v.enable_two_batch_overlap and v.moe_a2a_backend == "none" and not v.attn_dp:
        yield no(
            "two-batch",
            "When enabling two batch overlap without an EP a2a backend (moe_a2a_backend='none'), attention DP (--attn-dp-size) is "
            "required (DeepSeek-V4 non-EP DP TBO path).",
            "enable_two_batch_overlap",
            "attn_dp_size",
        )


def multiplexing(v: View) -> Refusals:
    if not v.enable_pdmux:
        return
    for wrong, said, dest in (
        (
            v.pp_size != 1,
            "PD-Multiplexing is only supported with pipeline parallelism disabled (pp_size=1).",
            "pp_size",
        ),
        (
            v.chunked_prefill_size != -1,
            "PD-Multiplexing is not compatible with chunked prefill.",
            "chunked_prefill_size",
        ),
        (
            v.disaggregation_mode != "null",
            "PD-Multiplexing is not compatible with disaggregation mode.",
            "disaggregation_mode",
        ),
        (
            not v.disable_overlap_schedule,
            "PD-Multiplexing is not compatible with overlap schedule.",
            "disable_overlap_schedule",
        ),
    ):
        if wrong:
            yield bad("pdmux", said, "enable_pdmux", dest)
            return
