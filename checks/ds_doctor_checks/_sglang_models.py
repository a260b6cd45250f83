"""SGLang's start-up checks that depend on what a model has or lacks; sglang 0.5.23 model_hook.py, model_config.py."""

from __future__ import annotations

import json
from typing import Any

from ._launch_refusal import bad, no
from ._sglang_deepseek import deepseek_v4, sparse_attention
from ._sglang_view import Refusals, View

_CP_DECODE = (
    "DeepseekV4ForCausalLM",
    "DeepseekV4ForCausalLMNextN",
    "DeepseekV4ForCausalLMDSpark",
    "GlmMoeDsaForCausalLM",
    "GlmMoeDsaForCausalLMNextN",
)
# layers/quantization: what a method exists for on NVIDIA.
_METHODS = [
    *("fp8", "mxfp8", "minimax_m3_nvfp4", "blockwise_int8", "modelopt", "modelopt_fp8", "modelopt_fp4", "nvfp4_online"),
    *(
        "modelopt_mixed",
        "w8a8_int8",
        "w8a8_fp8",
        "awq",
        "awq_marlin",
        "bitsandbytes",
        "gguf",
        "gptq_marlin",
        "moe_wna16",
    ),
    *(
        "compressed-tensors",
        "w4afp8",
        "petit_nvfp4",
        "quark",
        "quark_mxfp4",
        "auto-round",
        "auto-round-int8",
        "modelslim",
    ),
    *("quark_int4fp8_moe", "humming", "mxfp_w4a8", "mxfp4"),
]
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
            yield from deepseek_v4(v)
        elif v.model.dsa:
            yield from sparse_attention(v)
            if v.kv_cache_dtype not in ("auto", "bf16", "bfloat16", "fp8_e4m3"):
                said = "DeepSeek DSA only supports bf16/bfloat16 or fp8_e4m3 kv_cache_dtype"
                yield bad("dsa-kv-dtype", said, "kv_cache_dtype")
        elif name == "GptOssForCausalLM":
            yield from _gpt_oss(v)
    if v.quantization in ("gptq", "mlx_q4", "mlx_q8") and v.model.plain:
        # The parser knows the name; on NVIDIA only a checkpoint of that kind has a method for it.
        said = f"Unknown quantization method: {v.quantization}. Must be one of {_METHODS}."
        yield no("quantization-name", said, "quantization")
    if v.model.mamba:
        yield from _state(v)
    v.declare(page_size=_page(v))


def _state(v: View) -> Refusals:
    """handle_mamba_radix_cache: validate_mamba_no_buffer, validate_mamba_extra_buffer. On SM100 the back end forces pages."""
    if v.disable_radix_cache or (v.capability is not None and v.capability[0] == 10):
        return
    page, strategy = v.page_size, v.mamba_radix_cache_strategy
    about = "mamba_radix_cache_strategy"
    if strategy == "no_buffer":
        if page not in (None, 1):
            yield bad("mamba-no-buffer", "no_buffer only supports page_size=1.", about, "page_size")
        elif not v.disable_overlap_schedule:
            yield bad(
                "mamba-no-buffer",
                "no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True.",
                about,
                "disable_overlap_schedule",
            )
    elif page and v.mamba_track_interval % page and (strategy != "auto" or page > 1):
        yield bad("mamba-page", "", "page_size", "mamba_track_interval")


def _page(v: View) -> int | None:
    """The page size in the end; None: GPU, model or back end decide it (overrides.py, _mla_backend_page_constraints)."""
    page: int | None = v.page_size
    if v.model.architecture == "DeepseekV4ForCausalLM" or v.model.dsa:
        return page
    if v.model.mamba or not v.model.known or v.model.multimodal is not False:
        return None
    if v.capability is not None and v.capability[0] == 10 and page not in (16, 32, 64, 128):
        return None  # the back end that the engine chooses on SM100 may bring its own
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
