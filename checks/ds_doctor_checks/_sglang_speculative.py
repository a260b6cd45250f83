"""SGLang's start-up checks of speculative decoding; sglang 0.5.23 srt/arg_groups/speculative_hook.py."""

from __future__ import annotations

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View

BUILT_IN = ("DFLASH", "UNO", "DSPARK", "EAGLE", "EAGLE3", "FROZEN_KV_MTP", "STANDALONE", "NGRAM", "NONE")
_ALIASES = ("NEXTN",)
# _handle_eagle_family: the draft is part of these checkpoints.
_OWN_DRAFT = ("DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV4ForCausalLM", "Glm4MoeForCausalLM")
_MIXED = ("EAGLE", "EAGLE3", "DFLASH", "DSPARK", "NONE")
_ADAPTIVE_STEPS = (0, 1, 3, 7)


def speculative(v: View) -> Refusals:
    """handle_speculative_decoding."""
    if v.speculative_algorithm is not None:
        name = v.speculative_algorithm.upper()
        v.declare(speculative_algorithm="EAGLE" if name in _ALIASES else name)
    algorithm = v.speculative_algorithm
    if (
        v.disaggregation_mode == "decode"
        and v.disaggregation_decode_enable_radix_cache
        and algorithm not in (None, "DSPARK", "EAGLE", "EAGLE3")
    ):
        yield no(
            "radix-speculative",
            "--disaggregation-decode-enable-radix-cache is incompatible with speculative decoding "
            f"(--speculative-algorithm {algorithm})",
            "disaggregation_decode_enable_radix_cache",
            "speculative_algorithm",
        )
    if v.speculative_use_block_verification:
        if algorithm not in ("EAGLE", "EAGLE3", "DFLASH", "DSPARK"):
            yield no(
                "block-verification",
                "--speculative-use-block-verification only supports EAGLE / EAGLE3 / NEXTN / DFLASH / DSPARK.",
                "speculative_use_block_verification",
                "speculative_algorithm",
            )
        elif algorithm in ("EAGLE", "EAGLE3"):
            v.declare(speculative_use_rejection_sampling=True)
    yield from _window(v)
    if algorithm is None:
        return
    if algorithm not in BUILT_IN:
        said = f"Unknown speculative algorithm name: {algorithm}"
        yield no("speculative-name", said, "speculative_algorithm")
    elif algorithm == "DFLASH":
        yield from _dflash(v)
    elif algorithm == "DSPARK":
        yield from _dspark(v)
    elif algorithm == "UNO":
        yield from _uno(v)
    elif algorithm in ("EAGLE", "EAGLE3", "STANDALONE"):
        yield from _eagle(v)
    elif algorithm == "NGRAM":
        yield from _ngram(v)
    elif algorithm == "FROZEN_KV_MTP":
        v.declare(enable_mixed_chunk=False)


def _window(v: View) -> Refusals:
    window, sink = v.speculative_draft_window_size, v.speculative_draft_sink_size
    if window is not None and window <= 0:
        said = f"--speculative-draft-window-size must be positive, got {window}."
        yield no("draft-window", said, "speculative_draft_window_size")
    if sink is not None:
        if sink < 0:
            said = f"--speculative-draft-sink-size must be non-negative, got {sink}."
            yield no("draft-sink", said, "speculative_draft_sink_size")
        elif window is None:
            said = "--speculative-draft-sink-size requires --speculative-draft-window-size."
            yield no("draft-sink", said, "speculative_draft_sink_size")


