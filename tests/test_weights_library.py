"""The header parser and the safetensors library agree on which files are whole: both are given the same files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import weights_builder as build
from ds_doctor.host import Host
from ds_doctor.probes import _safetensors
from ds_doctor.probes._weight_file import look

safetensors = pytest.importorskip("safetensors")
pytest.importorskip("numpy")


def library_takes(path: Path) -> bool:
    try:
        with safetensors.safe_open(str(path), "np") as f:
            f.keys()
    except safetensors.SafetensorError:
        return False
    return True


def we_take(path: Path) -> bool:
    file = look(Host(env={}), str(path), path.name).file
    return file.kind == "safetensors" and file.size == file.expected_size and not file.unknown_dtypes


def damaged(rnd: random.Random) -> bytes:
    """A file of up to four tensors with, now and then, something wrong in its header or its length."""
    names = [f"t{i}" for i in range(rnd.randint(0, 4))]
    tensors, data = build.tensors_of(names, rnd.choice(list(build.BITS)))
    for name in names:
        chance = rnd.random()
        if chance < 0.08:
            tensors[name]["data_offsets"][rnd.randint(0, 1)] += rnd.choice([-4, 4, 1, 2**60, 2**63])
        elif chance < 0.14:
            tensors[name]["shape"] = rnd.choice([[], [0], [2**40, 2**40], [3], [-1], ["x"], [1.0], None, [2**64]])
        elif chance < 0.18:
            tensors[name]["dtype"] = rnd.choice(["F3", "", None, 5, *_safetensors.BITS])
        elif chance < 0.20:
            tensors[name]["extra"] = 1
        elif chance < 0.22:
            del tensors[name][rnd.choice(["dtype", "shape", "data_offsets"])]
        elif chance < 0.23:
            tensors[name] = rnd.choice([None, [], "x", 3])
    metadata: Any = rnd.choice([None, None, {"format": "pt"}, {"dtype": "x"}, {"a": 1}, "x", [], {}])
    text = build.header(tensors, metadata)
    if rnd.random() < 0.1:
        text = rnd.choice(
            [text[:-3], text + b"\0" * 8, b" " + text, text + b" " * 8, text.replace(b"t", b"\xff", 1), b""]
        )
    if rnd.random() < 0.1:
        data = rnd.choice([data + b"x", data[:-1]])
    return build.raw(text, data)


def test_we_take_what_the_library_takes_and_nothing_else(tmp_path: Path) -> None:
    rnd = random.Random(7)
    path = tmp_path / "x.safetensors"
    for _ in range(1500):
        path.write_bytes(damaged(rnd))
        assert we_take(path) == library_takes(path), path.read_bytes()[:400]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint16", "uint8", "bool"])
def test_what_the_library_writes_is_whole(tmp_path: Path, dtype: str) -> None:
    import numpy
    from safetensors.numpy import save_file

    arrays = {
        "a": numpy.zeros((3, 5), dtype),
        "b.scalar": numpy.zeros((), dtype),
        "c.empty": numpy.zeros((0, 4), dtype),
    }
    save_file(arrays, tmp_path / "x.safetensors", {"format": "np"})
    assert we_take(tmp_path / "x.safetensors")


def test_the_same_types_are_known(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    for dtype, bits in _safetensors.BITS.items():
        tensor = {"dtype": dtype, "shape": [8], "data_offsets": [0, bits]}
        path.write_bytes(build.raw(build.header({"a": tensor}), bytes(bits)))
        assert library_takes(path), dtype
