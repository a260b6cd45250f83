"""SGLang's start-up checks of LoRA; sglang 0.5.23 srt/arg_groups/lora_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View


def lora(v: View) -> Refusals:
    """check_lora_server_args."""
    most = v.max_loras_per_batch
    if most <= 0:
        yield bad("loras-per-batch", "max_loras_per_batch must be positive", "max_loras_per_batch")
    on = bool(v.lora_paths) if v.enable_lora is None else v.enable_lora
    v.declare(enable_lora=on)
    if on:
        yield from _enabled(v, most)
    yield from _moe_runner(v)


def _v2_modes(v: View, option: str, dest: str) -> Refusals:
    for wrong, mode, other in (
        (v.attn_dp_size > 1, "DP-attention with --attn-dp-size > 1", "attn_dp_size"),
        (v.enable_pdmux, "PD-multiplexing", "enable_pdmux"),
        (v.enable_two_batch_overlap, "two-batch overlap", "enable_two_batch_overlap"),
    ):
        if wrong:
            yield no("lora-v2", f"{option} does not yet support {mode}", dest, other)
            return


def _enabled(v: View, most: int) -> Refusals:
    if v.lora_backend == "triton_v2" and not v.moe_runner_backend.startswith("lora"):
        yield from _v2_modes(v, "--lora-backend triton_v2", "lora_backend")
    loaded = v.max_loaded_loras
    if v.enable_lora_overlap_loading and not (loaded is not None and loaded <= most * 2):
        yield bad(
            "lora-overlap",
            "Enabling LoRA overlap loading requires pinning LoRA adapter weights in CPU memory, so --max-loaded-loras must be less "
            f"than or equal to double --max-loras-per-batch: {most * 2}",
            "enable_lora_overlap_loading",
            "max_loaded_loras",
        )
    yield from _speculative(v)
    modules = v.lora_target_modules
    if modules and "all" in modules and len(set(modules)) != 1:
        yield bad(
            "lora-modules",
            "If 'all' is specified in --lora-target-modules, it should be the only module specified.",
            "lora_target_modules",
        )
    paths = v.lora_paths or []
    if not paths and not (v.max_lora_rank and modules):
        yield bad(
            "lora-nothing",
            "When no initial --lora-paths is provided, you need to specify both --max-lora-rank and --lora-target-modules for LoRA "
            "initialization.",
            "enable_lora",
            "max_lora_rank",
            "lora_target_modules",
        )
    if loaded is not None:
        if loaded < most:
            yield bad(
                "loras-loaded",
                "max_loaded_loras should be greater than or equal to max_loras_per_batch. "
                f"max_loaded_loras={loaded}, max_loras_per_batch={most}",
                "max_loaded_loras",
                "max_loras_per_batch",
            )
        elif len(paths) > loaded:
            yield bad(
                "loras-loaded",
                "The number of LoRA paths should not exceed max_loaded_loras. "
                f"max_loaded_loras={loaded}, lora_paths={len(paths)}",
                "max_loaded_loras",
                "lora_paths",
            )
    if not v.lora_drain_wait_threshold >= 0:
        said = "--lora-drain-wait-threshold must be non-negative."
        yield bad("lora-drain", said, "lora_drain_wait_threshold")


def _speculative(v: View) -> Refusals:
    algorithm = v.speculative_algorithm
    if algorithm in (None, "NGRAM"):
        return
    if algorithm not in ("EAGLE", "EAGLE3", "DFLASH", "DSPARK"):
        yield no(
            "lora-speculative",
            "LoRA is only compatible with NGRAM, EAGLE, NEXTN, EAGLE3, DFLASH, or DSPARK speculative decoding, not "
            f"{algorithm}.",
            "enable_lora",
            "speculative_algorithm",
        )


def _moe_runner(v: View) -> Refusals:
    """check_lora_moe_runner_args."""
    draft = v.speculative_moe_runner_backend
    if v.speculative_algorithm is not None and draft is not None and draft.startswith("lora"):
        yield no(
            "lora-draft-runner",
            f"--speculative-moe-runner-backend {draft} is not supported: the LoRA MoE runner serves adapter traffic on the target "
            "model",
            "speculative_moe_runner_backend",
        )
    backend = v.moe_runner_backend
    if not backend.startswith("lora"):
        return
    about = "moe_runner_backend"
    name = f"--moe-runner-backend {backend}"
    if not v.enable_lora:
        yield no("lora-runner", f"{name} requires --enable-lora (or --lora-paths)", about, "enable_lora")
    elif v.lora_backend != "triton_v2":
        yield no("lora-runner", f"{name} requires --lora-backend triton_v2", about, "lora_backend")
    else:
        yield from _v2_modes(v, name, about)
        if v.moe_a2a_backend != "none":
            said = f"{name} requires Standard dispatch, got --moe-a2a-backend {v.moe_a2a_backend}"
            yield no("lora-runner", said, about, "moe_a2a_backend")
        elif v.ep_join_mode is not None:
            yield no("lora-runner", f"{name} does not yet support elastic EP", about, "ep_join_mode")
        elif v.enable_eplb or v.init_expert_location != "trivial" or v.ep_num_redundant_experts > 0:
            said = f"{name} currently requires trivial expert placement without EPLB or redundant experts"
            yield no("lora-runner", said, about)