def _dflash(v: View) -> Refusals:
    about = "speculative_algorithm"
    if v.attn_dp:
        if not v.enable_dp_lm_head:
            yield no("dflash-dp", "DFLASH with dp attention requires --enable-dp-lm-head.", about, "enable_dp_lm_head")
        elif v.attn_cp_size != 1:
            said = "DFLASH with dp attention does not support context parallel."
            yield no("dflash-dp", said, about, "attn_cp_size")
    if v.pp_size != 1:
        said = "Currently DFLASH speculative decoding only supports pp_size == 1."
        yield no("dflash-pp", said, about, "pp_size")
    if v.speculative_draft_model_path is None:
        said = "DFLASH speculative decoding requires setting --speculative-draft-model-path."
        yield no("draft-missing", said, about, "speculative_draft_model_path")
    block, tokens = v.speculative_dflash_block_size, v.speculative_num_draft_tokens
    if block is not None:
        if block <= 0:
            said = f"DFLASH requires --speculative-dflash-block-size to be positive, got {block}."
            yield no("dflash-block", said, "speculative_dflash_block_size")
            return
        if tokens is not None and tokens != block:
            yield no(
                "dflash-block",
                "Both --speculative-num-draft-tokens and --speculative-dflash-block-size are set but they differ. For DFLASH they "
                f"must match. speculative_num_draft_tokens={tokens}, speculative_dflash_block_size={block}.",
                "speculative_num_draft_tokens",
                "speculative_dflash_block_size",
            )
            return
        v.declare(speculative_num_draft_tokens=block)
        tokens = block
    window = v.speculative_draft_window_size
    if window is not None and tokens is not None and 0 < window < tokens:
        yield no(
            "dflash-window",
            "--speculative-draft-window-size must be >= --speculative-num-draft-tokens (block_size). "
            f"window_size={window}, block_size={tokens}.",
            "speculative_draft_window_size",
            "speculative_num_draft_tokens",
        )


def _dspark(v: View) -> Refusals:
    about = "speculative_algorithm"
    if v.attn_dp_size > 1:
        if not v.enable_dp_lm_head:
            yield no("dspark-dp", "DSpark with dp attention requires --enable-dp-lm-head.", about, "enable_dp_lm_head")
        elif v.moe_a2a_backend not in ("none", "megamoe", "mori"):
            yield no(
                "dspark-dp",
                "DSpark with dp attention supports moe_a2a_backend 'none' (built-in TP MoE), 'megamoe', or 'mori', got "
                f"{v.moe_a2a_backend!r}.",
                about,
                "moe_a2a_backend",
            )
        elif v.attn_cp_size > 1:
            said = f"DSpark with dp attention does not support context parallel (attn_cp_size={v.attn_cp_size})."
            yield no("dspark-dp", said, about, "attn_cp_size")
    if v.pp_size != 1 and v.disaggregation_mode != "prefill":
        yield no(
            "dspark-pp",
            "DSpark pipeline parallelism requires PD prefill; decode and non-disaggregated serving require pp_size == 1.",
            about,
            "pp_size",
        )
    # DeepSeek-V4 may bring its draft along; the other well-known repositories have none.
    own = v.model.architecture == "DeepseekV4ForCausalLM"
    if v.speculative_draft_model_path is None and v.model.known and not own:
        said = "DSpark dense speculative decoding requires setting --speculative-draft-model-path."
        yield no("draft-missing", said, about, "speculative_draft_model_path")
    block, tokens = v.speculative_dspark_block_size, v.speculative_num_draft_tokens
    if block is None:
        if tokens is not None and tokens < 2 and not own:
            said = f"DSpark speculative_num_draft_tokens must be >= 2 (= gamma + 1), got {tokens}."
            yield no("dspark-tokens", said, "speculative_num_draft_tokens")
        return
    if block <= 0:
        said = f"DSpark requires --speculative-dspark-block-size to be positive, got {block}."
        yield no("dspark-block", said, "speculative_dspark_block_size")
    elif tokens is not None and tokens != block + 1:
        yield no(
            "dspark-block",
            f"DSpark speculative_num_draft_tokens must equal gamma + 1 (= {block + 1} for gamma={block}), but got "
            f"speculative_num_draft_tokens={tokens}.",
            "speculative_num_draft_tokens",
            "speculative_dspark_block_size",
        )
    else:
        v.declare(speculative_num_draft_tokens=block + 1)


