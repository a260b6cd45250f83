"""GGUF and PyTorch files, written by the real writers: whole ones are found whole, each fault in one is found, and nothing else is said."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numpy")
gguf = pytest.importorskip("gguf")

import verify_repos as repos  # noqa: E402
import weights_builder as build  # noqa: E402
from ds_doctor.probes import _gguf, _torch_legacy, _torch_zip  # noqa: E402
from ds_doctor.probes._safetensors import HeaderError  # noqa: E402
from test_weights_folders import faults, judge, look  # noqa: E402

NAMES = list(repos.shapes())


def lay(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def put(at: int, data: bytes) -> Callable[[bytes], bytes]:
    """Bytes written over a place of the file; a negative one counts from its end."""

    def act(whole: bytes) -> bytes:
        place = at if at >= 0 else len(whole) + at
        return whole[:place] + data + whole[place + len(data) :]

    return act


# ---- GGUF -------------------------------------------------------------------------------------------------------


def one_gguf(kind: str = "F16") -> bytes:
    return dict(repos.gguf_files(kind=kind))["model-F16.gguf"]


def gguf_of(kv: bytes = b"", infos: bytes = b"", data: bytes = b"", keys: int = 0, tensors: int = 0) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + kv + infos
    return head + b"\0" * (-len(head) % 32) + data


def text(word: bytes) -> bytes:
    return struct.pack("<Q", len(word)) + word


def info(name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def after(key: bytes, at: int, data: bytes) -> Callable[[bytes], bytes]:
    """Bytes written over what stands `at` bytes after the end of a key or tensor name."""

    def act(whole: bytes) -> bytes:
        place = whole.index(text(key)) + 8 + len(key) + at
        return whole[:place] + data + whole[place + len(data) :]

    return act


FIRST, SECOND = (NAMES[i].encode() for i in (0, 1))
GGUF_FAULTS: dict[str, tuple[Callable[[bytes], bytes], set[str]]] = {
    "cut by a byte of its last tensor": (lambda d: d[: len(d.rstrip(b"\0")) - 1], {"shard-truncated"}),
    "half": (lambda d: d[: len(d) // 2], {"shard-truncated"}),
    "cut in its vocabulary": (lambda d: d[:1500], {"shard-truncated"}),
    "cut in its counts": (lambda d: d[:20], {"shard-truncated"}),
    "five bytes": (lambda d: d[:5], {"shard-truncated"}),
    "a page more": (lambda d: d + bytes(4096), {"shard-oversized"}),
    "version 1": (put(4, b"\1"), {"header-malformed"}),
    "version 9": (put(4, b"\x09"), {"header-malformed"}),
    "the other byte order": (put(4, b"\0\0\0\3"), {"header-malformed"}),
    "a negative count of tensors": (put(8, b"\xff" * 8), {"header-malformed"}),
    "more keys than there are": (put(16, b"\xff"), {"header-malformed"}),
    "fewer keys than there are": (put(16, b"\2"), {"header-malformed"}),
    "a key's type that is none": (after(b"general.name", 0, b"\x63"), {"header-malformed"}),
    "a string of 2^60 bytes": (after(b"general.name", 4, (1 << 60).to_bytes(8, "little")), {"header-malformed"}),
    "an array of 2^60 words": (
        after(b"tokenizer.ggml.tokens", 8, (1 << 60).to_bytes(8, "little")),
        {"header-malformed"},
    ),
    "a dimension more": (after(FIRST, 4, b"\0\2"), {"tensor-layout"}),
    "a dimension of 2^62": (after(FIRST, 4, (1 << 62).to_bytes(8, "little")), {"tensor-layout"}),
    "ninety dimensions": (after(FIRST, 0, b"\x5a"), {"tensor-layout"}),
    "an offset that is another's": (after(SECOND, 24, bytes(8)), {"tensor-layout"}),
    "an offset that leaves a gap": (after(SECOND, 24, struct.pack("<Q", 1 << 20)), {"tensor-layout"}),
    "a type of the future": (after(NAMES[-1].encode(), 20, b"\x77"), {"dtype-unknown"}),
    "a pointer": (lambda _: build.LFS, {"lfs-pointer"}),
    "an error in JSON": (lambda _: b'{"error":"Repository not found"}', {"not-weights"}),
    "a safetensors file": (lambda _: build.safetensors(["a"]), {"not-weights"}),
    "the format before GGUF": (lambda _: b"tjgg" + bytes(900), {"not-weights"}),
    "nothing": (lambda _: b"", {"file-empty"}),
    "rubbish": (lambda _: bytes(range(9, 250)) * 9, {"not-weights"}),
}


@pytest.mark.parametrize("fault", GGUF_FAULTS)
def test_a_fault_in_a_gguf_file_is_found_and_nothing_else(tmp_path: Path, fault: str) -> None:
    damage, expected = GGUF_FAULTS[fault]
    lay(tmp_path, {"model-F16.gguf": damage(one_gguf())})
    fact = look(tmp_path)
    assert faults(fact) == expected, (fact.weights, judge(fact))
    if expected & {"shard-truncated", "shard-oversized", "header-malformed", "tensor-layout", "dtype-unknown"}:
        (rule,) = expected
        assert judge(fact)[f"weights-{rule}"].findings[0].on == "model-F16.gguf"


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_what_gguf_writes_is_whole(tmp_path: Path, kind: str) -> None:
    lay(tmp_path, {"model-F16.gguf": one_gguf(kind)})
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert (fact.weights[0].tensors, fact.weights[0].version) == (len(NAMES), 3)
    assert fact.weights[0].expected_size == fact.weights[0].size
    for rule in ("shard-truncated", "header-malformed", "tensor-layout", "dtype-unknown"):
        assert judge(fact)[f"weights-{rule}"].status == "pass"


def test_the_padding_after_the_last_tensor_may_be_there_or_not() -> None:
    for padded in (0, 1, 31):
        data = gguf_of(infos=info(b"a", (3,), 24, 0), data=b"abc" + bytes(padded), tensors=1)
        assert _gguf.parse(lambda at, n, d=data: d[at : at + n], len(data)).ends == (67, 96)


@pytest.mark.parametrize("kind", list(gguf.GGMLQuantizationType), ids=lambda k: k.name)
def test_every_type_of_gguf_has_its_size(kind: Any) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = gguf_of(infos=info(b"a", (block, 3), int(kind), 0), data=bytes(3 * size), tensors=1)
    layout = _gguf.parse(lambda at, n: data[at : at + n], len(data))
    assert layout.ends is not None and layout.ends[0] == len(data) and not layout.unknown_types


@pytest.mark.parametrize(
    "infos, keys, error",
    [
        (info(b"a", (33,), 2, 0), b"", "BlockSize"),
        (info(b"a", (32,), 0, 0) + info(b"a", (32,), 0, 128), b"", "DuplicateTensor"),
        (info(b"a", (32,), 0, 32), b"", "InvalidOffset"),
        (info(b"a", (1 << 40, 1 << 40), 0, 0), b"", "ValidationOverflow"),
        (b"", text(b"general.alignment") + struct.pack("<II", 4, 48), "BadAlignment"),
        (b"", text(b"general.alignment") + struct.pack("<IQ", 10, 32), "BadAlignment"),
        (b"", text(b"") + struct.pack("<II", 4, 48), "BadKey"),
        (b"", (text(b"x") + struct.pack("<II", 4, 48)) * 2, "DuplicateKey"),
        (b"", text(b"x") + struct.pack("<IIQ", 9, 9, 5000), "BadType"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_the_readers_refuse_is_refused(infos: bytes, keys: bytes, error: str) -> None:
    count = 2 if error in ("DuplicateTensor", "DuplicateKey") else 1
    data = gguf_of(keys, infos, bytes(900), keys=count if keys else 0, tensors=count if infos else 0)
    with pytest.raises(HeaderError, match=error):
        _gguf.parse(lambda at, n: data[at : at + n], len(data))


def test_another_alignment_and_lists_of_lists_are_read() -> None:
    keys = text(b"general.alignment") + struct.pack("<II", 4, 64)
    keys += text(b"x") + struct.pack("<IIQ", 9, 9, 2) + (struct.pack("<IQ", 4, 2) + bytes(8)) * 2
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, 2) + keys + info(b"a", (3,), 24, 0) + info(b"b", (3,), 24, 64)
    data = head + bytes(-len(head) % 64) + bytes(67)
    ends = _gguf.parse(lambda at, n: data[at : at + n], len(data)).ends
    assert ends is not None and ends[0] == len(data)


def test_a_vocabulary_of_any_length_is_read_in_windows() -> None:
    words = b"".join(text(b"w%d" % i * (1 + i % 7)) for i in range(200_000))
    keys = text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 200_000) + words
    data = gguf_of(keys, info(b"a", (3,), 24, 0), b"abc", keys=1, tensors=1)
    asked: list[int] = []

    def fetch(at: int, count: int) -> bytes:
        asked.append(count)
        return data[at : at + count]

    ends = _gguf.parse(fetch, len(data)).ends
    assert ends is not None and ends[0] == len(data)
    assert max(asked) <= _gguf.WINDOW and len(asked) < 2 + len(data) // (_gguf.WINDOW - 100)


def test_a_gguf_header_without_end_is_given_up_and_unknown(tmp_path: Path) -> None:
    keys = text(b"x") + struct.pack("<IIQ", 9, 8, 5_000_000)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_of(keys, keys=1))
    os.truncate(path, 1 << 40)
    fact = look(tmp_path)
    assert faults(fact) == set() and fact.weights[0].kind == "header-not-parsed"
    assert judge(fact)["weights-shard-truncated"].status == "unknown"


def split_gguf() -> dict[str, bytes]:
    return dict(repos.gguf_files(split=15))


def test_a_gguf_model_in_parts_is_whole(tmp_path: Path) -> None:
    lay(tmp_path, split_gguf())
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-gguf-split"].status == "pass"
    assert [(f.part, f.parts) for f in fact.weights] == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    "damage, expected",
    [
        (lambda f: f.pop("model-F16-00002-of-00003.gguf"), {"numbering-holes"}),
        (
            lambda f: f.update({"model-F16.gguf": f.pop("model-F16-00001-of-00003.gguf")}),
            {"gguf-split", "numbering-holes"},
        ),
        (
            lambda f: f.update({"model-F16-00002-of-00003.gguf": f["model-F16-00003-of-00003.gguf"]}),
            {"gguf-split", "tensor-twice"},
        ),
        (
            lambda f: f.update(
                {"model-F16-00003-of-00003.gguf": dict(repos.gguf_files(split=18))["model-F16-00003-of-00003.gguf"]}
            ),
            {"gguf-split"},
        ),
    ],
    ids=["a part gone", "a part renamed", "a part copied over another", "a part of another split"],
)
def test_parts_that_do_not_make_a_model_are_found(tmp_path: Path, damage: Any, expected: set[str]) -> None:
    files = split_gguf()
    damage(files)
    assert faults(look(lay(tmp_path, files))) == expected


def test_quantisations_in_folders_of_their_own_are_the_models_weights(tmp_path: Path) -> None:
    lay(tmp_path, {f"Q4/{n}": d for n, d in split_gguf().items()} | {"Q8/m.gguf": one_gguf("Q8_0")})
    fact = look(tmp_path)
    assert faults(fact) == set() and len(fact.weights) == 4
    (tmp_path / "Q4" / "model-F16-00002-of-00003.gguf").unlink()
    assert faults(look(tmp_path)) == {"numbering-holes"}
    lay(tmp_path, {"Q8/m.gguf": one_gguf("Q8_0")[:-100]})
    assert faults(look(tmp_path)) == {"numbering-holes", "shard-truncated"}


# ---- PyTorch ----------------------------------------------------------------------------------------------------


def one_torch() -> bytes:
    return repos.torch_zip(NAMES)


def archive_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return out.getvalue()


def directory(whole: bytes) -> int:
    at = whole.rindex(b"PK\5\6")
    return int.from_bytes(whole[at + 16 : at + 20], "little")


def in_directory(at: int, data: bytes) -> Callable[[bytes], bytes]:
    """Bytes written over the fourth entry of the directory."""

    def act(whole: bytes) -> bytes:
        place = directory(whole)
        for _ in range(3):
            place = whole.index(b"PK\1\2", place + 1)
        return put(place + at, data)(whole)

    return act


TORCH_FAULTS: dict[str, tuple[Callable[[bytes], bytes], set[str]]] = {
    "a byte short": (lambda d: d[:-1], {"shard-truncated"}),
    "half": (lambda d: d[: len(d) // 2], {"shard-truncated"}),
    "five bytes": (lambda d: d[:5], {"shard-truncated"}),
    "a byte more": (lambda d: d + b"\0", {"shard-oversized"}),
    "a megabyte more": (lambda d: d + bytes(1 << 20), {"shard-oversized"}),
    "no end record": (put(-22, b"x" * 22), {"shard-truncated"}),
    "zeros for its end": (put(-900, bytes(900)), {"header-malformed"}),
    "zeros for its half": (lambda d: d[: len(d) // 2].ljust(len(d), b"\0"), {"header-malformed"}),
    "bytes lost in its middle": (lambda d: d[:5000] + d[6000:], {"header-malformed"}),
    "bytes too many in its middle": (lambda d: d[:5000] + bytes(512) + d[5000:], {"header-malformed"}),
    "a directory of zeros": (lambda d: put(directory(d), bytes(64))(d), {"header-malformed"}),
    "a member beyond the file": (in_directory(42, b"\xff\xff\xff\x7f"), {"tensor-layout"}),
    "a member over another": (in_directory(42, b"\0\0\0\0"), {"tensor-layout"}),
    "a member of another length": (in_directory(20, b"\xff\xff\xff\x7f"), {"tensor-layout"}),
    "a stored member that grows": (in_directory(24, b"\xff\xff\0\0"), {"tensor-layout"}),
    "a member's own header gone": (put(0, b"PK\3\4" + bytes(26)), {"tensor-layout"}),
    "no pickle": (lambda _: archive_of({"archive/data/0": b"x" * 64, "archive/version": b"3\n"}), {"header-malformed"}),
    "another archive": (lambda _: archive_of({"report.txt": b"x" * 64}), {"not-weights"}),
    "a pickle of something else": (lambda _: b"\x80\x04\x95\n\0\0\0\0\0\0\0}\x94.", {"header-malformed"}),
    "a pointer": (lambda _: build.LFS, {"lfs-pointer"}),
    "a page": (lambda _: b"<html><head><title>403</title>", {"not-weights"}),
    "GGUF": (lambda _: one_gguf(), {"not-weights"}),
    "rubbish": (lambda _: bytes(range(9, 250)) * 9, {"not-weights"}),
    "zeros": (lambda _: bytes(10_000), {"not-weights"}),
}


@pytest.mark.parametrize("fault", TORCH_FAULTS)
def test_a_fault_in_a_pytorch_file_is_found_and_nothing_else(tmp_path: Path, fault: str) -> None:
    damage, expected = TORCH_FAULTS[fault]
    lay(tmp_path, repos.pytorch() | {"pytorch_model.bin": damage(one_torch())})
    fact = look(tmp_path)
    assert faults(fact) == expected, (fact.weights, judge(fact))
    (rule,) = expected
    assert judge(fact)[f"weights-{rule}"].findings[0].on == "pytorch_model.bin"


def test_what_torch_writes_is_whole_and_a_pickle(tmp_path: Path) -> None:
    fact = look(lay(tmp_path, repos.pytorch()))
    assert faults(fact) == set()
    results = judge(fact)
    assert results["weights-pickle"].status == "note"
    assert fact.weights[0].tensors == len(NAMES)
    for rule in ("shard-truncated", "shard-oversized", "header-malformed", "tensor-layout"):
        assert results[f"weights-{rule}"].status == "pass"


def test_an_archive_with_a_wide_directory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of more than 4 GiB or 65,535 members has it."""
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    whole = one_torch()
    assert b"PK\6\6" in whole and b"PK\6\7" in whole
    layout = _torch_zip.parse(lambda at, n: whole[at : at + n], len(whole))
    assert (layout.size, layout.storages) == (len(whole), len(NAMES))
    with pytest.raises(HeaderError, match="BadZipDirectory"):
        broken = whole.replace(b"PK\6\6", b"PK\6\0")
        _torch_zip.parse(lambda at, n: broken[at : at + n], len(broken))


