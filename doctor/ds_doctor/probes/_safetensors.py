"""The header of a safetensors file, judged as the safetensors library judges it; reads no file and takes no decision.

A file is 8 bytes of little-endian header length, a JSON header, the tensors' bytes. The library refuses a file whose
tensors overlap, leave gaps, do not fit shape x dtype, or do not end exactly at the end of the file
(safetensors/src/tensor.rs: Metadata::validate, SafeTensors::read_metadata). The errors here carry its names.
"""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from operator import eq
from typing import Annotated, Any

import msgspec

LENGTH_BYTES = 8
HEADER_LIMIT = 100_000_000  # MAX_HEADER_SIZE in safetensors/src/tensor.rs

# Bits of one element (safetensors 0.8, enum Dtype and Dtype::bitsize).
BITS: dict[str, int] = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip

_Size = Annotated[int, msgspec.Meta(ge=0)]
_Shape = Annotated[tuple[_Size, ...], msgspec.Meta(max_length=64)]  # torch's own limit; keeps a hostile product small
_OVERFLOW = 1 << 63  # bytes; beyond it the library's arithmetic ends


class HeaderError(Exception):
    """Why the library would refuse the header: its own error name, and the tensor and numbers where it has them."""

    def __init__(self, error: str, tensor: str | None = None, want: int | None = None, got: int | None = None) -> None:
        super().__init__(error, tensor, want, got)
        self.error = error
        self.tensor = tensor
        self.want = want
        self.got = got


# Tensors that are alike: the name with every number but the layer's as `*`, the dtype, the shape.
Kind = tuple[str, str | None, tuple[int, ...] | None]


class Layout(msgspec.Struct, frozen=True):
    """What a whole header says: the tensors' names, the bytes they take, the dtypes that are not known here, how many
    there are of each kind."""

    names: frozenset[str]
    data_bytes: int
    unknown_dtypes: tuple[str, ...] = ()
    kinds: Counter[Kind] = Counter()


class _Tensor(msgspec.Struct, frozen=True, gc=False):
    # All may be missing, so that `__metadata__` decodes in the same pass; what a tensor lacks is looked for after.
    dtype: str | None = None
    shape: _Shape | None = None
    data_offsets: tuple[_Size, _Size] | None = None


class _OnlyMetadata(msgspec.Struct):
    metadata: dict[str, str] | None = msgspec.field(default=None, name="__metadata__")


_DECODER = msgspec.json.Decoder(dict[str, _Tensor])
_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_METADATA = msgspec.json.Decoder(dict[str, str] | None)
_USUAL = re.compile(rb'\{"__metadata__": ?\{"format": ?"\w{1,10}"\}')
# Of an expert, of a part; what stands before it is looked at only where there is a number: ten times as fast.
_NUMBER = re.compile(r"\.(?=[0-9])(?<!layers\.)(?<!layer\.)(?<!blocks\.)(?<!block\.)(?<![.\n]h\.)[0-9]+(?=\.)")
_NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, OverflowError)


def header_length(first: bytes, file_bytes: int) -> int:
    """The header's length out of the file's first bytes. HeaderError when it cannot be one."""
    if len(first) < LENGTH_BYTES:
        raise HeaderError("HeaderTooSmall", want=LENGTH_BYTES, got=file_bytes)
    length = int.from_bytes(first[:LENGTH_BYTES], "little")
    if length > HEADER_LIMIT:
        raise HeaderError("HeaderTooLarge", want=HEADER_LIMIT, got=length)
    if LENGTH_BYTES + length > file_bytes:
        raise HeaderError("InvalidHeaderLength", want=LENGTH_BYTES + length, got=file_bytes)
    return length


