"""What vLLM refuses between several options: vllm 0.33.0 engine/arg_utils.py and config/{scheduler,lora,speculative,offload,multimodal,vllm}.py.

What depends on the model, a GPU or an installed package is left out: a command that passes here may still be refused.
"""

from __future__ import annotations

from typing import Any

from ._data import table
from ._flag_table import bundled
from ._vllm_view import Refusals, View, invalid, no, value_error

# The server's own defaults (get_batch_defaults): the smallest and the largest that any GPU gives.
_LEAST_SEQS, _MOST_SEQS = 256, 1024
_LEAST_TOKENS, _MOST_TOKENS = 2048, 16384


def between(v: View) -> Refusals:
    yield from _scheduler(v)
    yield from _lora(v)
    yield from _speculative(v)
    yield from _twice(v)
    yield from _offload(v)
    yield from _multimodal(v)
    yield from _others(v)


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _scheduler(v: View) -> Refusals:
    name = "SchedulerConfig"
    tokens, seqs, length = v.max_num_batched_tokens, v.max_num_seqs, v.max_model_len
    known = length if length is not None and length > 0 else None
    chunked = v.enable_chunked_prefill is not False
    if (tokens is not None and tokens < 1) or (seqs is not None and seqs < 1):
        return
    if tokens is not None and known is not None and tokens < known and not chunked:
        said = (
            f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({known}). This effectively limits the "
            "maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "
            "max_num_batched_tokens or decrease max_model_len."
        )
        yield value_error("tokens-length", name, said, "max_num_batched_tokens", "max_model_len")
    elif tokens is not None and seqs is not None and tokens < seqs:
        said = f"max_num_batched_tokens ({tokens}) must be greater than or equal to max_num_seqs ({seqs})."
        yield value_error("tokens-seqs", name, said, "max_num_batched_tokens", "max_num_seqs")
    elif tokens is None and seqs is not None and (chunked or known is not None):
        most = _MOST_TOKENS * (2 if v.performance_mode == "throughput" else 1)
        if not chunked and known is not None:
            most = max(most, known)
        most = min(most, seqs * known) if known is not None else most
        if most < seqs:
            said = f"max_num_batched_tokens ({most}) must be greater than or equal to max_num_seqs ({seqs})."
            yield value_error("tokens-seqs", name, said, "max_num_seqs", "max_num_batched_tokens")
    active = v.max_num_active_seqs
    if active is not None and active > 0:
        limit = seqs if seqs is not None else _MOST_SEQS * (2 if v.performance_mode == "throughput" else 1)
        if seqs is None and tokens is not None:
            limit = min(limit, tokens)
        if active > limit:
            said = f"max_num_active_seqs ({active}) cannot be greater than max_num_seqs ({limit})."
            yield value_error("active-seqs", name, said, "max_num_active_seqs", "max_num_seqs")
    threshold = v.long_prefill_token_threshold or 0
    if known is not None and threshold > known:
        said = f"long_prefill_token_threshold ({threshold}) cannot be greater than the max_model_len ({known})."
        yield value_error("prefill-threshold", name, said, "long_prefill_token_threshold", "max_model_len")


def _lora(v: View) -> Refusals:
    if not v.enable_lora:
        return
    most, cpu = v.max_loras, v.max_cpu_loras
    if cpu is not None and 0 < cpu < most:
        said = f"max_cpu_loras ({cpu}) must be >= max_loras ({most})."
        yield value_error("cpu-loras", "LoRAConfig", said, "max_cpu_loras", "max_loras")
    backend = str(v.config("kernel_config").get("moe_backend", "auto") if v.moe_backend == "auto" else v.moe_backend)
    if backend in table("vllm_configs")["mega_moe"]:
        said = (
            f"LoRA is not supported with moe_backend={backend!r}. "
            "Disable LoRA or select a MoE backend that supports LoRA."
        )
        yield value_error("lora-moe", "VllmConfig", said, "enable_lora", "moe_backend")


_DRAFTLESS = ("ngram", "[ngram]", "ngram_gpu", "suffix", "extract_hidden_states")


def _speculative(v: View) -> Refusals:
    made = v.speculative_config
    if made is not None and not isinstance(made, dict):
        return
    config = {k.replace("-", "_"): x for k, x in (made or {}).items()}
    for dest, flag, key in (
        ("spec_method", "--spec-method", "method"),
        ("spec_model", "--spec-model", "model"),
        ("spec_tokens", "--spec-tokens", "num_speculative_tokens"),
    ):
        value = v.made.values.get(dest)
        if value is None:
            continue
        if made is not None and key in made:
            said = f"{flag} and --speculative-config['{key}'] are mutually exclusive"
            yield no("given-twice", said, dest, "speculative_config")
            return
        config[key] = value
    if not config and made is None:
        if v.per_request_spec_decode_metrics not in (None, "none"):
            said = "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config)."
            yield value_error(
                "spec-metrics", "VllmConfig", said, "per_request_spec_decode_metrics", "speculative_config"
            )
        return
    yield from list(_draft(v, config))[:1]


