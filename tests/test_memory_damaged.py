"""Damaged configurations go through the whole memory family: none breaks a check, hangs, or brings numbers that are none."""

from __future__ import annotations

import copy
import math
import random
import time
from typing import Any

import msgspec
import pytest

from ds_doctor import engine
from ds_doctor.memory import known
from support import Case, case_outcomes, doctor, module_checks

SEED = 20261130
COUNT = 300
IDS = (
    "Qwen/Qwen3-8B",
    "deepseek-ai/DeepSeek-V4.1-Flash",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-120b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
)
ODD: tuple[Any, ...] = (
    *(0, 1, -1, 3, 7, 2**31, 2**63, 10**18, 10**30, 0.5, -0.0, 1e308, True, False, None, "", "8", "auto", "NaN"),
    *([], [0], [1, -1], [[]], {}, {"a": 1}, {"quant_method": 5}, ["full_attention"] * 7, "x" * 2000),
)
COMMANDS = (
    ("vllm", ["-tp", "2"]),
    ("vllm", ["--max-model-len", "auto", "--enable-lora", "--kv-cache-dtype", "fp8"]),
    ("vllm", ["-pp", "2", "--cpu-offload-gb", "20"]),
    ("sglang", ["--tp", "2", "--enable-hierarchical-cache", "--hicache-ratio", "2"]),
    ("sglang", ["--context-length", "1000", "--mem-fraction-static", "0.5"]),
)


def damage(config: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The configuration with one to four of its values lost, changed or moved."""
    made = copy.deepcopy(config)
    for _ in range(dice.randint(1, 4)):
        place = made
        while True:
            inner = [k for k, v in place.items() if isinstance(v, dict) and v]
            if not inner or dice.random() < 0.6:
                break
            place = place[dice.choice(inner)]
        if not place:
            continue
        key = dice.choice(sorted(place))
        way = dice.random()
        if way < 0.25:
            del place[key]
        elif way < 0.9:
            place[key] = dice.choice(ODD)
        else:
            place[dice.choice(sorted(place))] = place[key]
    return made


def bad_numbers(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(bad_numbers, value.values()))
    return isinstance(value, (list, tuple)) and any(map(bad_numbers, value))


@pytest.mark.parametrize("part", range(5))
def test_no_damaged_configuration_breaks_a_memory_check(part: int) -> None:
    dice = random.Random(SEED + part)
    checks = module_checks("memory")
    engine_, flags = COMMANDS[part]
    words = ["m", *flags] if engine_ == "vllm" else ["--model-path", "m", *flags]
    launch = {
        "argv": [engine_, "serve", *words],
        "engine": engine_,
        "entry": f"{engine_} serve",
        "arguments": words,
        "model": "m",
    }
    case = Case(says="", expect={}, base="h200-x2", facts={"launch": launch})
    facts = case_outcomes(case, checks)
    fact = next(f for f in facts if f.__name__ == "ModelConfig")
    seen: set[str] = set()
    for _ in range(COUNT // len(COMMANDS)):
        found = known.known(dice.choice(IDS))
        assert found is not None
        config = damage(found, dice)
        given = msgspec.convert({"given": "m", "source": "command", "path": "/m", "config": {}}, fact)
        facts[fact] = type(facts[fact])(msgspec.structs.replace(given, config=config))
        begun = time.monotonic()
        results = engine.judge(checks, facts, doctor().catalogue, {r for c in checks for r in c.rules})
        assert time.monotonic() - begun < 5, config
        for result in results:
            assert result.status != "error", (config, result.rule, result.reason)
            seen.add(result.status)
            assert not any(bad_numbers(dict(f.data)) for f in result.findings), (config, result.findings)
    assert {"pass", "skip", "unknown"} <= seen
