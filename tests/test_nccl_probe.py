"""The copy of NCCL that torch gets is told from files as the loader would take it, with versions out of the files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_doctor.host import Asked, Host
from ds_doctor.model import Trouble
from ds_doctor.probes.nccl import NcclCopies, nccl_copies, parse_version
from ds_doctor.rooted import RootedHost

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
RPATH = "$ORIGIN/../../nvidia/nccl/lib:$ORIGIN"  # what the wheels of torch 2.2 to 2.15 carry


def library(path: Path, *options: str, soname: str, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(
        f'const char ds_text[] = "{text}"; int ds_{abs(hash(soname)) % 999}(void) {{ return ds_text[0]; }}\n'
    )
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", path, source, f"-Wl,-soname,{soname}", "-Wl,--no-as-needed", *options],
        check=True,
    )
    source.unlink()
    return path


def nccl(path: Path, version: str = "2.28.9", soname: str = "libnccl.so.2") -> Path:
    return library(path, soname=soname, text=f"NCCL version {version}+cuda13.0")


class World:
    """A virtual environment whose torch is built as the wheels are, with stub libraries."""

    def __init__(self, base: Path, tags: str = "--disable-new-dtags", links: bool = True) -> None:
        self.base = base
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "venv"], check=True)
        self.python = base / "venv/bin/python3"
        self.site = next((base / "venv/lib").glob("python*")) / "site-packages"
        self.own = nccl(self.site / "nvidia/nccl/lib/libnccl.so.2")
        lib = self.site / "torch/lib"
        rpath = [f"-Wl,{tags}", f"-Wl,-rpath,{RPATH}"]
        needs = [f"-L{self.own.parent}", "-l:libnccl.so.2"] if links else []
        cuda = library(lib / "libtorch_cuda.so", *needs, *rpath, soname="libtorch_cuda.so")
        python = library(lib / "libtorch_python.so", str(cuda), *needs, *rpath, soname="libtorch_python.so")
        library(
            self.site / "torch/_C.cpython-312-x86_64-linux-gnu.so",
            str(python),
            f"-Wl,{tags}",
            "-Wl,-rpath,$ORIGIN/lib",
            soname="_C.so",
        )
        (self.site / "torch/version.py").write_text("__version__ = '2.11.0'\ncuda = '13.0'\n")

    def fact(self, **env: str) -> NcclCopies:
        return nccl_copies(Host(Asked(python=str(self.python)), env=env))

    def really(self, **env: str) -> str:
        """What a Python of this environment has mapped after it opened torch/_C."""
        code = (
            "import ctypes,glob,sys\n"
            "ctypes.CDLL(glob.glob(sys.argv[1] + '/torch/_C*.so')[0])\n"
            "print(next((l.split()[-1] for l in open('/proc/self/maps') if 'libnccl' in l), ''))"
        )
        run = [self.python, "-I", "-c", code, self.site]
        return subprocess.run(run, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Path(tmp_path).resolve())


@needs_gcc
def test_torch_gets_its_own_copy_through_rpath_whatever_the_library_path_says(world: World) -> None:
    other = nccl(world.base / "system/libnccl.so.2", "2.28.3")
    env = {"LD_LIBRARY_PATH": str(other.parent)}
    fact = world.fact(**env)
    assert fact.links == "shared" and fact.torch is not None and fact.own is not None
    assert fact.torch.real == fact.own.real == str(world.own) == world.really(**env)
    assert (fact.torch.version, fact.torch.cuda, fact.torch_how, fact.path_kind) == ("2.28.9", "13.0", "RPATH", "RPATH")
    assert {c.version for c in fact.copies} == {"2.28.9", "2.28.3"}


@needs_gcc
def test_with_runpath_the_library_path_wins(tmp_path: Path) -> None:
    world = World(tmp_path.resolve(), tags="--enable-new-dtags")
    other = nccl(world.base / "system/libnccl.so.2", "2.28.3")
    env = {"LD_LIBRARY_PATH": str(other.parent)}
    fact = world.fact(**env)
    assert fact.torch is not None and fact.torch.real == str(other) == world.really(**env)
    assert (fact.torch_how, fact.path_kind) == ("LD_LIBRARY_PATH", "RUNPATH")


@needs_gcc
def test_a_preloaded_copy_beats_rpath(world: World) -> None:
    other = nccl(world.base / "system/libnccl.so.2.28.3", "2.28.3")
    env = {"LD_PRELOAD": str(other)}
    fact = world.fact(**env)
    assert fact.torch is not None and fact.torch.real == str(other) == world.really(**env)
    assert fact.torch_how == "LD_PRELOAD" and fact.preloaded == (str(other),)


@needs_gcc
def test_a_missing_copy_is_none(world: World) -> None:
    world.own.unlink()
    fact = world.fact()
    assert fact.links == "shared" and (fact.torch is None or fact.torch.real != str(world.own))


@needs_gcc
def test_torch_without_the_need_has_nccl_inside(tmp_path: Path) -> None:
    assert World(tmp_path.resolve(), links=False).fact().links == "static"


@needs_gcc
def test_a_path_for_vllm_is_followed_and_judged_loadable_or_not(world: World) -> None:
    link = world.base / "link.so"
    link.symlink_to(world.own)
    (world.base / "text.so").write_text("no library")
    assert [(a.real, a.trouble) for a in world.fact(VLLM_NCCL_SO_PATH=str(link)).asked] == [(str(world.own), None)]
    for text, trouble in ((f"{world.base}/gone.so", "missing"), (f"{world.base}/text.so", "not-elf")):
        (asked,) = world.fact(VLLM_NCCL_SO_PATH=text).asked
        assert asked.trouble == trouble and asked.real is None


@needs_gcc
def test_torch_libraries_outside_torch_are_found_as_the_loader_finds_them(world: World) -> None:
    """As conda has them: in lib/ of the environment. torch with CUDA is not taken for one without."""
    lib = world.base / "env/lib"
    lib.mkdir(parents=True)
    for path in (world.site / "torch/lib").glob("*.so"):
        path.rename(lib / path.name)
    fact = world.fact(LD_LIBRARY_PATH=str(lib))
    assert fact.links == "shared" and fact.asked_by == f"{lib}/libtorch_python.so"
    assert world.fact().links == "unreadable"  # not found at all: what it wants is not known


@needs_gcc
def test_damaged_torch_libraries_are_told_from_none(world: World) -> None:
    for path in (world.site / "torch").glob("_C*"):
        path.write_bytes(b"junk")
    assert world.fact().links == "unreadable"


def test_without_torch_there_is_nothing_to_link(tmp_path: Path) -> None:
    fact = nccl_copies(RootedHost(str(tmp_path)))
    assert fact.links is None and fact.copies == () and fact.torch is None


def test_the_version_with_its_cuda_is_preferred() -> None:
    data = b"\0NCCL version 2.30.7\0..NCCL version 2.30.7+cuda13.3\0"
    assert parse_version(data) == ("2.30.7", "13.3")
    assert parse_version(b"NCCL version %d.%d") is None


@given(st.binary(max_size=300))
def test_any_data_has_a_version_or_none(data: bytes) -> None:
    parse_version(data)
    parse_version(b"NCCL version " + data)


@needs_gcc
@settings(deadline=None)
@given(st.integers(0, 4000), st.binary(min_size=1, max_size=24))
def test_a_damaged_libnccl_never_breaks_the_probe(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged-nccl"
    path = folder / "libnccl.so.2"
    whole = folder / "whole.so"
    if not whole.exists():
        nccl(whole)
    data = bytearray(whole.read_bytes())
    data[at : at + len(junk)] = junk
    path.write_bytes(data)
    try:
        nccl_copies(Host(Asked(python="/nowhere"), env={"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(path)}))
    except Trouble:
        pass
