"""Commands that the parser and start-up checks of SGLang 0.5.23 were run on (as on one H200 node) get the same verdict here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ds_doctor.probes.launch import Launch
from ds_doctor_checks._data import table
from ds_doctor_checks._launch_refusal import Refusal
from ds_doctor_checks._options import Options, options
from ds_doctor_checks._sglang_refusals import refusals, view_of
from ds_doctor_checks._sglang_view import model_of
from support import FIXTURES

H200 = (9, 0)
COMMANDS = [
    json.loads(line) for line in (FIXTURES / "launch" / "commands_sglang.jsonl").read_text("utf-8").splitlines()
]


def judged(case: dict[str, Any], capability: tuple[int, int] | None) -> tuple[Options, tuple[Refusal, ...]]:
    launch = Launch(argv=(), engine="sglang", entry=case["entry"], arguments=tuple(case["argv"]))
    made = options(launch, None)
    return made, () if made.errors else refusals(view_of(made, {}, capability))


@pytest.mark.parametrize("case", COMMANDS, ids=lambda c: c["id"])
def test_a_command_is_refused_where_sglang_refuses_it(case: dict[str, Any]) -> None:
    made, refused = judged(case, H200)
    if case["accepted"]:
        assert not made.errors and not refused
    elif case["stage"] == "config":
        # The engine ends with the first one, in these words.
        assert refused[0].message == case["error"]
    else:
        assert made.errors or refused


@pytest.mark.parametrize("case", [c for c in COMMANDS if c["accepted"]], ids=lambda c: c["id"])
def test_an_accepted_command_is_not_refused_where_the_gpu_is_not_seen(case: dict[str, Any]) -> None:
    made, refused = judged(case, None)
    assert not made.errors and not refused


def test_every_check_of_the_engine_has_its_words_and_is_met_by_a_command() -> None:
    met = {r.id for c in COMMANDS for r in judged(c, H200)[1]}
    words = set(table("sglang_refusals")["words"])
    assert met <= words
    assert len(met) > 0.95 * len(words)


@pytest.mark.parametrize(
    ("name", "architecture", "model_type"),
    [
        ("deepseek-ai/DeepSeek-V4.1-Flash", "DeepseekV4ForCausalLM", "deepseek_v41"),
        ("/models/deepseek-v4.1-flash/", "DeepseekV4ForCausalLM", "deepseek_v41"),
        ("deepseek-ai/DeepSeek-V4-Flash", "DeepseekV4ForCausalLM", "deepseek_v4"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "DeepseekV32ForCausalLM", "deepseek_v32"),
        ("deepseek-ai/DeepSeek-V3-0324", "DeepseekV3ForCausalLM", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-V3.1", "DeepseekV3ForCausalLM", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "Qwen2ForCausalLM", "qwen2"),
        ("Qwen/Qwen3-32B", "Qwen3ForCausalLM", "qwen3"),
        ("Qwen/Qwen3-30B-A3B", "Qwen3MoeForCausalLM", "qwen3_moe"),
        ("Qwen/Qwen3-VL-32B-Instruct", None, None),
        ("Qwen/Qwen2.5-VL-7B-Instruct", None, None),
        ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM", "llama"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", None, None),
        ("/models/mine", None, None),
    ],
)
def test_a_well_known_name_tells_the_architecture_and_others_tell_nothing(
    name: str, architecture: str | None, model_type: str | None
) -> None:
    model = model_of(name)
    assert (model.architecture, model.model_type) == (architecture, model_type)
