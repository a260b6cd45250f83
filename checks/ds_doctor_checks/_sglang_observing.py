"""SGLang's start-up checks of watermarks, metrics, ports and the rest of check_server_args; sglang 0.5.23 validation_hook.py."""

from __future__ import annotations

import json
from typing import Any

from ._launch_refusal import bad, no
from ._sglang_view import Refusals, View


def watermark_config(v: View) -> Refusals:
    given = v.watermark_config
    if given is None or not given.lstrip().startswith("{"):
        return  # a file: nothing here reads it
    try:
        raw = json.loads(given)
    except ValueError:
        yield no(
            "watermark-config", "failed to read watermark config JSON", "watermark_config", kind="WatermarkConfigError"
        )
        return
    if not isinstance(raw, dict):
        yield no(
            "watermark-config",
            "watermark config must be a JSON object",
            "watermark_config",
            kind="WatermarkConfigError",
        )
    elif set(raw) - {
        "key",
        "key_b",
        "context_window",
        "mixing_probability",
        "max_probability",
        "default_enabled",
        "enforce_all",
    }:
        yield no(
            "watermark-config",
            "watermark config contains unknown fields",
            "watermark_config",
            kind="WatermarkConfigError",
        )
    else:
        v.declare(**{f"watermark_{k}": value for k, value in raw.items() if value is not None})


def early(v: View) -> Refusals:
    """validate_prefill_decode_interval, validate_response_store, validate_sampling_mask_max_tokens."""
    if v.prefill_decode_interval is not None and v.prefill_decode_interval < 0:
        yield no(
            "prefill-decode-interval", "--prefill-decode-interval must be non-negative.", "prefill_decode_interval"
        )
    if v.prefill_decode_interval_min_bs < 0:
        yield no(
            "prefill-decode-interval",
            "--prefill-decode-interval-min-bs must be non-negative.",
            "prefill_decode_interval_min_bs",
        )
    if v.enable_response_store and v.disaggregation_mode != "null":
        yield no(
            "response-store-pd",
            "--enable-response-store is not supported with --disaggregation-mode=prefill or decode; response storage must "
            "remain disabled in PD mode.",
            "enable_response_store",
            "disaggregation_mode",
        )
    if v.sampling_mask_max_tokens <= 0:
        said = f"--sampling-mask-max-tokens must be positive (got {v.sampling_mask_max_tokens})."
        yield no("sampling-mask", said, "sampling_mask_max_tokens")


_CAPTURE = ("EAGLE3", "DFLASH", "DSPARK")


def hidden_states(v: View) -> Refusals:
    """handle_aux_hidden_state_capture."""
    ids = v.return_aux_hidden_state_layer_ids
    if not v.enable_return_aux_hidden_states:
        if ids is not None:
            said = "--return-aux-hidden-state-layer-ids requires --enable-return-aux-hidden-states."
            yield no("aux-hidden-ids", said, "return_aux_hidden_state_layer_ids")
        return
    method = (v.speculative_algorithm or "").upper()
    if method not in _CAPTURE:
        yield no(
            "aux-hidden-method",
            "--enable-return-aux-hidden-states needs --speculative-algorithm EAGLE3, DFLASH or DSPARK to name the capture "
            f"convention, got {v.speculative_algorithm!r}.",
            "enable_return_aux_hidden_states",
        )
        return
    if v.speculative_draft_model_path is not None:
        yield no(
            "aux-hidden-draft",
            "--enable-return-aux-hidden-states captures without a draft; drop --speculative-draft-model-path.",
            "speculative_draft_model_path",
        )
    if v.pp_size != 1:
        yield no(
            "aux-hidden-pp",
            "--enable-return-aux-hidden-states only supports pp_size == 1: the capture hooks only see the layers on the last "
            "pipeline rank.",
            "pp_size",
        )
    about = "return_aux_hidden_state_layer_ids"
    if method != "EAGLE3" and not ids:
        said = f"--enable-return-aux-hidden-states with {method} requires --return-aux-hidden-state-layer-ids."
        yield no("aux-hidden-layers", said, "enable_return_aux_hidden_states")
    elif ids is not None and any(i < 0 for i in ids):
        yield no(
            "aux-hidden-layers", f"--return-aux-hidden-state-layer-ids must be non-negative, got {list(ids)}.", about
        )
    elif ids is not None and len(set(ids)) != len(ids):
        yield no(
            "aux-hidden-layers", f"--return-aux-hidden-state-layer-ids must not repeat a layer, got {list(ids)}.", about
        )
    v.declare(speculative_algorithm=None)


def buckets(v: View) -> Refusals:
    """validate_buckets_rule."""
    for dest in ("prompt_tokens_buckets", "generation_tokens_buckets"):
        rule = getattr(v, dest)
        said = _bucket(f"--{dest.replace('_', '-')}", rule) if rule else None
        if said:
            yield bad("token-buckets", said, dest)


def _bucket(name: str, rule: list[str]) -> str | None:
    kind, rest = rule[0], rule[1:]
    if kind not in ("tse", "default", "custom"):
        return f"Unsupported {name} rule type: '{kind}'. Must be one of: 'tse', 'default', 'custom'"
    if kind == "default":
        return f"{name} default rule should only have one parameter: ['default'], got {len(rule)}" if rest else None
    if kind == "tse":
        if len(rule) != 4:
            return f"{name} TSE rule requires exactly 4 parameters: ['tse', middle, base, count], got {len(rule)}"
        try:
            middle, base, count = float(rest[0]), float(rest[1]), int(rest[2])
        except ValueError:
            return f"{name} TSE rule parameters must be: ['tse', <float:middle>, <float:base>, <int:count>]"
        if not base > 1:
            return f"{name} TSE base must be larger than 1, got: {base}"
        if not count > 0:
            return f"{name} TSE count must be positive, got: {count}"
        return None if middle > 0 else f"{name} TSE middle must be positive, got: {middle}"
    if not rest:
        return f"{name} custom rule requires at least one bucket value: ['custom', value1, ...]"
    try:
        values = [float(x) for x in rest]
    except ValueError:
        return f"{name} custom rule bucket values must be numeric"
    if len(set(values)) != len(values):
        return f"{name} custom rule bucket values should not contain duplicates"
    return None if all(x >= 0 for x in values) else f"{name} custom rule bucket values should be non-negative"


