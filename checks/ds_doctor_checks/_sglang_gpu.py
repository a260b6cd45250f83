"""SGLang's start-up checks that ask for the GPU's generation; sglang 0.5.23 kv_cache_hook.py, overrides.py, deepseek_v4_hook.py, utils/common.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ._launch_refusal import Refusal, bad, no
from ._sglang_view import Refusals, View

# utils/common.py: is_sm90_supported, is_sm100_supported, is_sm120_supported, is_blackwell_supported by the major number.
HOPPER, BLACKWELL, CONSUMER, ANY_BLACKWELL = (9,), (10,), (12,), (10, 11, 12)


class Need(NamedTuple):
    """An option that only some GPU generations have: `majors` of the compute capability."""

    asked: bool
    majors: tuple[int, ...]
    refusal: Refusal


def _needs(v: View) -> Iterator[Need]:
    backends = v.backends()
    dtype = v.kv_cache_dtype
    if dtype == "mxfp8":
        said = (
            "--kv-cache-dtype mxfp8 requires an SM100+ (Blackwell) GPU for the block-scaled operands used by the FA4 MXFP8 "
            "attention path."
        )
        yield Need(True, ANY_BLACKWELL, no("gpu-kv-dtype", said, "kv_cache_dtype"))
    if dtype == "nvfp4":
        said = (
            "--kv-cache-dtype=nvfp4 requires Blackwell SM100 or SM120. Use --kv-cache-dtype=fp4_mx_block16 for the block-size-16 "
            "FP4 recipe."
        )
        yield Need(True, BLACKWELL + CONSUMER, no("gpu-kv-dtype", said, "kv_cache_dtype", kind="RuntimeError"))
    if "trtllm_mla" in (v.attention_backend, v.decode_attention_backend):
        said = "TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a different backend."
        yield Need(True, ANY_BLACKWELL, no("gpu-attention", said, "attention_backend"))
    if {"cutedsl_mla", "tokenspeed_mla"} & {v.attention_backend, v.decode_attention_backend}:
        said = "CuteDSL MLA backend is only supported on Blackwell GPUs (SM100). Please use a different backend."
        yield Need(True, BLACKWELL, no("gpu-attention", said, "attention_backend"))
    if backends[0] == "trtllm_mha":
        said = (
            "TRTLLM MHA backend for prefill requires Hopper (SM90), Blackwell (SM100), or SM120 GPUs. Please use a different "
            "prefill backend."
        )
        yield Need(True, HOPPER + BLACKWELL + CONSUMER, no("gpu-attention", said, "attention_backend"))
    if v.dsv4_attn_backend == "trtllm" and v.model.architecture == "DeepseekV4ForCausalLM":
        said = "--dsv4-attn-backend trtllm requires an SM100/SM103 (Blackwell) GPU."
        yield Need(True, BLACKWELL, bad("gpu-dsv4", said, "dsv4_attn_backend"))
    if v.dsv4_attn_backend == "flashmla_mega" and v.model.model_type == "deepseek_v41":
        said = "--dsv4-attn-backend flashmla_mega requires DeepSeek-V4.1 on SM100/SM103."
        yield Need(True, BLACKWELL, bad("gpu-dsv4", said, "dsv4_attn_backend"))
    if v.enable_deepseek_v4_fp4_indexer:
        said = "--enable-deepseek-v4-fp4-indexer requires SM100, SM120, or gfx95 GPUs with FP4 indexer support."
        yield Need(True, BLACKWELL + CONSUMER, no("gpu-indexer", said, "enable_deepseek_v4_fp4_indexer"))
    if v.quantization == "nvfp4_online":
        said = "--quantization nvfp4_online is supported only on NVIDIA Blackwell SM100/SM103 GPUs."
        yield Need(True, BLACKWELL, no("gpu-quantization", said, "quantization"))
    if v.moe_a2a_backend == "megamoe":
        said = (
            "--moe-a2a-backend megamoe needs a CUDA SM90 GPU (block-FP8 experts) or an SM100-class GPU (MXFP4 / NVFP4 experts); it "
            "runs DeepGEMM kernels over CUDA symmetric memory. On ROCm, set SGLANG_AMD_USE_FLYDSL_MEGA_MOE=1 to select aiter "
            "MegaMoEv2 instead."
        )
        yield Need(True, HOPPER + BLACKWELL, no("gpu-megamoe", said, "moe_a2a_backend"))
    if v.enable_mis and None in backends and v.model.mla is False and v.model.architecture != "GptOssForCausalLM":
        # get_default_attn_backend: fa3 on Hopper, trtllm_mha on SM100, else flashinfer.
        said = (
            "Multi-item scoring requires flashinfer attention backend for custom attention mask support. Please set "
            "--attention-backend flashinfer when using --enable-mis. Current backends: prefill={0}, decode={0}"
        )
        chosen = {9: "fa3", 10: "trtllm_mha"}.get(v.capability[0], "") if v.capability else ""
        yield Need(
            backends == (None, None),
            (7, 8, 11, 12),
            bad("multi-item", said.format(chosen), "enable_mis", "attention_backend"),
        )


def gpu(v: View) -> Refusals:
    """What the GPU at hand lacks; nothing where it is not known."""
    if v.capability is None:
        return
    for need in _needs(v):
        if need.asked and v.capability[0] not in need.majors:
            yield need.refusal


def asked(v: View) -> tuple[str, ...]:
    """The options that only some GPUs have, where the GPU is not known."""
    if v.capability is not None:
        return ()
    return tuple(need.refusal.about[0] for need in _safe(_needs, v) if need.asked)


def _safe(needs: Callable[[View], Iterator[Need]], v: View) -> list[Need]:
    try:
        return list(needs(v))
    except (AttributeError, TypeError):  # an option that another version lacks
        return []
