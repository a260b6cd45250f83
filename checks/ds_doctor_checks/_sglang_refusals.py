"""What SGLang refuses between the parser and the first process, in its own order: the checks of ServerArgs.resolve_once and check_server_args.

sglang 0.5.23, srt/arg_groups/pipeline.py and validation_hook.py. What depends on a GPU, a file or a model that is not known
is left out: a command that passes here may still be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _sglang_cache as cache
from . import _sglang_deepseek as deepseek
from . import _sglang_disagg as disagg
from . import _sglang_experts as moe
from . import _sglang_gpu as gpus
from . import _sglang_kernels as kernels
from . import _sglang_lora as lora
from . import _sglang_models as models
from . import _sglang_observing as observing
from . import _sglang_parallel as parallel
from . import _sglang_serving as serving
from . import _sglang_speculative as speculative
from ._launch_refusal import Refusal, no
from ._options import Options
from ._sglang_view import Hook, Refusals, View, model_of


def log_level(v: View) -> Refusals:
    """prepare_server_args: Python's logging has an attribute for each level's name."""
    name = v.log_level.upper()
    if name not in ("CRITICAL", "FATAL", "ERROR", "WARNING", "WARN", "INFO", "DEBUG", "NOTSET", "BASIC_FORMAT"):
        said = f"module 'logging' has no attribute '{name}'"
        yield no("log-level", said, "log_level", kind="AttributeError")


def priorities(v: View) -> Refusals:
    """check_server_args."""
    if v.enable_priority_scheduling and v.schedule_policy not in ("fcfs", "lof"):
        said = f"To use priority scheduling, schedule_policy must be 'fcfs' or 'lof'. '{v.schedule_policy}' is not supported."
        yield no("priority-policy", said, "enable_priority_scheduling", "schedule_policy", kind="AssertionError")
    if v.retraction_policy == "priority" and not v.enable_priority_scheduling:
        said = "--retraction-policy priority requires --enable-priority-scheduling"
        yield no("retraction-priority", said, "retraction_policy", "enable_priority_scheduling")


def workers(v: View) -> Refusals:
    for dest, least, said in (
        ("tokenizer_worker_num", 1, "Tokenizer worker num must >= 1"),
        ("detokenizer_worker_num", 1, "Detokenizer worker num must >= 1"),
        ("mm_processor_worker_num", 0, "Multimodal processor worker num must >= 0"),
        ("mm_io_worker_num", 0, "Multimodal I/O worker num must >= 0"),
    ):
        if getattr(v, dest) < least:
            yield no("worker-count", said, dest, kind="AssertionError")


def conservativeness(v: View) -> Refusals:
    if not v.schedule_conservativeness >= 0:
        said = "schedule_conservativeness must be non-negative"
        yield no("conservativeness", said, "schedule_conservativeness", kind="AssertionError")


def communication(v: View) -> Refusals:
    """What only other devices than NVIDIA's have."""
    if v.enable_quant_communications:
        if v.tp_size == 1:
            said = "Communications quantization is only used with tp_size != 1"
            yield no("quant-communication", said, "enable_quant_communications", "tp_size")
        elif v.device in (None, "cuda"):
            said = "Communications quantization is only supported for NPU device"
            yield no("quant-communication", said, "enable_quant_communications")
    if v.sampling_backend == "intel_xpu" and v.device in (None, "cuda"):
        said = "--sampling-backend intel_xpu requires --device xpu, got --device cuda"
        yield no("sampling-xpu", said, "sampling_backend")
    if v.enable_amd_monokernel and v.device in (None, "cuda"):
        said = "--enable-amd-monokernel cannot run this setup:\n  - no monokernel backend 'amd' is registered (registered: []); install the plugin that provides it"
        yield no("amd-monokernel", said, "enable_amd_monokernel")
    if v.model_impl == "mindspore" and v.device in (None, "cuda"):
        said = "MindSpore model impl is only supported on Ascend npu."
        yield no("mindspore", said, "model_impl", kind="AssertionError")


