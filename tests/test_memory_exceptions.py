"""What a quantised checkpoint excepts is weighed module by module, and what its list cannot mean is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.memory import read
from ds_doctor.memory.exceptions import Exceptions
from ds_doctor.memory.setting import GIB, Setting
from ds_doctor.memory.weights import weights

QWEN3_8B = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")


def gib(quantisation: dict[str, Any] | None) -> float:
    config = QWEN3_8B | ({"quantization_config": quantisation} if quantisation else {})
    return weights(read.architecture(config), Setting(engine="vllm")).fullest / GIB


def w4a16(*ignore: str) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "group_size": 128}}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": list(ignore)}


PLAIN = gib(w4a16("lm_head"))
ATTENTION = 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024) * (16 - 4.125) / 8 / GIB  # what attention in 16 bit takes on top


@pytest.mark.parametrize(
    ("ignore", "more"),
    [
        (["re:visual.*"], 0),
        (["visual.blocks.0.attn.qkv", "visual.blocks.0.attn.proj", "visual.blocks.0.mlp.gate_proj"], 0),
        (["vision_tower.encoder.layers.0.self_attn.q_proj", "vision_model.encoder.layers.0.mlp.down_proj"], 0),
        (["re:.*mlp.gate$", "model.layers.0.self_attn.q_norm", "model.layers.3.mlp.shared_expert_gate"], 0),
        (["re:.*self_attn.*"], ATTENTION),
        (["self_attn"], ATTENTION),
        (["*self_attn*"], ATTENTION),
        (["model.layers.*.self_attn"], ATTENTION),
        ([f"model.layers.{i}.self_attn.{p}" for i in range(36) for p in PROJECTIONS], ATTENTION),
        ([f"model.language_model.layers.{i}.self_attn" for i in range(36)], ATTENTION),
        ([r"re:model\.layers\.(0|1)\.self_attn.*"], ATTENTION / 18),
        (["model.layers.7.self_attn"], ATTENTION / 36),
        (["re:(", "re:(a+)+b", r"re:(?=x)y", "re:" + "a" * 200, "", "..", "*"], None),
    ],
)
def test_exceptions_are_weighed_module_by_module(ignore: list[str], more: float | None) -> None:
    got = gib(w4a16("lm_head", *ignore))
    assert got >= PLAIN
    if more is not None:
        assert got - PLAIN == pytest.approx(more, rel=0.02, abs=0.01)


def test_a_hostile_list_is_bounded() -> None:
    entries = [rf"re:.*l.*a{i}.*z|layers\.({i}|[0-9]+)x.*y.*" for i in range(2000)] + ["x" * 200] * 5000
    made = Exceptions(entries)
    for layer in range(1024):
        made.share("attention", "heads", layer)
        made.share("experts", "experts", layer)
    assert len(made.patterns) <= 32 and made._left > -10


@pytest.mark.parametrize(
    ("field", "value"),
    [("bits", -4), ("bits", 0), ("bits", 400), ("bits", "four"), ("bits", True), ("group_size", -7), ("bits", 1e400)],
)
def test_absurd_numbers_are_one_line(field: str, value: Any, tmp_path: Path) -> None:
    told = {"quant_method": "gptq", "bits": 4, "group_size": 128, field: value}
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_8B | {"quantization_config": told}))
    argv = [sys.executable, "-m", "ds_doctor", "fit", str(tmp_path / "config.json"), "--gpus", "2xT4"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1


@pytest.mark.parametrize("bits", [-1, 0, 64])
def test_absurd_bits_of_a_group_are_told(bits: int) -> None:
    told = w4a16()
    told["config_groups"]["group_0"]["weights"]["num_bits"] = bits
    with pytest.raises(read.Unreadable, match="num_bits"):
        gib(told)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("Qwen/Qwen3-8B", "--quantization", "foo"), 2, "--quantization foo"),
        (("Qwen/Qwen3-8B", "--quantization", "compressed-tensors", "--gpus", "H200"), 0, ""),
        (("Qwen/Qwen3-8B", "--kv-cache-dtype", "foo"), 2, "--kv-cache-dtype foo"),
        (("Qwen/Qwen3-8B", "--kv-cache-dtype", "turboquant_k8v4", "--gpus", "H200"), 0, ""),
        (("Qwen/Qwen3-8B", "--gpus", "8xH200x2"), 2, "8xH200x2"),
        (("Qwen/Qwen3-8B", "--gpus", "2x0GiB"), 2, "2x0GiB"),
        (("Qwen/Qwen3-8B", "--gpus", "H200x2"), 0, ""),
        (("Qwen/Qwen3-8B", "--max-num-seqs", "64", "--max-num-batched-tokens", "10"), 2, "smaller than"),
        (("Qwen/Qwen3-8", "--gpus", "H200"), 3, "did you mean Qwen/Qwen3-8B"),
        (("a\x1b[31m", "--gpus", "H200"), 3, "a\ufffd[31m"),
    ],
)
def test_fit_takes_no_word_that_it_does_not_know(words: tuple[str, ...], status: int, says: str) -> None:
    argv = [sys.executable, "-m", "ds_doctor", "fit", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == status and says in done.stderr and done.stderr.count("\n") == bool(says)
