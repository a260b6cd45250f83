"""SGLang's start-up checks that depend on the model: DeepSeek V4 and V4.1, and what a model has or lacks; sglang 0.5.23 model_hook.py, deepseek_v4_hook.py."""

from __future__ import annotations

import json
from typing import Any

from ._sglang_view import Refusals, View, bad, no

_CP_DECODE = (
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForCausalLMNextN",
    "DeepseekV4ForCausalLMDSpark",
    "GlmMoeDsaForCausalLM",
    "GlmMoeDsaForCausalLMNextN",
)
# dllm/algorithm: the classes named `Algorithm` of its modules.
_DIFFUSION = ("Gemma4Renoise", "JointThreshold", "JointThresholdInDel", "LowConfidence")
_GPT_OSS = ["triton", "trtllm_mha", "fa3", "fa4", "ascend", "intel_amx", "intel_xpu", "aiter"]


def overrides_json(v: View) -> Refusals:
    """ModelConfig: --json-model-override-args, --model-config-parser and --quantize-and-serve."""
    if v.model_config_parser not in ("auto", "hf", "mistral"):
        said = f"Unknown model-config parser {v.model_config_parser!r}. Registered: ['hf', 'mistral']"
        yield no("config-parser", said, "model_config_parser")
    if v.quantize_and_serve:
        about = "quantize_and_serve"
        methods = ("modelopt", "modelopt_fp4", "modelopt_fp8", "modelopt_mixed", "nvfp4_online")
        if v.quantization not in methods:
            yield no(
                "quantize-and-serve",
                "quantize_and_serve requires ModelOpt quantization (set with --quantization {"
                + ", ".join(methods)
                + "})",
                about,
                "quantization",
            )
        else:
            yield no(
                "quantize-and-serve",
                "quantize_and_serve functionality is currently disabled due to compatibility issues. Please use the separate "
                "quantize-then-deploy workflow instead. Step 1: Quantize and export model. Step 2: Deploy the exported model.",
                about,
                kind="NotImplementedError",
            )
    text = v.json_model_override_args
    if not isinstance(text, str):
        return
    about = "json_model_override_args"
    try:
        value: Any = json.loads(text)
    except json.JSONDecodeError as e:
        yield no("override-args", str(e), about, kind="JSONDecodeError")
        return
    if value and not isinstance(value, dict):
        said = f"'{type(value).__name__}' object has no attribute 'items'"
        yield no("override-args", said, about, kind="AttributeError")


def traits(v: View) -> Refusals:
    """handle_model_specific_adjustments of all models, and the page size that the model or back end forces."""
    name = v.model.architecture
    if name is not None:
        if v.enable_dsa_cache_layer_split and not v.model.dsa:
            said = "--enable-dsa-cache-layer-split is only supported for DSA (DeepSeek Sparse Attention) models."
            yield no("dsa-layer-split", said, "enable_dsa_cache_layer_split")
        if v.enable_cp_decode_attn_tp and name not in _CP_DECODE:
            yield no(
                "cp-decode",
                "--enable-cp-decode-attn-tp is only supported for models whose attention linears are replicated across CP ranks "
                f"(attn_tp_size=1). Got {name}; supported: {sorted(_CP_DECODE)}.",
                "enable_cp_decode_attn_tp",
            )
        strategy = v.mamba_radix_cache_strategy
        if strategy in ("extra_buffer", "extra_buffer_lazy") and v.model.mamba is False:
            said = f"--mamba-radix-cache-strategy {strategy} needs mamba state, got {name}."
            yield no("mamba-strategy", said, "mamba_radix_cache_strategy")
        if name == "DeepseekV4ForCausalLM":
            yield from _deepseek_v4(v)
        elif v.model.dsa:
            yield from _dsa(v)
            if v.kv_cache_dtype not in ("auto", "bf16", "bfloat16", "fp8_e4m3"):
                said = "DeepSeek DSA only supports bf16/bfloat16 or fp8_e4m3 kv_cache_dtype"
                yield bad("dsa-kv-dtype", said, "kv_cache_dtype")
        elif name == "GptOssForCausalLM":
            yield from _gpt_oss(v)
    if v.quantization in ("gptq", "mlx_q4", "mlx_q8") and v.model.plain:
        # The parser knows the name; on NVIDIA only a checkpoint of that kind has a method for it.
        yield no("quantization-name", f"Unknown quantization method: {v.quantization}.", "quantization")
    v.declare(page_size=_page(v))


def _page(v: View) -> int | None:
    """The page size in the end; None: GPU, model or back end decide it (overrides.py, _mla_backend_page_constraints)."""
    page: int | None = v.page_size
    if v.model.architecture == "DeepseekV4ForCausalLM" or v.model.dsa:
        return page
    # On SM100 the default back end brings its own page sizes.
    unclear = v.model.mamba or not v.model.known or (v.capability is not None and v.capability[0] == 10)
    if unclear or (v.model.multimodal is not False):
        return None
    given = {v.attention_backend, v.decode_attention_backend}
    if given & {"flashmla"}:
        return 64
    if given & {"trtllm_mla", "cutedsl_mla", "tokenspeed_mla"}:
        return page if page in (32, 64) else 64
    if {*given, v.prefill_attention_backend, v.speculative_draft_attention_backend} & {"trtllm_mha"}:
        return page if page in (16, 32, 64, 128) else 64
    if {*given, v.prefill_attention_backend} & {"hpc_ops", "intel_xpu", "fa4"}:
        return None
    if v.model.mla and v.attention_backend is None:
        return page if page in (32, 64) else None
    return 1 if page is None else page


