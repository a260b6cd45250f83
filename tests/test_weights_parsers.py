"""The pure parsers of the weights family: whatever they are fed, they answer or refuse in their own words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weights_builder as build
from ds_doctor.model import Malformed
from ds_doctor.probes import _safetensors, _shard_index, _sniff
from ds_doctor.probes._folder_look import parse_config
from ds_doctor.probes._folder_names import is_weights, numbering
from ds_doctor.probes._model_place import hub_cache

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SIZES = st.integers(-1, 2**65)
TENSORS = st.dictionaries(
    st.text(max_size=4) | st.just("__metadata__"),
    st.fixed_dictionaries(
        {},
        optional={
            "dtype": st.sampled_from([*_safetensors.BITS, "F3"]) | JSON,
            "shape": st.lists(st.integers(0, 9) | SIZES, max_size=4) | JSON,
            "data_offsets": st.tuples(st.integers(0, 99), st.integers(0, 99)) | st.tuples(SIZES, SIZES) | JSON,
        },
    )
    | JSON,
    max_size=4,
)


@given(st.binary(max_size=200) | TENSORS.map(lambda t: json.dumps(t).encode()))
def test_a_header_is_a_layout_or_a_header_error(header: bytes) -> None:
    try:
        layout = _safetensors.parse(header)
    except _safetensors.HeaderError as e:
        assert all(n is None or 0 <= n < 2**64 for n in (e.want, e.got)), "a snapshot must hold the numbers"
    else:
        assert 0 <= layout.data_bytes < 2**63


@given(st.binary(max_size=20), st.integers(0, 2**62))
def test_a_header_length_lies_within_the_file(first: bytes, size: int) -> None:
    try:
        length = _safetensors.header_length(first, size)
    except _safetensors.HeaderError:
        return
    assert 8 + length <= size and length <= _safetensors.HEADER_LIMIT


@st.composite
def whole_tensors(draw: st.DrawFn) -> tuple[dict[str, Any], int]:
    """Tensors laid one after the other as a writer lays them."""
    tensors: dict[str, Any] = {}
    at = 0
    for name in draw(st.lists(st.text(max_size=6).filter(lambda n: n != "__metadata__"), unique=True, max_size=6)):
        dtype = draw(st.sampled_from(sorted(_safetensors.BITS)))
        shape = [*draw(st.lists(st.integers(0, 4), max_size=3)), 8]
        size = _safetensors.BITS[dtype]
        for n in shape:
            size *= n
        tensors[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size // 8]}
        at += size // 8
    return tensors, at


@given(whole_tensors(), st.randoms())
def test_tensors_in_any_order_of_names_are_whole(made: tuple[dict[str, Any], int], random: Any) -> None:
    tensors, size = made
    items = list(tensors.items())
    random.shuffle(items)
    layout = _safetensors.parse(build.header(dict(items), {"format": "pt"}))
    assert (layout.names, layout.data_bytes, layout.unknown_dtypes) == (frozenset(tensors), size, ())


@given(whole_tensors(), st.data())
def test_a_tensor_moved_or_resized_is_refused(made: tuple[dict[str, Any], int], data: st.DataObject) -> None:
    tensors, _ = made
    full = [n for n, t in tensors.items() if t["data_offsets"][0] < t["data_offsets"][1]]
    if not full:
        return
    name = data.draw(st.sampled_from(full))
    which = data.draw(st.sampled_from([0, 1]))
    tensors[name]["data_offsets"][which] += data.draw(st.sampled_from([1, 3, 2**40]))
    with pytest.raises(_safetensors.HeaderError) as e:
        _safetensors.parse(build.header(tensors))
    assert e.value.error in ("InvalidOffset", "TensorInvalidInfo")


@pytest.mark.parametrize("metadata", [{"a": 1}, "x", [], {"format": None}], ids=repr)
def test_metadata_that_is_no_map_of_words_is_refused(metadata: Any) -> None:
    with pytest.raises(_safetensors.HeaderError, match="InvalidHeaderDeserialization"):
        _safetensors.parse(build.header({}, metadata))


def test_a_long_shape_costs_no_time() -> None:
    wide = {"a": {"dtype": "U8", "shape": [2**63] * 200_000, "data_offsets": [0, 1]}}
    with pytest.raises(_safetensors.HeaderError, match="InvalidHeaderDeserialization"):
        _safetensors.parse(build.header(wide))


@given(st.binary(max_size=200) | JSON.map(lambda j: json.dumps({"weight_map": j, "metadata": j}).encode()))
def test_an_index_is_read_or_refused(text: bytes) -> None:
    try:
        parsed = _shard_index.parse(text)
    except _shard_index.NotAnIndex as e:
        assert str(e) in ("not-json", "no-weight-map")
    else:
        assert parsed.total_size is None or 0 <= parsed.total_size < 2**63


@pytest.mark.parametrize(
    "size, read", [(5, 5), (5.0, 5), ("5", None), (-1, None), (10**30, None), (1e300, None), ({}, None), (None, None)]
)
def test_a_total_size_is_a_number_of_bytes_or_nothing(size: Any, read: int | None) -> None:
    text = json.dumps({"weight_map": {"a": "b"}, "metadata": {"total_size": size}}).encode()
    assert _shard_index.parse(text).total_size == read


SHARDS = st.dictionaries(st.sampled_from("ABC"), st.frozensets(st.sampled_from("abcdef")), min_size=1)


@given(SHARDS, st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("ABC")))
def test_index_and_headers_agree_exactly_where_nothing_is_said(
    headers: dict[str, frozenset[str]], weight_map: dict[str, str]
) -> None:
    of: dict[str, set[str]] = {}
    for tensor, name in weight_map.items():
        of.setdefault(name, set()).add(tensor)
    found = _shard_index.compare(_shard_index.Parsed(of, None), headers)
    said = {x.partition(" (")[0] for x in found.absent + found.misplaced + found.twice + found.not_indexed}
    for tensor in "abcdef":
        where = [n for n, have in headers.items() if tensor in have]
        home = weight_map.get(tensor)
        agrees = where == ([home] if home in headers else [])
        assert (tensor not in said) == agrees


@given(st.binary(max_size=600))
def test_a_head_is_sniffed_without_trouble(head: bytes) -> None:
    kind = _sniff.sniff(head)
    assert kind is None or kind.isascii()
    _sniff.pointer_size(head)


@given(st.integers(0, _safetensors.HEADER_LIMIT), st.binary(max_size=50))
def test_a_header_that_can_be_one_is_never_taken_for_text(length: int, rest: bytes) -> None:
    assert _sniff.sniff(length.to_bytes(8, "little") + b"{" + rest) not in (
        "text",
        "zeros",
        "empty",
        "lfs-pointer",
    )


@given(st.binary(max_size=200) | JSON.map(lambda j: json.dumps(j).encode()))
def test_a_configuration_is_read_or_malformed(text: bytes) -> None:
    try:
        parse_config(text)
    except Malformed as e:
        assert e.reason.id == "not-json"


@given(
    st.dictionaries(
        st.sampled_from(["model_type", "architectures", "tie_word_embeddings", "text_config", "quantization_config"]),
        JSON,
    )
)
def test_a_configuration_with_other_types_is_read_all_the_same(config: dict[str, Any]) -> None:
    parse_config(json.dumps(config).encode())


def test_what_pythons_json_takes_is_a_configuration() -> None:
    text = b'{"model_type": "mamba2", "time_step_limit": [0.0, Infinity], "max": 1000000000000000019884624838656}'
    assert parse_config(text).model_type == "mamba2"


@given(st.lists(st.text(max_size=12) | st.from_regex(r"[ab]-\d{1,6}-of-\d{1,6}\.(safetensors|bin)", fullmatch=True)))
@settings(max_examples=50)
def test_numbers_that_are_there_and_missing_make_up_the_total(names: list[str]) -> None:
    for one in numbering(names):
        assert one.present + one.missing.count == one.total
        assert len(one.missing.first) == min(one.missing.count, 5)


def test_the_hub_cache_is_where_huggingface_hub_puts_it() -> None:
    assert hub_cache({"HOME": "/h"}) == "/h/.cache/huggingface/hub"
    assert hub_cache({"HOME": "/h", "XDG_CACHE_HOME": "/x"}) == "/x/huggingface/hub"
    assert hub_cache({"HOME": "/h", "HF_HOME": "~/hf"}) == "/h/hf/hub"
    assert hub_cache({"HOME": "/h", "HF_HOME": "/hf", "HF_HUB_CACHE": "/c"}) == "/c"
    assert hub_cache({}) is None


@pytest.mark.parametrize(
    "name", ["model.safetensors", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth", "x.gguf"]
)
def test_weights_are_known_by_their_names(name: str) -> None:
    assert is_weights(name)


@pytest.mark.parametrize(
    "name", ["training_args.bin", "optimizer.pt", "adapter_model.safetensors", "README.md", "x.safetensors.part"]
)
def test_other_files_are_not_taken_for_weights(name: str) -> None:
    assert not is_weights(name)
