"""SGLang's start-up checks of prefill and decode on separate servers and of encoders apart; sglang 0.5.23 srt/arg_groups/pd_disaggregation_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View


def disaggregation(v: View) -> Refusals:
    """handle_pd_disaggregation."""
    mode = v.disaggregation_mode
    backend = v.disaggregation_transfer_backend
    if backend == "mooncake_tcp":
        v.declare(disaggregation_transfer_backend="mooncake", disaggregation_ib_device=None)
        backend = "mooncake"
    if v.disaggregation_decode_allocation_policy == "prefill_complete":
        yield from _prefill_complete(v)
        if mode == "prefill" and v.optimistic_prefill_attempts == 0:
            v.declare(optimistic_prefill_attempts=1)
    part = v.disaggregation_decode_host_receive_threshold
    about = "disaggregation_decode_host_receive_threshold"
    if not 0 <= part <= 1:
        said = "--disaggregation-decode-host-receive-threshold must be between 0 and 1"
        yield no("host-receive", said, about)
    elif part < 1:
        if v.enable_hisparse or v.enable_pd_role_switch:
            said = "Decode host receive does not yet support HiSparse or role switching"
            yield no("host-receive", said, about)
        elif v.disaggregation_decode_retraction_backup == "cpu_tensor":
            said = "Decode host KV buffering requires host_pool retraction"
            yield no("host-receive", said, about, "disaggregation_decode_retraction_backup")
        v.declare(disaggregation_decode_retraction_backup="host_pool")
    if mode == "decode":
        yield from _decode(v, backend)
    elif mode == "prefill" and backend == "fake":
        said = "Prefill server does not support 'fake' as the transfer backend"
        yield bad("prefill-fake", said, "disaggregation_mode", "disaggregation_transfer_backend")
    if mode in ("prefill", "decode") and v.enable_pd_role_switch:
        yield from _role_switch(v)


def _decode(v: View, backend: str) -> Refusals:
    if v.disaggregation_decode_enable_radix_cache:
        name, about = "--disaggregation-decode-enable-radix-cache", "disaggregation_decode_enable_radix_cache"
        if v.enable_hisparse:
            yield no("decode-radix", f"{name} is incompatible with --enable-hisparse", about, "enable_hisparse")
        elif backend == "fake":
            said = f"{name} is incompatible with --disaggregation-transfer-backend fake"
            yield no("decode-radix", said, about, "disaggregation_transfer_backend")
        v.declare(disable_radix_cache=False)
    else:
        v.declare(disable_radix_cache=True)


def _role_switch(v: View) -> Refusals:
    wrong = []
    for given, dest, text in (
        (v.ep_size > 1, "ep_size", f"expert parallelism (--ep-size {v.ep_size})"),
        (v.moe_a2a_backend != "none", "moe_a2a_backend", f"MoE all-to-all (--moe-a2a-backend {v.moe_a2a_backend})"),
        (v.pp_size > 1, "pp_size", f"pipeline parallelism (--pp-size {v.pp_size})"),
        (
            v.attn_dp and v.enable_dp_attention_local_control_broadcast,
            "enable_dp_attention_local_control_broadcast",
            "DP attention local control broadcast",
        ),
        (v.dcp_size > 1, "dcp_size", f"decode context parallelism (--dcp-size {v.dcp_size})"),
        (
            v.speculative_algorithm is not None,
            "speculative_algorithm",
            f"speculative decoding (--speculative-algorithm {v.speculative_algorithm})",
        ),
    ):
        if given:
            wrong.append((dest, text))
    if wrong:
        yield no(
            "role-switch",
            "--enable-pd-role-switch does not rebuild role-specific state for the following features: "
            + ", ".join(text for _, text in wrong)
            + ". Remove these options or drop --enable-pd-role-switch.",
            "enable_pd_role_switch",
            *(dest for dest, _ in wrong),
        )


def _prefill_complete(v: View) -> Refusals:
    """_validate_prefill_complete."""
    mode = v.disaggregation_mode
    unsupported = [
        text
        for given, text in (
            (mode not in ("prefill", "decode"), "aggregated serving"),
            (v.disaggregation_transfer_backend != "mooncake", "transfer backends other than Mooncake"),
            (
                v.pp_size != 1 or v.attn_cp_size != 1 or v.dcp_size != 1,
                "pipeline or attention context parallelism",
            ),
            (v.tp_size != 1, "attention tensor parallelism greater than one"),
            (
                v.enable_pdmux or v.decoupled_spec_role != "null",
                "PD multiplexing or decoupled speculation",
            ),
            (v.enable_pd_role_switch, "runtime PD role switching"),
            (v.encoder_only or v.language_only, "encoder disaggregation"),
            (v.enable_hisparse, "HiSparse"),
            (v.disaggregation_decode_host_receive_threshold < 1, "decode host KV buffering"),
            (
                mode == "decode" and (v.disaggregation_decode_enable_radix_cache or v.enable_hierarchical_cache),
                "decode radix cache or decode HiCache",
            ),
            (
                mode == "prefill"
                and v.enable_hierarchical_cache
                and (v.hicache_storage_backend is not None or v.hicache_write_policy != "write_back"),
                "prefill HiCache other than L2 write_back",
            ),
            (v.is_set("SGLANG_DISAGG_STAGING_BUFFER"), "staging buffers"),
            (v.is_set("SGLANG_RUST_SERVER"), "the Rust bootstrap registry"),
        )
        if given
    ]
    if unsupported:
        yield no(
            "prefill-complete",
            "--disaggregation-decode-allocation-policy prefill_complete does not yet support " + ", ".join(unsupported),
            "disaggregation_decode_allocation_policy",
        )


_LANGUAGE_MODEL_ONLY = (
    "DeepseekV4ForCausalLM",
    "MuseGlimmerForConditionalGeneration",
    "Cosmos3ForConditionalGeneration",
    "Cosmos3EdgeForConditionalGeneration",
)
_ENCODER_APART = (
    "Qwen2VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration",
    "Qwen3OmniMoeForConditionalGeneration",
    "Qwen2AudioForConditionalGeneration",
    "Qwen2_5OmniForConditionalGeneration",
    "Dots3NoteForCausalLM",
    "KimiVLForConditionalGeneration",
    "KimiK25ForConditionalGeneration",
    "KimiK3ForConditionalGeneration",
    "MiMoV2ForCausalLM",
    "Glm5NextForConditionalGeneration",
    "MiniMaxM3SparseForConditionalGeneration",
    "MuseSparkForConditionalGeneration",
)


def encoders(v: View) -> Refusals:
    """handle_encoder_disaggregation, without the InfiniBand devices, which are this host's."""
    if v.language_model_only:
        yield from _language_model_only(v)
    if v.enable_prefix_mm_cache and not v.encoder_only:
        said = "--enable-prefix-mm-cache requires --encoder-only to be enabled"
        yield no("prefix-mm-cache", said, "enable_prefix_mm_cache", "encoder_only")
    if v.encoder_only and v.language_only:
        said = "Cannot set --encoder-only and --language-only together"
        yield no("encoder-language", said, "encoder_only", "language_only")
    if v.encoder_only and v.disaggregation_mode != "null":
        said = "Cannot set --encoder-only and --disaggregation-mode prefill/decode together"
        yield no("encoder-pd", said, "encoder_only", "disaggregation_mode")
    name = v.model.architecture
    if (v.encoder_only or v.language_only) and name is not None and name not in _ENCODER_APART:
        yield no(
            "encoder-model",
            f"Model type {name} is not supported for encoder disaggregation. Supported architectures: Qwen2VL, Qwen3VL, Qwen3.5, "
            "InternS2, Qwen2Audio, Qwen2.5Omni, Dots3-Note, Kimi, MiMoV2, GLM5Next, MiniMax-M3, MuseSpark.",
            "encoder_only" if v.encoder_only else "language_only",
        )


def _language_model_only(v: View) -> Refusals:
    about = "language_model_only"
    for dest in (
        "encoder_only",
        "language_only",
        "enable_prefix_mm_cache",
        "enable_broadcast_mm_inputs_process",
        "mm_enable_dp_encoder",
    ):
        if getattr(v, dest):
            said = f"--language-model-only cannot be combined with --{dest.replace('_', '-')}"
            yield no("language-model-only", said, about, dest)
            return
    if not v.model.known:
        return
    if v.disaggregation_mode != "null" and v.model.model_type != "deepseek_v41":
        said = "--language-model-only is incompatible with --disaggregation-mode prefill/decode"
        yield no("language-model-only", said, about, "disaggregation_mode")
    elif v.model.architecture not in _LANGUAGE_MODEL_ONLY:
        said = (
            f"--language-model-only does not support {[v.model.architecture]}. Supported: {list(_LANGUAGE_MODEL_ONLY)}."
        )
        yield no("language-model-only", said, about)
