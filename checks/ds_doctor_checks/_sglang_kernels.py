"""SGLang's start-up checks of attention, graphs and state kernels; sglang 0.5.23 attention_hook.py, cuda_graph_hook.py, mamba_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View

_DETERMINISTIC = ["ascend", "fa3", "fa4", "flashinfer", "intel_xpu", "triton"]
_RADIX_DETERMINISTIC = ["ascend", "fa3", "fa4", "triton"]
_ABSORBED = ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM")


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
