"""SGLang's start-up checks of experts, their exchange and overlaps; sglang 0.5.23 moe_hook.py, mega_moe_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View

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


def experts(v: View) -> Refusals:
    """handle_moe_kernel_config, as far as --quantization is given: unset, the checkpoint may name one."""
    runner, quantization = v.moe_runner_backend, v.quantization
    about = ("moe_runner_backend", "quantization")
    if runner == "flashinfer_cutlass" and v.ep_size not in (1, v.tp_size):
        said = "The expert parallel size must be 1 or the same as the tensor parallel size"
        yield bad("moe-runner-ep", said, "moe_runner_backend", "ep_size")
    if runner == "cutlass" and quantization in ("fp8", "mxfp8") and v.ep_size != 1:
        yield bad("moe-runner-ep", "FP8/MXFP8 Cutlass MoE is only supported with ep_size == 1", *about, "ep_size")
    if quantization in (None, "unquant"):
        if runner == "flashinfer_cutedsl" and v.model.plain:
            yield bad("moe-runner-quantization", f"Invalid quantization 'None'. \n{_CUTEDSL}", *about)
        return
    allowed, said = _RUNNERS.get(runner, (None, ""))
    if (
        runner == "flashinfer_cutedsl"
        and quantization not in ("modelopt_fp4", "modelopt_mixed", "nvfp4_online")
        and v.model.known
    ):
        allowed, said = (), _CUTEDSL
    if allowed is not None and quantization not in allowed:
        yield bad("moe-runner-quantization", f"Invalid quantization '{quantization}'. \n{said}", *about)


_CUTEDSL = (
    "FlashInfer CuteDSL MOE currently supports only: 'modelopt_fp4', 'modelopt_mixed' (with NVFP4 MoE layers), "
    "'nvfp4_online', or hybrid NVFP4 models."
)
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
