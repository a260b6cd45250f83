"""What befalls model folders: each fault changes a folder that lies on disk, and says how it must be told."""

from __future__ import annotations

import gzip
import json
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import verify_repos as repos
from verify_builder import Layout, Made

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 4998663696\n"
HTML = b'<!DOCTYPE html>\n<html class="">\n<head><title>429 Too Many Requests</title></head><body></body></html>\n'
XML = b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>'
JSON = b'{"error":"Access to model org/name is restricted. You must be authenticated to access it."}'

Where = Callable[[Layout], bool]


@dataclass(frozen=True)
class Fault:
    """`act` changes the folder and returns the names of the files that may be spoken of (None: the victim). `rules`: one of them must be broken; none
    given: any that names the file. `level`: fail (exit status 1), warn or note (0), odd: fail or warn, as the program sees it; unread: fail, and
    exit status 3 where nothing else failed: it could not be read."""

    name: str
    act: Callable[[Made], set[str] | None]
    rules: frozenset[str]
    where: Where
    level: str = "fail"


# ---- where it can happen ----


def safetensors(x: Layout) -> bool:
    return x.victim.endswith(".safetensors")


def gguf(x: Layout) -> bool:
    return x.victim.endswith(".gguf")


def torch(x: Layout) -> bool:
    return x.victim.endswith(".bin")


def several(x: Layout) -> bool:
    return len(x.weights) > 1


def indexed(x: Layout) -> bool:
    return x.index is not None


def anywhere(x: Layout) -> bool:
    return True


def in_folder(x: Layout) -> bool:
    return x.kind != "file"


def with_small(x: Layout) -> bool:
    return x.small


def in_hub(x: Layout) -> bool:
    return x.kind == "hub-cache"


def both(*tests: Where) -> Where:
    return lambda x: all(t(x) for t in tests)


def vouched(x: Layout) -> bool:
    return bool(x.vouched)


def all_vouched(x: Layout) -> bool:
    return x.vouched == "all"


# ---- what is done to one file ----


def write(data: bytes) -> Callable[[Made], None]:
    return lambda m: m.real(m.victim).write_bytes(data) and None


def cut(change: Callable[[int], int]) -> Callable[[Made], None]:
    def act(m: Made) -> None:
        path = m.real(m.victim)
        os.truncate(path, change(path.stat().st_size))

    return act


def append(data: bytes) -> Callable[[Made], None]:
    def act(m: Made) -> None:
        with m.real(m.victim).open("ab") as f:
            f.write(data)

    return act


def flip(at: Callable[[int], int], name: str | None = None) -> Callable[[Made], set[str] | None]:
    """One bit, with the file's times kept as a failing disk keeps them."""

    def act(m: Made) -> set[str] | None:
        path = m.real(name or m.victim)
        was = path.stat()
        with path.open("r+b") as f:
            place = at(was.st_size)
            f.seek(place)
            byte = f.read(1)[0]
            f.seek(place)
            f.write(bytes([byte ^ 0x10]))
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        return {name} if name else None

    return act


def zeros_from(part: float, sparse: bool) -> Callable[[Made], None]:
    """A download that reserved the whole file and died: nothing but zeros from there to the end."""

    def act(m: Made) -> None:
        path = m.real(m.victim)
        size = path.stat().st_size
        keep = int(size * part)
        if sparse:
            os.truncate(path, keep)
            os.truncate(path, size)
        else:
            with path.open("r+b") as f:
                f.seek(keep)
                f.write(bytes(size - keep))

    return act