def expert_pack(v: View) -> Refusals:
    """handle_expert_pack, what is always missing."""
    if (
        v.load_format == "expert_pack"
        and v.model_loader_extra_config in (None, "", "{}")
        and "SGLANG_EXPERT_PACK_PATH" not in v.environment
    ):
        said = (
            "Invalid expert_pack configuration:\n- pack_path is required in --model-loader-extra-config or "
            "SGLANG_EXPERT_PACK_PATH"
        )
        yield no("expert-pack", said, "load_format", "model_loader_extra_config")


def weight_cache(v: View) -> Refusals:
    """handle_load_format."""
    if v.weight_cache_mode != "off" and v.speculative_algorithm is not None:
        yield no(
            "weight-cache",
            "--weight-cache-mode is not supported together with speculative decoding (--speculative-algorithm): the weight cache "
            "daemon does not export the draft model's weights. Disable one of them (--weight-cache-mode off) for this "
            "configuration.",
            "weight_cache_mode",
            "speculative_algorithm",
        )


# In the order of the engine. `None` stands where it returns for `--model-path none` and `dummy`.
_RESOLUTION: tuple[Hook | None, ...] = (
    log_level,
    parallel.old_attention_dp,
    moe.mega,
    serving.media_urls,
    observing.watermark_config,
    cache.host_part,
    cache.offload,
    observing.early,
    observing.hidden_states,
    None,
    serving.multimodal,
    serving.tls,
    serving.speech,
    serving.grpc,
    expert_pack,
    disagg.disaggregation,
    cache.without,
    parallel.decode_context,
    models.overrides_json,
    parallel.weights_dp,
    kernels.graphs,
    models.traits,
    kernels.deterministic,
    kernels.prefill_dequant,
    kernels.attention,
    gpus.gpu,
    kernels.mamba,
    kernels.linear,
    kernels.scoring,
    cache.tiers,
    parallel.data,
    parallel.context,
    models.sharding,
    moe.experts,
    moe.all_to_all,
    parallel.shared_experts,
    parallel.eplb,
    parallel.elastic,
    speculative.speculative,
    models.sequence_norm,
    weight_cache,
    disagg.encoders,
    serving.batching,
    serving.transport,
    cache.compatibility,
    cache.page_major,
    models.diffusion,
    serving.requests,
    models.late,
    kernels.graph_context,
    moe.draft_exchange,
)
_CHECKS: tuple[Hook, ...] = (
    parallel.sizes,
    lora.lora,
    cache.chunks,
    moe.multiplexing,
    workers,
    observing.buckets,
    priorities,
    deepseek.sparse,
    conservativeness,
    observing.metrics,
    moe.overlap,
    communication,
    observing.ports,
    observing.last,
)


def view_of(
    options: Options,
    environment: Mapping[str, str],
    capability: tuple[int, int] | None = None,
    config: Mapping[str, Any] | None = None,
) -> View:
    """What resolution would see of the command; `config`: the model's config.json, where it can be read."""
    given = frozenset(g.dest for g in options.given)
    return View(options.values, given, model_of(options.model, config), environment, capability)


def refusals(view: View) -> tuple[Refusal, ...]:
    """All that it would refuse, the one with which it ends first; what comes behind it shows once that is put right."""
    seen: list[Refusal] = []
    short = str(view.model_path).lower() in ("none", "dummy")
    for hook in _RESOLUTION:
        if hook is None:
            if short:
                break
        else:
            _run(hook, view, seen)
    for hook in _CHECKS:
        _run(hook, view, seen)
    return tuple(seen)


def _run(hook: Hook, view: View, seen: list[Refusal]) -> None:
    try:
        for refusal in hook(view):
            if all(refusal.message != s.message for s in seen):
                seen.append(refusal)
    except (AttributeError, TypeError, ValueError, KeyError, OverflowError):
        # An option that this version lacks, or JSON of another shape than the engine expects: nothing is claimed of it.
        return


# Packages beside the engine, and files, on which it depends whether these options work.
_ELSEWHERE = ("enable_http2", "enable_nvidia_megakernel", "decrypted_config_file")


def unseen(view: View) -> tuple[str, ...]:
    """The options that were given and that a GPU, package or file decides which nobody looked at."""
    return (*gpus.asked(view), *(dest for dest in _ELSEWHERE if view.get(dest, None)))