def parse(header: bytes) -> Layout:
    """The layout that a header describes. HeaderError when the library would refuse it."""
    tensors = _decode(header)
    if not tensors:
        return Layout(frozenset(), 0)
    by_place = sorted(tensors.items(), key=_place)
    infos = [info for _, info in by_place]
    begins = [info.data_offsets[0] for info in infos]  # type: ignore[index]
    ends = [info.data_offsets[1] for info in infos]  # type: ignore[index]
    # One pass in C for the ordinary file; only a file that fails it is walked tensor by tensor for the culprit.
    if begins[0] != 0 or not all(map(eq, begins[1:], ends)) or ends[-1] < begins[-1]:
        _name_misplaced(by_place)
    if ends[-1] >= _OVERFLOW:
        raise HeaderError("ValidationOverflow", by_place[-1][0])
    sizes = [prod(info.shape) * BITS.get(info.dtype, 0) for info in infos]  # type: ignore[arg-type]
    if sizes != [(end - begin) * 8 for begin, end in zip(begins, ends, strict=True)]:
        _name_misshapen(by_place)
    unknown = {info.dtype for info in infos} - BITS.keys()
    return Layout(frozenset(tensors), ends[-1], tuple(sorted(map(str, unknown))), _kinds(tensors))


class Place(msgspec.Struct, frozen=True, gc=False):
    """One tensor: where its bytes begin and end, counted from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def places(header: bytes) -> list[Place]:
    """The tensors in the order of their bytes. HeaderError when it is no header; whether they fit together is not looked at."""
    found = [
        Place(name, t.dtype, t.shape, *t.data_offsets)
        for name, t in _decode(header).items()
        if t.dtype is not None and t.shape is not None and t.data_offsets is not None
    ]
    return sorted(found, key=lambda p: (p.begin, p.end))


def _kinds(tensors: dict[str, _Tensor]) -> Counter[Kind]:
    # One substitution over all names: 100,000 of them one by one would take three times as long.
    names = _NUMBER.sub(".*", "\n" + "\n".join(tensors))[1:].split("\n")
    if len(names) != len(tensors):  # a name with a line break in it
        names = [_NUMBER.sub(".*", "\n" + name)[1:] for name in tensors]
    infos = tensors.values()
    return Counter(zip(names, [i.dtype for i in infos], [i.shape for i in infos], strict=True))


def _place(item: tuple[str, Any]) -> Any:
    return item[1].data_offsets


def _decode(header: bytes) -> dict[str, _Tensor]:
    try:  # our decoder passes over what it does not keep, the library does not
        _ = header.isascii() or header.decode()
    except UnicodeError:
        raise HeaderError("InvalidHeaderDeserialization") from None
    try:
        tensors = _DECODER.decode(header)
        if tensors.pop("__metadata__", None) is not None and not _USUAL.match(header):
            msgspec.json.decode(header, type=_OnlyMetadata)
    except _NOT_JSON:
        tensors = _decode_apart(header)
    for name, info in tensors.items():
        if info.data_offsets is None or info.shape is None or info.dtype is None:
            raise HeaderError("InvalidHeaderDeserialization", tensor=name)
    return tensors


def _decode_apart(header: bytes) -> dict[str, _Tensor]:
    """The slow way: a `__metadata__` may hold any words, also ones that look like a tensor's fields."""
    name: str | None = None
    try:
        raw = _RAW.decode(header)
        metadata = raw.pop("__metadata__", None)
        if metadata is not None:
            name = "__metadata__"
            _METADATA.decode(metadata)
        tensors = {}
        for name, value in raw.items():
            tensors[name] = msgspec.json.decode(value, type=_Tensor)
        return tensors
    except _NOT_JSON:
        raise HeaderError("InvalidHeaderDeserialization", tensor=name) from None


def _name_misplaced(by_place: list[tuple[str, _Tensor]]) -> None:
    due = 0
    for name, info in by_place:
        begin, end = info.data_offsets or (0, 0)
        if begin != due or end < begin:
            got = begin if begin != due else end
            raise HeaderError("InvalidOffset", name, want=due, got=min(got, _OVERFLOW))
        if end >= _OVERFLOW:
            raise HeaderError("ValidationOverflow", name)
        due = end


def _name_misshapen(by_place: list[tuple[str, _Tensor]]) -> None:
    for name, info in by_place:
        begin, end = info.data_offsets or (0, 0)
        bits = BITS.get(info.dtype or "")
        if bits is None:
            continue
        want = prod(info.shape or ()) * bits
        if want >= _OVERFLOW:
            raise HeaderError("ValidationOverflow", name)
        if want != (end - begin) * 8:
            raise HeaderError("TensorInvalidInfo", name, want=-(-want // 8), got=end - begin)
