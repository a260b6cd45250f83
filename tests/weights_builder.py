"""Small model folders of every layout, whole or with one fault, written byte by byte."""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

BITS = {"F32": 32, "BF16": 16, "F8_E4M3": 8, "F4": 4, "I64": 64}
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4998663696\n"
COMMIT = "60c4d3a1b5f0e2d7c8a9b0c1d2e3f4a5b6c7d8e9"


def header(tensors: dict[str, Any], metadata: Any = None) -> bytes:
    text = json.dumps(({"__metadata__": metadata} if metadata is not None else {}) | tensors).encode()
    return text + b" " * (-len(text) % 8)


def raw(text: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text + data


def tensors_of(names: list[str], dtype: str = "BF16", shape: tuple[int, ...] = (4, 8)) -> tuple[dict[str, Any], bytes]:
    size = BITS[dtype] * shape[0] * shape[1] // 8
    described = {
        n: {"dtype": dtype, "shape": list(shape), "data_offsets": [i * size, (i + 1) * size]}
        for i, n in enumerate(names)
    }
    return described, b"\1" * (size * len(names))


def safetensors(names: list[str], dtype: str = "BF16") -> bytes:
    described, data = tensors_of(names, dtype)
    return raw(header(described, {"format": "pt"}), data)


def shard(number: int, total: int) -> str:
    return f"model-{number:05}-of-{total:05}.safetensors"


def names_in_shard(number: int) -> list[str]:
    return [f"model.layers.{number}.{part}.weight" for part in ("q_proj", "k_proj", "v_proj")]


def small(folder: Path, **config: Any) -> None:
    made = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False} | config
    (folder / "config.json").write_text(json.dumps(made))
    (folder / "generation_config.json").write_text("{}")
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "tokenizer_config.json").write_text("{}")
    (folder / "README.md").write_text("# a model\n")


def sharded(folder: Path, shards: int = 3, index: bool = True) -> Path:
    """A whole folder of `shards` shards."""
    folder.mkdir(parents=True, exist_ok=True)
    small(folder)
    weight_map: dict[str, str] = {}
    total = 0
    for number in range(1, shards + 1):
        names = names_in_shard(number)
        (folder / shard(number, shards)).write_bytes(safetensors(names))
        weight_map |= dict.fromkeys(names, shard(number, shards))
        total += len(tensors_of(names)[1])
    if index:
        write_index(folder, weight_map, total)
    return folder


def write_index(folder: Path, weight_map: dict[str, str], total: Any) -> None:
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map})
    (folder / "model.safetensors.index.json").write_text(text)


def edit_index(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def single(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    small(folder)
    (folder / "model.safetensors").write_bytes(safetensors(names_in_shard(1)))
    return folder


def hub(cache: Path, repo: str = "org/name", ref: str | None = COMMIT, shards: int = 3) -> Path:
    """A whole hub cache of one repository, with files as links into blobs; returns the snapshot."""
    plain = sharded(cache / "plain", shards)
    folder = cache / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    for file in sorted(plain.iterdir()):
        blob = hashlib.sha256(file.read_bytes()).hexdigest()
        os.replace(file, folder / "blobs" / blob)
        (snapshot / file.name).symlink_to(f"../../blobs/{blob}")
    plain.rmdir()
    if ref is not None:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(ref)
    return snapshot


def gguf(version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, 0, 0)


# The magic number with which torch.save began before 1.6 (torch/serialization.py: MAGIC_NUMBER), as pickle.dump writes it.
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def torch_zip(storages: int = 3, size: int = 256, comment: bytes = b"", name: str = "archive") -> bytes:
    """What torch.save writes: a stored zip archive with a pickle, the storages, and a version."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}/data.pkl", b"\x80\x02}q\x00." * 4)
        archive.writestr(f"{name}/byteorder", b"little")
        for number in range(storages):
            archive.writestr(f"{name}/data/{number}", bytes([1 + number]) * size)
        archive.writestr(f"{name}/version", b"3\n")
        archive.comment = comment
    return file.getvalue()
