"""Folders with more than one set of weights, more than one index, or another thing than a folder given: what is loaded is judged, the rest is told."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("gguf")

import verify_repos as repos
import weights_builder as build
from test_weights_folders import faults, judge, look
from test_weights_formats import lay, one_gguf, one_torch


def renamed(files: dict[str, bytes], stem: str, total: int = 3) -> dict[str, bytes]:
    """A sharded model under another stem, with an index of its own."""
    made = {}
    for name, data in files.items():
        if name.endswith(".index.json"):
            made[f"{stem}.safetensors.index.json"] = data.replace(b'"model-0', f'"{stem}-0'.encode())
        elif name.endswith(".safetensors"):
            made[name.replace("model-", f"{stem}-")] = data
        else:
            made[name] = data
    return made


def variant() -> dict[str, bytes]:
    """The same model in another precision, as diffusers and transformers name it."""
    return renamed(repos.weights(3, seed=1), "model.fp16")


def transformers_variant() -> dict[str, bytes]:
    """As openai/whisper-large-v3 has it."""
    files = renamed(repos.weights(3, seed=1), "model.fp32")
    return files | {"model.safetensors.index.fp32.json": files.pop("model.fp32.safetensors.index.json")}


CONSOLIDATED = renamed(repos.weights(3), "consolidated")

WHOLE: dict[str, dict[str, bytes]] = {
    "shards": repos.sharded(),
    "shards in float32 and integers": repos.small() | {"model.safetensors": repos.safetensors(["lm_head.weight"], dtype="float16")},
    "shards and another precision": repos.sharded() | variant(),
    "one file and another precision in shards": repos.single() | variant(),
    "one file and another precision in shards, as transformers names its index": repos.single() | transformers_variant(),
    "only another precision": repos.small() | variant(),
    "shards and Mistral's own": repos.sharded() | CONSOLIDATED,
    "only Mistral's own": repos.small() | CONSOLIDATED,
    "shards, and the index of Mistral's own that were not fetched": repos.sharded()
    | {"consolidated.safetensors.index.json": CONSOLIDATED["consolidated.safetensors.index.json"]},
    "every format": repos.single() | {"pytorch_model.bin": one_torch(), "model-F16.gguf": one_gguf()},
    "shards in every format": repos.sharded() | repos.pytorch(3),
    "safetensors, and the index of PyTorch files that were not fetched": repos.sharded()
    | {"pytorch_model.bin.index.json": repos.pytorch(3)["pytorch_model.bin.index.json"]},
    "PyTorch files, and the index of shards that were not fetched": repos.pytorch(3) | {repos.INDEX: repos.weights()[repos.INDEX]},
    "GGUF, and the index of shards that were not fetched": {"m.gguf": one_gguf(), repos.INDEX: repos.weights()[repos.INDEX]},
    "shards and the original in a folder": repos.sharded() | {"original/consolidated.00.pth": one_torch(), "original/params.json": b"{}"},
    "shards and pointers in a folder": repos.sharded() | {"original/consolidated.00.pth": build.LFS, "m.gguf": build.LFS},
    "shards and an adapter": repos.sharded() | {"lora/adapter_model.safetensors": b"", "adapter_model.safetensors": b""},
    "sentence-transformers": repos.single() | {"2_Dense/model.safetensors": build.safetensors(["linear.weight"]), "modules.json": b"[]"},
    "a model of another program in a folder": repos.sharded() | {"metal/model.bin": bytes(range(7, 99)) * 99, "onnx/model.onnx": b"\x08\7"},
    "shards in a folder that the index names": repos.small()
    | {f"sub/{n}": d for n, d in repos.weights(3, index=False).items()}
    | {repos.INDEX: repos.weights()[repos.INDEX].replace(b'"model-0', b'"sub/model-0')},
}  # fmt: skip


@pytest.mark.parametrize("layout", WHOLE)
def test_a_whole_folder_of_several_sets_is_whole(tmp_path: Path, layout: str) -> None:
    fact = look(lay(tmp_path, WHOLE[layout]))
    assert faults(fact) == set(), fact
    assert judge(fact)["weights-shard-truncated"].status == "pass"


SECOND = repos.shard(2)


def swapped(names: list[str], total: int = 3) -> dict[str, bytes]:
    files = repos.weights(total)
    one, two = names
    return files | {one: files[two], two: files[one]}


def index_of(change: Callable[[dict[str, Any]], Any]) -> bytes:
    index = json.loads(repos.weights()[repos.INDEX])
    change(index)
    return json.dumps(index).encode()


BROKEN: dict[str, tuple[dict[str, bytes], set[str], str]] = {
    "one file and the index of shards": (
        repos.single() | {repos.INDEX: repos.weights()[repos.INDEX]}, {"shard-missing", "extra-shards"}, repos.INDEX,
    ),
    "an index of another number of shards": (
        repos.sharded(3) | {repos.INDEX: repos.weights(4)[repos.INDEX]}, {"shard-missing", "extra-shards"}, repos.INDEX,
    ),
    "an index with other places": (
        repos.sharded(3)
        | {repos.INDEX: index_of(lambda i: i["weight_map"].update({"model.norm.weight": repos.shard(1)}))},
        {"tensor-misplaced"}, repos.INDEX,
    ),
    "an index of a model with a layer more": (
        repos.sharded(3)
        | {repos.INDEX: index_of(lambda i: i["weight_map"].update({"model.layers.4.self_attn.q_proj.weight": SECOND}))},
        {"tensor-absent"}, repos.INDEX,
    ),
    "shards swapped": (repos.small() | swapped([repos.shard(1), SECOND]), {"tensor-misplaced"}, repos.INDEX),
    "one shard twice and no index": (
        {n: d for n, d in (repos.sharded() | {SECOND: repos.weights()[repos.shard(1)]}).items() if n != repos.INDEX},
        {"tensor-twice"}, SECOND,
    ),
    "Mistral's own with a hole": (
        {n: d for n, d in (repos.sharded() | CONSOLIDATED).items() if n != "consolidated-00002-of-00003.safetensors"},
        {"shard-missing"}, "consolidated.safetensors.index.json",
    ),
    "Mistral's own with a hole and no index": (
        {
            n: d
            for n, d in (repos.sharded() | CONSOLIDATED).items()
            if n not in ("consolidated-00002-of-00003.safetensors", "consolidated.safetensors.index.json")
        },
        {"numbering-holes"}, "consolidated-*-of-3.safetensors",
    ),
    "another precision with a hole": (
        {n: d for n, d in (repos.sharded() | variant()).items() if n != "model.fp16-00002-of-00003.safetensors"},
        {"spare-damaged"}, "model.fp16-00002-of-00003.safetensors",
    ),
    "a number beyond the total": (
        {n: d for n, d in repos.sharded().items() if n != repos.INDEX}
        | {"model-00004-of-00003.safetensors": build.safetensors(["x"])},
        {"numbering-mixed"}, "model-*.safetensors",
    ),
    "an extra shard": (
        repos.sharded() | {"model-00004-of-00004.safetensors": build.safetensors(["x"])}, {"extra-shards"}, repos.INDEX,
    ),
    "a copy of one shard and no index": (
        {n: d for n, d in repos.sharded().items() if n != repos.INDEX} | {"x.safetensors": repos.weights()[SECOND]},
        {"extra-shards"}, "x.safetensors",
    ),
    "the model in one file beside its shards, and no index": (
        {n: d for n, d in repos.sharded().items() if n != repos.INDEX} | repos.single(), {"extra-shards"}, "model.safetensors",
    ),
    "one file twice": (
        repos.single() | {"copy of model.safetensors": repos.single()["model.safetensors"]},
        {"extra-shards"}, "copy of model.safetensors",
    ),
    "another precision cut": (
        repos.sharded() | variant() | {"model.fp16-00001-of-00003.safetensors": repos.weights()[SECOND][:-9]},
        {"spare-damaged"}, "model.fp16-00001-of-00003.safetensors",
    ),
    "only another precision, with a hole": (
        {n: d for n, d in (repos.small() | variant()).items() if n != "model.fp16-00002-of-00003.safetensors"},
        {"shard-missing"}, "model.fp16.safetensors.index.json",
    ),
    "a PyTorch file cut beside safetensors": (
        repos.single() | {"pytorch_model.bin": one_torch()[:9000]}, {"spare-damaged"}, "pytorch_model.bin",
    ),
    "a GGUF file that is a page beside safetensors": (
        repos.single() | {"m.gguf": b"<!doctype html><html>"}, {"spare-damaged"}, "m.gguf",
    ),
    "the original cut in its folder": (
        repos.sharded() | {"original/consolidated.00.pth": one_torch()[:9000]}, {"spare-damaged"}, "original/consolidated.00.pth",
    ),
    "a second index cut": (
        repos.sharded() | {"pytorch_model.bin.index.json": b'{"weight_map": {"a'}, {"spare-damaged"}, "pytorch_model.bin.index.json",
    ),
    "PyTorch shards with a hole and an index of others": (
        {
            n: d
            for n, d in (repos.pytorch(3) | {repos.INDEX: repos.weights()[repos.INDEX]}).items()
            if n != repos.shard(2, 3, "pytorch_model", "bin")
        },
        {"shard-missing"}, "pytorch_model.bin.index.json",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_among_several_sets_is_found_where_it_is(tmp_path: Path, fault: str) -> None:
    files, expected, on = BROKEN[fault]
    fact = look(lay(tmp_path, files))
    assert faults(fact) == expected, fact
    findings = [f for r in judge(fact).values() for f in r.findings]
    assert on in [f.on for f in findings]


def packed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo("model.safetensors")
        member.size = 900
        tar.addfile(member, io.BytesIO(bytes(900)))
    return out.getvalue()


NO_WEIGHTS: dict[str, bytes] = {
    "a JSON error": b'{"error":"Invalid username or password."}',
    "a JSON error behind a line": b'\n  {\n  "Code": 10010205001,\n  "Message": "not found"}',
    "a short JSON answer": b"{}",
    "a list in JSON": b'["a"]' * 9,
    "gzip": gzip.compress(b"weights" * 99),
    "tar": packed(),
    "an S3 answer": b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code>',
    "an S3 answer without a head": b"<Error><Code>NoSuchKey</Code></Error>",
    "a page behind a mark": b"\xef\xbb\xbf<!DOCTYPE html><html>",
    "a page behind a comment": b"<!-- proxy --><html><body>",
    "words of a Windows shell": "Access denied".encode("utf-16"),
    "words in Chinese": "模型不存在，请先登录".encode(),
    "one word": b"Not Found",
    "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "PDF": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3",
    "zstd": b"\x28\xb5\x2f\xfd\x04\x58" + bytes(90),
    "xz": b"\xfd7zXZ\0\0\4" + bytes(90),
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(90),
}


@pytest.mark.parametrize("content", NO_WEIGHTS)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "m.gguf"])
def test_downloads_that_are_no_weights_are_told_as_what_they_are(tmp_path: Path, name: str, content: str) -> None:
    fact = look(lay(tmp_path, repos.small() | {name: NO_WEIGHTS[content]}))
    assert faults(fact) == {"not-weights"}
    (finding,) = judge(fact)["weights-not-weights"].findings
    assert finding.on == name and finding.data["what"] != "?"


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "m.gguf", "tokenizer.json"])
@pytest.mark.parametrize(
    "pointer",
    [build.LFS, build.LFS.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + build.LFS, build.LFS.decode().encode("utf-16")],
    ids=["plain", "Windows lines", "behind a mark", "UTF-16"],
)
def test_pointers_are_pointers_under_any_name(tmp_path: Path, name: str, pointer: bytes) -> None:
    fact = look(lay(tmp_path, repos.single() | {"model.safetensors": build.safetensors(["a"])} | {name: pointer}))
    said = faults(fact)
    assert said == {"lfs-pointer"} or (said == set() and name in ("pytorch_model.bin", "m.gguf"))
    if said:
        assert judge(fact)["weights-lfs-pointer"].findings[0].data["should_be"] == 4998663696


# ---- a file alone -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [SECOND, "config.json", "tokenizer.json", repos.INDEX, "README.md", ".gitattributes"])
def test_each_file_of_a_whole_folder_is_whole_alone(tmp_path: Path, name: str) -> None:
    folder = lay(tmp_path, repos.sharded())
    assert faults(look(folder / name)) == set()


@pytest.mark.parametrize(
    "name, data", [("m.gguf", one_gguf()), ("pytorch_model.bin", one_torch()), ("x.pt", one_torch())]
)
def test_files_of_other_formats_are_whole_alone(tmp_path: Path, name: str, data: bytes) -> None:
    assert faults(look(lay(tmp_path, {name: data}) / name)) == set()
    assert faults(look(lay(tmp_path, {name: data[:-60]}) / name)) == {"shard-truncated"}


def test_a_shard_alone_is_held_against_the_index_beside_it(tmp_path: Path) -> None:
    folder = lay(tmp_path, repos.sharded() | {SECOND: repos.weights()[repos.shard(3)]})
    fact = look(folder / SECOND)
    assert faults(fact) == {"tensor-misplaced", "tensor-absent"}
    assert judge(fact)["weights-shard-missing"].status == "skip"
    (folder / repos.shard(1)).unlink()
    assert faults(look(folder / repos.shard(3))) == set(), "nobody asked for the others"


def test_a_blob_without_an_ending_is_what_it_holds(tmp_path: Path) -> None:
    blob = "a" * 64
    for data in (repos.safetensors(["lm_head.weight"]), one_gguf(), one_torch()):
        fact = look(lay(tmp_path, {blob: data}) / blob)
        assert faults(fact) == set() and fact.weights[0].expected_size == len(data)
        assert faults(look(lay(tmp_path, {blob: data[:-60]}) / blob)) == {"shard-truncated"}
    assert faults(look(lay(tmp_path, {blob: build.LFS}) / blob)) == {"lfs-pointer"}
    assert faults(look(lay(tmp_path, {blob: b""}) / blob)) == {"file-empty"}
