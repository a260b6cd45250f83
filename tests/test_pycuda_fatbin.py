"""Architectures are read from fatbin headers without unpacking, and damaged files cost nothing but the answer."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Trouble
from ds_doctor.probes import fatbin

Entry = tuple[int, int, int]  # kind, architecture, flags


def container(*entries: Entry, payload: int = 40) -> bytes:
    body = b""
    for kind, arch, flags in entries:
        head = struct.pack("<HHIQ", kind, 0x101, 64, payload) + bytes(12) + struct.pack("<I", arch) + bytes(8)
        body += head + struct.pack("<Q", flags) + bytes(64 - len(head) - 8) + b"\xaa" * payload
    return struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(body)) + body


def library(path: Path, section: bytes) -> Path:
    """A 64-bit ELF file of three sections: none, names, .nv_fatbin."""
    names = b"\0.shstrtab\0.nv_fatbin\0"
    at_names, at_section = 64, 64 + 128
    table = at_section + len(section)

    def header(name: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, offset, size, 0, 0, 8, 0)

    head = (
        b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 3, 1)
    )
    data = head + names.ljust(128, b"\0") + section
    data += header(0, 0, 0) + header(1, at_names, len(names)) + header(11, at_section, len(section))
    path.write_bytes(data)
    return path


SM90, SM90A, SM100F, PTX90 = (2, 90, 0x11), (2, 90, 0x100011), (2, 100, 0x1200011), (1, 90, 0x8011)


def test_every_kind_of_entry_is_named(tmp_path: Path) -> None:
    file = library(tmp_path / "a.so", container((2, 80, 0x11), SM90, SM90A, SM100F, PTX90))
    assert set(fatbin.arches(Host(), str(file)) or ()) == {"sm_80", "sm_90", "sm_90a", "sm_100f", "compute_90"}


def test_what_a_few_units_hold_is_not_what_the_library_holds(tmp_path: Path) -> None:
    usual = container((2, 80, 0x11), SM90)
    file = library(tmp_path / "a.so", container(SM90A) + usual * 9)
    assert fatbin.arches(Host(), str(file)) == ("sm_80", "sm_90")


def test_units_far_from_the_start_are_sampled(tmp_path: Path) -> None:
    early, late = container((2, 75, 0x11)), container(SM90, payload=4000)
    file = library(tmp_path / "a.so", early * 24 + late * 2000)
    assert fatbin.arches(Host(), str(file)) == ("sm_75", "sm_90")


def test_a_library_without_kernels_has_no_architectures(tmp_path: Path) -> None:
    assert fatbin.arches(Host(), str(library(tmp_path / "a.so", b""))) is None
    assert fatbin.arches(Host(), str(library(tmp_path / "b.so", bytes(500)))) is None


def test_a_container_that_runs_past_the_end_is_not_believed(tmp_path: Path) -> None:
    cut = container(SM90)[:-8]
    assert fatbin.arches(Host(), str(library(tmp_path / "a.so", cut))) is None


def test_a_container_in_a_circle_ends(tmp_path: Path) -> None:
    nothing = struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, 0)
    assert fatbin.arches(Host(), str(library(tmp_path / "a.so", nothing * 100_000))) is None


@given(st.binary(max_size=300))
def test_any_section_and_any_file_survive(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for file in (library(Path(folder) / "a.so", data), library(Path(folder) / "b.so", container(SM90) + data)):
            fatbin.arches(Host(), str(file))
        for raw in (data, b"\x7fELF\x02\x01" + data, (Path(folder) / "a.so").read_bytes()[:100] + data):
            (Path(folder) / "c.so").write_bytes(raw)
            try:
                fatbin.arches(Host(), str(Path(folder) / "c.so"))
            except Trouble:
                pass


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_what_nvcc_really_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float*x){x[0]=1;}\n")
    targets = ["arch=compute_80,code=sm_80", "arch=compute_90a,code=sm_90a", "arch=compute_90,code=compute_90"]
    flags = [word for t in targets for word in ("-gencode", t)]
    made = subprocess.run(
        ["nvcc", "-shared", "-Xcompiler", "-fPIC", *flags, "-o", "k.so", "k.cu"], cwd=tmp_path, capture_output=True
    )
    if made.returncode != 0:
        pytest.skip("this nvcc cannot compile here")
    got = fatbin.arches(Host(), str(tmp_path / "k.so"))
    assert set(got or ()) == {"sm_80", "sm_90a", "compute_90"}