def _uno(v: View) -> Refusals:
    about = "speculative_algorithm"
    width, top = v.speculative_num_draft_tokens, v.speculative_eagle_topk
    prefill, decode = v.backends()
    for wrong, said, dest in (
        (
            v.speculative_draft_model_path is not None,
            "UNO reuses the target model and does not accept --speculative-draft-model-path.",
            "speculative_draft_model_path",
        ),
        (v.uno_lora_path is None, "UNO requires --uno-lora-path.", "uno_lora_path"),
        (
            v.enable_deterministic_inference,
            "UNO does not support --enable-deterministic-inference because its sampling path does not use per-request seeds.",
            "enable_deterministic_inference",
        ),
        (
            v.enable_strict_thinking,
            "UNO does not support --enable-strict-thinking because it requires grammar decoding.",
            "enable_strict_thinking",
        ),
        (
            width is None or width < 1,
            "UNO requires --speculative-num-draft-tokens to be a positive integer denoting the linear width or tree verify width Q.",
            "speculative_num_draft_tokens",
        ),
        (
            top is not None and top < 1,
            f"UNO requires --speculative-eagle-topk to be at least 1, got {top}.",
            "speculative_eagle_topk",
        ),
        (
            top is not None and top > 1 and v.speculative_num_steps is None,
            "UNO tree mode requires --speculative-num-steps so its draft width F can be derived as speculative_num_steps + 1.",
            "speculative_num_steps",
        ),
        ((v.tp_size, v.pp_size) != (1, 1), "UNO requires TP=PP=1.", "tp_size"),
        (
            v.attn_dp or v.attn_cp_size != 1,
            "UNO does not support DP attention or context parallelism.",
            "attn_dp_size",
        ),
        (bool(v.enable_lora or v.lora_paths), "UNO does not support public Multi-LoRA serving.", "enable_lora"),
        (
            v.speculative_use_rejection_sampling,
            "UNO manages its own stochastic verification and does not use --speculative-use-rejection-sampling.",
            "speculative_use_rejection_sampling",
        ),
        (
            None not in (prefill, decode) and (prefill, decode) != ("fa3", "fa3"),
            f"UNO requires FA3 for both prefill and decode attention; got prefill={prefill!r}, decode={decode!r}.",
            "attention_backend",
        ),
    ):
        if wrong:
            yield no("uno", said, about, dest)
            return


def _eagle(v: View) -> Refusals:
    """_handle_eagle_family."""
    algorithm = v.speculative_algorithm
    if algorithm == "STANDALONE" and v.attn_dp:
        yield no(
            "standalone-dp",
            "Currently standalone speculative decoding does not support dp attention.",
            "speculative_algorithm",
            "attn_dp_size",
        )
    if v.enable_mixed_chunk and algorithm not in _MIXED:
        v.declare(enable_mixed_chunk=False)
    steps, top, tokens = v.speculative_num_steps, v.speculative_eagle_topk, v.speculative_num_draft_tokens
    if v.speculative_adaptive:
        return  # its configuration is a file, and it may be switched off
    if steps is None:
        if top is not None or tokens is not None:
            yield bad(
                "eagle-parameters",
                "",
                "speculative_num_steps",
                *(["speculative_eagle_topk"] if top is not None else []),
                *(["speculative_num_draft_tokens"] if tokens is not None else []),
            )
            return
        steps, top, tokens = (
            (5, 4, 8) if v.model.architecture == "LlamaForCausalLM" and algorithm != "STANDALONE" else (3, 1, 4)
        )
        v.declare(speculative_num_steps=steps, speculative_num_draft_tokens=tokens)
        if v.model.known or algorithm == "STANDALONE":
            v.declare(speculative_eagle_topk=top)
        else:
            return
    if top is None:
        yield no(
            "eagle-topk",
            "'>' not supported between instances of 'NoneType' and 'int'",
            "speculative_eagle_topk",
            "speculative_num_steps",
            kind="TypeError",
        )
        return
    if "trtllm_mha" in v.backends() and top > 1:
        said = "trtllm_mha backend only supports topk = 1 for speculative decoding."
        yield no("eagle-trtllm", said, "speculative_eagle_topk", "attention_backend")
    if v.speculative_use_rejection_sampling:
        yield from _rejection(v, top)
    if top == 1 and tokens != steps + 1:
        v.declare(speculative_num_draft_tokens=steps + 1)
    backend = v.attention_backend
    if top > 1 and (v.page_size or 1) > 1 and backend is not None and backend not in ("flashinfer", "fa3", "triton"):
        yield no(
            "eagle-page",
            "speculative_eagle_topk > 1 with page_size > 1 is only supported on ('flashinfer', 'fa3', 'triton'); got "
            f"attention_backend={backend!r}. Use page_size == 1 or one of those backends.",
            "speculative_eagle_topk",
            "page_size",
            "attention_backend",
        )