def test_sizes_behind_the_members_are_as_good() -> None:
    """torch writes each member's sizes behind it: what its own header says is nothing."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    out = Pipe()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("archive/data.pkl", b"\x80\x02}q\0.")
        with z.open(zipfile.ZipInfo("archive/data/0"), "w") as member:
            member.write(b"abcd" * 99)
    whole = out.getvalue()
    assert _torch_zip.parse(lambda at, n: whole[at : at + n], len(whole)).size == len(whole)


def test_deflated_members_are_read() -> None:
    whole = archive_of({"m/data.pkl": b"\x80\x02}q\0.", "m/data/0": bytes(9000)}, zipfile.ZIP_DEFLATED)
    assert _torch_zip.parse(lambda at, n: whole[at : at + n], len(whole)).storages == 1


@pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth"])
def test_a_file_of_torch_before_1_6_is_as_long_as_its_pickles_say(tmp_path: Path, name: str) -> None:
    data = repos.torch_legacy(NAMES)
    lay(tmp_path, repos.small() | {name: data})
    fact = look(tmp_path)
    assert faults(fact) == set() and fact.weights[0].tensors == len(NAMES)
    assert judge(fact)["weights-shard-truncated"].status == "pass"
    assert judge(fact)["weights-pickle"].status == "note"
    for cut, rule in (
        (data[:-1], "truncated"),
        (data[: len(data) // 2], "truncated"),
        (data[:90], "truncated"),
        (data + b"1", "oversized"),
    ):
        (tmp_path / name).write_bytes(cut)
        assert faults(look(tmp_path)) == {f"shard-{rule}"}


def test_a_pickle_that_torch_does_not_write_is_unknown(tmp_path: Path) -> None:
    data = repos.torch_legacy(NAMES).replace(b"BFloat16Storage", b"Strange18Storage"[:15])
    lay(tmp_path, repos.small() | {"pytorch_model.bin": data})
    fact = look(tmp_path)
    assert faults(fact) == set() and fact.weights[0].kind == "pytorch-legacy"
    assert judge(fact)["weights-shard-truncated"].status == "unknown"


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 255)), min_size=1, max_size=6), st.integers(30, 3000))
def test_a_broken_pickle_ends_in_one_of_three_ways(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(repos.torch_legacy(NAMES))
    for at, value in changes:
        data[at % len(data)] = value
    broken = bytes(data[:cut]) if cut % 2 else bytes(data)
    try:
        storages, end = _torch_legacy.end_of(lambda at, n: broken[at : at + n], len(broken))
        assert 0 <= storages <= len(NAMES) and 0 < end < 1 << 60
    except (HeaderError, _torch_legacy.Untold):
        pass


def test_a_pickle_of_lists_in_lists_costs_nothing(tmp_path: Path) -> None:
    laughs = b"\x80\x02]" + b"q\x00" + b"".join(b"(h%ch%ct" % (n, n) + b"q%c" % (n + 1) for n in range(200))
    data = (
        b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}))
        + laughs
        + b"Q."
        + pickle.dumps(["0"], 2)
    )
    with pytest.raises(_torch_legacy.Untold):
        _torch_legacy.end_of(lambda at, n: data[at : at + n], len(data))


def test_a_model_bin_of_another_program_is_unknown_rather_than_wrong(tmp_path: Path) -> None:
    """CTranslate2 has a model.bin of its own."""
    lay(tmp_path, repos.small() | {"model.bin": struct.pack("<IH", 6, 12) + b"WhisperSpec\0" + bytes(range(200)) * 9})
    fact = look(tmp_path)
    assert faults(fact) == set()
    assert judge(fact)["weights-shard-truncated"].status == "unknown"


def test_pytorch_shards_are_judged_by_their_index(tmp_path: Path) -> None:
    fact = look(lay(tmp_path, repos.pytorch(3)))
    assert faults(fact) == set()
    assert fact.index is not None and fact.index.of_torch and fact.index.files == 3
    assert judge(fact)["weights-tensor-absent"].status == "unknown"
    (tmp_path / repos.shard(2, 3, "pytorch_model", "bin")).unlink()
    assert faults(look(tmp_path)) == {"shard-missing"}


@pytest.mark.parametrize(
    "members",
    [
        {"archive/data.pkl": b""},
        {"x/data.pkl": b"\x80\x02}.", "x/code/__torch__.py": b"", "x/constants.pkl": b"\x80\x02)."},
        {"data.pkl": b"\x80\x02}."},
    ],
    ids=["an empty pickle", "TorchScript", "no folder"],
)
def test_archives_in_torchs_way_are_not_argued_with(members: dict[str, bytes]) -> None:
    whole = archive_of(members)
    assert _torch_zip.parse(lambda at, n: whole[at : at + n], len(whole)).is_torch
