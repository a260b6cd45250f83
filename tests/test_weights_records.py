"""What downloaders write down is read as they wrote it, and a damaged or hostile note is refused, whatever it holds."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.manifest import Entry
from ds_doctor.model import Malformed
from ds_doctor.probes import _hub_records, _plain_pickle
from ds_doctor.probes._due import Source, _weight
from ds_doctor.probes._file_roles import role
from ds_doctor.probes._sums_look import aligned
from ds_doctor.probes.model_folder import ModelFolder, Names, ShardIndex, WeightFile

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(plain, st.integers(0, 5))
def test_plain_values_come_out_of_a_pickle_as_they_went_in(value: Any, protocol: int) -> None:
    assert _plain_pickle.read(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_plain_value_or_refused(data: bytes) -> None:
    for start in (b"", b"\x80\x04", b"\x80\x02]"):
        try:
            _plain_pickle.read(start + data)
        except _plain_pickle.NotPlain:
            pass


@pytest.mark.parametrize("value", [print, time.struct_time, 1j, b"x", {1, 2}, (1, 2), Malformed("x")])
def test_what_is_more_than_plain_is_refused(value: Any) -> None:
    with pytest.raises(_plain_pickle.NotPlain):
        _plain_pickle.read(pickle.dumps(value))


def test_a_pickle_that_grows_without_end_takes_no_time() -> None:
    doubling = b"\x80\x04]\x94" + b"(h\x00h\x00e" * 50_000 + b"."
    began = time.perf_counter()
    try:
        _plain_pickle.read(doubling)
    except _plain_pickle.NotPlain:
        pass
    assert time.perf_counter() - began < 20  # a bound for a busy machine; it takes a fifth of a second


@given(st.text(max_size=300))
def test_any_text_is_a_record_or_refused(text: str) -> None:
    try:
        record = _hub_records.parse_record(text, "x")
        assert len(record.commit) == 40 and record.etag
    except Malformed:
        pass


@given(st.binary(max_size=300) | st.builds(lambda v: str(v).replace("'", '"').encode(), plain))
def test_any_bytes_are_a_list_of_a_commit_or_refused(data: bytes) -> None:
    try:
        _hub_records.parse_tree(data)
    except Malformed:
        pass


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"format_version": 2, "files": {}}',
        b'{"files": {}}',
        b'{"format_version": 1, "files": {"a": {"size": "x"}}}',
    ],
)
def test_another_form_of_list_is_refused(text: bytes) -> None:
    with pytest.raises(Malformed):
        _hub_records.parse_tree(text)


def test_an_lfs_file_in_the_list_of_a_commit_goes_by_its_sha256_alone() -> None:
    text = b'{"format_version": 1, "files": {"a": {"size": 5, "blob_id": "%s", "lfs_sha256": "%s", "lfs_size": 9}, "b": {"size": 5, "blob_id": "%s"}, "c": {"size": 1}}}'
    listed = _hub_records.parse_tree(text % (b"1" * 40, b"2" * 64, b"3" * 40))
    assert listed == {
        "a": _hub_records.Listed("sha256", "2" * 64, 9),
        "b": _hub_records.Listed("git-sha1", "3" * 40, 5),
    }


@pytest.mark.parametrize(
    ("etag", "algorithm"),
    [
        ("a" * 64, "sha256"),
        ("a" * 40, "git-sha1"),
        ("a" * 32, None),
        ("a" * 32 + "-12", None),
        ("A" * 64, None),
        ("", None),
    ],
)
def test_only_what_the_hub_makes_of_content_is_taken_for_a_digest(etag: str, algorithm: str | None) -> None:
    assert _hub_records.algorithm_of(etag) == algorithm


ROLES = {
    "weights": ("model-00001-of-00002.safetensors", "pytorch_model.bin", "m.Q4_K_M.gguf", "original/consolidated.00.pth", "onnx/model.onnx",
                "adapter_model.safetensors"),
    "config": ("config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer.model.v3", "merges.txt", "vocab.txt",
               "qwen.tiktoken", "chat_template.jinja", "model.safetensors.index.json", "quantize_config.json",
               "additional_chat_templates/tool_use.jinja", "params.json"),
    "code": ("modeling_deepseek.py", "tokenization_kimi.py"),
    "other": ("README.md", "LICENSE", ".gitattributes", "figures/a.png", "inference/model.py", "original/params.json", "configuration.json",
              "training_args.bin", "optimizer.pt", "trainer_state.json", "node.manifest.json", "USE_POLICY.md", "requirements.txt"),
}  # fmt: skip


@pytest.mark.parametrize(("what", "name"), [(w, n) for w, names in ROLES.items() for n in names])
def test_a_name_tells_what_an_engine_does_with_the_file(what: str, name: str) -> None:
    assert role(name) == what


def test_parts_in_folders_of_their_own_are_read() -> None:
    assert role("text_encoder/config.json", parts=True) == "config"


# Repositories as they are published, what somebody took of them, and what is missed then.
SHARDS = [f"model-{n:05}-of-00004.safetensors" for n in range(1, 5)]
PUBLISHED: dict[str, tuple[list[str], list[str], bool, list[str]]] = {
    "all shards but one": ([*SHARDS, "consolidated.safetensors", "original/consolidated.00.pth"], SHARDS[:3], False, SHARDS[3:]),
    "shards and their index": ([*SHARDS, "consolidated.safetensors", "extra.safetensors"], SHARDS, True, []),
    "Mistral's own alone": ([*SHARDS, "consolidated.safetensors"], ["consolidated.safetensors"], False, []),
    "one precision of two": (
        ["model.safetensors", "model.fp32-00001-of-00002.safetensors", "model.fp32-00002-of-00002.safetensors", "pytorch_model.bin"],
        ["model.safetensors"], False, [],
    ),
    "PyTorch's files alone": (
        ["model.safetensors", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"],
        ["pytorch_model-00001-of-00002.bin"], False, ["pytorch_model-00002-of-00002.bin"],
    ),
    "one quantisation": (
        ["m-q4_k_m-00001-of-00002.gguf", "m-q4_k_m-00002-of-00002.gguf", "m-q8_0-00001-of-00002.gguf", "m-q8_0-00002-of-00002.gguf", "m-q2.gguf"],
        ["m-q4_k_m-00001-of-00002.gguf"], False, ["m-q4_k_m-00002-of-00002.gguf"],
    ),
    "one quantisation in its folder": (
        ["Q4/m-00001-of-00002.gguf", "Q4/m-00002-of-00002.gguf", "Q8/m-00001-of-00002.gguf"],
        ["Q4/m-00001-of-00002.gguf"], False, ["Q4/m-00002-of-00002.gguf"],
    ),
    "Meta's and Metal's copies left out": (
        ["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
         "original/model--00001-of-00007.safetensors", "metal/model.bin"],
        ["model-00000-of-00002.safetensors", "model-00001-of-00002.safetensors"], False, ["model-00002-of-00002.safetensors"],
    ),
    "nothing": (["model.safetensors", "pytorch_model.bin", "onnx/model.onnx"], [], False, ["model.safetensors"]),
}  # fmt: skip


@pytest.mark.parametrize("case", PUBLISHED)
def test_of_a_repository_only_what_belongs_to_the_weights_that_are_there_is_missed(case: str) -> None:
    published, taken, index, missed = PUBLISHED[case]
    source = Source(kind="hub-tree", due={n: ("sha256", "a" * 64, 5, "trees/x.json") for n in published}, whole=True)
    loaded = tuple(WeightFile(name=n, kind="safetensors") for n in taken if "/" not in n)
    folder = ModelFolder(
        given="/m",
        source="option",
        path="/m",
        layout="folder",
        weights=loaded,
        index=ShardIndex(name="model.safetensors.index.json", missing=Names()) if index else None,
    )
    there = {*taken, "config.json"}
    found = [n for n in published if n not in there and _weight(n, "weights", source, there, folder, False) == "needed"]
    assert found == missed


@pytest.mark.parametrize(
    ("names", "folder", "root", "want"),
    [
        (["a", "b"], "", "/x/m", ["a", "b"]),
        (["m/a", "m/b"], "", "/x/m", ["a", "b"]),
        (["m/a", "n/a", "m/b"], "", "/x/m", ["a", "b"]),
        (["x/m/a", "x/n/a"], "", "/x/m", ["a"]),
        (["old/place/a", "old/place/sub/b"], "", "/x/m", ["a", "sub/b"]),
        (["a"], "sub", "", ["sub/a"]),
        (["elsewhere/z"], "", "/x/m", ["elsewhere/z"]),
        ([], "", "/x/m", []),
    ],
)
def test_names_of_a_list_made_higher_up_are_those_of_the_folder(
    names: list[str], folder: str, root: str, want: list[str]
) -> None:
    entries = [Entry(name=n, digests={"sha256": "a" * 64}) for n in names]
    assert list(aligned(entries, {"a", "b", "sub/a"}, folder, root)) == want
