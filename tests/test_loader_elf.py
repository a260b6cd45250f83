"""The ELF reader sees what pyelftools sees, and survives what is no ELF file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Trouble
from ds_doctor.probes import _elf

FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
LIBRARIES = sorted({p.resolve() for f in FOLDERS if Path(f).is_dir() for p in Path(f).glob("*.so*") if p.is_file()})
SMALL = min((p for p in LIBRARIES if p.read_bytes()[:4] == b"\x7fELF"), key=lambda p: p.stat().st_size)


def theirs(path: Path) -> dict[str, object]:
    with open(path, "rb") as f:
        elf = ELFFile(f)
        seen: dict[str, list[str]] = {"DT_NEEDED": [], "DT_SONAME": [], "DT_RPATH": [], "DT_RUNPATH": []}
        dynamic = elf.get_section_by_name(".dynamic")
        for tag in dynamic.iter_tags() if dynamic else ():
            for name, field in (
                ("DT_NEEDED", "needed"),
                ("DT_SONAME", "soname"),
                ("DT_RPATH", "rpath"),
                ("DT_RUNPATH", "runpath"),
            ):
                if tag.entry.d_tag == name:
                    seen[name].append(getattr(tag, field))
        return {
            "bits": elf.elfclass,
            "needed": tuple(seen["DT_NEEDED"]),
            "soname": next(iter(seen["DT_SONAME"]), None),
            "rpath": tuple(p for t in seen["DT_RPATH"] for p in t.split(":")) if not seen["DT_RUNPATH"] else (),
            "runpath": tuple(p for t in seen["DT_RUNPATH"] for p in t.split(":")),
        }


def test_every_library_of_this_system_is_read_as_pyelftools_reads_it() -> None:
    host = Host()
    compared = 0
    for path in LIBRARIES[::4]:
        if path.read_bytes()[:4] != b"\x7fELF":
            continue
        ours = _elf.read(host, str(path))
        assert {
            "bits": ours.bits,
            "needed": ours.needed,
            "soname": ours.soname,
            "rpath": ours.rpath,
            "runpath": ours.runpath,
        } == theirs(path), path
        compared += 1
    assert compared


def test_a_section_is_what_pyelftools_says_it_is() -> None:
    program = str(Path(sys.executable).resolve())
    with open(program, "rb") as f:
        rodata = ELFFile(f).get_section_by_name(".rodata").data()
    assert _elf.section(Host(), program, b".rodata", 64 << 20) == rodata
    assert _elf.section(Host(), program, b".no-such", 1) is None


@settings(deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "any.so"
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + data if magic else data)
    for ask in (_elf.read, lambda h, p: _elf.section(h, p, b".rodata", 100)):
        try:
            ask(Host(), str(path))
        except Trouble:
            pass


@settings(deadline=None)
@given(st.integers(0, 5000), st.binary(min_size=1, max_size=16))
def test_a_damaged_library_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes) -> None:
    data = bytearray(SMALL.read_bytes())
    data[at : at + len(junk)] = junk
    path = tmp_path_factory.getbasetemp() / "damaged.so"
    path.write_bytes(data)
    try:
        _elf.read(Host(), str(path))
        _elf.section(Host(), str(path), b".rodata", 1000)
    except Trouble:
        pass
