"""The arithmetic against what the engines printed: every recorded start that states enough, each within its tolerance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.memory import kv, sglang_pool, vllm_pool
from ds_doctor.memory.architecture import Architecture
from ds_doctor.memory.read import architecture
from ds_doctor.memory.setting import GIB, Setting, version
from ds_doctor.memory.weights import weights

POINTS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "fixtures/memory/points.jsonl").read_text("utf-8").splitlines()
]
# What a start does not print, and what reproduces its numbers exactly: its speculation, the type of its state, its version.
TOLD: dict[str, dict[str, Any]] = {
    "club3090-294": {"speculative": 3, "drafter_layers": 1},
    "club3090-295": {"speculative": 3, "drafter_layers": 1},
    "syv-39": {"speculative": 4, "drafter_layers": 1, "state_dtype": "bfloat16", "version": (0, 24)},
    "talos-1995": {"version": (0, 24)},
    "idx-qwen35-35b-blog": {"prefix_caching": True},
}
# Starts whose numbers depend on what they do not say.
LEFT_OUT = {
    "club3090-46": "a drafter of unknown layers shares the pool",
    "idx-mimo-v2-95": "the number of ranks is not stated",
    "idx-v4flash-0731-eager": "the number of ranks is not stated",
    "idx-r1-distill-15b:weights": "the published model is not tied, its point says it is",
}


def setting(point: dict[str, Any]) -> Setting:
    told = TOLD.get(point["id"], {})
    first = "V0" in point["version"]
    at = told.get("version") or version(point["version"]) or ((0, 7) if first else (0, 19))
    dtype = point["kv_cache_dtype"].split()[0]
    return Setting(
        engine=point["engine"],
        version=at,
        tp=point["tp"] or 1,
        pp=point["pp"],
        dp=point["dp"],
        dp_attention=point["engine"] == "sglang" and point["dp"] > 1,
        ep=point["ep"],
        kv_dtype=dtype,
        block=point["block_size"] if point["block_size"] in (16, 128) and point["engine"] == "vllm" else None,
        quantisation=point["quantization"],
        speculative=told.get("speculative", 0),
        drafter_layers=told.get("drafter_layers", 0),
        state_dtype=told.get("state_dtype", "auto"),
        prefix_caching=told.get("prefix_caching"),
    )


def read(point: dict[str, Any]) -> Architecture:
    return architecture(point["config"])


def with_(*names: str) -> list[Any]:
    return [
        pytest.param(p, id=p["id"])
        for p in POINTS
        if p["config"]
        and p["id"] not in LEFT_OUT
        and all(p["printed"].get(n) is not None or p.get(n) is not None for n in names)
    ]


def near(got: float, want: float, share: float, slack: float = 0.0) -> bool:
    return abs(got - want) <= share * abs(want) + slack


@pytest.mark.parametrize("point", with_("kv_bytes_per_token_total"))
def test_the_cache_of_one_token_is_as_the_engine_counts_it(point: dict[str, Any]) -> None:
    a, s = read(point), setting(point)
    whole = kv.growing_bytes(a, Setting(engine=s.engine, version=s.at, kv_dtype=s.kv_dtype))
    assert near(whole, point["kv_bytes_per_token_total"], 0.03), whole


@pytest.mark.parametrize(
    "point", [p for p in with_() if any(n in p.values[0]["printed"] for n in ("model_loading_gib", "weights_gib"))]
)
def test_the_weights_of_one_gpu_are_as_the_engine_loads_them(point: dict[str, Any]) -> None:
    if point["id"] + ":weights" in LEFT_OUT:
        pytest.skip(LEFT_OUT[point["id"] + ":weights"])
    printed = point["printed"]
    size = printed.get("checkpoint_gib")
    w = weights(read(point), setting(point), total=int(size * GIB) if size else None)
    assert near(w.fullest / GIB, printed.get("model_loading_gib") or printed["weights_gib"], 0.05), w.fullest / GIB


def pool(point: dict[str, Any]) -> vllm_pool.Pool:
    a, s = read(point), setting(point)
    stage = None if s.pp == 1 or (0, 14) <= s.at < (0, 17) else vllm_pool.stages(a, s)[0]
    return vllm_pool.pool(a, s, point["max_num_batched_tokens"] or 8192, stage)


def vllm_only(points: list[Any]) -> list[Any]:
    return [p for p in points if p.values[0]["engine"] == "vllm"]


@pytest.mark.parametrize("point", vllm_only(with_("needed_kv_gib", "max_model_len")))
def test_one_request_needs_what_the_engine_says(point: dict[str, Any]) -> None:
    need = pool(point).need(point["max_model_len"]) / GIB
    assert near(need, point["printed"]["needed_kv_gib"], 0.005, 0.0051), need


@pytest.mark.parametrize("point", vllm_only(with_("estimated_max_model_len", "available_kv_cache_gib")))
def test_the_longest_request_is_the_engines_estimate(point: dict[str, Any]) -> None:
    available = int(point["printed"]["available_kv_cache_gib"] * GIB)
    want = point["printed"]["estimated_max_model_len"]
    got = pool(point).longest(available, point["max_model_len"])
    rounding = 0.0051 * GIB / max(available, 1)  # the engine prints two digits
    assert near(got, want, 0.005 + rounding), got


@pytest.mark.parametrize("point", vllm_only(with_("kv_cache_tokens", "available_kv_cache_gib")))
def test_the_tokens_of_the_cache_are_what_the_engine_prints(point: dict[str, Any]) -> None:
    available = int(point["printed"]["available_kv_cache_gib"] * GIB)
    p = pool(point)
    got = p.tokens(available, point["max_model_len"], setting(point).at)
    assert near(got, point["printed"]["kv_cache_tokens"], 0.005 + p.block_bytes / available), got


@pytest.mark.parametrize("point", vllm_only(with_("max_concurrency", "available_kv_cache_gib", "max_model_len")))
def test_the_concurrency_is_what_the_engine_prints(point: dict[str, Any]) -> None:
    available = int(point["printed"]["available_kv_cache_gib"] * GIB)
    got = pool(point).concurrency(available, point["max_model_len"])
    assert near(got, point["printed"]["max_concurrency"], 0.005, 0.006), got


@pytest.mark.parametrize("point", [p for p in with_("max_total_num_tokens") if p.values[0]["engine"] == "sglang"])
def test_a_pool_of_sglang_has_the_printed_size(point: dict[str, Any]) -> None:
    p = sglang_pool.pool(read(point), setting(point))
    printed = point["printed"]
    want = printed.get("kv_size_gb") or printed["k_size_gb"] + printed["v_size_gb"]
    assert near(p.cell * printed["max_total_num_tokens"] / GIB, want, 0.005)
