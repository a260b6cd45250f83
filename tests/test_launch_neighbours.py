"""What a launch names beside its model, adapters, a drafter and mounts, is looked at where it lies."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent
from ds_doctor.probes.companions import companions
from ds_doctor.probes.mounts import mounts


def host(*command: str) -> Host:
    return Host(Asked(command=command), {"HOME": "/nowhere"})


def test_an_adapter_is_read_and_a_missing_one_is_told(tmp_path: Path) -> None:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "adapter_config.json").write_text(json.dumps({"r": 16, "peft_type": "LORA"}))
    named = (f"sql={tmp_path}/sql", f"gone={tmp_path}/gone")
    got = companions(host("vllm", "serve", "m/m", "--enable-lora", "--lora-modules", *named))
    assert [(c.kind, c.name, c.there) for c in got.items] == [("lora", "sql", True), ("lora", "gone", False)]
    assert got.items[0].config is not None and got.items[0].config["r"] == 16


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"', "{" * 100_000, "\x00"])
def test_a_broken_adapter_breaks_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "adapter_config.json").write_text(text)
    got = companions(host("vllm", "serve", "m/m", "--lora-modules", f"a={tmp_path}"))
    assert len(got.items) == 1 and not got.items[0].config


@pytest.mark.parametrize("text", ["[1]", "7", "{", '"x"', "null", '{"model": 7}', '{"method": []}'])
def test_values_of_another_form_break_nothing(text: str) -> None:
    companions(host("vllm", "serve", "m/m", "--lora-modules", text, "--speculative-config", text))


def test_a_mounted_folder_is_there_or_not(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    words = ("-v", f"{tmp_path}/models:/models", "-v", f"{tmp_path}/gone:/gone", "-v", "cache:/cache")
    got = mounts(host("docker", "run", "--gpus", "all", *words, "vllm/vllm-openai:v0.33.0", "--model", "/models/m"))
    assert [(s.target, s.state) for s in got.sources] == [("/models", "there"), ("/gone", "missing")]


@pytest.mark.parametrize("probe", [companions, mounts])
def test_without_a_command_there_is_nothing(probe: object) -> None:
    with pytest.raises(Absent):
        probe(host())  # type: ignore[operator]


def test_an_adapter_that_is_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "adapter_config.json")
    got = companions(host("vllm", "serve", "m/m", "--lora-modules", f"a={tmp_path}"))
    assert not got.items[0].config
