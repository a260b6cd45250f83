"""Folders as some publishers and programs lay them down - drafts, ranks, weights under a name of their own - are whole; a fault in one names its shard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import weights_builder as build
from test_weights_folders import faults, judge, look

INDEX = "model.safetensors.index.json"


def bare(folder: Path, files: dict[str, bytes], **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def with_words(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    build.small(folder)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
ONE = {"model.safetensors": build.safetensors(["fc.weight"])}
RANKS = (
    "rank{}.safetensors",
    "model-rank-{}-part-0.safetensors",
    "model{}-mp4.safetensors",
    "m-00000-TP-00{}.safetensors",
)

WHOLE: dict[str, Callable[[Path], Path]] = {
    "EAGLE, by its name": lambda p: bare(p / "EAGLE-LLaMA3-Instruct-8B", {"pytorch_model.bin": build.torch_zip()}, **LLAMA),
    "EAGLE3": lambda p: bare(p / "m", ONE, model_type="llama", architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=32000),
    "Medusa": lambda p: bare(p / "m", {"medusa_lm_head.pt": build.torch_zip()}, medusa_num_heads=5),
    "DINOv2": lambda p: bare(
        p / "m", ONE | {"preprocessor_config.json": b"{}"}, model_type="dinov2", architectures=["Dinov2Model"]
    ),
    "one file of torch's under a name of its own": lambda p: with_words(p / "m", {"finetuned.bin": build.torch_zip()}),
    **{
        f"parts of four ranks: {name}": lambda p, name=name: with_words(
            p / "m", {name.format(n): build.safetensors(["a.weight", "b.weight"]) for n in range(4)}
        )
        for name in RANKS
    },
}  # fmt: skip


@pytest.mark.parametrize("layout", WHOLE)
def test_a_rarer_layout_is_whole(tmp_path: Path, layout: str) -> None:
    assert faults(look(WHOLE[layout](tmp_path))) == set()


def test_a_language_model_without_a_tokenizer_lacks_one(tmp_path: Path) -> None:
    assert faults(look(bare(tmp_path / "m", ONE, **LLAMA))) == {"tokenizer-missing"}
    vision = {"model_type": "qwen2_vl", "architectures": ["Qwen2VLForConditionalGeneration"]}
    folder = bare(tmp_path / "v", ONE | {"preprocessor_config.json": b"{}"}, **vision)
    assert faults(look(folder)) == {"tokenizer-missing"}


def test_pieces_of_a_model_are_not_its_weights(tmp_path: Path) -> None:
    """As BAAI/bge-m3 has them beside pytorch_model.bin."""
    pieces = {"colbert_linear.pt": build.torch_zip(), "sparse_linear.pt": build.torch_zip()}
    assert faults(look(with_words(tmp_path / "m", pieces))) == {"none"}
    trained = {"training_args.bin": build.torch_zip(), "scaler.pt": build.torch_zip()}
    assert faults(look(with_words(tmp_path / "n", trained))) == {"none"}


def told(folder: Path, rule: str) -> str:
    (finding,) = judge(look(folder))[rule].findings
    return str(finding.data["names"])


def test_what_disagrees_with_the_index_is_told_with_its_shard(tmp_path: Path) -> None:
    absent, misplaced = build.sharded(tmp_path / "a"), build.sharded(tmp_path / "b")
    first, second = build.shard(1, 3), build.shard(2, 3)
    tensor = build.names_in_shard(1)[0]
    build.edit_index(absent, lambda i: i["weight_map"].update(x=second))
    assert told(absent, "weights-tensor-absent") == f"x ({second})"
    build.edit_index(misplaced, lambda i: i["weight_map"].update({tensor: second}))
    assert told(misplaced, "weights-tensor-misplaced") == f"{tensor} ({second} → {first})"
    left = build.sharded(tmp_path / "c")
    build.edit_index(left, lambda i: i["weight_map"].pop(tensor))
    assert told(left, "weights-tensor-not-indexed") == f"{tensor} ({first})"


def test_an_archive_that_was_written_twice_is_too_long(tmp_path: Path) -> None:
    data = build.torch_zip()
    folder = with_words(tmp_path / "m", {"pytorch_model.bin": data + data})
    assert faults(look(folder)) == {"shard-oversized"}
    assert look(folder).weights[0].expected_size == len(data)


def test_a_broken_index_of_pytorch_files_is_a_fault_of_the_folder(tmp_path: Path) -> None:
    names = [f"pytorch_model-0000{n}-of-00002.bin" for n in (1, 2)]
    files = {name: build.torch_zip() for name in names}
    index = json.dumps({"metadata": {}, "weight_map": {"a": names[0], "b": names[1]}}).encode()
    folder = with_words(tmp_path / "m", files | {"pytorch_model.bin.index.json": index})
    assert faults(look(folder)) == set()
    (folder / "pytorch_model.bin.index.json").write_bytes(index[:-9])
    assert faults(look(folder)) == {"index-malformed"}
    (folder / names[1]).unlink()
    assert faults(look(folder)) == {"index-malformed", "numbering-holes"}
    # Beside safetensors files nobody reads it.
    beside = build.sharded(tmp_path / "n")
    (beside / "pytorch_model.bin.index.json").write_bytes(index[:-9])
    assert faults(look(beside)) == {"spare-damaged"}


def test_a_tensor_in_two_shards_is_found_without_an_index(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", index=False)
    first, second = build.shard(1, 3), build.shard(2, 3)
    tensor = build.names_in_shard(1)[0]
    (folder / second).write_bytes(build.safetensors([*build.names_in_shard(2), tensor]))
    assert faults(look(folder)) == {"tensor-twice"}
    assert told(folder, "weights-tensor-twice") == f"{tensor} ({first}, {second})"
