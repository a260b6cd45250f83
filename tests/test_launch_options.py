"""The engines' argument parsers as the lint emulates them: what they take, what they refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from ds_doctor.probes.launch import parse
from ds_doctor_checks._options import Options, options

V, S, M = "vllm serve M", "sglang serve M", "python -m vllm.entrypoints.openai.api_server"


def of(command: str, *more: str) -> Options:
    return options(parse((*command.split(), *more)), None)


@pytest.mark.parametrize(
    ("command", "dest", "value"),
    [
        (f"{V} --max-model-len 32k", "max_model_len", 32000),
        (f"{V} --max-model-len 32K", "max_model_len", 32768),
        (f"{V} --max_model_len auto", "max_model_len", -1),
        (f"{V} -tp=2", "tensor_parallel_size", 2),
        (f"{V} -qfp8", "quantization", "fp8"),
        (f"{V} -O3", "optimization_level", "3"),
        (f"{V} --disable-prefix-caching", "enable_prefix_caching", False),
        (f"{V} --no-enable-prefix-caching", "enable_prefix_caching", False),
        (f"{V} --enable-custom-all-reduce", "disable_custom_all_reduce", False),
        (f"{V} --por 8001", "port", 8001),
        (f"{V} --limit-mm-per-prompt.image 2", "limit_mm_per_prompt", {"image": 2}),
        (f"{V} --moe-backend Flashinfer-CUTLASS", "moe_backend", "flashinfer_cutlass"),
        ("vllm serve --port 8001 X", "model_tag", "X"),
        (f"{S} --tp 4", "tp_size", 4),
        (f"{S} --context-length 32k", "context_length", 32000),
        (f"{S} --context-length 128Ki", "context_length", 131072),
        (f"{S} --mem-fraction 0.8", "mem_fraction_static", 0.8),
        ("python -m sglang.launch_server --model M", "model_path", "M"),
    ],
)
def test_a_flag_has_the_value_that_the_engine_gets(command: str, dest: str, value: Any) -> None:
    made = of(command)
    assert not made.errors
    assert made.values[dest] == value


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (f"{V} --tp 2", "vllm: error: unrecognized arguments: --tp 2"),
        (f"{V} -tp2", "vllm: error: unrecognized arguments: -tp2"),
        (f"{V} --port", "vllm serve: error: argument --port: expected one argument"),
        (f"{V} -host x", "vllm serve: error: argument -h/--help: ignored explicit argument 'ost'"),
        (f"{V} --max-num-seqs 1k", "vllm serve: error: argument --max-num-seqs: invalid int value: '1k'"),
        (
            f"{V} --max-model-len 1.5K",
            "vllm serve: error: argument --max-model-len: Decimals are not allowed with binary suffixes like K. "
            "Did you mean to use 1.5k instead?",
        ),
        (
            f"{V} --enable-prefix-caching=true",
            "vllm serve: error: argument --enable-prefix-caching/--disable-prefix-caching: "
            "ignored explicit argument 'true'",
        ),
        (f"{M} --model M --enforce-eager true false", "api_server.py: error: unrecognized arguments: false"),
        ("docker run vllm/vllm-openai:latest vllm serve M", "vllm: error: unrecognized arguments: serve M"),
        (f"{S} --max-num-seqs 4", "sglang serve: error: unrecognized arguments: --max-num-seqs 4"),
        (
            "python -m sglang.launch_server --tp 2",
            "sglang serve: error: the following arguments are required: --model-path/--model",
        ),
    ],
)
def test_the_first_error_is_the_message_that_the_engine_prints(command: str, message: str) -> None:
    made = of(command)
    assert made.errors[0].first
    assert made.errors[0].message == message


def test_every_error_of_a_command_is_found() -> None:
    made = of(f"{V} --dtype bf16 --tp 2 --max-num-seqs many --gpu-memory-utilisation 0.9 --device cuda --port 1")
    assert [(e.kind, e.word) for e in made.errors] == [
        ("ambiguous", "--device"),
        ("choice", "--dtype"),
        ("type", "--max-num-seqs"),
        ("unknown", "--tp"),
        ("unknown", "--gpu-memory-utilisation"),
    ]
    assert [e.first for e in made.errors] == [True, False, False, False, False]
    assert made.values["port"] == 1


def test_a_shortened_flag_is_told_with_its_whole_name() -> None:
    made = of(f"{S} --tp 4 --mem-fraction 0.8 --port 1")
    assert [(g.word, g.name) for g in made.given if g.abbreviated] == [
        ("--tp", "--tp-size"),
        ("--mem-fraction", "--mem-fraction-static"),
    ]
    assert [g.word for g in of(f"{V} -t 2 -qfp8 -e").given if g.abbreviated] == ["-t", "-e"]


def test_the_module_of_vllm_serves_the_default_model_whatever_stands_behind_it() -> None:
    assert of(f"{M} X").model == "Qwen/Qwen3-0.6B"
    assert of("vllm serve --api-key k X").model == "Qwen/Qwen3-0.6B"
    assert of(f"{M} --model X").model == "X"
    assert of("vllm serve X").model == "X"


def test_an_image_whose_tag_names_another_release_is_not_judged_by_the_bundled_table_as_if_it_were_its_own() -> None:
    assert of("docker run vllm/vllm-openai:latest M").table.exact
    assert of("docker run vllm/vllm-openai:v0.33.0 M").table.exact
    old = of("docker run vllm/vllm-openai:v0.9.2 M --enable-reasoning").table
    assert (old.wanted, old.version, old.exact) == ("0.9.2", "0.33.0", False)


def test_a_command_that_is_no_server_is_not_judged() -> None:
    assert not of("vllm bench serve --model M --nonsense").serves
    assert not of("python -m vllm.entrypoints.api_server --model M").serves