def _rejection(v: View, top: int) -> Refusals:
    about = "speculative_use_rejection_sampling"
    if v.speculative_algorithm not in ("EAGLE", "EAGLE3"):
        yield no(
            "rejection-sampling",
            "--speculative-use-rejection-sampling is only supported for EAGLE / EAGLE3 / NEXTN, not "
            f"speculative_algorithm={v.speculative_algorithm}.",
            about,
            "speculative_algorithm",
            kind="NotImplementedError",
        )
    elif top != 1:
        said = "--speculative-use-rejection-sampling requires --speculative-eagle-topk=1."
        yield no("rejection-sampling", said, about, "speculative_eagle_topk")
    elif v.speculative_accept_threshold_single != 1.0 or v.speculative_accept_threshold_acc != 1.0:
        yield no(
            "rejection-sampling",
            "--speculative-use-rejection-sampling is incompatible with --speculative-accept-threshold-single / "
            "--speculative-accept-threshold-acc; rejection sampling ignores the accept thresholds.",
            about,
            "speculative_accept_threshold_single",
            "speculative_accept_threshold_acc",
        )


def _ngram(v: View) -> Refusals:
    top = v.speculative_ngram_max_bfs_breadth
    tokens = 12 if v.speculative_num_draft_tokens is None else v.speculative_num_draft_tokens
    if v.speculative_num_steps is None and top == 0:
        said = "integer division or modulo by zero"
        yield no("ngram-breadth", said, "speculative_ngram_max_bfs_breadth", kind="ZeroDivisionError")
        return
    v.declare(enable_mixed_chunk=False, speculative_eagle_topk=top, speculative_num_draft_tokens=tokens)
    if v.speculative_ngram_external_corpus_path is not None:
        budget = v.speculative_ngram_external_sam_budget
        tail = " must be positive when --speculative-ngram-external-corpus-path is set."
        if budget <= 0:
            said = f"--speculative-ngram-external-sam-budget{tail}"
            yield no("ngram-corpus", said, "speculative_ngram_external_sam_budget")
        elif v.speculative_ngram_external_corpus_max_tokens <= 0:
            said = f"--speculative-ngram-external-corpus-max-tokens{tail}"
            yield no("ngram-corpus", said, "speculative_ngram_external_corpus_max_tokens")
        elif budget > tokens - 1:
            said = (
                "speculative_ngram_external_sam_budget must be less than or equal to speculative_num_draft_tokens - 1 "
                f"({tokens - 1})."
            )
            yield no("ngram-corpus", said, "speculative_ngram_external_sam_budget", "speculative_num_draft_tokens")
    backend, page = v.attention_backend, v.page_size or 1
    if top > 1 and page > 1 and backend is not None and backend != "flashinfer":
        yield no(
            "ngram-page",
            f"speculative_eagle_topk({top}) > 1 with page_size({page}) > 1 is unstable and produces incorrect results for paged "
            "attention backends. This combination is only supported for the 'flashinfer' backend.",
            "page_size",
            "attention_backend",
        )
    if v.attn_dp:
        said = "Currently ngram speculative decoding does not support dp attention."
        yield no("ngram-dp", said, "speculative_algorithm", "attn_dp_size")