def _draft(v: View, c: dict[str, Any]) -> Refusals:
    name = "SpeculativeConfig"
    about = (
        "speculative_config"
        if v.given("speculative_config")
        else "spec_tokens"
        if v.given("spec_tokens")
        else "spec_method"
    )
    method, model, tokens = c.get("method"), c.get("model"), c.get("num_speculative_tokens")
    own = method is None or method in (
        "draft_model",
        "eagle",
        "eagle3",
        "medusa",
        "mlp_speculator",
        "dflash",
        "custom_class",
    )
    if model is None and tokens is not None and own:
        if method == "custom_class":
            said = (
                "method='custom_class' requires 'model' to contain the custom proposer module path "
                "(e.g., 'my_module.MyProposer')."
            )
        else:
            said = "num_speculative_tokens was provided but without speculative model."
        yield value_error("spec-model", name, said, about)
    if method in ("ngram", "[ngram]", "ngram_gpu"):
        low, high = _int(c.get("prompt_lookup_min")), _int(c.get("prompt_lookup_max"))
        if low is not None and high is not None and low > high:
            said = f"prompt_lookup_min={low} must be <= prompt_lookup_max={high}"
            yield value_error("ngram-bounds", name, said, about)
    if c.get("tensor_parallel_size") is not None:
        said = (
            "'tensor_parallel_size' is not a valid argument in the speculative_config. "
            "Please pass 'draft_tensor_parallel_size' instead."
        )
        yield value_error("spec-tp", name, said, about)
    if tokens is None and model is None:
        said = (
            "num_speculative_tokens must be provided with speculative model unless the draft model config contains an "
            "n_predict parameter."
        )
        yield value_error("spec-tokens", name, said, about)
    number = _int(tokens)
    if method in _DRAFTLESS and c.get("draft_lm_head_quantization") is not None:
        yield value_error(
            "spec-option", name, f"draft_lm_head_quantization is not supported for method {method!r}.", about
        )
    if number is not None and number <= 0 and method in _DRAFTLESS:
        said = f"Expected num_speculative_tokens to be greater than zero ({number})."
        yield value_error("spec-tokens", name, said, about)
    rates, length = c.get("synthetic_acceptance_rates"), c.get("synthetic_acceptance_length")
    if c.get("rejection_sample_method") == "synthetic":
        if (rates is None) == (length is None):
            said = (
                "rejection_sample_method='synthetic' requires exactly one of "
                "synthetic_acceptance_rates or synthetic_acceptance_length."
            )
            yield value_error("spec-synthetic", name, said, about)
    elif rates is not None or length is not None:
        said = (
            "synthetic_acceptance_rates / synthetic_acceptance_length are only valid with "
            "rejection_sample_method='synthetic'."
        )
        yield value_error("spec-synthetic", name, said, about)
    if c.get("use_heterogeneous_vocab") is True and method in _DRAFTLESS:
        said = "use_heterogeneous_vocab only works with method='draft_model'"
        yield value_error("spec-option", name, said, about)
    if c.get("rejection_sample_method") == "fly" and number is not None and number < 2:
        said = "FLy requires num_speculative_tokens to be at least 2."
        yield value_error("spec-tokens", name, said, about)
    if v.enable_lora and number is not None and v.max_num_batched_tokens is not None and v.max_num_seqs is not None:
        if v.max_num_batched_tokens < v.max_num_seqs * (number + 1):
            said = "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens"
            yield no("spec-lora", said, "max_num_batched_tokens", about)


def _twice(v: View) -> Refusals:
    """The same setting by a flag of its own and by a key of a JSON option."""
    for dest, config, key in (
        ("attention_backend", "attention_config", "backend"),
        ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
        ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
        ("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune"),
    ):
        if v.made.values.get(dest) is None:
            continue
        there = v.config(config).get(key)
        if there is not None and not (key == "backend" and str(there).lower() == "auto"):
            yield no("given-twice", f"{dest} and {config}.{key} are mutually exclusive", dest, config)


def _offload(v: View) -> Refusals:
    group, inside, step = v.offload_group_size or 0, v.offload_num_in_group, v.offload_prefetch_step
    if v.offload_backend != "prefetch" and group <= 0:
        return
    if inside is not None and inside > group >= 0:
        said = f"offload_num_in_group ({inside}) must be <= offload_group_size ({group})"
        yield value_error("offload-group", "OffloadConfig", said, "offload_num_in_group", "offload_group_size")
    elif step is not None and step == 0:
        said = (
            f"offload_prefetch_step ({step}) must be >= 1 when prefetch offloading is enabled (offload_group_size > 0)"
        )
        yield value_error("offload-step", "OffloadConfig", said, "offload_prefetch_step")


