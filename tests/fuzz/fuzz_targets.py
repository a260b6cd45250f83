"""What is fuzzed: each target takes any bytes and tells what came of them in a few words; whatever else is raised is a bug.

Each of the words that a target returns counts as coverage beside the lines it ran, so that what is decided in C (regular expressions, msgspec)
guides the search, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from ds_doctor.manifest import Entry, Manifest, NotAManifest, parse, write, write_sums
from ds_doctor.model import Malformed
from ds_doctor.probes import _gguf, _hub_records, _plain_pickle, _safetensors, _shard_index, _sniff, _torch_zip

try:
    from safetensors import SafetensorError, deserialize
except ImportError:  # the library is asked only where it is
    deserialize = None

Outcome = tuple[Any, ...]
LISTS = ("SHA256SUMS", "x.sha256", "b2sums")
DIGITS = {"md5": 32, "sha1": 40, "git-sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
DATA = 1 << 16  # bytes of tensors with which the library is asked


def manifest(data: bytes) -> Outcome:
    """A list of checksums of any kind; the first byte chooses how the list is called."""
    name = LISTS[data[0] % len(LISTS)] if data else LISTS[0]
    try:
        found = parse(data[1:], name)
    except NotAManifest as e:
        assert e.line is None or e.line > 0
        return e.why, e.line is not None
    _check(found)
    again = parse(write(found.entries, repo=found.repo, revision=found.revision), name)
    assert set(map(_key, again.entries)) == set(map(_key, found.entries)), "our own manifest loses something"
    sums = [e for e in found.entries if "sha256" in e.digests and e.name != "SHA256SUMS"]
    if sums and not all(e.name.startswith(" ") for e in sums):
        back = parse(write_sums(sums), "SHA256SUMS")
        assert {e.name: e.digests for e in back.entries} == {e.name: {"sha256": e.digests["sha256"]} for e in sums}
    shapes = {(e.size is None, *sorted(e.digests)) for e in found.entries[:20]}
    return found.kind, found.repo is None, *sorted({p.id for p in found.problems}), min(len(shapes), 3)


def _key(entry: Entry) -> tuple[Any, ...]:
    return entry.name, entry.size, *sorted(entry.digests.items())


def _check(found: Manifest) -> None:
    for entry in found.entries:
        assert "\0" not in entry.name and not entry.name.startswith("/")
        assert all(part not in ("", ".", "..") for part in entry.name.split("/"))
        os.fsencode(entry.name)
        assert entry.size is None or 0 <= entry.size < 1 << 63
        for algorithm, digest in entry.digests.items():
            assert len(digest) == DIGITS[algorithm] and set(digest) <= set("0123456789abcdef")
    assert len({e.name for e in found.entries}) == len(found.entries)
    assert all(p.text.isprintable() and len(p.text) <= 120 for p in found.problems)
    json.dumps([found.repo, found.revision, [p.text for p in found.problems]], ensure_ascii=False).encode()


def safetensors_file(data: bytes) -> Outcome:
    """A whole safetensors file: taken or refused as the library does."""
    try:
        length = _safetensors.header_length(data, len(data))
        assert 8 + length <= len(data)
        layout = _safetensors.parse(data[8 : 8 + length])
        whole = 8 + length + layout.data_bytes == len(data) and not layout.unknown_dtypes
        outcome: Outcome = ("whole" if whole else "layout", bool(layout.unknown_dtypes), min(len(layout.names), 3))
    except _safetensors.HeaderError as e:
        assert all(n is None or 0 <= n < 1 << 64 for n in (e.want, e.got))
        whole = False
        outcome = (e.error, e.tensor is None)
    _agree(whole, data)
    return outcome


def safetensors_header(data: bytes) -> Outcome:
    """A safetensors header: where we take it, the library takes the file that it describes."""
    try:
        layout = _safetensors.parse(data)
    except _safetensors.HeaderError as e:
        size = _claimed(data)
        if size is not None:
            _agree(False, len(data).to_bytes(8, "little") + data + b"\0" * size)
        return e.error, e.tensor is None, e.want is None
    assert 0 <= layout.data_bytes < 1 << 63
    assert sum(layout.kinds.values()) == len(layout.names)
    if layout.data_bytes <= DATA:
        file = len(data).to_bytes(8, "little") + data + b"\0" * layout.data_bytes
        _agree(not layout.unknown_dtypes, file)
    return "layout", bool(layout.unknown_dtypes), min(len(layout.names), 4), min(len(layout.kinds), 4)


def _claimed(header: bytes) -> int | None:
    """The bytes of tensors that a header speaks of, read as leniently as can be."""
    try:
        value = json.loads(header)
        ends = [v["data_offsets"][1] for k, v in value.items() if k != "__metadata__"]
        size = max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return None
    return size if isinstance(size, int) and 0 <= size <= DATA else None


def _agree(we_take_it: bool, file: bytes) -> None:
    if deserialize is None or _odd(file[8 : 8 + int.from_bytes(file[:8], "little")]):
        return
    try:
        deserialize(file)
    except SafetensorError as e:
        assert not we_take_it, f"the library refuses it: {e}"
    else:
        assert we_take_it, "the library takes it"


class _Odd(Exception):
    pass


def _odd(header: bytes) -> bool:
    """Whether a header has what no writer writes and where the two are known to differ: a key twice in one object (the library refuses most of
    them, we take the last), a whole number written as 1.0 (we take it), a tensor as a list (the library takes it)."""

    def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise _Odd
        return dict(pairs)

    def float_of(text: str) -> float:
        if float(text).is_integer():
            raise _Odd
        return float(text)

    try:
        value = json.loads(header, object_pairs_hook=object_of, parse_float=float_of)
    except _Odd:
        return True
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and any(isinstance(v, list) for v in value.values())


def shard_index(data: bytes) -> Outcome:
    """A shard index: it agrees with itself, and what it says can be told."""
    try:
        index = _shard_index.parse(data)
    except _shard_index.NotAnIndex as e:
        return (str(e),)
    assert index.total_size is None or 0 <= index.total_size < 1 << 63
    headers = {name: frozenset(tensors) for name, tensors in index.tensors_of.items()}
    assert _shard_index.compare(index, headers) == _shard_index.Disagreement()
    lost = _shard_index.compare(index, {name: frozenset() for name in headers})
    assert len(lost.absent) + len(lost.absent_heads) == len(set().union(*headers.values()))
    escapes = [name for name in headers if _shard_index.escapes(name)]
    for name in headers:
        if name not in escapes:
            assert os.path.normpath(os.path.join("/m", name)).startswith("/m")
    json.dumps(list(_shard_index.names_of(headers).first), ensure_ascii=False).encode()
    return "index", index.total_size is None, bool(escapes), min(len(headers), 3)


def first_bytes(data: bytes) -> Outcome:
    """The first bytes of a file that should hold weights."""
    size = _sniff.pointer_size(data)
    assert size is None or size >= 0
    return _sniff.sniff(data), size is None


def gguf(data: bytes) -> Outcome:
    """A GGUF file."""
    try:
        layout = _gguf.parse(lambda at, count: data[at : at + count], len(data))
    except _gguf.TooLong:
        return ("too long",)
    except _safetensors.HeaderError as e:
        return _told(e)
    assert 0 < layout.header_bytes < 1 << 63
    if layout.ends is not None:
        assert 0 < layout.ends[0] <= layout.ends[1] < 1 << 64
    whole = layout.ends is not None and layout.ends[0] <= len(data) <= layout.ends[1]
    return (
        "whole" if whole else "layout",
        layout.version,
        min(len(layout.names), 3),
        layout.unknown_types[:1],
        layout.split is None,
    )


def torch_zip(data: bytes) -> Outcome:
    """A file of torch.save."""
    try:
        layout = _torch_zip.parse(lambda at, count: data[max(0, at) : max(0, at) + count], len(data))
    except _torch_zip.TooLong:
        return ("too long",)
    except _safetensors.HeaderError as e:
        return _told(e)
    assert layout.size > 0 and layout.storages >= 0
    return "torch" if layout.is_torch else "zip", layout.size == len(data), min(layout.storages, 3)


def _told(e: _safetensors.HeaderError) -> Outcome:
    assert all(n is None or 0 <= n < 1 << 64 for n in (e.want, e.got)), "a snapshot must hold the numbers"
    return e.error, e.tensor is None, e.want is None


def plain_pickle(data: bytes) -> Outcome:
    """A pickle that is read without being run."""
    try:
        value = _plain_pickle.read(data)
    except _plain_pickle.NotPlain as e:
        return "not plain", str(e)
    return (type(value).__name__,)


def hub_records(data: bytes) -> Outcome:
    """What huggingface_hub writes beside a download."""
    outcome: list[object] = []
    try:
        record = _hub_records.parse_record(data.decode("utf-8", "surrogateescape"), "x")
        assert len(record.commit) == 40
        outcome.append(_hub_records.algorithm_of(record.etag))
    except Malformed:
        outcome.append("malformed")
    try:
        tree = _hub_records.parse_tree(data)
        outcome.append(tuple(sorted({file.algorithm for file in tree.values()})))
    except Malformed:
        outcome.append("malformed")
    return tuple(outcome)


TARGETS: dict[str, Callable[[bytes], Outcome]] = {
    "manifest": manifest,
    "safetensors_file": safetensors_file,
    "safetensors_header": safetensors_header,
    "shard_index": shard_index,
    "first_bytes": first_bytes,
    "gguf": gguf,
    "torch_zip": torch_zip,
    "plain_pickle": plain_pickle,
    "hub_records": hub_records,
}

# Words of the formats: what blind changes would take long to hit on.
WORDS: dict[str, list[bytes]] = {
    "manifest": [
        *(b"a" * 64, b"b" * 64, b"1" * 40, b"2" * 32, b"3" * 128, b"A" * 64, b"a" * 63),
        *(b"  ", b" *", b"\\", b"\\\\", b"\\n", b"\\r", b"\n", b"\r\n", b"\0", b"\t", b"SHA256 (", b"SHA2-256(", b"MD5 (", b") = ", b")= "),
        *(b"sha256:", b": ", b" = ", b"../", b"..", b"./", b"/", b"# ", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"-", b"stdin", b"x"),
        *(b"-----BEGIN PGP SIGNED MESSAGE-----\n\n", b"-----BEGIN PGP SIGNATURE-----", b"BLAKE2b (", b"\xe2\x80\xa6", b"..."),
        *(b"version https://git-lfs.github.com/spec/v1\noid sha256:", b"\nsize ", b" * ", b" - ", b" (1 B)"),
        *(b'{"', b'": ', b'", "', b"[", b"]", b"{", b"}", b",", b"null", b"1", b"18446744073709551616", b"-1", b"1.5", b"\\ud800"),
        *(b'"path": "x"', b'"rfilename": "x"', b'"Path": "x"', b'"name": "x"', b'"raw": "ff"', b'"size": 1', b'"oid": "', b'"lfs": {', b'"sha256": "'),
        *(b'"siblings": [', b'"Data": {"Files": [', b'"files": [', b'"schema": "ds-doctor.manifest/1"', b'"sha": "x"', b'"id": "x/y"'),
        *(b'"type": "directory"', b'"Type": "tree"', b'"blobId": "', b'"oid_type": "sha256"', b'"git-sha1": "'),
    ],
    "safetensors_header": [
        *(b'"__metadata__": {"format": "pt"}', b'"__metadata__": {}', b'"dtype": "F32"', b'"dtype": "BF16"', b'"dtype": "F4"', b'"dtype": "X"'),
        *(b'"shape": []', b'"shape": [2]', b'"shape": [0]', b'"data_offsets": [0,4]', b'"data_offsets": [4,8]', b'"data_offsets": [0,0]'),
        *(b'{"', b'": {', b"}", b"[", b"]", b",", b" ", b"null", b"-1", b"-0", b"0", b"1", b"4", b"8", b"1e2", b"1.0", b"9223372036854775808"),
        *(b'"a": ', b'"b": ', b"\\u0061", b"\\ud800", b"\xff", b"\xef\xbb\xbf", b"\0"),
    ],
    "shard_index": [
        *(b'{"weight_map": {', b'"metadata": {"total_size": 8}', b'"a": "m.safetensors"', b'"lm_head.weight": "n"', b'"total_size": -1', b"1.5"),
        *(b'"../x"', b'"/x"', b'"./x"', b'""', b"null", b"{}", b"[]", b",", b"}", b"\\u0000", b"\\ud800", b"1e400", b"18446744073709551616"),
    ],
    "first_bytes": [
        *(b"version https://git-lfs.github.com/spec/v1", b"\nsize 12\n", b"GGUF", b"PK\x03\x04", b"PK\x05\x06", b"\0" * 8),
        *(b"<!doctype html", b"<html", b"<?xml", b"<Error", b"\xef\xbb\xbf", b" ", b"\n", b"{"),
    ],
}  # fmt: skip
_NUMBERS = [
    n.to_bytes(size, "little") for size in (4, 8) for n in (0, 1, 2, 3, 4, 8, 9, 32, 255, 1 << 31, (1 << 32) - 1)
]
WORDS["gguf"] = [
    *(
        b"GGUF\3\0\0\0",
        b"general.alignment",
        b"split.no",
        b"split.count",
        b"split.tensors.count",
        b"tokenizer.ggml.tokens",
        b"a.weight",
    ),
    *_NUMBERS,
    *(n.to_bytes(8, "little") for n in (1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1)),
]
WORDS["torch_zip"] = [
    *(
        b"PK\1\2",
        b"PK\3\4",
        b"PK\5\6",
        b"PK\6\6",
        b"PK\6\7",
        b"\1\0\x10\0",
        b"x/data.pkl",
        b"x/data/0",
        b"x/version",
        b"\xff" * 4,
        b"\xff" * 8,
    ),
    *_NUMBERS,
]
WORDS["plain_pickle"] = [
    *(
        b"\x80\4",
        b"\x80\2",
        b"\x95",
        b"]",
        b"}",
        b"(",
        b"l",
        b"d",
        b"a",
        b"e",
        b"s",
        b"u",
        b"q\0",
        b"h\0",
        b"r\0\0\0\0",
        b"j\0\0\0\0",
        b"\x94",
    ),
    *(
        b".",
        b"N",
        b"\x88",
        b"\x8c\4Path",
        b"X\1\0\0\0a",
        b"\x8d",
        b"I1\n",
        b"L1L\n",
        b"F1.5\n",
        b"G",
        b"K\1",
        b"M\1\0",
        b"J",
        b"\x8a\1\1",
    ),
    *(
        b"cos\nsystem\n",
        b"R",
        b"\x93",
        b"0",
        b"2",
        b"1",
        b"P",
        b"Q",
        b"S'a'\n",
        b"T\1\0\0\0a",
        b"U\1a",
        b"V\\ud800\n",
        b"\x8b",
        b"\xff" * 8,
    ),
]
WORDS["hub_records"] = [
    *(
        b"1" * 40,
        b"a" * 64,
        b"\n",
        b'W/"',
        b'"',
        b"1718000000.0",
        b'{"format_version": 1, "files": {',
        b'"a": {',
        b'"size": 1',
        b'"blob_id": "',
    ),
    *(b'"lfs_sha256": "', b'"lfs_size": 2', b"null", b"}", b",", b"\r\n", b"\xff"),
]
WORDS["safetensors_file"] = [(n).to_bytes(8, "little") for n in (0, 2, 8, 64, 1 << 60)] + WORDS["safetensors_header"]
