"""Which values of single options vLLM's configuration classes refuse: vllm 0.33.0 config/*.py, fields and their validators."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from ._data import table
from ._flag_table import bundled
from ._vllm_configs import classes, said
from ._vllm_types import one
from ._vllm_view import Refusals, View, invalid, no, value_error

_JSON = {
    "speculative_config": "SpeculativeConfig",
    "watermark_config": "WatermarkConfig",
    "diffusion_config": "DiffusionConfig",
}
# Classes that are made only where their switch is on.
_NEEDS = {"LoRAConfig": "enable_lora"}
# vllm 0.33.0 vllm/v1/metrics/buckets.py: BucketFamilyKey.
_CPUSET = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")


def single(v: View) -> Refusals:
    """Every given option whose value its field does not take."""
    known = classes()
    for dest, field in table("vllm_configs")["flag"].items():
        value, name = v.made.values.get(dest), field["name"]
        if value is None or not v.given(dest) or dest in _JSON or field["type"] == "any":
            continue
        if _NEEDS.get(field["class"]) and not getattr(v, _NEEDS[field["class"]]):
            continue
        if dest in _OWN_WORDS:
            continue
        owner = field["class"]
        if owner == "MultiModalConfig":  # made for multimodal models only: the type is checked for each, bounds are not
            field = {"type": field["type"]}
        wrong = list(one(field, value, known, name))
        if wrong:
            yield _wrong(owner, wrong, dest)
    yield from _named(v)
    yield from _json(v)


def _wrong(name: str, wrong: list[tuple[str, str]], dest: str) -> Any:
    ranged = all(w.startswith("Input should be ") and w[16:].startswith(("greater", "less")) for _, w in wrong)
    lines = "\n".join(f"{at}\n  {words}" for at, words in wrong)
    return invalid("field-range" if ranged else "field-type", name, lines, dest)


_OWN_WORDS = ("optimization_level", "mm_encoder_attn_backend", "data_parallel_backend", "max_model_len")


def _named(v: View) -> Refusals:
    """Options whose value is checked behind the parser, with words of their own."""
    cached = bundled("vllm").names.get("kv-cache-dtype", ())
    kind = v.kv_cache_dtype
    if kind not in cached:
        words = f"cache_dtype\n  Value error, Invalid kv_cache_dtype: {kind!r}. Valid values are: {sorted(cached)}"
        yield invalid("kv-cache-dtype", "CacheConfig", words, "kv_cache_dtype")
    level = str(v.optimization_level)
    if v.given("optimization_level") and not re.fullmatch(r"\s*[0-3]\s*|[0-3]\.0+", level):
        words = "optimization_level\n  Input should be 0, 1, 2 or 3"
        yield invalid("optimization-level", "VllmConfig", words, "optimization_level")
    length = v.max_model_len
    if length is not None and length != -1 and length < 1:
        if length < -1:
            words = "max_model_len\n  Input should be greater than or equal to -1"
            yield invalid("field-range", "ModelConfig", words, "max_model_len")
        else:
            words = f"max_model_len must be a positive integer, got int: {length}. Example: max_model_len=2048"
            yield value_error("model-length", "ModelConfig", words, "max_model_len")
    backends = classes()["AttentionConfig"]["backend"]["type"][1][1:]
    backend = v.attention_backend
    if isinstance(backend, str) and backend.upper() not in (*backends, "AUTO"):
        words = f"Unknown attention backend: '{backend.upper()}'. Valid options are: {', '.join(backends)}"
        yield no("attention-backend", words, "attention_backend")
    behind = v.data_parallel_backend
    if v.data_parallel_address is not None and behind not in ("ray", "mp"):
        words = "data_parallel_backend\n  Input should be 'ray' or 'mp'"
        yield invalid("dp-backend", "ParallelConfig", words, "data_parallel_backend")
    if v.given("config_format") and v.config_format not in ("auto", "hf", "mistral"):
        yield value_error(
            "config-format", "ModelConfig", f"Unknown config format `{v.config_format}`.", "config_format"
        )
    if v.given("mamba_backend") and str(v.mamba_backend).upper() not in ("TRITON", "FLASHINFER", "CPU"):
        words = (
            f"Unknown Mamba SSU backend: '{str(v.mamba_backend).upper()}'. Valid options are: TRITON, FLASHINFER, CPU"
        )
        yield no("mamba-backend", words, "mamba_backend")
    if v.enable_lora and v.max_lora_rank not in _RANKS:
        words = "max_lora_rank\n  Input should be " + ", ".join(map(str, _RANKS[:-1])) + f" or {_RANKS[-1]}"
        yield invalid("lora-rank", "LoRAConfig", words, "max_lora_rank")
    yield from _reasoning(v)
    yield from _numa(v)
    yield from _metrics(v)


_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def _reasoning(v: View) -> Refusals:
    if v.reasoning_parser_plugin:
        return
    known = bundled("vllm").names.get("reasoning-parser", ())
    for dest, name in (
        ("reasoning_parser", v.reasoning_parser),
        ("reasoning_config", v.config("reasoning_config").get("reasoning_parser")),
    ):
        if dest == "reasoning_config" and v.reasoning_parser:
            continue
        if name and name not in known:
            words = f"\"Reasoning parser '{name}' not found. Available parsers: {', '.join(known)}\""
            yield no("reasoning-parser", words, dest, kind="KeyError")


def _numa(v: View) -> Refusals:
    nodes, sets = v.numa_bind_nodes, v.numa_bind_cpus
    if nodes and any(n < 0 for n in nodes):
        words = "numa_bind_nodes\n  Value error, numa_bind_nodes must contain non-negative integers."
        yield invalid("numa-nodes", "ParallelConfig", words, "numa_bind_nodes")
    for cpus in sets or ():
        if not _CPUSET.fullmatch(cpus):
            words = (
                "numa_bind_cpus\n  Value error, numa_bind_cpus entries must use numactl CPU list syntax, "
                "for example '0-3' or '0,2,4-7'."
            )
            yield invalid("numa-cpus", "ParallelConfig", words, "numa_bind_cpus")
            return
        if any(int(a) > int(b) for a, _, b in (p.partition("-") for p in cpus.split(",")) if b):
            words = f"numa_bind_cpus\n  Value error, numa_bind_cpus ranges must be ascending, but got '{cpus}'."
            yield invalid("numa-cpus", "ParallelConfig", words, "numa_bind_cpus")
            return


def _metrics(v: View) -> Refusals:
    version = v.show_hidden_metrics_for_version
    if version is not None and not _is_version(version):
        words = f"show_hidden_metrics_for_version\n  Value error, Invalid version: '{version}'"
        yield invalid("metrics-version", "ObservabilityConfig", words, "show_hidden_metrics_for_version")
    buckets = v.custom_histogram_buckets
    if isinstance(buckets, Mapping):
        known = table("vllm_configs")["buckets"]
        for family, bounds in buckets.items():
            if not isinstance(bounds, list) or any(isinstance(b, (str, bool)) or b is None for b in bounds):
                continue
            words = ""
            if family not in known:
                words = f"custom_histogram_buckets: unknown bucket family {family!r}; known families: {sorted(known)}"
            elif not bounds:
                words = f"custom_histogram_buckets[{family!r}]: bucket list must not be empty"
            elif any(b <= 0 for b in bounds):
                words = f"custom_histogram_buckets[{family!r}]: bound must be finite and greater than 0"
            elif any(a >= b for a, b in itertools.pairwise(bounds)):
                words = f"custom_histogram_buckets[{family!r}]: bounds {bounds} must be strictly increasing"
            if words:
                lines = f"custom_histogram_buckets\n  Value error, {words}"
                yield invalid("histogram", "ObservabilityConfig", lines, "custom_histogram_buckets")
                return


def _is_version(text: str) -> bool:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _json(v: View) -> Refusals:
    """The JSON options that the parser takes as they are, and of which a class is made later."""
    for dest, name in _JSON.items():
        made = v.made.values.get(dest)
        if not v.given(dest) or made is None:
            continue
        if not isinstance(made, dict):
            yield no(
                "json-object", f"argument after ** must be a mapping, not {type(made).__name__}", dest, kind="TypeError"
            )
            continue
        if dest == "speculative_config":
            made = {k.replace("-", "_"): x for k, x in made.items()}
        lines = said(name, made)
        if lines:
            kind = "json-key" if any("Unexpected keyword" in line for line in lines) else "field-type"
            yield invalid(kind, name, "\n".join(lines), dest)
    if v.given("additional_config") and not isinstance(v.additional_config, dict):
        words = "additional_config.dict[any,any]\n  Input should be a valid dictionary"
        yield invalid("json-object", "VllmConfig", words, "additional_config")
