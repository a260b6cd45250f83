"""Commands that vLLM's own parser and configuration were asked about: the lint refuses what they refuse, and nothing else.

fixtures/launch/commands_vllm.jsonl: `stage` is where vLLM `version` ends (parse, config; null: it takes the command), `error`
its message. Labelled by the engine's own code up to the finished configuration, with GPUs pretended.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from ds_doctor.probes.launch import parse
from ds_doctor_checks._data import table
from ds_doctor_checks._options import options
from ds_doctor_checks._vllm_refusals import refusals
from support import FIXTURES

COMMANDS = [json.loads(line) for line in (FIXTURES / "launch" / "commands_vllm.jsonl").read_text("utf-8").splitlines()]


def judged(shell: str) -> tuple[str | None, list[str]]:
    """(where it ends, the messages)."""
    launch = parse(tuple(shlex.split(shell)))
    made = options(launch, None)
    if made.errors:
        return "parse", [e.message for e in made.errors]
    found = [] if made.help else refusals(made, launch.environment, launch.entry == "vllm serve")
    return ("config" if found else None), [r.message for r in found]


@pytest.mark.parametrize("case", COMMANDS, ids=lambda c: c["shell"][:60])
def test_a_command_ends_where_vllm_ends_it(case: dict[str, Any]) -> None:
    stage, messages = judged(case["shell"])
    assert stage == case["stage"], messages


def test_every_check_has_its_words_in_both_languages() -> None:
    words = table("vllm_refusals")
    for text in (*words["words"].values(), *words["later"].values()):
        assert set(text) == {"en", "zh"} and all(text.values())


def test_every_refusal_that_a_command_meets_has_its_words() -> None:
    known = set(table("vllm_refusals")["words"])
    for case in COMMANDS:
        launch = parse(tuple(shlex.split(case["shell"])))
        made = options(launch, None)
        if made.errors:
            continue
        for refusal in refusals(made, launch.environment, launch.entry == "vllm serve"):
            assert refusal.id in known
