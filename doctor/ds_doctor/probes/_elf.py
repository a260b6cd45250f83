"""The little of an ELF file that the loader looks at: class, machine, NEEDED, SONAME, RPATH, RUNPATH; never loads anything.

Read with a handful of short reads, since torch's libraries have half a gigabyte. Everything in the file is taken as
hostile: every offset and length is bounded.
"""

from __future__ import annotations

import struct

import msgspec

from ..host import Host
from ..model import Malformed

PT_LOAD, PT_DYNAMIC = 1, 2
DT_NULL, DT_NEEDED, DT_STRTAB, DT_SONAME, DT_RPATH, DT_RUNPATH, DT_FLAGS_1 = 0, 1, 5, 14, 15, 29, 0x6FFFFFFB
DF_1_NODEFLIB = 0x800
PN_LIMIT = 512  # program headers; real files have about ten
DYNAMIC_LIMIT = 1 << 16  # bytes
STRING_LIMIT = 4096  # bytes of one name
SECTIONS_LIMIT = 4096
NEAR = 4096  # strings closer than this come with one read


class Elf(msgspec.Struct, frozen=True, kw_only=True):
    """`machine` is e_machine (62 x86-64, 183 AArch64). As the loader does, `rpath` is empty where there is a runpath."""

    path: str
    bits: int
    machine: int
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    has_runpath: bool = False
    no_default: bool = False  # DF_1_NODEFLIB: neither the cache nor the default folders


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The ELF header, as far as it is used."""

    bits: int
    order: str
    machine: int
    phoff: int
    phentsize: int
    phnum: int
    shoff: int
    shentsize: int
    shnum: int
    shstrndx: int


def parse_head(data: bytes, path: str) -> Head:
    """Of the first 64 bytes. Malformed when it is not ELF."""
    if len(data) < 52 or data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        raise Malformed("not-elf", path=path)
    wide = data[4] == 2
    order = "<" if data[5] == 1 else ">"
    if wide and len(data) < 64:
        raise Malformed("not-elf", path=path)
    layout = order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH")
    _, machine, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = struct.unpack_from(
        layout, data, 16
    )
    return Head(
        bits=64 if wide else 32,
        order=order,
        machine=machine,
        phoff=phoff,
        phentsize=phentsize,
        phnum=phnum,
        shoff=shoff,
        shentsize=shentsize,
        shnum=shnum,
        shstrndx=shstrndx,
    )


def read_head(host: Host, path: str) -> Head:
    """The header of a file. Malformed when it is not ELF."""
    return parse_head(host.read_at(path, 0, 64), path)


def read(host: Host, path: str) -> Elf:
    """What the loader would see. Malformed when it is not ELF or damaged."""
    head = read_head(host, path)
    loads, dynamic = _segments(host, path, head)
    if dynamic is None:
        return Elf(path=path, bits=head.bits, machine=head.machine)
    tags = _tags(host, path, head, *dynamic)
    strtab = next((v for t, v in tags if t == DT_STRTAB), None)
    base = None if strtab is None else _to_offset(loads, strtab)
    wanted = [(t, v) for t, v in tags if t in (DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH)]
    if wanted and base is None:
        raise Malformed("elf-damaged", path=path)
    texts = _strings(host, path, base or 0, sorted({v for _, v in wanted}))

    def of(tag: int) -> list[str]:
        return [texts[v] for t, v in wanted if t == tag]

    runpath, rpath = of(DT_RUNPATH), of(DT_RPATH)
    flags = next((v for t, v in tags if t == DT_FLAGS_1), 0)
    return Elf(
        path=path,
        bits=head.bits,
        machine=head.machine,
        soname=next(iter(of(DT_SONAME)), None),
        needed=tuple(of(DT_NEEDED)),
        # glibc, elf/get-dynamic-info.h: "If both RUNPATH and RPATH are given, the latter is ignored."
        rpath=tuple(rpath[-1].split(":")) if rpath and not runpath else (),
        runpath=tuple(runpath[-1].split(":")) if runpath else (),
        has_runpath=bool(runpath),
        no_default=bool(flags & DF_1_NODEFLIB),
    )


def _segments(host: Host, path: str, head: Head) -> tuple[list[tuple[int, int, int]], tuple[int, int] | None]:
    """((address, offset, size) of every PT_LOAD, (offset, size) of PT_DYNAMIC)."""
    size = 56 if head.bits == 64 else 32
    if head.phnum > PN_LIMIT or (head.phnum and head.phentsize != size):
        raise Malformed("elf-damaged", path=path)
    data = _at(host, path, head.phoff, head.phnum * size)
    loads: list[tuple[int, int, int]] = []
    dynamic: tuple[int, int] | None = None
    layout = head.order + ("IIQQQQQQ" if head.bits == 64 else "IIIIIIII")
    for fields in struct.iter_unpack(layout, data[: len(data) // size * size]):
        if head.bits == 64:
            kind, _, offset, address, _, filesz = fields[:6]
        else:
            kind, offset, address, _, filesz = fields[:5]
        if kind == PT_LOAD:
            loads.append((address, offset, filesz))
        elif kind == PT_DYNAMIC:
            dynamic = (offset, min(filesz, DYNAMIC_LIMIT))
    return loads, dynamic


def _tags(host: Host, path: str, head: Head, offset: int, size: int) -> list[tuple[int, int]]:
    data = _at(host, path, offset, size)
    step = 16 if head.bits == 64 else 8
    layout = head.order + ("QQ" if head.bits == 64 else "II")
    tags: list[tuple[int, int]] = []
    for tag, value in struct.iter_unpack(layout, data[: len(data) // step * step]):
        if tag == DT_NULL:
            break
        tags.append((tag, value))
    return tags


def _to_offset(loads: list[tuple[int, int, int]], address: int) -> int | None:
    return next((o + address - a for a, o, size in loads if a <= address < a + size), None)


def _strings(host: Host, path: str, base: int, offsets: list[int]) -> dict[int, str]:
    """The zero-ended strings at the (sorted) offsets, near ones read together."""
    texts: dict[int, str] = {}
    i = 0
    while i < len(offsets):
        j = i
        while j + 1 < len(offsets) and offsets[j + 1] - offsets[j] < NEAR:
            j += 1
        start = offsets[i]
        data = _at(host, path, base + start, offsets[j] - start + STRING_LIMIT)
        for one in offsets[i : j + 1]:
            end = data.find(b"\0", one - start)
            if end < 0:
                raise Malformed("elf-damaged", path=path)
            texts[one] = data[one - start : end].decode("utf-8", "surrogateescape")
        i = j + 1
    return {k: v.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for k, v in texts.items()}


def _at(host: Host, path: str, offset: int, size: int) -> bytes:
    if offset >= 1 << 62:
        raise Malformed("elf-damaged", path=path)
    return host.read_at(path, offset, size)


def section(host: Host, path: str, name: bytes, limit: int) -> bytes | None:
    """At most `limit` bytes of the section; None when the file has no such section."""
    head = read_head(host, path)
    size = 64 if head.bits == 64 else 40
    if head.shentsize != size or not 0 < head.shnum <= SECTIONS_LIMIT or head.shstrndx >= head.shnum:
        return None
    table = _at(host, path, head.shoff, head.shnum * size)
    layout = head.order + ("IIQQQQIIQQ" if head.bits == 64 else "IIIIIIIIII")
    rows = list(struct.iter_unpack(layout, table[: len(table) // size * size]))
    if head.shstrndx >= len(rows):
        return None
    names = _at(host, path, rows[head.shstrndx][4], min(rows[head.shstrndx][5], 1 << 20))
    for row in rows:
        start = row[0]
        if names[start : start + len(name) + 1] == name + b"\0":
            return _at(host, path, row[4], min(row[5], limit))
    return None