def _dsa(v: View) -> Refusals:
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


def _gpt_oss(v: View) -> Refusals:
    prefill, decode = v.backends()
    # The engine chooses only where none of the three is given.
    if (prefill is None and decode is None) or (prefill in _GPT_OSS and decode in _GPT_OSS):
        return
    yield bad(
        "gpt-oss-attention",
        f"GptOssForCausalLM requires one of {_GPT_OSS} attention backend, but got the following backends\n- Prefill: {prefill}\n- "
        f"Decode: {decode}\n",
        "attention_backend",
    )


def _deepseek_v4(v: View) -> Refusals:
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


def diffusion(v: View) -> Refusals:
    """handle_dllm_inference."""
    if v.dllm_algorithm is not None and v.dllm_algorithm not in _DIFFUSION:
        said = f"Unknown diffusion LLM algorithm: {v.dllm_algorithm}"
        yield no("dllm-name", said, "dllm_algorithm", kind="RuntimeError")
    elif v.dllm_algorithm is not None and v.model.known:  # none of the well-known families is one
        said = f"Unknown diffusion LLM: {v.model.architecture}"
        yield no("dllm-model", said, "dllm_algorithm", kind="RuntimeError")


def late(v: View) -> Refusals:
    """handle_model_capability_adjustments and what only some models take."""
    name = v.model.architecture
    if name is None:
        return
    if v.enable_encoder_swa_bounded_replay and name != "DeepseekV4ForCausalLM":
        said = "--enable-encoder-swa-bounded-replay requires DeepSeek-V4.1"
        yield no("encoder-replay", said, "enable_encoder_swa_bounded_replay")


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


def sequence_norm(v: View) -> Refusals:
    """handle_layernorm_sp."""
    if not v.enable_layernorm_sp:
        if v.enable_megamoe_for_layernorm_sp:
            said = "--enable-megamoe-for-layernorm-sp requires --enable-layernorm-sp."
            yield no("layernorm-sp", said, "enable_megamoe_for_layernorm_sp")
        return
    name, about = v.model.architecture, "enable_layernorm_sp"
    if v.enable_megamoe_for_layernorm_sp and name is not None:
        said = "--enable-megamoe-for-layernorm-sp supports only Muse Spark."
        yield no("layernorm-sp", said, "enable_megamoe_for_layernorm_sp")
    elif name is not None and name != "Qwen3ForCausalLM":
        said = (
            "--enable-layernorm-sp is only supported for ['MuseSparkForConditionalGeneration', 'Qwen3ForCausalLM']; got "
            f"{name}."
        )
        yield no("layernorm-sp", said, about)
    elif v.tp_size <= 1:
        said = "--enable-layernorm-sp requires tp_size > 1: there is no sequence to shard across a single TP rank."
        yield no("layernorm-sp", said, about, "tp_size")
    elif v.attn_dp:
        yield no(
            "layernorm-sp",
            "--enable-layernorm-sp is not compatible with attention DP: SP shards the sequence across the full TP group, which "
            "under DP attention spans data-parallel groups holding different sequences.",
            about,
            "attn_dp_size",
        )
    elif name is not None and v.speculative_algorithm is not None:
        yield no(
            "layernorm-sp",
            "--enable-layernorm-sp supports speculative decoding only with Muse Spark DFLASH: other models/algorithms do not "
            "gather the sequence-sharded auxiliary hidden states.",
            about,
            "speculative_algorithm",
        )
    elif v.pp_size > 1:
        yield no(
            "layernorm-sp",
            "--enable-layernorm-sp is not compatible with pipeline parallelism: only the first rank's stack starts the "
            "sequence-sharded region, so the next rank would receive a stream it does not expect.",
            about,
            "pp_size",
        )


def sharding(v: View) -> Refusals:
    """handle_kv_cache_sharding, its first conditions."""
    if not v.enable_kv_cache_sharding:
        return
    about, name = "enable_kv_cache_sharding", "--enable-kv-cache-sharding"
    if v.disaggregation_mode != "prefill":
        yield no(
            "kv-sharding",
            f"{name} is only supported on PD prefill workers: a rank's pool holds only its stripe of every cached page, which is "
            "incompatible with local decode.",
            about,
            "disaggregation_mode",
        )
        return
    for wrong, said, dest in (
        (
            v.enable_streaming_session,
            "does not support streaming sessions: their virtual nodes do not carry KV-shard rotation metadata.",
            "enable_streaming_session",
        ),
        (v.enable_session_radix_cache, "does not support session radix cache yet.", "enable_session_radix_cache"),
        (
            v.enable_unified_memory,
            "does not support --enable-unified-memory: the unified pool uses a different virtual-id allocator and layout.",
            "enable_unified_memory",
        ),
        (
            v.dcp_size > 1,
            "and decode context parallelism (--dcp-size) are mutually exclusive users of the widened allocator index space.",
            "dcp_size",
        ),
        (v.enable_lmcache, "does not support --enable-lmcache.", "enable_lmcache"),
    ):
        if wrong:
            yield no("kv-sharding", f"{name} {said}", about, dest)
            return