def _multimodal(v: View) -> Refusals:
    limits = v.limit_mm_per_prompt
    if v.given("limit_mm_per_prompt") and not isinstance(limits, dict):
        words = "limit_mm_per_prompt\n  Input should be a valid dictionary"
        yield invalid("json-object", "ModelConfig", words, "limit_mm_per_prompt")


# Methods that left vLLM for plug-ins of their own, which register the names again.
_OF_PLUGINS = ("gguf", "bitsandbytes")


def _others(v: View) -> Refusals:
    if v.mamba_ssu_algorithm is not None and str(v.mamba_backend).lower() != "flashinfer":
        said = (
            "Mamba SSU algorithm selection is only supported with the FlashInfer backend. Please set "
            "`--mamba-backend flashinfer`, or omit `--mamba-ssu-algorithm`."
        )
        if v.config("mamba_config").get("backend") is None:
            yield no("mamba-ssu", said, "mamba_ssu_algorithm", "mamba_backend")
    if v.enable_mamba_cache_stochastic_rounding and v.mamba_ssm_cache_dtype != "float16":
        said = (
            "Stochastic rounding for Mamba cache requires the SSM cache to be float16. Please set it explicitly, by "
            "specifying `--mamba-ssm-cache-dtype float16`, or disable stochastic rounding by not specifying "
            "`--enable-mamba-cache-stochastic-rounding`."
        )
        yield value_error(
            "mamba-rounding", "VllmConfig", said, "enable_mamba_cache_stochastic_rounding", "mamba_ssm_cache_dtype"
        )
    if v.collect_detailed_traces and not v.otlp_traces_endpoint:
        traces = [t for item in v.collect_detailed_traces for t in str(item).split(",")]
        if all(t in ("model", "worker", "all") for t in traces):
            said = "collect_detailed_traces requires `--otlp-traces-endpoint` to be set."
            yield value_error("traces", "ObservabilityConfig", said, "collect_detailed_traces", "otlp_traces_endpoint")
    if v.given("kv_transfer_config") and v.config("kv_transfer_config").get("kv_connector") is None:
        if v.kv_transfer_config is not None:
            said = "Connector name is not set in KVTransferConfig"
            yield value_error("kv-connector", "VllmConfig", said, "kv_transfer_config")
    transfer = v.config("kv_transfer_config")
    connector = transfer.get("kv_connector")
    if connector and transfer.get("kv_connector_module_path") is None:
        if connector not in table("vllm_configs")["connectors"]:
            said = f"Unsupported connector type: {connector}"
            yield value_error("kv-connector", "VllmConfig", said, "kv_transfer_config")
    ids = v.device_ids
    if ids:
        if len(set(ids)) != len(ids):
            yield no("device-ids", f"--device-ids must not contain duplicates: {ids}", "device_ids")
        elif any(isinstance(i, str) and not i.startswith(("GPU-", "MIG-")) for i in ids):
            odd = next(i for i in ids if isinstance(i, str))
            yield no("device-ids", f"Non-integer device ID '{odd}' is not supported by cuda.", "device_ids")
        elif any(isinstance(i, str) for i in ids) and not all(isinstance(i, str) for i in ids):
            yield no("device-ids", "--device-ids must not mix integer IDs and UUIDs", "device_ids")
    if v.kda_prefill_backend == "fused":
        yield no("kda-rocm", "--kda-prefill-backend=fused is only available on ROCm.", "kda_prefill_backend")
    executor = v.distributed_executor_backend
    if executor is not None and executor not in ("ray", "mp", "uni", "external_launcher") and "." not in executor:
        said = "not enough values to unpack (expected 2, got 1)"
        yield value_error("executor", "VllmConfig", said, "distributed_executor_backend")
    traces = [t for item in v.collect_detailed_traces or () for t in str(item).split(",")]
    if any(t not in ("model", "worker", "all") for t in traces):
        words = "collect_detailed_traces.0\n  Input should be 'model', 'worker' or 'all'"
        yield invalid("field-type", "ObservabilityConfig", words, "collect_detailed_traces")
    quantization = v.quantization
    known = bundled("vllm").names.get("quantization", ())
    if quantization is not None and str(quantization).lower() not in (*known, *_OF_PLUGINS):
        said = f"Unknown quantization method: {quantization}. Must be one of {list(known)}."
        yield value_error("quantization", "ModelConfig", said, "quantization")
    if quantization in ("fbgemm_fp8", "fp_quant") and not v.allow_deprecated_quantization:
        said = (
            f"The quantization method {quantization} is deprecated. To continue using it, "
            "set `--allow-deprecated-quantization`."
        )
        yield invalid("quantization-deprecated", "ModelConfig", f"  Value error, {said}", "quantization")
