"""The loader's cache decides as on a real host: the order of its lines, the CPU's own folders, other machines passed over."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from ds_doctor.model import Malformed
from ds_doctor.probes import _ldcache, _ldso
from ds_doctor.probes.loader import NAMES, loader
from ds_doctor.rooted import RootedHost
from support import FIXTURES

HOST = FIXTURES / "probes" / "loader" / "h200-x2"
X86_64, I386 = 0x0303, 0x0003
Row = tuple[str, str, int, "str | None"]


def new_cache(rows: list[Row]) -> bytes:
    """A cache as ldconfig of glibc 2.33 and later writes it, with the glibc-hwcaps folders in its extension."""
    levels = sorted({r[3] for r in rows if r[3]})
    start = 48 + 24 * len(rows)
    strings = b""
    offsets: list[int] = []
    for text in [t for name, path, _, _ in rows for t in (name, path)] + levels:
        offsets.append(start + len(strings))
        strings += text.encode() + b"\0"
    entries = b""
    for i, (_, _, flags, level) in enumerate(rows):
        hwcap = (1 << 62) | levels.index(level) if level else 0
        entries += struct.pack("<iIIIQ", flags, offsets[2 * i], offsets[2 * i + 1], 0, hwcap)
    extension = (start + len(strings) + 3) & ~3
    table = struct.pack(f"<{len(levels)}I", *offsets[2 * len(rows) :])
    tail = struct.pack("<II", 0xEAA42174, 1) + struct.pack("<IIII", 1, 0, extension + 24, len(table)) + table
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI", len(rows), len(strings), 2, extension) + bytes(12)
    body = head + entries + strings
    return body + bytes(extension - len(body)) + tail


def elf(path: Path, bits: int = 64, machine: int = 62) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + bytes([bits // 32, 1, 1]) + bytes(9) + struct.pack("<HH", 3, machine) + bytes(44))


def world(root: Path, rows: list[Row], flags: str = "") -> RootedHost:
    (root / "etc").mkdir(parents=True)
    (root / "etc/ld.so.cache").write_bytes(new_cache(rows))
    (root / "proc").mkdir()
    (root / "proc/cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    elf(root / "bin/sh")
    return RootedHost(str(root))


V2 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"


def test_a_written_cache_is_read_again() -> None:
    rows: list[Row] = [
        ("liba.so.1", "/lib/liba.so.1", X86_64, None),
        ("liba.so.1", "/x/liba.so.1", X86_64, "x86-64-v2"),
    ]
    got = _ldcache.parse(new_cache(rows))
    assert [(e.name, e.path, e.flags, e.hwcap) for e in got] == rows


def test_the_real_host_lists_what_its_fact_picked(tmp_path: Path) -> None:
    listed = re.findall(r"^\t(\S+) \(libc6,x86-64.*?\) => (\S+)$", (HOST / "ldconfig.txt").read_text(), re.M)
    rows: list[Row] = [(name, path, X86_64, None) for name, path in listed]
    host = world(tmp_path, rows)
    for _, path in listed:
        elf(tmp_path / path.lstrip("/"))
    fact = loader(host)
    assert {n: lib.path for n, lib in fact.picked.items() if lib.how == "cache"} == {
        name: next(p for n, p in listed if n == name) for name in NAMES if name in dict(listed)
    }
    assert fact.picked["libcuda.so.1"].path == "/usr/local/nvidia/lib64/libcuda.so.1"
    recorded = json.loads((FIXTURES / "hosts" / "h200-x2" / "snapshot.json").read_text())["facts"]["loader"]["value"]
    for name, library in recorded["picked"].items():
        if library["how"] == "cache" and name in dict(listed):
            assert fact.picked[name].path == library["path"]


def test_the_folder_for_the_cpu_comes_first_where_the_cpu_has_it(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("liba.so.1", "/lib/liba.so.1", X86_64, None),
        ("liba.so.1", "/v2/liba.so.1", X86_64, "x86-64-v2"),
    ]
    for flags, path in ((V2, "/v2/liba.so.1"), ("sse2", "/lib/liba.so.1")):
        root = tmp_path / str(len(flags))
        host = world(root, rows, flags)
        elf(root / "lib/liba.so.1")
        elf(root / "v2/liba.so.1")
        found = _ldso.first(host, _ldso.setup(host), "liba.so.1")
        assert found is not None and found.path == path


def test_lines_of_another_machine_and_files_that_are_gone_are_passed_over(tmp_path: Path) -> None:
    host = world(
        tmp_path,
        [
            ("liba.so.1", "/lib32/liba.so.1", I386, None),
            ("liba.so.1", "/gone/liba.so.1", X86_64, None),
            ("liba.so.1", "/wrong/liba.so.1", X86_64, None),
            ("liba.so.1", "/good/liba.so.1", X86_64, None),
        ],
    )
    elf(tmp_path / "lib32/liba.so.1", 32, 3)
    elf(tmp_path / "wrong/liba.so.1", 64, 183)
    elf(tmp_path / "good/liba.so.1")
    assert [f.path for f in _ldso.search(host, _ldso.setup(host), "liba.so.1")] == ["/good/liba.so.1"]


def test_a_cache_that_is_none_leaves_the_default_folders(tmp_path: Path) -> None:
    host = world(tmp_path, [])
    (tmp_path / "etc/ld.so.cache").write_bytes(b"no cache")
    elf(tmp_path / "usr/lib64/libcuda.so.1")
    fact = loader(host)
    assert not fact.cache_readable and fact.picked["libcuda.so.1"].how == "default"


def test_a_cache_cut_short_is_refused() -> None:
    data = new_cache([("liba.so.1", "/lib/liba.so.1", X86_64, None)])
    with pytest.raises(Malformed):
        _ldcache.parse(data[:60])
