"""The bundled models: their parameters, their caches and their names; and starts of theirs that somebody recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.memory import kv, sglang_pool, vllm_pool
from ds_doctor.memory._data import table
from ds_doctor.memory.architecture import Architecture
from ds_doctor.memory.gpus import Card
from ds_doctor.memory.known import Entry, entry, ids, known
from ds_doctor.memory.parts import layer_parts, parameters
from ds_doctor.memory.plan import plan
from ds_doctor.memory.read import architecture
from ds_doctor.memory.setting import GIB, Setting, version
from ds_doctor.memory.weights import weights

MODELS: list[dict[str, Any]] = table("models")["model"]
LOGS = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "fixtures/memory/logs.jsonl").read_text("utf-8").splitlines()
]


def found(name: str) -> Entry:
    result = entry(name)
    assert result is not None, name
    return result


@pytest.mark.parametrize(
    "model", [pytest.param(m, id=m["ids"][0]) for m in MODELS if "parameters" in m and "parameters" not in m.get("derived", ())]
)  # fmt: skip
def test_a_bundled_model_has_its_published_parameters(model: dict[str, Any]) -> None:
    a = architecture(model["config"])
    count = parameters(a)
    if model.get("prediction"):  # the layer itself and the projection that joins embedding and state
        count += sum(p.count for x in a.spare for p in layer_parts(a, x, None)) + 2 * a.width**2 * len(a.spare)
    assert a.certain
    assert abs(count / model["parameters"] - 1) < 0.016, count
    assert a.positions


def test_the_published_parameters_of_many_models_are_met_closely() -> None:
    near = [
        m
        for m in MODELS
        if "parameters" in m and abs(parameters(architecture(m["config"])) / m["parameters"] - 1) < 0.001
    ]
    assert len(near) >= 100


@pytest.mark.parametrize(
    "model", [pytest.param(m, id=m["ids"][0]) for m in MODELS if "bytes" in m and "parts_gib" not in m]
)
def test_a_bundled_checkpoint_has_its_size(model: dict[str, Any]) -> None:
    a = architecture(model["config"])
    whole = weights(a, Setting(engine="sglang")).checkpoint
    spare = sum(p.count for x in a.spare for p in layer_parts(a, x, None))
    assert whole <= model["bytes"] * 1.01
    assert whole + spare >= model["bytes"] * 0.985  # layers for multi-token prediction are stored, too


# Bytes of one token, whole model, 16 bit: the values that the engines' own block arithmetic gives.
@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("meta-llama/Llama-3.1-8B", 131072), ("meta-llama/Llama-3.3-70B-Instruct", 327680), ("Qwen/Qwen2.5-7B", 57344), ("Qwen/Qwen2.5-14B", 196608),
        ("Qwen/Qwen3-0.6B", 114688), ("Qwen/Qwen3-1.7B", 114688), ("Qwen/Qwen3-4B", 147456), ("Qwen/Qwen3-8B", 147456), ("Qwen/Qwen3-14B", 163840),
        ("Qwen/Qwen3-32B", 262144), ("Qwen/Qwen3-30B-A3B", 98304), ("Qwen/Qwen3-235B-A22B", 192512), ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 253952),
        ("zai-org/GLM-4.7", 376832), ("MiniMaxAI/MiniMax-M2", 253952), ("deepseek-ai/DeepSeek-V3", 70272), ("deepseek-ai/DeepSeek-R1", 70272),
        ("moonshotai/Kimi-K2-Instruct", 70272), ("deepseek-ai/DeepSeek-V2-Lite", 31104), ("mistralai/Mistral-Small-4-119B-2603", 23040),
        ("Qwen/Qwen1.5-7B", 524288), ("Qwen/Qwen3.5-9B", 32768), ("Qwen/Qwen3.8-27B", 65536), ("openai/gpt-oss-120b", 36864),
    ],
)  # fmt: skip
def test_one_token_of_a_bundled_model_takes_what_the_engines_take(name: str, size: int) -> None:
    config = known(name)
    assert config is not None
    assert kv.growing_bytes(architecture(config), Setting()) == size


def test_one_token_of_deepseek_v41_takes_what_its_report_says() -> None:
    """890 bytes: an NVFP4 latent and an FP4 index key in one source layer for each token, in three for every second one."""
    a = architecture(found("deepseek-ai/DeepSeek-V4.1-Flash").config)
    s = Setting(kv_dtype="nvfp4_ds_mla", capability=(10, 0))
    assert abs(kv.growing_bytes(a, s) / 890 - 1) < 0.03


def test_deepseek_v41_keeps_its_tables_on_the_host_with_vllm() -> None:
    e = found("deepseek-ai/DeepSeek-V4.1-Flash")
    a = architecture(e.config)
    w = weights(a, Setting(tp=8), tensors=e.tensors)
    assert 188 < w.host / GIB < 190
    assert 34 < w.fullest / GIB < 37
    assert weights(a, Setting(engine="sglang", tp=8), tensors=e.tensors).host == 0


@pytest.mark.parametrize(
    ("name", "of", "how"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", "awq"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "meta-llama/Meta-Llama-3.1-70B-Instruct", "int4"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B-Instruct", "fp8"),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", "Qwen/Qwen3-30B-A3B", "gptq int4"),
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "Qwen/Qwen3-8B", "bitsandbytes 4-bit"),
        ("nvidia/DeepSeek-R1-FP4", "deepseek-ai/DeepSeek-R1", "nvfp4"),
        ("qwen3-8b", "Qwen/Qwen3-8B", None),
    ],
)
def test_a_name_with_a_suffix_is_known(name: str, of: str, how: str | None) -> None:
    e = found(name)
    assert (e.id, e.quantised) == (of, how)


def test_what_is_not_bundled_is_not_guessed() -> None:
    for name in (
        "nobody/none",
        "Qwen/Qwen3-8B-GGUF",
        "mlx-community/Qwen3-8B-mlx-4bit",
        "../Qwen3-8B",
        "a/b/c",
        "",
        "Qwen3",
        "x" * 300,
    ):
        assert entry(name) is None, name  # fmt: skip
    assert len(ids()) == len(set(map(str.lower, ids()))) > 300


def test_fp8_in_a_name_means_fp8_experts_where_they_were_fp4() -> None:
    mixed, whole = found("deepseek-ai/DeepSeek-V4-Flash"), found("sgl-project/DeepSeek-V4-Flash-FP8")
    size = [weights(architecture(e.config), Setting(), total=e.total).fullest / GIB for e in (mixed, whole)]
    assert 140 < size[0] < 150 and 260 < size[1] < 285


def test_a_suffix_alone_keeps_a_checkpoint_that_is_stored_so_already() -> None:
    assert found("deepseek-ai/DeepSeek-V3-FP8").total == found("deepseek-ai/DeepSeek-V3").total


# -- what settings do ----------------------------------------------------------------------------------------------


def test_decode_context_parallelism_shares_the_latents() -> None:
    a = architecture(found("deepseek-ai/DeepSeek-R1").config)
    whole, shared = Setting(tp=8), Setting(tp=8, dcp=8)
    pool = vllm_pool.pool(a, shared, 8192)
    assert pool.growing * 8 == vllm_pool.pool(a, whole, 8192).growing == 70272
    assert pool.tokens(40 << 30, 163840, shared.at) > 7.5 * vllm_pool.pool(a, whole, 8192).tokens(
        40 << 30, 163840, whole.at
    )
    assert sglang_pool.pool(a, Setting(engine="sglang", tp=8, dcp=8)).cell * 8 == 70272


def test_slots_for_adapters_take_memory() -> None:
    """Qwen2.5-7B on an L4 at 0.85: vLLM 0.23 started with five adapters and refused with eight."""
    a = architecture(found("Qwen/Qwen2.5-7B-Instruct").config)
    card = Card(name="L4", total=int(22.06 * GIB))
    plain = plan(a, Setting(version=(0, 23), utilisation=0.85, max_len=4096), [card])
    eight = plan(a, Setting(version=(0, 23), utilisation=0.85, max_len=4096, lora_slots=8, lora_rank=64), [card])
    assert plain.adapters.high == 0
    assert 2 << 30 < eight.adapters.mid < 4 << 30
    assert eight.available.mid < plain.available.mid - (2 << 30)
    assert eight.verdict != "fits"


def test_sglang_counts_deepseek_v41_by_its_source_layers() -> None:
    """RTX PRO 6000, tp 8: from a static fraction of 0.72 to 0.82 the pool grew from 18,028,288 to 21.65 million tokens, 2,790 bytes each:
    what four source layers and a window pool of 5 % take."""
    a = architecture(found("deepseek-ai/DeepSeek-V4.1-Flash").config)
    pool = sglang_pool.pool(a, Setting(engine="sglang", tp=8, swa_ratio=0.05))
    assert abs(pool.cell / (0.10 * 94.0 * GIB / (21.65e6 - 18_028_288)) - 1) < 0.02
    assert sglang_pool.pool(a, Setting(engine="sglang", tp=8)).fixed > 0


def test_experts_in_mxfp4_are_padded_when_they_are_loaded() -> None:
    e = found("openai/gpt-oss-120b")
    a = architecture(e.config)
    assert abs(weights(a, Setting(), total=e.total).fullest / GIB / 65.97 - 1) < 0.005
    assert abs(weights(a, Setting(engine="sglang"), total=e.total).fullest / GIB / 60.77 - 1) < 0.005


# -- recorded starts -----------------------------------------------------------------------------------------------


def read(point: dict[str, Any]) -> tuple[Architecture, Setting, Entry]:
    e = found(point["model"])
    told = dict(point["told"])
    if "version" in told:
        told["version"] = tuple(told["version"])
    s = Setting(
        engine=point["engine"],
        tp=point["tp"],
        kv_dtype=point["kv_cache_dtype"],
        max_len=point["max_model_len"],
        max_seqs=point["max_num_seqs"],
        batched_tokens=point["max_num_batched_tokens"],
        utilisation=point["util"],
        **{"version": version(point["version"]), **told},
    )
    return architecture(e.config), s, e


def with_(*names: str) -> list[Any]:
    return [pytest.param(p, id=p["id"]) for p in LOGS if any(n in p["printed"] for n in names)]


@pytest.mark.parametrize("point", with_("model_loading_gib", "weights_gib"))
def test_the_weights_of_a_recorded_start_are_foretold(point: dict[str, Any]) -> None:
    a, s, e = read(point)
    w = weights(a, s, tensors=e.tensors, total=e.total)
    want = point["printed"].get("model_loading_gib") or point["printed"]["weights_gib"]
    assert abs(w.fullest / GIB / want - 1) < 0.05, w.fullest / GIB


@pytest.mark.parametrize(
    "point", with_("kv_cache_tokens", "needed_kv_gib", "estimated_max_model_len", "max_concurrency")
)
def test_the_cache_of_a_recorded_start_is_foretold(point: dict[str, Any]) -> None:
    a, s, _ = read(point)
    pool = vllm_pool.pool(a, s, point["max_num_batched_tokens"] or 8192)
    printed, length = point["printed"], point["max_model_len"] or a.positions
    available = int(printed.get("available_kv_cache_gib", 1) * GIB)
    share = point["share"] + 0.0051 * GIB / available  # two digits are printed
    if "kv_cache_tokens" in printed:
        got = pool.tokens(available, length, s.at)
        assert abs(got / printed["kv_cache_tokens"] - 1) < share + pool.block_bytes / available, got
    if "max_concurrency" in printed:
        assert (
            abs(pool.concurrency(available, length) - printed["max_concurrency"])
            < 0.011 + share * printed["max_concurrency"]
        )
    if "needed_kv_gib" in printed:
        assert abs(pool.need(length) / GIB - printed["needed_kv_gib"]) < 0.006 + 0.002 * printed["needed_kv_gib"]
    if "estimated_max_model_len" in printed:
        got = pool.longest(available, length)
        assert abs(got / printed["estimated_max_model_len"] - 1) < share, got


@pytest.mark.parametrize("point", with_("max_total_num_tokens"))
def test_the_pool_of_a_recorded_start_of_sglang_is_foretold(point: dict[str, Any]) -> None:
    a, s, _ = read(point)
    printed = point["printed"]
    want = printed.get("kv_size_gb") or printed["k_size_gb"] + printed["v_size_gb"]
    got = sglang_pool.pool(a, s).cell * printed["max_total_num_tokens"] / GIB
    assert abs(got - want) < 0.011 + 0.002 * want


@pytest.mark.parametrize("point", [pytest.param(p, id=p["id"]) for p in LOGS if p["gpu_memory_gib"]])
def test_no_recorded_start_is_called_impossible_and_no_refused_one_safe(point: dict[str, Any]) -> None:
    a, s, e = read(point)
    one = Card(name=point["gpu"], total=int(point["gpu_memory_gib"] * GIB))
    made = plan(a, s, [one], tensors=e.tensors, total=e.total)
    assert made.verdict != ("no" if point["fits"] else "fits")
