"""SGLang's start-up checks for DeepSeek V4, V4.1 and sparse attention; sglang 0.5.23 deepseek_v4_hook.py, hisparse_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View


def sparse_attention(v: View) -> Refusals:
    """_deepseek_family_overrides for models with sparse attention."""
    if v.dcp_size > 1:
        if v.enable_hisparse or v.enable_hierarchical_cache:
            said, dest = "DSA DCP does not support HiSparse or HiCache.", "enable_hierarchical_cache"
            yield no("dsa-dcp", said, "dcp_size", "enable_hisparse" if v.enable_hisparse else dest)
        elif v.disaggregation_mode != "null":
            yield no("dsa-dcp", "DSA DCP does not support PD disaggregation.", "dcp_size", "disaggregation_mode")
        elif v.speculative_eagle_topk not in (None, 1):
            said = "DSA DCP requires --speculative-eagle-topk 1."
            yield no("dsa-dcp", said, "dcp_size", "speculative_eagle_topk")
    v.declare(page_size=64)
    if not (v.attention_backend or v.prefill_attention_backend or v.decode_attention_backend):
        v.declare(attention_backend="dsa")


def deepseek_v4(v: View) -> Refusals:
    """apply_deepseek_v4_defaults, validate_deepseek_v41_features."""
    name = "DeepseekV4ForCausalLM"
    v.declare(page_size=256, attention_backend="dsv4")
    if v.kv_cache_dtype not in ("auto", "fp8_e4m3", "bfloat16"):
        yield bad("dsv4-kv-dtype", f"{v.kv_cache_dtype} is not supported for {name}", "kv_cache_dtype")
    algorithm = v.speculative_algorithm
    if algorithm is not None:
        if algorithm not in ("EAGLE", "DSPARK"):
            said = f"Only EAGLE and DSPARK speculative algorithms are supported for {name}"
            yield bad("dsv4-speculative", said, "speculative_algorithm")
        elif algorithm == "EAGLE" and v.speculative_eagle_topk != 1:
            said = f"Only EAGLE speculative algorithm with topk == 1 is supported for {name}"
            yield bad("dsv4-speculative", said, "speculative_algorithm", "speculative_eagle_topk")
    if v.dsv4_attn_backend == "flashmla_mega" and v.model.model_type != "deepseek_v41":
        said = "--dsv4-attn-backend flashmla_mega requires DeepSeek-V4.1 on SM100/SM103."
        yield bad("dsv4-mega", said, "dsv4_attn_backend")
    if v.model.model_type == "deepseek_v41":
        yield from _deepseek_v41(v)
    elif v.enable_encoder_swa_bounded_replay:
        said = "--enable-encoder-swa-bounded-replay requires DeepSeek-V4.1"
        yield no("encoder-replay", said, "enable_encoder_swa_bounded_replay")
    yield from _prefill_context(v)


def _deepseek_v41(v: View) -> Refusals:
    algorithm = v.speculative_algorithm
    for wrong, feature, dest in (
        (
            algorithm is not None and str(algorithm).upper() != "DSPARK",
            "speculative decoding other than DSpark",
            "speculative_algorithm",
        ),
        (v.enable_hisparse, "HiSparse", "enable_hisparse"),
        (
            v.dsv4_attn_backend == "trtllm" and v.enable_encoder_swa_bounded_replay,
            "TRT-LLM with encoder SWA bounded replay",
            "enable_encoder_swa_bounded_replay",
        ),
        (v.enable_two_batch_overlap, "two-batch overlap", "enable_two_batch_overlap"),
        (v.pp_size > 1, "pipeline parallelism", "pp_size"),
    ):
        if wrong:
            said = f"DeepSeek-V4.1 does not support {feature} yet; disable it to serve this model."
            yield no("dsv41-feature", said, dest)
    if v.enable_encoder_swa_bounded_replay:
        for wrong, feature, dest in (
            (v.attn_cp_size > 1, "context parallelism", "attn_cp_size"),
            (v.enable_unified_memory, "unified memory", "enable_unified_memory"),
            (v.disaggregation_mode == "decode", "PD decode", "disaggregation_mode"),
            (v.enable_mixed_chunk, "mixed prefill/decode", "enable_mixed_chunk"),
            (v.enable_lora, "LoRA", "enable_lora"),
            (v.enable_session_radix_cache, "radix sessions", "enable_session_radix_cache"),
        ):
            if wrong:
                said = f"--enable-encoder-swa-bounded-replay does not support {feature} yet"
                yield no("encoder-replay", said, "enable_encoder_swa_bounded_replay", dest)
                break
    if (
        v.enable_decoder_swa_bounded_replay
        and v.attn_dp
        and not (v.attn_dp_size == v.tp_size and v.attn_cp_size == 1 and v.moe_a2a_backend in ("none", "megamoe"))
    ):
        yield no(
            "decoder-replay",
            "--enable-decoder-swa-bounded-replay cannot be combined with DP attention other than attention TP 1 with supported MoE "
            "backends yet; disable one of them.",
            "enable_decoder_swa_bounded_replay",
            "attn_dp_size",
        )


def _prefill_context(v: View) -> Refusals:
    """validate_deepseek_v4_cp on NVIDIA."""
    if not v.enable_prefill_cp:
        return
    strategy = v.cp_strategy
    about = ("enable_prefill_cp", "cp_strategy")
    if strategy not in ("interleave", "zigzag"):
        said = f"DeepSeekV4 only supports interleave/zigzag CP strategy, got {strategy}"
        yield no("dsv4-cp", said, *about)
    elif strategy == "zigzag":
        yield no(
            "dsv4-cp",
            "DeepSeekV4 zigzag CP requires the NPU backend; CUDA/HIP backends reindex with interleave order.",
            *about,
        )
    groups = v.attn_dp_size * v.dp_size
    v.declare(attn_dp_size=groups, dp_size=1, moe_dense_tp_size=1, attn_cp_size=v.tp_size // groups if groups else 1)
    if groups != 1:
        said = "For round-robin split mode, dp attention is not supported."
        yield bad("dsv4-cp", said, "enable_prefill_cp", "attn_dp_size")
    if v.tp_size > 8:
        yield bad(
            "dsv4-cp",
            "Context parallel only supports single machine (tp_size <= 8). Cross-machine CP has precision issues.",
            "enable_prefill_cp",
            "tp_size",
        )


def sparse(v: View) -> Refusals:
    """validate_hisparse."""
    if not v.enable_hisparse:
        return
    about = "enable_hisparse"
    known = v.model
    if known.known and not (known.dsa or known.architecture == "DeepseekV4ForCausalLM"):
        yield bad(
            "hisparse-model",
            "--enable-hisparse is only supported for DSA (DeepSeek Sparse Attention) models (e.g., DeepSeek V3.2, GLM-5), DeepSeek "
            "V4, and MiniMax M3 now. ",
            about,
        )
    elif not v.disable_radix_cache:
        said = "Hierarchical sparse attention currently requires --disable-radix-cache."
        yield bad("hisparse-radix", said, about, "disable_radix_cache")
    elif v.enable_mixed_chunk:
        said = "--enable-hisparse does not support --enable-mixed-chunk yet."
        yield no("hisparse-mixed", said, about, "enable_mixed_chunk")
