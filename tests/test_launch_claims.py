"""The documents' claims about parameters are shown where the parameter is given, with what is known of each."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ds_doctor.compiled import load_whole
from ds_doctor_checks.launch_claims import ABSENT, SPOKEN_OF
from test_signatures import CHECKS


def shown(*command: str, lang: str = "en") -> dict[str, Any]:
    words = ["run", "--lang", lang, "--format", "json", "--only", "launch-parameter-claims", "--", *command]
    done = subprocess.run([sys.executable, "-m", "ds_doctor", *words], capture_output=True, text=True, timeout=60)
    (result,) = json.loads(done.stdout)["results"]
    assert isinstance(result, dict)
    return result


def test_every_parameter_spoken_of_has_its_claims() -> None:
    assert set(load_whole(str(CHECKS)).rule["launch-parameter-claims"].claims_of) == SPOKEN_OF | set(ABSENT)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_only_claims_about_what_is_given_are_shown(lang: str) -> None:
    result = shown("vllm", "serve", "deepseek-ai/DeepSeek-V4.1-Flash", "--block-size", "32", lang=lang)
    assert result["status"] == "note" and len(result["findings"]) == 1
    assert len(result["claims"]) == 3 and all("--block-size" in c["says"] for c in result["claims"])
    assert {c["standing"] for c in result["claims"]} == {"disputed", "refuted"}


def test_a_claim_about_two_things_given_is_shown_once() -> None:
    result = shown(
        "sglang", "serve", "deepseek-ai/DeepSeek-V4.1-Flash", "--context-length", "32768", "--enable-flashinfer"
    )
    assert len({c["says"] for c in result["claims"]}) == len(result["claims"]) == 3


def test_a_command_for_another_model_shows_none() -> None:
    result = shown("vllm", "serve", "Qwen/Qwen3-8B", "--block-size", "32")
    assert result["status"] == "skip" and result["claims"] == []
