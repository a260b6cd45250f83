"""vLLM's configuration classes: what JSON each takes, and what its own validators refuse; it knows no flag beside them.

vllm 0.33.0, vllm/config/*.py. The fields lie in data/vllm_configs.toml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ds_doctor.probes.engine_flags import Flag

from ._data import table
from ._vllm_types import fields

VERSION = "0.33.0"


def classes() -> Mapping[str, Any]:
    return table("vllm_configs")["class"]  # type: ignore[no-any-return]


def faults(flag: Flag, made: dict[str, Any]) -> list[str]:
    """What pydantic would say of each wrong field, in its words, and where there is none, what the class itself refuses."""
    name = flag.made or ""
    known = classes()
    if "keys" in flag.unsure:
        return []  # another version's class, of which the keys are not known
    if flag.keys is not None and name in known and set(flag.keys) != set(known[name]):
        # Another version's class: only names that it does not have are certain.
        return [f"{k}\n  Unexpected keyword argument" for k in made if k not in flag.keys]
    if name not in known:
        return [f"{k}\n  Unexpected keyword argument" for k in made if flag.keys is not None and k not in flag.keys]
    return said(name, made)


def said(name: str, made: dict[str, Any]) -> list[str]:
    """The lines of the ValidationError for a class of this version."""
    wrong = [f"{at}\n  {words}" for at, words in fields(name, _split(name, made), classes())]
    if wrong:
        return wrong
    return [f"  Value error, {words}" for words in _OWN.get(name, _nothing)(made)]


def _split(name: str, made: dict[str, Any]) -> dict[str, Any]:
    """IrOpPriorityConfig takes `a,b` for [a, b]; "auto" of a back end means none."""
    if name == "IrOpPriorityConfig":
        return {k: v.replace(" ", "").split(",") if isinstance(v, str) else v for k, v in made.items()}
    if name == "AttentionConfig" and str(made.get("backend", "")).lower() == "auto":
        return {k: v for k, v in made.items() if k != "backend"}
    if name == "KernelConfig":
        lowered = ("moe_backend", "linear_backend", "sparse_indexer_topk_backend")
        return {k: v.lower().replace("-", "_") if k in lowered and isinstance(v, str) else v for k, v in made.items()}
    return made


def _nothing(made: dict[str, Any]) -> Iterator[str]:
    yield from ()


def _structured(c: dict[str, Any]) -> Iterator[str]:
    backend = c.get("backend", "auto")
    if _on(c.get("disable_any_whitespace")) and backend not in ("xgrammar", "guidance"):
        yield "disable_any_whitespace is only supported for xgrammar and guidance backends."
    elif _on(c.get("disable_additional_properties")) and backend != "guidance":
        yield "disable_additional_properties is only supported for the guidance backend."


def _profiler(c: dict[str, Any]) -> Iterator[str]:
    profiler, activities = c.get("profiler"), c.get("torch_profiler_activities")
    folder, proton = c.get("torch_profiler_dir") or "", c.get("proton_profiler_dir") or ""
    if activities is not None and profiler != "torch":
        yield "torch_profiler_activities is only applicable when profiler is set to 'torch'"
    elif activities is not None and len(activities) != len(set(activities)):
        yield "torch_profiler_activities must not contain duplicates"
    elif folder and profiler != "torch":
        yield "torch_profiler_dir is only applicable when profiler is set to 'torch'"
    elif profiler == "torch" and not folder:
        yield "torch_profiler_dir must be set when profiler is 'torch'"
    else:
        given = [n for n, default in _PROTON.items() if _value(c, n, default) != default]
        if profiler != "proton" and given:
            yield f"{', '.join(given)} only applicable when profiler is set to 'proton'"
        elif profiler == "proton" and not proton:
            yield "proton_profiler_dir must be set when profiler is 'proton'"
        elif "://" in proton:
            yield "proton_profiler_dir must be a local directory"
        elif profiler == "proton":
            yield from _proton(c)
        elif _on(c.get("capture_torch_profiler")) and profiler != "torch":
            yield "capture_torch_profiler is only applicable when profiler is set to 'torch'"


_PROTON: dict[str, Any] = {
    "proton_profiler_dir": "",
    "proton_context": "shadow",
    "proton_data": "tree",
    "proton_backend": None,
    "proton_mode": None,
    "proton_hook": None,
    "proton_output_format": None,
    "proton_graph_attribution": False,
}


def _proton(c: dict[str, Any]) -> Iterator[str]:
    data, form = c.get("proton_data", "tree"), c.get("proton_output_format")
    attribution = _on(c.get("proton_graph_attribution"))
    if attribution and data != "tree":
        yield "proton_graph_attribution requires proton_data='tree'"
    elif attribution and (c.get("proton_mode") or "").split(":", 1)[0].lower() == "periodic_flushing":
        yield ("proton_graph_attribution is incompatible with periodic_flushing: both manage Proton data phases.")
    elif form == "chrome_trace" and data != "trace":
        yield "chrome_trace output requires proton_data='trace'"
    elif form in ("hatchet", "hatchet_msgpack") and data != "tree":
        yield f"{form} output requires proton_data='tree'"
    elif _on(c.get("capture_torch_profiler")):
        yield "capture_torch_profiler is only applicable when profiler is set to 'torch'"


def _pooler(c: dict[str, Any]) -> Iterator[str]:
    kind = c.get("pooling_type")
    if c.get("logit_sigma") == 0 and c.get("logit_sigma") is not None:
        yield "logit_sigma cannot be 0 (division by zero)"
    elif kind and c.get("seq_pooling_type") is not None:
        yield "Cannot set both `pooling_type` and `seq_pooling_type`"
    elif kind and c.get("tok_pooling_type") is not None:
        yield "Cannot set both `pooling_type` and `tok_pooling_type`"


def _kv_transfer(c: dict[str, Any]) -> Iterator[str]:
    if c.get("kv_connector") is not None and c.get("kv_role") is None:
        yield (
            "Please specify kv_role when kv_connector is set, supported roles are "
            "('kv_producer', 'kv_both', 'kv_consumer')"
        )


def _ec_transfer(c: dict[str, Any]) -> Iterator[str]:
    if c.get("ec_connector") is not None and c.get("ec_role") is None:
        yield (
            "Please specify ec_role when ec_connector is set, supported roles are "
            "('ec_producer', 'ec_both', 'ec_consumer')"
        )


def _ec_manager(c: dict[str, Any]) -> Iterator[str]:
    if c.get("encoder_cache_manager_cls") is None and c.get("manager_config"):
        yield "manager_config requires encoder_cache_manager_cls to be set."


def _engram(c: dict[str, Any]) -> Iterator[str]:
    offload, shared = _on(_value(c, "cpu_offload", False)), _on(c.get("dp_shared_memory"))
    if shared and not offload:
        yield "dp_shared_memory requires cpu_offload=True"
    elif _on(c.get("use_thp")) and (not offload or shared):
        yield "use_thp requires cpu_offload=True and dp_shared_memory=False"


def _compilation(c: dict[str, Any]) -> Iterator[str]:
    ops = c.get("custom_ops") or []
    odd = next((o for o in ops if o not in ("all", "none") and (len(o) < 2 or o[0] not in "+-")), None)
    if odd is not None:
        yield (
            f"Invalid syntax '{odd}' for custom op, must be 'all', 'none', '+op' or '-op' "
            "(where 'op' is the registered op name)"
        )
    elif sum(o in ("all", "none") for o in ops) > 1:
        yield "custom_ops can contain only one base mode: 'all' or 'none'"
    elif both := sorted({o[1:] for o in ops if o[0] == "+"} & {o[1:] for o in ops if o[0] == "-"}):
        yield (
            f"custom_ops cannot both enable and disable the same operation(s): {', '.join(both)}. "
            "Remove either the '+' or '-' directive"
        )
    elif str(c.get("mode")).upper() in ("3", "VLLM_COMPILE") and c.get("backend", "") not in ("", "eager", "inductor"):
        yield f"Invalid backend for piecewise compilation: {c['backend']}"
    elif any(int(s) <= 0 for s in c.get("decoder_replay_cudagraph_capture_sizes") or []):
        yield "All decoder_replay_cudagraph_capture_sizes must be positive"
    elif _on(c.get("cudagraph_mm_encoder")) and int(c.get("encoder_cudagraph_max_vision_items_per_batch") or 0) < 0:
        yield "encoder_cudagraph_max_vision_items_per_batch must be non-negative (0 = auto-infer)"
    elif _on(c.get("cudagraph_mm_encoder")) and int(c.get("encoder_cudagraph_max_frames_per_batch") or 0) < 0:
        yield "encoder_cudagraph_max_frames_per_batch must be non-negative (None = auto-infer)"
    elif any(int(s) <= 0 for s in c.get("encoder_cudagraph_token_budgets") or []):
        yield f"All encoder_cudagraph_token_budgets must be positive, got {c['encoder_cudagraph_token_budgets']}"


def _eplb(c: dict[str, Any]) -> Iterator[str]:
    if c.get("communicator") == "torch_nccl" and _on(c.get("use_async", True)):
        yield (
            "torch_nccl communicator is incompatible with async EPLB due to NCCL multi-stream conflicts. "
            "Use 'torch_gloo' or 'nixl' instead, or leave communicator unset to auto-detect."
        )


def _on(value: Any) -> bool:
    """A boolean as pydantic reads it."""
    return value.lower() in ("1", "on", "t", "true", "y", "yes") if isinstance(value, str) else bool(value)


def _value(c: dict[str, Any], name: str, default: Any) -> Any:
    value = c.get(name, default)
    return _on(value) if isinstance(default, bool) and value is not None else value


_OWN: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {
    "StructuredOutputsConfig": _structured,
    "ProfilerConfig": _profiler,
    "PoolerConfig": _pooler,
    "KVTransferConfig": _kv_transfer,
    "ECTransferConfig": _ec_transfer,
    "EncoderCacheManagerConfig": _ec_manager,
    "EngramConfig": _engram,
    "EPLBConfig": _eplb,
    "CompilationConfig": _compilation,
}
