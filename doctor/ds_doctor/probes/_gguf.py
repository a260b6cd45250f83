"""The header of a GGUF file: its keys, its tensors and where they end; reads through the given door only, takes no decision.

A file is the magic, version and counts, the key-value pairs (the vocabulary among them), one record for each tensor, and
the tensors' bytes, each padded to the alignment. Read as ggml/src/gguf.cpp and gguf-py's GGUFReader do, which refuse what
is refused here; the vocabulary is stepped over in windows, so that a header of any length takes the same memory.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from math import prod

import msgspec

from ._safetensors import HeaderError, Place

# Elements and bytes of one block (gguf 0.19: GGML_QUANT_SIZES); those of the second part were published and are refused today.
_TYPES: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
    40: (64, 36), 41: (128, 18),
}  # fmt: skip
_REMOVED = {
    4: ("Q4_2", 0, 0), 5: ("Q4_3", 0, 0), 31: ("Q4_0_4_4", 32, 18), 32: ("Q4_0_4_8", 32, 18), 33: ("Q4_0_8_8", 32, 18),
    36: ("IQ4_NL_4_4", 32, 18), 37: ("IQ4_NL_4_8", 32, 18), 38: ("IQ4_NL_8_8", 32, 18),
}  # fmt: skip
_WHOLE = range(24, 29)  # I8, I16, I32, I64, and F64, in which no weights are stored
_SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a value; GGUFValueType
_STRING, _ARRAY = 8, 9
_VERSIONS = (2, 3)  # gguf-py: READER_SUPPORTED_VERSIONS; gguf.cpp refuses 1, too
_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT
_LONGEST = 1 << 30  # bytes of a string: GGUF_MAX_STRING_LENGTH
_OVERFLOW = 1 << 63

WINDOW = 1 << 20  # bytes read at once
# What a header may cost: the largest vocabularies have about a million strings and take 20 MB, the largest models have
# 2,000 tensors. What goes beyond is not parsed rather than walked for minutes.
_WINDOWS, _STRINGS, _TENSORS, _KEYS = 128, 4_000_000, 200_000, 20_000

Fetch = Callable[[int, int], bytes]
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class TooLong(Exception):
    """The header is longer than anything that is looked through."""


class Layout(msgspec.Struct, frozen=True):
    """What a whole header says. `header_bytes` until the tensors begin; `ends` is the least and the greatest size that the
    file may have (its last tensor with and without padding), None where a type's size is not known. `split`: number from 0
    and count of the parts, the tensors of all parts."""

    version: int
    names: frozenset[str]
    header_bytes: int
    ends: tuple[int, int] | None
    unknown_types: tuple[str, ...] = ()
    split: tuple[int, int, int] | None = None
    places: tuple[Place, ...] = ()


class _Reader:
    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch, self.size = fetch, size
        self.at = 0
        self._data, self._base, self._windows = b"", 0, 0

    def take(self, count: int) -> bytes:
        start = self.at - self._base
        if start + count > len(self._data):
            self._fill(count)
            start = 0
        self.at += count
        return self._data[start : start + count]

    def _fill(self, count: int) -> None:
        if self.at + count > self.size:
            raise _ends_early(self.at + count, self.size)
        self._windows += 1
        if self._windows > _WINDOWS or count > WINDOW:
            raise TooLong
        self._data, self._base = self._fetch(self.at, WINDOW), self.at
        if len(self._data) < count:  # it became shorter while it was read
            raise _ends_early(self.at + count, self.at + len(self._data))

    def u32(self) -> int:
        value: int = _U32.unpack(self.take(4))[0]
        return value

    def u64(self) -> int:
        value: int = _U64.unpack(self.take(8))[0]
        return value

    def string(self) -> bytes:
        return self.take(self.u64())

    def skip(self, count: int) -> None:
        if self.at + count > self.size:
            raise _ends_early(self.at + count, self.size)
        self.at += count

    def skip_strings(self, count: int) -> None:
        length = _U64.unpack_from
        while count:
            if self.at - self._base + 8 > len(self._data):
                self._fill(8)
            data, at, last = self._data, self.at - self._base, len(self._data) - 8
            while count and at <= last:
                at += 8 + length(data, at)[0]
                count -= 1
            self.at = self._base + at
            if self.at > self.size:
                raise _ends_early(self.at, self.size)


def _ends_early(want: int, size: int) -> HeaderError:
    if want - size > _LONGEST:
        return HeaderError("StringTooLong")
    return HeaderError("InvalidHeaderLength", want=want, got=size)


def parse(fetch: Fetch, size: int) -> Layout:
    """The header of a file of `size` bytes. HeaderError when the readers would refuse it (InvalidHeaderLength: the file ends
    within it), TooLong when it is not looked through."""
    reader = _Reader(fetch, size)
    reader.take(4)
    version = reader.u32()
    if version & 0xFFFF == 0 and version:
        raise HeaderError("BigEndian")
    if version not in _VERSIONS:
        raise HeaderError("UnsupportedVersion", want=_VERSIONS[-1], got=version)
    tensors, keys = reader.u64(), reader.u64()
    if tensors >= 1 << 32 or keys >= 1 << 32:
        raise HeaderError("BadCount", got=min(max(tensors, keys), _OVERFLOW))
    if tensors > _TENSORS or keys > _KEYS:
        raise TooLong
    kept = _keys(reader, keys)
    alignment = _alignment(kept)
    records = _records(reader, tensors)
    start = -(-reader.at // alignment) * alignment
    ends, unknown = _extents(records, start, reader.at, alignment)
    split = kept.get("split.no"), kept.get("split.count"), kept.get("split.tensors.count")
    parts = [n for n in split if n is not None]
    return Layout(
        version=version,
        names=frozenset(name for name, *_ in records),
        header_bytes=start,
        ends=ends,
        unknown_types=tuple(sorted(unknown)),
        split=(parts[0], parts[1], parts[2]) if len(parts) == 3 else None,
        places=tuple(_places(records)),
    )


def _keys(reader: _Reader, count: int) -> dict[str, int | None]:
    """All keys; the values of those that matter here as numbers."""
    found: dict[str, int | None] = {}
    strings = 0
    for _ in range(count):
        length = reader.u64()
        if not 0 < length < 1 << 16:  # gguf.md: at most 65,535 bytes
            raise HeaderError("BadKey", got=min(length, _OVERFLOW))
        key = reader.take(length).decode("utf-8", "replace")
        if key in found:
            raise HeaderError("DuplicateKey", tensor=key)
        found[key] = None
        kind = reader.u32()
        if kind == _STRING:
            reader.skip_strings(1)
        elif kind == _ARRAY:
            strings += _skip_array(reader, key, 4)
            if strings > _STRINGS:
                raise TooLong
        elif kind in _SCALARS:
            value = reader.take(_SCALARS[kind])
            if key == "general.alignment" and kind != 4:
                raise HeaderError("BadAlignment")
            if key in ("general.alignment", "split.no", "split.count", "split.tensors.count"):
                found[key] = int.from_bytes(value, "little")
        else:
            raise HeaderError("BadType", tensor=key, got=kind)
    return found


def _skip_array(reader: _Reader, key: str, depth: int) -> int:
    kind, count = reader.u32(), reader.u64()
    if count > _LONGEST:  # GGUF_MAX_ARRAY_ELEMENTS
        raise HeaderError("ArrayTooLong", tensor=key, got=min(count, _OVERFLOW))
    if kind in _SCALARS:
        reader.skip(count * _SCALARS[kind])
        return 0
    if kind == _STRING:
        if reader.at + 8 * count > reader.size:
            raise _ends_early(reader.at + 8 * count, reader.size)
        if count > _STRINGS:
            raise TooLong
        reader.skip_strings(count)
        return count
    if kind != _ARRAY or not depth or count > 1000:
        raise HeaderError("BadType", tensor=key, got=kind)
    return sum(_skip_array(reader, key, depth - 1) for _ in range(count)) + count


def _alignment(keys: dict[str, int | None]) -> int:
    alignment = keys.get("general.alignment") if "general.alignment" in keys else _ALIGNMENT
    if not alignment or alignment & (alignment - 1):
        raise HeaderError("BadAlignment", got=alignment)
    return alignment


_Record = tuple[str, tuple[int, ...], int, int]  # name, dimensions, type, offset


def _records(reader: _Reader, count: int) -> list[_Record]:
    records: list[_Record] = []
    names: set[str] = set()
    for _ in range(count):
        length = reader.u64()
        if length >= 1 << 16:
            raise HeaderError("BadName", got=min(length, _OVERFLOW))
        name = reader.take(length).decode("utf-8", "replace")
        if name in names:
            raise HeaderError("DuplicateTensor", name)
        names.add(name)
        dimensions = reader.u32()
        if dimensions > 8:  # ggml takes 4; other writers of the format go to 5
            raise HeaderError("BadDimensions", name, want=4, got=dimensions)
        rest = struct.unpack(f"<{dimensions}QIQ", reader.take(8 * dimensions + 12))
        records.append((name, rest[:-2], rest[-2], rest[-1]))
    return records


def _bytes_of(name: str, shape: tuple[int, ...], kind: int) -> int | None:
    """None: the type is not known."""
    block, size = _TYPES.get(kind) or _REMOVED.get(kind, ("", 0, 0))[1:]
    if not block:
        return None
    elements = prod(shape)
    if elements >= _OVERFLOW or elements // block * size >= _OVERFLOW:
        raise HeaderError("ValidationOverflow", name)
    if (shape[0] if shape else 1) % block:
        raise HeaderError("BlockSize", name, want=block, got=shape[0] if shape else 1)
    return elements // block * size


def _places(records: list[_Record]) -> Iterator[Place]:
    for name, shape, kind, offset in sorted(records, key=lambda r: r[3]):
        size = _bytes_of(name, shape, kind)
        if size is not None:
            yield Place(name, "I" if kind in _WHOLE else "GGML", shape[::-1], offset, offset + size)


def _extents(
    records: list[_Record], start: int, header: int, alignment: int
) -> tuple[tuple[int, int] | None, set[str]]:
    unknown: set[str] = set()
    end: int | None = 0
    for name, shape, kind, offset in sorted(records, key=lambda r: r[3]):
        due = offset if end is None else -(-end // alignment) * alignment
        if offset != due or offset % alignment:
            raise HeaderError("InvalidOffset", name, want=due, got=min(offset, _OVERFLOW))
        if kind not in _TYPES:
            unknown.add(_REMOVED[kind][0] if kind in _REMOVED else str(kind))
        size = _bytes_of(name, shape, kind)
        end = None if size is None else offset + size
        if end is not None and start + end >= _OVERFLOW:
            raise HeaderError("ValidationOverflow", name)
    if end is None:
        return None, unknown
    if not records:
        return (header, start), unknown
    return (start + end, start + -(-end // alignment) * alignment), unknown
