"""Data that was never written is found wherever it lies in a weight file; zeros that are meant are left alone."""

from __future__ import annotations

import os
import random
import zipfile
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest

import weights_builder as build
from ds_doctor import engine
from ds_doctor.host import Asked, Host
from ds_doctor.model import Outcome, Reason, Result
from ds_doctor.probes.model_folder import ModelFolder, model_folder
from ds_doctor.probes.zero_runs import ZeroRuns, zero_runs
from ds_doctor.rooted import RootedHost
from support import doctor, module_checks

MIB = 1 << 20
RULES = ("weights-preallocated", "weights-tensor-zeros")


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(min(size, 4 * MIB)) * (size // (4 * MIB) + 1)


def written(
    folder: Path, tensors: dict[str, tuple[str, tuple[int, ...]]], name: str = "model.safetensors"
) -> dict[str, tuple[int, int]]:
    """A weight file of noise in a whole folder; where each tensor lies in the file."""
    folder.mkdir(parents=True, exist_ok=True)
    build.small(folder)
    described = {}
    at = 0
    for tensor, (dtype, shape) in tensors.items():
        size = build.BITS[dtype] // 8
        for n in shape:
            size *= n
        described[tensor] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    header = build.header(described, {"format": "pt"})
    with (folder / name).open("wb") as f:
        f.write(build.raw(header))
        left, block = at, noise(4 * MIB)
        while left:
            f.write(block[: min(left, len(block))])
            left -= min(left, len(block))
    start = 8 + len(header)
    return {n: (start + d["data_offsets"][0], start + d["data_offsets"][1]) for n, d in described.items()}


def zero(path: Path, begin: int, end: int, hole: bool = False) -> None:
    """Zeros from byte `begin` to `end`: written, or, in whole pages, left out."""
    if not hole:
        with path.open("r+b") as f:
            f.seek(begin)
            f.write(b"\0" * (end - begin))
        return
    data = path.read_bytes()
    path.unlink()
    with path.open("wb") as f:
        f.write(data[:begin])
        f.seek(end)
        f.write(data[end:])
        f.truncate(len(data))


def look(folder: Path) -> ZeroRuns:
    fact = zero_runs(Host(Asked(model=str(folder)), {"HOME": "/nonexistent"}))
    assert msgspec.json.decode(msgspec.json.encode(fact), type=ZeroRuns) == fact
    return fact


def judge(folder: Path, fact: ZeroRuns) -> dict[str, Result]:
    model = model_folder(Host(Asked(model=str(folder)), {"HOME": "/nonexistent"}))
    checks = [c for c in module_checks("weights") if set(c.rules) & set(RULES)]
    nothing = {f: Outcome(None, "absent", Reason("no-command")) for f in engine.wanted(checks)}
    facts = {**nothing, ModelFolder: Outcome(model), ZeroRuns: Outcome(fact)}
    return {r.rule: r for r in engine.judge(checks, facts, doctor().catalogue, set(RULES))}


def verdict(folder: Path) -> tuple[str, str]:
    results = judge(folder, look(folder))
    return results[RULES[0]].status, results[RULES[1]].status


SHAPES = {
    "tiny": (4, 8),
    "small": (64, 96),
    "read whole": (256, 256),
    "sampled": (1200, 1000),
}


def model(folder: Path, shape: tuple[int, int]) -> dict[str, tuple[int, int]]:
    return written(folder, {f"model.layers.{n}.q_proj.weight": ("BF16", shape) for n in range(4)})


@pytest.mark.parametrize("size", SHAPES)
def test_a_file_full_of_data_is_whole(tmp_path: Path, size: str) -> None:
    model(tmp_path / "m", SHAPES[size])
    assert verdict(tmp_path / "m") == ("pass", "pass")


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("part", [0.0, 0.1, 0.4, 0.7])
def test_a_file_that_was_written_up_to_a_place_only_is_found(
    tmp_path: Path, size: str, part: float, hole: bool
) -> None:
    places = model(tmp_path / "m", SHAPES[size])
    path = tmp_path / "m" / "model.safetensors"
    begin, end = min(b for b, _ in places.values()), path.stat().st_size
    zero(path, int(begin + part * (end - begin)), end, hole)
    fact = look(tmp_path / "m")
    results = judge(tmp_path / "m", fact)
    assert results["weights-preallocated"].status == "fail"
    assert results["weights-preallocated"].findings[0].on == "model.safetensors"
    assert fact.runs[0].end == end


@pytest.mark.parametrize("size", SHAPES)
def test_a_file_whose_tensors_are_zero_from_one_of_them_on_is_found(tmp_path: Path, size: str) -> None:
    places = model(tmp_path / "m", SHAPES[size])
    path = tmp_path / "m" / "model.safetensors"
    zero(path, places["model.layers.2.q_proj.weight"][0], path.stat().st_size)
    assert verdict(tmp_path / "m")[0] == "fail"


def test_a_file_that_died_in_its_only_tensor_is_found(tmp_path: Path) -> None:
    places = written(tmp_path / "m", {"lm_head.weight": ("BF16", (3001, 1000))})
    path = tmp_path / "m" / "model.safetensors"
    zero(path, 3 * MIB, places["lm_head.weight"][1])
    assert verdict(tmp_path / "m")[0] == "fail"


@pytest.mark.parametrize("hole", [False, True])
def test_a_range_that_was_left_out_in_the_middle_is_found(tmp_path: Path, hole: bool) -> None:
    """Downloaders of several ranges at once leave such a gap when one of them dies."""
    model(tmp_path / "m", (1200, 1000))
    path = tmp_path / "m" / "model.safetensors"
    zero(path, 3 * MIB, 7 * MIB, hole)
    results = judge(tmp_path / "m", look(tmp_path / "m"))
    assert results["weights-preallocated"].status == "fail"
    assert results["weights-preallocated"].findings[0].data["begin"] == 3 * MIB


def test_a_small_gap_that_only_the_file_system_knows_is_found(tmp_path: Path) -> None:
    model(tmp_path / "m", (1200, 1000))
    path = tmp_path / "m" / "model.safetensors"
    zero(path, 5 * MIB + 4096 * 3, 5 * MIB + 4096 * 30, hole=True)
    assert verdict(tmp_path / "m")[0] == "fail"


def test_space_that_was_reserved_and_never_written_is_found(tmp_path: Path) -> None:
    model(tmp_path / "m", (1200, 1000))
    path = tmp_path / "m" / "model.safetensors"
    data = path.read_bytes()
    path.unlink()
    with path.open("wb") as f:
        os.posix_fallocate(f.fileno(), 0, len(data))
        f.write(data[: 2 * MIB])
    assert path.stat().st_blocks * 512 >= len(data)
    assert verdict(tmp_path / "m")[0] == "fail"


def test_zero_biases_and_zero_points_are_meant(tmp_path: Path) -> None:
    tensors = {
        "a.weight": ("BF16", (512, 512)),
        "a.bias": ("F32", (300_000,)),
        "a.zero_point": ("I64", (512, 512)),
        "a.lora_B.weight": ("BF16", (512, 512)),
        "z.bias": ("F32", (4096, 16)),
    }
    places = written(tmp_path / "m", tensors)
    path = tmp_path / "m" / "model.safetensors"
    for name in ("a.bias", "a.zero_point", "a.lora_B.weight", "z.bias"):
        zero(path, *places[name])
    assert verdict(tmp_path / "m") == ("pass", "pass")


@pytest.mark.parametrize("hole", [False, True])
def test_rows_of_zeros_at_the_end_of_a_vocabulary_are_padding(tmp_path: Path, hole: bool) -> None:
    places = written(tmp_path / "m", {"a.weight": ("BF16", (1000, 1000)), "lm_head.weight": ("BF16", (1000, 2000))})
    path = tmp_path / "m" / "model.safetensors"
    zero(path, places["lm_head.weight"][1] - 4000 * 90, places["lm_head.weight"][1], hole)
    assert verdict(tmp_path / "m") == ("pass", "pass")


def test_a_matrix_of_zeros_in_the_middle_is_a_warning(tmp_path: Path) -> None:
    places = model(tmp_path / "m", (1200, 1000))
    zero(tmp_path / "m" / "model.safetensors", *places["model.layers.1.q_proj.weight"])
    results = judge(tmp_path / "m", look(tmp_path / "m"))
    assert (results[RULES[0]].status, results[RULES[1]].status) == ("pass", "warn")
    assert "model.layers.1.q_proj.weight" in results[RULES[1]].findings[0].data["names"]


def test_zeros_that_a_copy_left_out_are_zeros_all_the_same(tmp_path: Path) -> None:
    """cp --sparse=always and compressing file systems make holes of zeros that were written."""
    places = written(
        tmp_path / "m",
        {"a.weight": ("BF16", (1000, 1000)), "a.bias": ("F32", (100_000,)), "b.weight": ("BF16", (1000, 999))},
    )
    begin, end = places["a.bias"]
    path = tmp_path / "m" / "model.safetensors"
    zero(path, begin, end)
    zero(path, -(-begin // 4096) * 4096, end // 4096 * 4096, hole=True)
    assert verdict(tmp_path / "m") == ("pass", "pass")


def test_another_root_is_looked_into_the_same_way(tmp_path: Path) -> None:
    model(tmp_path / "root" / "m", (1200, 1000))
    path = tmp_path / "root" / "m" / "model.safetensors"
    zero(path, 3 * MIB, path.stat().st_size, hole=True)
    fact = zero_runs(RootedHost(str(tmp_path / "root"), Asked(model="/m")))
    assert [r.file for r in fact.runs] == ["model.safetensors"] and fact.runs[0].hole


def as_gguf(folder: Path, rows: int = 600) -> Path:
    """A GGUF file of the real writer: the longest dimension is written last there."""
    folder.mkdir()
    path = folder / "m-Q8_0.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    numbers = np.frombuffer(noise(4 * MIB)[: rows * 1024 * 2], dtype=np.int16).reshape(rows, 1024)
    for n in range(4):
        writer.add_tensor(f"blk.{n}.attn_q.weight", numbers.view(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("hole", [False, True])
@pytest.mark.parametrize("rows", [4, 600])
def test_a_gguf_file_that_was_written_up_to_a_place_only_is_found(tmp_path: Path, rows: int, hole: bool) -> None:
    path = as_gguf(tmp_path / "m", rows)
    assert verdict(path.parent) == ("pass", "pass")
    size = path.stat().st_size
    zero(path, size // 2 + 12, size, hole)
    assert verdict(path.parent)[0] == "fail"


def test_padded_rows_of_a_gguf_file_are_meant(tmp_path: Path) -> None:
    path = as_gguf(tmp_path / "m")
    size = path.stat().st_size
    zero(path, size - 40 * 2048, size)
    assert verdict(path.parent) == ("pass", "pass")


def test_files_of_other_formats_are_not_called_whole(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    build.small(folder)
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02}q\0.")
        z.writestr("archive/data/0", b"\1" * 64)
    assert verdict(folder) == ("unknown", "unknown")


def test_forty_eight_whole_shards_cost_a_few_reads_each(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    for n in range(1, 49):
        written(folder, {f"l.{n}.weight": ("BF16", (1024, 600))}, build.shard(n, 48))
    host = Host(Asked(model=str(folder)), {"HOME": "/nonexistent"})
    model_folder(host)
    read = []
    answer = host._call

    def counted(op: str, *args: object) -> object:
        read.append((op, args))
        return answer(op, *args)

    host._call = counted  # type: ignore[method-assign]
    assert zero_runs(host).files == 48
    assert len(read) <= 48 * 8
    assert sum(a[2] for op, a in read if op == "read_at") <= 48 * 32768  # type: ignore[misc]


def test_a_run_that_breaks_off_in_a_norm_and_goes_over_a_whole_matrix_was_never_written(tmp_path: Path) -> None:
    tensors = {
        "blk.0.weight": ("F32", (64, 64)),
        "blk.0.attn_norm.weight": ("F32", (256,)),
        "blk.1.weight": ("F32", (64, 64)),
    }
    whole = tmp_path / "m"
    places = written(whole, tensors)
    begin, end = places["blk.0.attn_norm.weight"]
    zero(whole / "model.safetensors", (begin + end) // 2, places["blk.1.weight"][1])
    assert verdict(whole) == ("fail", "pass")
    # Without a matrix it may be meant.
    other = tmp_path / "n"
    written(other, dict(list(tensors.items())[:2]))
    zero(other / "model.safetensors", (begin + end) // 2, end)
    assert verdict(other) == ("pass", "pass")
