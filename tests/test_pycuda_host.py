"""Toolchain, caches and torch's libraries are seen as the programs that use them would see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Asked, Host
from ds_doctor.probes import caches as caches_module
from ds_doctor.probes import toolchain as toolchain_module
from ds_doctor.probes.caches import caches
from ds_doctor.probes.python_env import packages, parse_arch_names
from ds_doctor.probes.toolchain import toolchain
from ds_doctor.probes.torch_libs import parse_preloads, torch_libs
from ds_doctor.replay import ReplayedHost
from support import FIXTURES


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def host(tmp_path: Path, **env: str) -> Host:
    return Host(Asked(python=sys.executable), env={"PATH": str(tmp_path / "bin"), **env})


def test_cuda_home_is_searched_as_torch_does(tmp_path: Path) -> None:
    script(tmp_path / "toolkit/bin/nvcc", "echo 'Cuda compilation tools, release 12.8, V12.8.93'\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc").symlink_to(tmp_path / "toolkit/bin/nvcc")
    by_variable = toolchain(host(tmp_path, CUDA_HOME=str(tmp_path / "toolkit"), CUDA_PATH="/none"))
    assert (by_variable.how, by_variable.nvcc_version) == ("CUDA_HOME", "12.8")
    # os.path.dirname twice, links not followed: the folder above bin.
    by_path = toolchain(host(tmp_path))
    assert (by_path.how, by_path.cuda_home, by_path.nvcc_version) == ("nvcc", str(tmp_path), "12.8")
    gone = toolchain(host(tmp_path, CUDA_HOME="/a:/b"))
    assert (gone.cuda_home, gone.cuda_home_exists, gone.nvcc) == ("/a:/b", False, None)
    empty = toolchain(host(tmp_path, CUDA_HOME=""))
    assert empty.how == "nvcc"


def test_version_json_saves_running_nvcc(tmp_path: Path) -> None:
    script(tmp_path / "bin/nvcc", "exit 1\n")
    (tmp_path / "version.json").write_text(
        '{"cuda": {"name": "x"}, "cuda_nvcc": {"name": "NVCC", "version": "13.0.88"}}'
    )
    (tmp_path / "include/crt").mkdir(parents=True)
    (tmp_path / "include/crt/host_config.h").write_text("#if __GNUC__ > 15\n#error -- unsupported GNU version!\n")
    got = toolchain(host(tmp_path))
    assert (got.nvcc_version, got.nvcc_newest_gcc) == ("13.0", 15)


def test_compilers_are_searched_as_triton_and_torch_do(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    assert toolchain(host(tmp_path)).cc.path is None
    script(tmp_path / "bin/x86_64-linux-gnu-gcc-13", "exit 0\n")
    (tmp_path / "bin/gcc").symlink_to("x86_64-linux-gnu-gcc-13")
    got = toolchain(host(tmp_path))
    assert (got.cc.path, got.cc.gcc) == (str(tmp_path / "bin/gcc"), 13)
    assert toolchain(host(tmp_path, CC="")).cc.path is None
    assert toolchain(host(tmp_path, CC="no-such-compiler")).cc.path is None
    script(tmp_path / "bin/mycc", "echo 'mycc (Debian 12.2.0-14) 12.2.0'; echo Free Software Foundation\n")
    script(tmp_path / "bin/clang", "echo 'Debian clang version 18.1.3 (1)'\n")
    assert toolchain(host(tmp_path, CC="clang")).cc.clang == 18


def test_a_compiler_that_hangs_costs_only_its_version(tmp_path: Path) -> None:
    script(tmp_path / "bin/gcc", "exec sleep 60\n")
    slow = host(tmp_path)
    slow.deadline = 0.0
    got = toolchain(slow)
    assert got.cc.path is not None and got.cc.gcc is None


def test_python_header_is_that_of_the_engines_python(tmp_path: Path) -> None:
    import sysconfig

    got = toolchain(host(tmp_path))
    there = os.path.exists(os.path.join(sysconfig.get_paths("posix_prefix")["include"], "Python.h"))
    assert (got.python_header is not None) == there
    assert (got.python_header_missing is None) == there


def by_name(h: Host) -> dict[str, caches_module.Folder]:
    return {f.what: f for f in caches(h).folders}


def test_caches_stand_where_their_programs_put_them(tmp_path: Path) -> None:
    home = str(tmp_path)
    got = by_name(Host(env={"HOME": home, "USER": "me"}))
    assert got["triton"].path == f"{home}/.triton/cache"
    assert got["torch-extensions"].path == f"{home}/.cache/torch_extensions"
    assert got["flashinfer"].path == f"{home}/.cache/flashinfer"
    assert got["inductor"].path == "/tmp/torchinductor_me"
    assert got["triton"].writable is True and got["triton"].nearest == home and not got["triton"].exists
    moved = by_name(Host(env={"HOME": home, "XDG_CACHE_HOME": "/x", "TMPDIR": "/t", "TRITON_CACHE_DIR": "/c"}))
    assert (moved["vllm"].path, moved["flashinfer"].path) == ("/x/vllm", f"{home}/.cache/flashinfer")
    assert (moved["triton"].path, moved["triton"].variable) == ("/c", "TRITON_CACHE_DIR")
    assert (moved["tmp"].variable, moved["tmp"].exists) == ("TMPDIR", False)


def test_nothing_can_be_made_below_proc() -> None:
    # access() says yes to root there; os.makedirs fails with ENOENT.
    got = by_name(Host(env={"HOME": "/proc"}))
    assert got["triton"].writable is False and got["triton"].nearest == "/proc"


def test_a_file_on_the_way_is_seen(tmp_path: Path) -> None:
    (tmp_path / ".triton").write_text("")
    got = by_name(Host(env={"HOME": str(tmp_path)}))
    assert got["triton"].blocked == str(tmp_path / ".triton") and got["triton"].writable is False


def test_home_comes_from_passwd_where_the_variable_is_unset() -> None:
    got = caches(Host(env={}))
    import pwd

    assert got.home == pwd.getpwuid(os.geteuid()).pw_dir and got.home_from == "passwd"


def shared(path: Path, soname: str, *needs: Path, rpath: str = "", runpath: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("int f(void){return 1;}\n")
    tags = (
        f"-Wl,-rpath,{rpath},--disable-new-dtags"
        if rpath
        else f"-Wl,-rpath,{runpath},--enable-new-dtags"
        if runpath
        else ""
    )
    command = [
        "gcc",
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        f"-Wl,-soname,{soname}",
        *([tags] if tags else []),
        "-o",
        path,
        source,
        *needs,
    ]
    subprocess.run([str(c) for c in command], check=True, capture_output=True)
    return path


def test_rpath_beats_ld_library_path_and_runpath_does_not(tmp_path: Path) -> None:
    """torch -> libcusparse by RPATH; libcusparse -> libnvJitLink by RUNPATH: an older one on LD_LIBRARY_PATH wins there only."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v/bin/python"
    site = next((tmp_path / "v/lib").glob("python3*/site-packages"))
    lib = site / "nvidia/cu13/lib"
    jit = shared(lib / "libnvJitLink.so.13", "libnvJitLink.so.13")
    sparse = shared(lib / "libcusparse.so.12", "libcusparse.so.12", jit, runpath="$ORIGIN")
    shared(site / "torch/lib/libtorch_cuda.so", "libtorch_cuda.so", sparse, rpath="$ORIGIN/../../nvidia/cu13/lib")
    (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
    old = tmp_path / "old"
    shared(old / "libnvJitLink.so.13.0.39", "libnvJitLink.so.13")
    (old / "libnvJitLink.so.13").symlink_to("libnvJitLink.so.13.0.39")
    shared(old / "libcusparse.so.12", "libcusparse.so.12")
    shared(site / "vllm/_C.abi3.so", "_C", shared(tmp_path / "x/libcudart.so.12", "libcudart.so.12"))
    got = torch_libs(Host(Asked(python=str(python)), env={"LD_LIBRARY_PATH": str(old), "PATH": "/usr/bin"}))
    found = {one.name: one for one in got.libraries}
    assert (found["libcusparse.so.12"].how, found["libcusparse.so.12"].path) == (
        "RPATH",
        f"{site}/torch/lib/../../nvidia/cu13/lib/libcusparse.so.12",
    )
    shadow = found["libnvJitLink.so.13"]
    assert (shadow.how, shadow.real_name) == ("LD_LIBRARY_PATH", "libnvJitLink.so.13.0.39")
    assert os.path.realpath(shadow.plain or "") == os.path.realpath(lib / "libnvJitLink.so.13")
    assert [(e.package, e.lacks) for e in got.extensions] == [("vllm", ("libcudart.so.12",))]


def test_the_same_file_by_another_way_is_no_other_file(tmp_path: Path) -> None:
    """LD_LIBRARY_PATH=/usr/local/cuda/lib64, a link to what the loader would have found anyway."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    site = next((tmp_path / "v/lib").glob("python3*/site-packages"))
    lib = site / "nvidia/cu13/lib"
    sparse = shared(lib / "libcusparse.so.12", "libcusparse.so.12")
    shared(site / "torch/lib/libtorch_cuda.so", "libtorch_cuda.so", sparse, runpath="$ORIGIN/../../nvidia/cu13/lib")
    (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
    (tmp_path / "link").symlink_to(lib)
    env = {"LD_LIBRARY_PATH": str(tmp_path / "link"), "PATH": ""}
    (one,) = torch_libs(Host(Asked(python=str(tmp_path / "v/bin/python")), env=env)).libraries
    assert one.how == "LD_LIBRARY_PATH" and one.plain == one.path


@pytest.mark.parametrize("ask", [packages, toolchain, caches, torch_libs], ids=lambda f: f.__name__)
def test_the_recorded_h200_host_gives_the_same_facts_again(ask: Callable[[Host], Any]) -> None:
    folder = FIXTURES / "probes" / ask.__name__ / "h200-x1"
    calls, env, fact = (json.loads((folder / f"{n}.json").read_text("utf-8")) for n in ("calls", "env", "fact"))
    got = ask(ReplayedHost(calls, env))
    assert got == msgspec.convert(fact, type(got))


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        ("g++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0\nCopyright (C) 2023 Free Software Foundation, Inc.\n", ("gcc", 13)),
        ("gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)\nCopyright (C) Free Software Foundation\n", ("gcc", 11)),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)\n", ("clang", 18)),
        ("Intel(R) oneAPI DPC++/C++ Compiler 2024.2.0 (2024.2.0.20240602)\n", None),
        ("", None),
    ],
)
def test_a_compiler_says_what_it_is(text: str, compiler: tuple[str, int] | None) -> None:
    assert toolchain_module.parse_compiler_banner(text) == compiler


PRELOADS_ALL = """
def _preload_cuda_deps(err=None):
    cuda_libs = [
        ("nvjitlink", "libnvJitLink.so.*[0-9]"),
        ("cusparse", "libcusparse.so.*[0-9]"),
        ("nothing", "libnothing.so.*[0-9]"),
        ("cudnn", "libcudnn.so.*[0-9]"),
    ]

def _load_global_deps():
    try:
        ctypes.CDLL(path)
        with open("/proc/self/maps") as f:
            pass
        _preload_cuda_deps()
    except OSError as err:
        _preload_cuda_deps(err)
"""


def test_what_torch_loads_by_itself_no_library_path_shadows(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    site = next((tmp_path / "v/lib").glob("python3*/site-packages"))
    jit = shared(site / "nvidia/cu13/lib/libnvJitLink.so.13", "libnvJitLink.so.13")
    sparse = shared(site / "nvidia/cu13/lib/libcusparse.so.12", "libcusparse.so.12", jit, runpath="$ORIGIN")
    shared(site / "torch/lib/libtorch_cuda.so", "libtorch_cuda.so", sparse, rpath="$ORIGIN/../../nvidia/cu13/lib")
    (site / "torch/version.py").write_text("__version__ = '2.11.0+cu130'\n")
    (site / "torch/__init__.py").write_text(PRELOADS_ALL)
    shared(tmp_path / "old/libnvJitLink.so.13", "libnvJitLink.so.13")
    got = torch_libs(
        Host(Asked(python=str(tmp_path / "v/bin/python")), env={"LD_LIBRARY_PATH": str(tmp_path / "old"), "PATH": ""})
    )
    assert {one.name: (one.how, one.path) for one in got.libraries} == {
        "libnvJitLink.so.13": ("torch", str(jit)),
        "libcusparse.so.12": ("torch", str(sparse)),
    }


def test_what_torch_loads_by_itself_is_read_from_its_source() -> None:
    assert parse_preloads(PRELOADS_ALL)[:2] == [("nvjitlink", "libnvJitLink"), ("cusparse", "libcusparse")]
    two = PRELOADS_ALL.replace("_preload_cuda_deps()", "_preload_cuda_deps('nvjitlink', 'libnvJitLink.so.*[0-9]')")
    assert parse_preloads(two) == [("nvjitlink", "libnvJitLink")]
    assert parse_preloads(PRELOADS_ALL.replace("/proc/self/maps", "x")) == []


def test_the_installed_torch_says_which_architectures_it_knows() -> None:
    text = "    named_arches = dict([\n  ('Hopper', '9.0+PTX'),\n ('Blackwell', '10.0;12.1+PTX'),])\n supported_arches = ['8.0', '9.0a',\n '12.0']\n os.environ.get('CXX', 'cl')"
    assert parse_arch_names(text) == (("8.0", "9.0a", "12.0"), {"Hopper": "9.0+PTX", "Blackwell": "10.0;12.1+PTX"})


@given(st.text())
def test_parsers_survive_any_text(text: str) -> None:
    toolchain_module.parse_version_json(text)
    toolchain_module.parse_nvcc(text)
    toolchain_module.parse_host_config(text)
    toolchain_module.parse_compiler_name(text)
    toolchain_module.parse_compiler_banner(text)
    caches_module.parse_passwd(text, 0)
    parse_arch_names(text)
    parse_preloads(text)
    parse_preloads(PRELOADS_ALL + text)
