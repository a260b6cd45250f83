"""The zip directory of a file that torch.save wrote: its members, where they lie, where the file ends; never unpickles, takes no decision.

torch.save writes a zip archive of stored members: `<name>/data.pkl` (a pickle, which can run any code when it is loaded: it is
left alone), `<name>/data/0` and on (the tensors' bytes), `<name>/version`. torch reads the directory at the archive's end, as is
done here (caffe2/serialize/inline_container.cc; the format: PKWARE's APPNOTE.TXT). Before torch 1.6 it was a bare pickle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import msgspec

from ._safetensors import HeaderError

END = b"PK\x05\x06"  # end of central directory; at most 22 bytes and a comment of 65,535 before the file's end
TAIL = 22 + 65_535
# The pickled magic number that torch.load asks for in a file that is no zip (torch/serialization.py: MAGIC_NUMBER, _legacy_load).
LEGACY_MAGIC = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"
TAR_MEMBERS = (
    b"sys_info",
    b"pickle",
    b"storages",
    b"tensors",
)  # of torch's oldest format, a tar archive (_load: legacy_load)
_APPENDED = 8 << 20  # bytes searched for the directory's end where something was written after it
_ZEROS = 64  # bytes; a directory's last ones are never all zero
_DIRECTORY = 32 << 20  # bytes of a directory; one of 100,000 members takes about 8 MB
_LOCAL_HEADERS = 200  # looked at beside the directory, spread over the file: one read each
_FULL = 0xFFFFFFFF  # the real number is in the zip64 field

Fetch = Callable[[int, int], bytes]


class TooLong(Exception):
    """The directory is longer than anything that is looked through."""


class Layout(msgspec.Struct, frozen=True):
    """Of an archive: whether torch wrote it, how many tensors' storages it has, how long the file has to be."""

    is_torch: bool
    storages: int
    size: int


class _Member(msgspec.Struct, frozen=True, gc=False):
    name: bytes
    offset: int
    stored: int
    plain: int
    method: int
    streamed: bool  # its sizes stand behind it, not in its local header


def parse(fetch: Fetch, size: int) -> Layout:
    """The archive's directory. HeaderError when torch could not read it (NoCentralDirectory: the file ends before it; EndIsZeros: zeros stand
    in its place),
    TooLong when it is not looked through."""
    end_at, start, end, gap = _directory(fetch, size)
    comment = int.from_bytes(fetch(end_at + 20, 2), "little")
    members = sorted(_members(fetch(start, end - start)), key=lambda m: m.offset)
    names = [m.name.partition(b"/")[2] or m.name for m in members]
    storages = sum(name.startswith(b"data/") for name in names)
    is_torch = b"data.pkl" in names or b"version" in names or storages > 0
    if is_torch:
        if b"data.pkl" not in names:
            raise HeaderError("NoDataPkl")
        _places(fetch, members, start)
    return Layout(is_torch, storages, end_at - gap + 22 + comment)


def _directory(fetch: Fetch, size: int) -> tuple[int, int, int, int]:
    """Where the end record stands, where the directory starts and ends, and the bytes between that and its end records,
    where nothing belongs."""
    found = False
    for at in _end_records(fetch, size):
        record = fetch(at, 22)
        if len(record) < 22:
            continue  # cut off within it
        found = True
        length, start = struct.unpack("<II", record[12:20])
        entries, end = int.from_bytes(record[10:12], "little"), at
        locator = fetch(at - 20, 20) if at >= 20 else b""
        if locator.startswith(b"PK\x06\x07"):
            end = int.from_bytes(locator[8:16], "little")
            wide = fetch(end, 56) if end + 56 <= at else b""
            if not wide.startswith(b"PK\x06\x06") or len(wide) < 56:
                continue
            entries, length, start = struct.unpack("<QQQ", wide[32:56])
        if length > _DIRECTORY and start + length <= end:
            raise TooLong
        if start + length > end or length < 46 * entries:
            continue
        if not entries or fetch(start, 4) == b"PK\x01\x02":
            return at, start, start + length, end - (start + length)
    if not found and not fetch(max(0, size - _ZEROS), _ZEROS).strip(b"\0"):
        raise HeaderError("EndIsZeros")  # room that was reserved and never filled
    raise HeaderError("BadZipDirectory" if found else "NoCentralDirectory")


def _end_records(fetch: Fetch, size: int) -> Iterator[int]:
    """Places of what looks like the end record, the last first; a bounded number."""
    left = 16
    upto = size
    while upto > 0 and size - upto < _APPENDED:
        start = max(0, upto - (TAIL if upto == size else 1 << 20))
        data = fetch(start, upto - start + 3)
        at = data.rfind(END)
        while at >= 0 and left:
            yield start + at
            left -= 1
            at = data.rfind(END, 0, at)
        upto = start


def _members(data: bytes) -> Iterator[_Member]:
    at = 0
    while at + 46 <= len(data):
        if data[at : at + 4] != b"PK\x01\x02":
            raise HeaderError("BadZipDirectory")
        flags, method = struct.unpack_from("<HH", data, at + 8)
        stored, plain, name_length, extra, comment = struct.unpack_from("<IIHHH", data, at + 20)
        offset = int.from_bytes(data[at + 42 : at + 46], "little")
        name = data[at + 46 : at + 46 + name_length]
        more = data[at + 46 + name_length : at + 46 + name_length + extra]
        plain, stored, offset = _wide(more, plain, stored, offset)
        yield _Member(name, offset, stored, plain, method, bool(flags & 8))
        at += 46 + name_length + extra + comment
    if at != len(data):
        raise HeaderError("BadZipDirectory")


def _wide(extra: bytes, *narrow: int) -> tuple[int, int, int]:
    """The numbers with those that did not fit taken from the zip64 field."""
    at = 0
    wide = b""
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = extra[at + 4 : at + 4 + length]
        at += 4 + length
    numbers = []
    for number in narrow:
        if number == _FULL and len(wide) >= 8:
            number, wide = int.from_bytes(wide[:8], "little"), wide[8:]
        numbers.append(number)
    return numbers[0], numbers[1], numbers[2]


def _places(fetch: Fetch, members: list[_Member], directory: int) -> None:
    """HeaderError unless all members lie before the directory, one after the other, and their own headers agree."""
    ends = [m.offset for m in members[1:]] + [directory]
    for member, end in zip(members, ends, strict=True):
        least = member.offset + 30 + len(member.name) + member.stored
        if least > end:
            error = "MemberOutside" if least > directory else "MembersOverlap"
            raise HeaderError(error, _shown(member), want=least, got=end)
        if member.method == 0 and member.stored != member.plain:
            raise HeaderError("StoredSize", _shown(member), want=member.plain, got=member.stored)
    step = -(-len(members) // _LOCAL_HEADERS)
    for member, end in list(zip(members, ends, strict=True))[::step]:
        local = fetch(member.offset, 30 + len(member.name))
        if len(local) < 30 or local[:4] != b"PK\x03\x04" or local[30:] != member.name:
            raise HeaderError("LocalHeaderDiffers", _shown(member))
        stored, plain, _, extra = struct.unpack_from("<IIHH", local, 18)
        known = not member.streamed and _FULL not in (stored, plain)
        if known and (stored, plain) != (member.stored, member.plain):
            raise HeaderError("LocalHeaderDiffers", _shown(member), want=member.stored, got=stored)
        least = member.offset + len(local) + extra + member.stored
        if least > end:
            raise HeaderError("MembersOverlap", _shown(member), want=least, got=end)


def _shown(member: _Member) -> str:
    return member.name.decode("utf-8", "replace")
