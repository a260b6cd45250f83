"""The cache of the dynamic loader, /etc/ld.so.cache, in both of its formats; pure, and it looks for nothing."""

from __future__ import annotations

import struct

import msgspec

from ..model import Malformed

PATH = "/etc/ld.so.cache"
LIMIT = 32 << 20
# elf/dl-cache.h: FLAG_ELF_LIBC6 (3) with FLAG_X8664_LIB64 or FLAG_AARCH64_LIB64, by e_machine.
FLAGS = {62: 0x0303, 183: 0x0A03}
HWCAP_EXTENSION = 1 << 62  # elf/dl-cache.h: DL_CACHE_HWCAP_EXTENSION


class Entry(msgspec.Struct, frozen=True):
    """One line of the cache, in the cache's order. `hwcap`: the glibc-hwcaps folder it lies in."""

    name: str
    path: str
    flags: int
    hwcap: str | None = None


def parse(data: bytes) -> list[Entry]:
    """/etc/ld.so.cache in either format (glibc, elf/dl-cache.h). Malformed when it is neither or cut short."""
    order = "<"
    if data.startswith(b"ld.so-1.7.0"):
        return _parse_old(data)
    if not data.startswith(b"glibc-ld.so.cache1.1"):
        raise Malformed("not-a-loader-cache", path=PATH)
    return _parse_new(data, 0, order)


def _parse_old(data: bytes) -> list[Entry]:
    if len(data) < 16:
        raise Malformed("not-a-loader-cache", path=PATH)
    (count,) = struct.unpack_from("<I", data, 12)
    end = 16 + count * 12
    if end > len(data):
        raise Malformed("not-a-loader-cache", path=PATH)
    new = (end + 7) & ~7  # the new format follows at the next multiple of eight, where ldconfig wrote both
    if data.startswith(b"glibc-ld.so.cache1.1", new):
        return _parse_new(data, new, "<")
    entries = []
    for flags, key, value in struct.iter_unpack("<iII", data[16:end]):
        entries.append(Entry(_text(data, end + key), _text(data, end + value), flags))
    return entries


def _parse_new(data: bytes, base: int, order: str) -> list[Entry]:
    if len(data) < base + 48:
        raise Malformed("not-a-loader-cache", path=PATH)
    count, _, flags, extension = struct.unpack_from(order + "IIB3xI", data, base + 20)
    if flags & 3 == 3:  # cache_file_new_flags_endian_big
        order = ">"
        count, _, flags, extension = struct.unpack_from(order + "IIB3xI", data, base + 20)
    start = base + 48
    if start + count * 24 > len(data):
        raise Malformed("not-a-loader-cache", path=PATH)
    names = _hwcap_names(data, base, extension, order) if extension else []
    entries = []
    for kind, key, value, _, hwcap in struct.iter_unpack(order + "iIIIQ", data[start : start + count * 24]):
        named = None  # other bits are those of loaders before glibc 2.37, and mean nothing to later ones
        if hwcap & HWCAP_EXTENSION:
            index = hwcap & 0xFFFFFFFF
            if index >= len(names):
                continue  # glibc passes over what it cannot place
            named = names[index]
        entries.append(Entry(_text(data, base + key), _text(data, base + value), kind, named))
    return entries


def _hwcap_names(data: bytes, base: int, extension: int, order: str) -> list[str]:
    """The names of the glibc-hwcaps folders: the extension's section with tag 1."""
    at = base + extension
    if at + 8 > len(data):
        return []
    magic, count = struct.unpack_from(order + "II", data, at)
    if magic != 0xEAA42174 or at + 8 + count * 16 > len(data):  # cache_extension_magic
        return []
    for tag, _, offset, size in struct.iter_unpack(order + "IIII", data[at + 8 : at + 8 + count * 16]):
        if tag == 1 and base + offset + size <= len(data):
            words = struct.iter_unpack(order + "I", data[base + offset : base + offset + size // 4 * 4])
            return [_text(data, base + w) for (w,) in words]
    return []


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + 8192)
    if end < 0:
        raise Malformed("not-a-loader-cache", path=PATH)
    return data[at:end].decode("utf-8", "replace")