def header(change: Callable[[dict[str, Any]], Any]) -> Callable[[Made], None]:
    """Change the safetensors header, its data left as it is."""

    def act(m: Made) -> None:
        path = m.real(m.victim)
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        described = json.loads(data[8 : 8 + length])
        change(described)
        text = json.dumps(described, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return act


def tensor(described: dict[str, Any], number: int) -> dict[str, Any]:
    """The number-th tensor by its place in the file."""
    found = sorted((v["data_offsets"], k) for k, v in described.items() if k != "__metadata__")
    made: dict[str, Any] = described[found[number][1]]
    return made


def overlap(d: dict[str, Any]) -> None:
    first, second = tensor(d, 0), tensor(d, 1)
    second["data_offsets"] = [
        first["data_offsets"][0],
        first["data_offsets"][0] + second["data_offsets"][1] - second["data_offsets"][0],
    ]


def drop_first(d: dict[str, Any]) -> None:
    del d[next(k for k, v in d.items() if v is tensor(d, 0))]


def longer(d: dict[str, Any]) -> None:
    tensor(d, 1)["shape"][0] += 1


def strange(d: dict[str, Any]) -> None:
    tensor(d, 1)["dtype"] = "F3_E9M9"


def replace(maker: Callable[[Path], Any]) -> Callable[[Made], None]:
    def act(m: Made) -> None:
        path = m.folder / m.victim
        path.unlink()
        maker(path)

    return act


def bind(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path.name)
    finally:
        os.chdir(here)


def other(m: Made) -> str:
    return m.layout.weights[0]


def copy_first(m: Made) -> set[str]:
    m.real(m.victim).write_bytes(m.real(other(m)).read_bytes())
    return {m.victim, other(m), m.layout.index or m.victim}


def swap(m: Made) -> set[str]:
    a, b = m.real(m.victim), m.real(other(m))
    one, two = a.read_bytes(), b.read_bytes()
    a.write_bytes(two)
    b.write_bytes(one)
    return {m.victim, other(m), m.layout.index or m.victim}


def edit_index(change: Callable[[dict[str, Any], Made], Any]) -> Callable[[Made], set[str]]:
    def act(m: Made) -> set[str]:
        name = m.layout.index
        assert name is not None
        path = m.real(name)
        index = json.loads(path.read_text())
        change(index, m)
        path.write_text(json.dumps(index))
        return {name, m.victim}

    return act


def put(name: str, data: bytes | None) -> Callable[[Made], set[str]]:
    def act(m: Made) -> set[str]:
        if data is None:
            (m.folder / name).unlink()
        else:
            m.real(name).write_bytes(data)
        return {name}

    return act


def shorten(name: str) -> Callable[[Made], set[str]]:
    def act(m: Made) -> set[str]:
        path = m.real(name)
        os.truncate(path, path.stat().st_size // 2)
        return {name}

    return act


def no_tokenizer(m: Made) -> set[str]:
    (m.folder / "tokenizer.json").unlink()
    return {"tokenizer"}


def changed_config(m: Made) -> set[str]:
    m.real("config.json").write_bytes(repos.config(rms_norm_eps=1e-06))
    return {"config.json"}


def unlink(m: Made) -> set[str]:
    """Where it was the only one, nothing tells its name: the folder is named."""
    (m.folder / m.victim).unlink()
    return {m.victim} | ({str(m.folder)} if len(m.layout.weights) == 1 else set())


def escape(m: Made) -> None:
    """The link leads to the right content, but out of the cache."""
    aside = m.root / "aside.safetensors"
    aside.write_bytes(m.real(m.victim).read_bytes())
    (m.folder / m.victim).unlink()
    (m.folder / m.victim).symlink_to(aside)


def fault(name: str, act: Any, rules: str, where: Where = anywhere, level: str = "fail") -> Fault:
    return Fault(name, act, frozenset(f"weights-{r}" for r in rules.split()), where, level)


GONE = "shard-missing numbering-holes file-missing none path-missing link-dangling"
TAIL = "preallocated header-malformed shard-truncated"  # a zip has its directory at its end
HEADER = "header-malformed not-weights"
HALF = "shard-truncated header-malformed size-differs preallocated not-weights"
SPARE = "index-malformed spare-damaged"  # the engines do not read the index of PyTorch files
INDEXED = both(safetensors, indexed)
STRUCTURE = [
    fault("missing", unlink, GONE, in_folder),
    fault("blob missing", lambda m: m.real(m.victim).unlink(), GONE, in_hub),
    fault("empty", write(b""), "file-empty"),
    fault("one byte short", cut(lambda n: n - 1), "shard-truncated header-malformed"),
    fault("half", cut(lambda n: n // 2), "shard-truncated header-malformed"),
    fault("cut in its header", cut(lambda n: 400), HALF),
    fault("five bytes", cut(lambda n: 5), HALF),
    fault("one byte more", append(b"\0"), "shard-oversized header-malformed"),
    fault("a page more", append(b"x" * 4096), "shard-oversized header-malformed"),
    fault("LFS pointer", write(LFS), "lfs-pointer"),
    fault("HTML page", write(HTML), "not-weights"),
    fault("XML error", write(XML), "not-weights"),
    fault("JSON error", write(JSON), "not-weights"),
    fault("still compressed", write(gzip.compress(b"weights" * 999)), "not-weights header-malformed"),
    fault("all zeros", write(bytes(200_000)), "not-weights preallocated header-malformed"),
    fault("reserved, nothing came", zeros_from(0, sparse=True), "not-weights preallocated header-malformed"),
    fault("reserved, half came", zeros_from(0.5, sparse=True), TAIL),
    fault("half written as zeros", zeros_from(0.5, sparse=False), TAIL),
    fault("FIFO", replace(os.mkfifo), "not-a-file"),
    fault("socket", replace(bind), "not-a-file"),
    fault("folder", replace(Path.mkdir), "not-a-file", in_folder),
    fault("device", replace(lambda p: p.symlink_to("/dev/zero")), "not-a-file link-escapes"),
    fault("link to itself", replace(lambda p: p.symlink_to(p.name)), "unreadable link-dangling", in_folder, "unread"),
    fault("link to nothing", replace(lambda p: p.symlink_to("../gone")), "link-dangling link-escapes", in_folder),
    fault("link out of the cache", escape, "link-escapes", in_hub),
    fault("header of 2^60 bytes", lambda m: overwrite_head(m, struct.pack("<Q", 1 << 60)), HEADER, safetensors),
    fault("header of 0 bytes", lambda m: overwrite_head(m, bytes(8)), f"{HEADER} preallocated", safetensors),
    fault("header is no JSON", lambda m: overwrite_head(m, struct.pack("<Q", 64) + b"{{"), HEADER, safetensors),
    fault("header too deep", write(struct.pack("<Q", 90_000) + b"[" * 90_000), HEADER, safetensors),
    fault("overlap", header(overlap), "tensor-layout", safetensors),
    fault("gap", header(drop_first), "tensor-layout", safetensors),
    fault("shape beyond its bytes", header(longer), "tensor-layout", safetensors),
    fault("unknown type", header(strange), "dtype-unknown", safetensors, "odd"),
    fault("negative count of tensors", lambda m: overwrite(m, 8, b"\xff" * 8), "header-malformed tensor-layout", gguf),
    fault(
        "GGUF of version 9", lambda m: overwrite(m, 4, b"\x09\0\0\0"), "header-malformed gguf-version not-weights", gguf
    ),
    fault("no directory of the zip", lambda m: overwrite(m, -22, bytes(22)), "header-malformed shard-truncated", torch),
    fault(
        "another shard's copy",
        copy_first,
        "tensor-twice tensor-absent tensor-misplaced",
        both(INDEXED, several),
    ),
    fault("shards swapped", swap, "tensor-misplaced", both(INDEXED, several)),
    fault("index cut", lambda m: shorten(str(m.layout.index))(m), "index-malformed", INDEXED),
    fault("index is an HTML page", lambda m: put(str(m.layout.index), HTML)(m), "index-malformed not-weights", INDEXED),
    fault("index without a map", edit_index(lambda i, m: i.pop("weight_map")), "index-malformed", INDEXED),
    fault("index of pickles cut", lambda m: shorten(str(m.layout.index))(m), SPARE, both(torch, indexed), "odd"),
    fault(
        "index of pickles without a map",
        edit_index(lambda i, m: i.pop("weight_map")),
        SPARE,
        both(torch, indexed),
        "odd",
    ),
    fault(
        "index leads out",
        edit_index(lambda i, m: i["weight_map"].update(x="../../../etc/passwd")),
        "index-escapes",
        indexed,
    ),
    fault(
        "index lists a tensor that is not there",
        edit_index(lambda i, m: i["weight_map"].update({"model.layers.9.mlp.up_proj.weight": m.victim})),
        "tensor-absent",
        INDEXED,
    ),
    fault(
        "index lists a file that is not there",
        edit_index(lambda i, m: i["weight_map"].update({"x": "model-x.safetensors"})),
        "shard-missing",
        INDEXED,
    ),
    fault(
        "index has a tensor in another file",
        edit_index(lambda i, m: i["weight_map"].update({"model.embed_tokens.weight": m.victim})),
        "tensor-misplaced",
        both(INDEXED, several),
    ),
    fault("no config", put("config.json", None), "config-missing file-missing", with_small),
    fault("config cut", shorten("config.json"), "config-malformed", with_small),
    fault("config empty", put("config.json", b""), "file-empty config-malformed", with_small),
    fault("config is a pointer", put("config.json", LFS), "lfs-pointer config-malformed", with_small),
    fault("config is an HTML page", put("config.json", HTML), "not-weights config-malformed", with_small),
    fault("config of another type", put("config.json", b"[]"), "config-malformed", with_small),
    fault("tokenizer cut", shorten("tokenizer.json"), "", with_small),
    fault("tokenizer is an HTML page", put("tokenizer.json", HTML), "", with_small),
    fault("tokenizer is a pointer", put("tokenizer.json", LFS), "lfs-pointer", with_small),
    fault("tokenizer settings cut", shorten("tokenizer_config.json"), "", with_small),
    fault("generation settings cut", shorten("generation_config.json"), "", with_small, "odd"),
    fault("no tokenizer", no_tokenizer, "tokenizer-missing vocabulary-missing file-missing", with_small, "odd"),
]
# In layouts that differ only in what vouches, these stand for all.
CORE = frozenset(
    [
        "missing",
        "empty",
        "half",
        "one byte more",
        "HTML page",
        "reserved, half came",
        "link to nothing",
        "index cut",
        "config cut",
    ]
)
ALL_IN = frozenset(["sharded", "hub", "gguf split", "torch sharded"])
CONTENT = [
    fault("flipped bit", flip(lambda n: n // 2), "checksum-mismatch", vouched),
    fault("flipped bit at the end", flip(lambda n: n - 1), "checksum-mismatch", vouched),
    fault(
        "other numbers",
        lambda m: m.real(m.victim).write_bytes(m.real(m.victim).read_bytes()[:-64] + b"7" * 64) and None,
        "checksum-mismatch",
        both(vouched, safetensors),
    ),
    fault("config changed", changed_config, "file-changed size-differs", all_vouched),
    fault("tokenizer changed", flip(lambda n: n - 700, "tokenizer.json"), "", all_vouched),
]


def overwrite(m: Made, at: int, data: bytes) -> None:
    with m.real(m.victim).open("r+b") as f:
        f.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        f.write(data)


def overwrite_head(m: Made, data: bytes) -> None:
    overwrite(m, 0, data)