def metrics(v: View) -> Refusals:
    if not v.tokenizer_metrics_custom_labels_header and v.tokenizer_metrics_allowed_custom_labels:
        yield no(
            "metrics-labels",
            "Please set --tokenizer-metrics-custom-labels-header when setting --tokenizer-metrics-allowed-custom-labels.",
            "tokenizer_metrics_allowed_custom_labels",
        )
    if v.export_metrics_to_file and v.export_metrics_to_file_dir is None:
        yield no(
            "metrics-file-dir",
            "--export-metrics-to-file-dir is required when --export-metrics-to-file is enabled",
            "export_metrics_to_file",
        )


def ports(v: View) -> Refusals:
    if not v.smg_grpc_mode and v.grpc_port is not None and v.grpc_port == v.port:
        said = f"--grpc-port ({v.grpc_port}) must differ from --port ({v.port})"
        yield no("grpc-port-same", said, "grpc_port", "port")


def last(v: View) -> Refusals:
    """The end of check_server_args."""
    if v.gc_threshold and not 1 <= len(v.gc_threshold) <= 3:
        yield no("gc-threshold", "When setting gc_threshold, it must contain 1 to 3 integers.", "gc_threshold")
    if v.kv_canary_sweep_interval > 0 and v.kv_canary == "none":
        yield no(
            "kv-canary",
            "--kv-canary-sweep-interval requires --kv-canary in {log, raise}",
            "kv_canary_sweep_interval",
        )
    yield from _watermark(v)
    mode = (v.load_publish_endpoint or "").strip()
    if mode and mode.lower() != "off" and not v.kv_events_config:
        yield no(
            "load-publish",
            "--load-publish-endpoint requires --kv-events-config: routers discover the load range through /server_info's "
            "kv_events block, absent without a publisher.",
            "load_publish_endpoint",
        )


def _key(value: Any) -> str | None:
    digits = value[2:] if value.lower().startswith("0x") else value
    if not 1 <= len(digits) <= 16:
        return "watermark key must contain 1 to 16 hex digits"
    if any(c not in "0123456789abcdefABCDEF" for c in digits):
        return "watermark key must contain only hex digits"
    return None


def _watermark(v: View) -> Refusals:
    """check_watermark_server_args."""
    if v.watermark_config is not None and not v.enable_watermark:
        yield no("watermark-off", "--watermark-config requires --enable-watermark", "watermark_config")
    if not v.enable_watermark:
        return
    about = "enable_watermark"
    for key in (v.get("watermark_key", None), v.get("watermark_key_b", None)):
        said = _key(key) if isinstance(key, str) else None
        if said:
            yield no("watermark-value", said, about)
            return
    window = v.get("watermark_context_window", 4)
    unread = v.watermark_config is not None and not v.watermark_config.lstrip().startswith("{")
    if unread:
        return  # the file may give any of what follows
    if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= 64:
        yield no("watermark-value", "watermark context_window must be an integer from 1 to 64", about)
    if v.get("watermark_key_b", None) is not None and v.get("watermark_key", None) is None:
        yield no("watermark-value", "watermark key_b requires a server key", about)
    if not 0 < v.get("watermark_mixing_probability", 0.5) < 1:
        yield no("watermark-value", "watermark mixing_probability must be strictly between 0 and 1", about)
    elif v.get("watermark_key_b", None) is None and v.get("watermark_mixing_probability", 0.5) != 0.5:
        yield no("watermark-value", "watermark mixing_probability requires key_b", about)
    if not 0 < v.get("watermark_max_probability", 1.0) <= 1:
        yield no("watermark-value", "watermark max_probability must be greater than 0 and at most 1", about)
    if (v.get("watermark_default_enabled", None) or v.get("watermark_enforce_all", None)) and v.get(
        "watermark_key", None
    ) is None:
        yield no("watermark-value", "watermark default_enabled and enforce_all require a server key", about)
    yield from _watermark_with(v)


def _watermark_with(v: View) -> Refusals:
    about = "enable_watermark"
    algorithm = v.speculative_algorithm
    for wrong, said, dest in (
        (
            v.enable_custom_logit_processor,
            "is incompatible with --enable-custom-logit-processor",
            "enable_custom_logit_processor",
        ),
        (v.dllm_algorithm is not None, "is not supported with diffusion LLM", "dllm_algorithm"),
        (v.disaggregation_mode != "null", "is not supported with PD disaggregation", "disaggregation_mode"),
        (
            algorithm not in (None, "NGRAM", "EAGLE", "EAGLE3"),
            f"supports speculative algorithms NGRAM, EAGLE, and EAGLE3, got {algorithm!r}",
            "speculative_algorithm",
        ),
        (
            v.pp_size > 1 and algorithm is not None,
            "is not supported with pipeline-parallel speculative decoding",
            "pp_size",
        ),
        (
            v.speculative_use_rejection_sampling,
            "is incompatible with --speculative-use-rejection-sampling",
            "speculative_use_rejection_sampling",
        ),
    ):
        if wrong:
            yield no("watermark-with", f"--enable-watermark {said}", about, dest)
