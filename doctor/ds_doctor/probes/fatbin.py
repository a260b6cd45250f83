"""Which GPU architectures a library's kernels were compiled for, read from its fatbin headers; never unpacks a kernel, never judges.

nvcc puts one container for each translation unit into the ELF section .nv_fatbin, one after the other:
    container  u32 magic 0xBA55ED50, u16 version, u16 header bytes, u64 bytes that follow
    entry      u16 kind (1 PTX, 2 SASS), u16 version, u32 header bytes, u64 payload bytes, ... u32 architecture at 28,
               u64 flags at 40 (bit 20: suffix a, bit 21: suffix f)
Tried against what nvcc 13.0 writes, and against libraries whose architectures are known. The payload is skipped unread.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..api import Host, Malformed, Trouble

MAGIC = 0xBA55ED50
MAGIC_BYTES = struct.pack("<I", MAGIC)
SUFFIX_A, SUFFIX_F = 1 << 20, 1 << 21
FIRST = 24  # containers read from the start of the section
PLACES = 12  # further places, evenly spread, where a container is looked for
WINDOW = 256 << 10  # bytes looked through at such a place
READS = 600  # pieces of the file in all: a few milliseconds
PIECE = 4096
ENTRIES = 64  # of one container; nvcc writes one or two for each architecture
# A few translation units are compiled for one architecture only (FP8 and grouped GEMM of torch). What at least a quarter
# of the sampled units holds is what the library as a whole was built for.
SHARE = 0.25


class _Reader:
    """Small reads of one file, with the last piece kept."""

    def __init__(self, host: Host, path: str) -> None:
        self.host, self.path, self.left = host, path, READS
        self.start, self.kept = 0, b""

    def at(self, offset: int, size: int) -> bytes:
        """Exactly `size` bytes. Malformed at the end of the file or when enough has been read."""
        if not (self.start <= offset and offset + size <= self.start + len(self.kept)):
            self.left -= 1
            if self.left < 0:
                raise Malformed("fatbin-too-long", path=self.path)
            self.start, self.kept = offset, self.host.read_at(self.path, offset, max(size, PIECE))
        piece = self.kept[offset - self.start : offset - self.start + size]
        if len(piece) < size:
            raise Malformed("fatbin-cut", path=self.path)
        return piece


def section(host: Host, path: str, name: bytes = b".nv_fatbin") -> tuple[int, int] | None:
    """(offset, size) of a section of a 64-bit little-endian ELF file, None when it has no such section."""
    head = host.read_at(path, 0, 64)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        raise Malformed("not-elf", path=path)
    table, entry, count, names = struct.unpack_from("<Q", head, 40) + struct.unpack_from("<3H", head, 58)
    if entry < 64 or not 0 < count < 4096 or names >= count:
        raise Malformed("not-elf", path=path)
    headers = host.read_at(path, table, entry * count)
    if len(headers) < entry * count:
        raise Malformed("not-elf", path=path)
    offset, size = struct.unpack_from("<2Q", headers, names * entry + 24)
    texts = host.read_at(path, offset, min(size, 1 << 16))
    for i in range(count):
        (at,) = struct.unpack_from("<I", headers, i * entry)
        if texts[at : at + len(name) + 1] == name + b"\0":
            place: tuple[int, int] = struct.unpack_from("<2Q", headers, i * entry + 24)
            return place
    return None


def parse_entry(header: bytes) -> str | None:
    """`sm_90`, `sm_90a`, `compute_90` out of the first 48 bytes of an entry; None for another kind, or less."""
    if len(header) < 48:
        return None
    kind, arch, flags = (
        *struct.unpack_from("<H", header),
        *struct.unpack_from("<I", header, 28),
        *struct.unpack_from("<Q", header, 40),
    )
    if kind not in (1, 2) or not 20 <= arch < 1000:
        return None
    suffix = "a" if flags & SUFFIX_A else "f" if flags & SUFFIX_F else ""
    return f"{'compute' if kind == 1 else 'sm'}_{arch}{suffix}"


def _container(reader: _Reader, offset: int, end: int) -> tuple[frozenset[str], int] | None:
    """What one container holds, and where it ends; None where no container stands."""
    magic, _, head, size = struct.unpack("<IHHQ", reader.at(offset, 16))
    if magic != MAGIC or not 16 <= head <= 256 or offset + head + size > end:
        return None
    stop = offset + head + size
    at, arches = offset + head, set()
    for _ in range(ENTRIES):
        if at + 48 > stop:
            break
        entry = reader.at(at, 48)
        header, payload = struct.unpack_from("<IQ", entry, 4)
        if header < 48 or at + header + payload > stop:
            return None
        arch = parse_entry(entry)
        if arch is not None:
            arches.add(arch)
        at += header + payload
    return frozenset(arches), stop


def _sample(reader: _Reader, start: int, size: int) -> Iterator[frozenset[str]]:
    """The containers at the start of the section, then some at even distances. Stops quietly at what it cannot follow."""
    end = start + size
    at, seen = start, set()
    try:
        for _ in range(FIRST):
            if at + 16 > end:
                return
            got = _container(reader, at, end)
            if got is None:
                break
            seen.add(at)
            yield got[0]
            at = (got[1] + 7) & ~7
        for i in range(1, PLACES + 1):
            place = (at + (end - at) * i // (PLACES + 1)) & ~7
            window = reader.host.read_at(reader.path, place, min(WINDOW, end - place))
            found = window.find(MAGIC_BYTES)
            while found >= 0:
                got = _container(reader, place + found, end) if (place + found) % 8 == 0 else None
                if got is not None and got[0]:
                    if place + found not in seen:
                        seen.add(place + found)
                        yield got[0]
                    break
                found = window.find(MAGIC_BYTES, found + 4)
    except Trouble:
        return


def arches(host: Host, path: str) -> tuple[str, ...] | None:
    """The architectures that the library as a whole was compiled for; None when it holds no kernels that can be read."""
    place = section(host, path)
    if place is None:
        return None
    sampled = [s for s in _sample(_Reader(host, path), *place) if s]
    if not sampled:
        return None
    every = set().union(*sampled)
    return tuple(sorted((a for a in every if sum(a in s for s in sampled) >= SHARE * len(sampled)), key=_order))


def _order(arch: str) -> tuple[int, str]:
    digits = "".join(c for c in arch if c.isdigit())
    return int(digits or 0), arch
