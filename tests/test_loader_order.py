"""Our order of search is the real loader's: libraries are built, a child process loads them, both say the same file."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Trouble
from ds_doctor.probes import _elf, _ldcache, _ldso
from ds_doctor.probes.loader import copies, loader, parse_version
from ds_doctor.rooted import RootedHost

needs_gcc = pytest.mark.skipif(
    shutil.which("gcc") is None or platform.libc_ver()[0] != "glibc", reason="needs gcc and glibc"
)


def build(path: Path, *options: str, soname: str | None = None, body: str = "") -> Path:
    """A shared library at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(body or "int answer(void) { return 42; }\n")
    name = [f"-Wl,-soname,{soname}"] if soname else []
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", str(path), str(source), *name, "-Wl,--no-as-needed", *options], check=True
    )
    source.unlink()
    return path


def program(path: Path, *options: str) -> Path:
    """A program that opens its first argument and prints where the files of the second argument's name were mapped from."""
    source = path.with_suffix(".c")
    source.write_text(
        """
        #include <dlfcn.h>
        #include <stdio.h>
        #include <string.h>
        int main(int n, char **a) {
            void *h = dlopen(a[1], RTLD_NOW);
            if (!h) { printf("NOTHING %s\\n", dlerror()); return 0; }
            FILE *f = fopen("/proc/self/maps", "r"); char l[8192];
            while (fgets(l, sizeof l, f)) if (strstr(l, a[2])) { printf("%s", strchr(l, '/')); return 0; }
            printf("NOTHING mapped\\n"); return 0;
        }
        """
    )
    subprocess.run(["gcc", "-o", str(path), str(source), "-ldl", "-Wl,--no-as-needed", *options], check=True)
    return path


def really(exe: Path, opens: str, name: str, env: dict[str, str], cwd: Path | None = None) -> str | None:
    out = subprocess.run(
        [exe, opens, name], env=env, capture_output=True, text=True, check=True, cwd=cwd
    ).stdout.strip()
    return None if out.startswith("NOTHING") else out


def ours(exe: Path, asks: Path | None, name: str, env: dict[str, str], between: tuple[Path, ...] = ()) -> str | None:
    host = Host(env=env)
    setup = _ldso.setup(host, str(exe))
    main = _elf.read(host, os.path.realpath(exe))
    for preload in _ldso.preloads(host, setup, main):
        if preload.answers(name):
            return os.path.realpath(preload.path or "")
    chain = [_elf.read(host, str(p)) for p in ([asks] if asks else []) + list(between)] + [main]
    found = _ldso.first(host, setup, name, chain)
    return os.path.realpath(found.path) if found and found.fault is None else None


NAME = "libdsprobe.so.2"


@pytest.fixture
def world(tmp_path: Path) -> dict[str, Path]:
    """Copies of one library in several folders, and a library that needs it, built in each way."""
    base = Path(os.path.realpath(tmp_path))
    copies_ = {f: build(base / f / NAME, soname=NAME) for f in ("rpath", "runpath", "env", "env2", "pre")}
    link = [f"-L{base / 'env'}", f"-l:{NAME}"]
    old, new = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"
    made = {
        "rpath_user": build(base / "libu1.so", *link, old, "-Wl,-rpath,$ORIGIN/rpath"),
        "runpath_user": build(base / "libu2.so", *link, new, "-Wl,-rpath,$ORIGIN/runpath"),
        "plain_user": build(base / "libu3.so", *link),
    }
    return {**copies_, **made, "base": base, "exe": program(base / "main")}


ENVS = (
    {},
    {"LD_LIBRARY_PATH": "{base}/env"},
    {"LD_LIBRARY_PATH": "{base}/none:{base}/env2;{base}/env"},
    {"LD_LIBRARY_PATH": "$ORIGIN/env"},
    {"LD_LIBRARY_PATH": "${{ORIGIN}}/env2/"},
    {"LD_LIBRARY_PATH": ":{base}/none"},
    {"LD_PRELOAD": "{base}/pre/" + NAME},
    {"LD_PRELOAD": "{base}/none.so {base}/pre/" + NAME, "LD_LIBRARY_PATH": "{base}/env"},
    {"LD_PRELOAD": NAME, "LD_LIBRARY_PATH": "{base}/env"},
)


@needs_gcc
@pytest.mark.parametrize("env", ENVS, ids=str)
@pytest.mark.parametrize("user", ["rpath_user", "runpath_user", "plain_user"])
def test_the_file_is_the_one_that_the_real_loader_takes(world: dict[str, Path], user: str, env: dict[str, str]) -> None:
    filled = {k: v.format(base=world["base"]) for k, v in env.items()}
    real = really(world["exe"], str(world[user]), NAME, filled)
    assert ours(world["exe"], world[user], NAME, filled) == real


@needs_gcc
def test_rpath_beats_the_library_path_and_runpath_does_not(world: dict[str, Path]) -> None:
    env = {"LD_LIBRARY_PATH": str(world["env"].parent)}
    assert ours(world["exe"], world["rpath_user"], NAME, env) == str(world["rpath"])
    assert ours(world["exe"], world["runpath_user"], NAME, env) == str(world["env"])


@needs_gcc
def test_the_rpath_of_a_loader_is_searched_for_its_dependencies(world: dict[str, Path]) -> None:
    base = world["base"]
    inner = build(base / "deep" / "libinner.so", f"-L{base / 'env'}", f"-l:{NAME}", soname="libinner.so")
    outer = build(
        base / "libouter.so",
        str(inner),
        "-Wl,--disable-new-dtags",
        "-Wl,-rpath,$ORIGIN/deep:$ORIGIN/rpath",
    )
    env = {"LD_LIBRARY_PATH": str(world["env"].parent)}
    real = really(world["exe"], str(outer), NAME, env)
    assert real == str(world["rpath"])
    assert ours(world["exe"], inner, NAME, env, (outer,)) == real


@needs_gcc
def test_the_rpath_of_the_program_counts_for_what_it_opens(world: dict[str, Path]) -> None:
    exe = program(world["base"] / "main2", "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/rpath")
    env = {"LD_LIBRARY_PATH": str(world["env"].parent)}
    real = really(exe, NAME, NAME, env)
    assert real == str(world["rpath"]) == ours(exe, None, NAME, env)


@needs_gcc
def test_a_library_of_another_machine_is_passed_over(world: dict[str, Path]) -> None:
    wrong = bytearray(world["env2"].read_bytes())
    wrong[18:20] = b"\x03\x00"  # e_machine: i386
    wrong[4] = 1
    world["env2"].write_bytes(wrong)
    env = {"LD_LIBRARY_PATH": f"{world['env2'].parent}:{world['env'].parent}"}
    real = really(world["exe"], str(world["plain_user"]), NAME, env)
    assert real == str(world["env"]) == ours(world["exe"], world["plain_user"], NAME, env)


@needs_gcc
def test_a_file_that_is_no_library_ends_the_search(world: dict[str, Path]) -> None:
    world["env2"].write_text("INPUT(libother.so)\n")
    env = {"LD_LIBRARY_PATH": f"{world['env2'].parent}:{world['env'].parent}"}
    assert really(world["exe"], str(world["plain_user"]), NAME, env) is None
    assert ours(world["exe"], world["plain_user"], NAME, env) is None


@needs_gcc
def test_the_current_folder_is_an_empty_entry(world: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world["env2"].parent)
    env = {"LD_LIBRARY_PATH": ":/nowhere"}
    real = really(world["exe"], str(world["plain_user"]), NAME, env)
    assert real == str(world["env2"]) == ours(world["exe"], world["plain_user"], NAME, env)


@needs_gcc
def test_a_folder_for_this_cpu_comes_before_its_parent(world: dict[str, Path]) -> None:
    levels = _ldso.setup(Host()).hwcaps
    if not levels:
        pytest.skip("no glibc-hwcaps level on this CPU")
    better = build(world["env"].parent / "glibc-hwcaps" / levels[-1] / NAME, soname=NAME)
    env = {"LD_LIBRARY_PATH": str(world["env"].parent)}
    real = really(world["exe"], str(world["plain_user"]), NAME, env)
    assert real == ours(world["exe"], world["plain_user"], NAME, env)
    assert real in (str(better), str(world["env"]))


@needs_gcc
def test_a_linked_library_keeps_the_origin_of_its_link(world: dict[str, Path], tmp_path: Path) -> None:
    away = world["base"] / "away"
    build(away / "rpath" / NAME, soname=NAME)
    (away / "libu1.so").symlink_to(world["rpath_user"])
    real = really(world["exe"], str(away / "libu1.so"), NAME, {})
    assert real == str(away / "rpath" / NAME) == ours(world["exe"], away / "libu1.so", NAME, {})


@needs_gcc
def test_a_preload_without_the_soname_does_not_answer_to_it(world: dict[str, Path]) -> None:
    other = build(world["base"] / "nosoname" / NAME)
    env = {"LD_PRELOAD": str(other), "LD_LIBRARY_PATH": str(world["env"].parent)}
    assert ours(world["exe"], world["plain_user"], NAME, env) == str(world["env"])


@needs_gcc
def test_the_fact_names_the_copies_in_order(world: dict[str, Path]) -> None:
    host = Host(env={"LD_LIBRARY_PATH": f"{world['env'].parent}:{world['base']}/gone:{world['env2'].parent}"})
    setup = _ldso.setup(host)
    assert [c.path for c in copies(host, setup, [], NAME)] == [str(world["env"]), str(world["env2"])]
    fact = loader(host)
    assert fact.path == (str(world["env"].parent), str(world["env2"].parent))
    assert fact.path_missing == (f"{world['base']}/gone",)
    assert "libstdc++.so.6" not in fact.picked or fact.picked["libstdc++.so.6"].how in ("cache", "default")


@pytest.mark.skipif(shutil.which("ldconfig") is None and not Path("/sbin/ldconfig").exists(), reason="needs ldconfig")
def test_the_cache_is_read_as_ldconfig_prints_it() -> None:
    tool = shutil.which("ldconfig") or "/sbin/ldconfig"
    printed = subprocess.run([tool, "-p"], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    want = [(m[1], m[2]) for m in re.finditer(r"^\t(\S+) \(.*\) => (.*)$", printed, re.M)]
    got = [(e.name, e.path) for e in _ldcache.parse(Path("/etc/ld.so.cache").read_bytes())]
    assert got == want and got


def test_every_cached_library_is_found_where_the_real_loader_finds_it() -> None:
    host = Host(env={})
    setup = _ldso.setup(host)
    names = sorted(n for n in setup.cache if re.match(r"lib(z|ssl|crypto|m|stdc\+\+|ffi|expat|lzma|bz2)\.so\.", n))
    code = (
        "import ctypes,os,sys\n"
        "for n in sys.argv[1:]:\n"
        "  before={l.split()[-1] for l in open('/proc/self/maps')}\n"
        "  ctypes.CDLL(n)\n"
        "  new={l.split()[-1] for l in open('/proc/self/maps')}\n"
        "  print(n, *sorted(new))\n"
    )
    out = subprocess.run(
        [sys.executable, "-I", "-c", code, *names], env={}, capture_output=True, text=True, check=True
    ).stdout
    for line in out.splitlines():
        name, *mapped = line.split()
        found = _ldso.first(host, setup, name)
        # The program may itself carry a library under that name (conda, uv); then the loader took that one.
        assert found is not None
        if not any(os.path.basename(m).startswith(name) and not m.startswith(("/usr", "/lib")) for m in mapped):
            assert os.path.realpath(found.path) in mapped


# -- parsers -----------------------------------------------------------------------------------------------------------


def old_cache(*rows: tuple[str, str]) -> bytes:
    strings = b""
    entries = b""
    for name, path in rows:
        entries += (3).to_bytes(4, "little") + len(strings).to_bytes(4, "little")
        strings += name.encode() + b"\0"
        entries += len(strings).to_bytes(4, "little")
        strings += path.encode() + b"\0"
    return b"ld.so-1.7.0\0" + len(rows).to_bytes(4, "little") + entries + strings


def test_the_old_format_of_the_cache_is_read() -> None:
    got = _ldcache.parse(old_cache(("libc.so.6", "/lib/libc.so.6"), ("libm.so.6", "/lib/libm.so.6")))
    assert [(e.name, e.path) for e in got] == [("libc.so.6", "/lib/libc.so.6"), ("libm.so.6", "/lib/libm.so.6")]


def test_both_formats_in_one_file_give_the_new_one() -> None:
    new = Path("/etc/ld.so.cache").read_bytes()
    if not new.startswith(b"glibc-ld.so.cache1.1"):
        pytest.skip("this system writes the old format")
    head = b"ld.so-1.7.0\0" + bytes(4)  # no entry: the new format begins at byte 16
    assert _ldcache.parse(head + new) == _ldcache.parse(new)


@given(st.binary(max_size=300), st.sampled_from([b"", b"ld.so-1.7.0\0", b"glibc-ld.so.cache1.1"]))
def test_any_cache_is_read_or_refused(data: bytes, head: bytes) -> None:
    try:
        _ldcache.parse(head + data)
    except Trouble:
        pass


@settings(deadline=None)
@given(st.integers(0, 2000), st.binary(min_size=1, max_size=12))
def test_a_damaged_cache_is_read_or_refused(at: int, junk: bytes) -> None:
    data = bytearray(Path("/etc/ld.so.cache").read_bytes())
    data[at : at + len(junk)] = junk
    try:
        _ldcache.parse(bytes(data))
    except Trouble:
        pass


@given(st.text())
def test_any_text_is_a_search_path(text: str) -> None:
    _ldso.split_path(text)
    _ldso.split_preload(text)
    _ldso.split_preload_file(text)
    _ldso.expand(text, "/o", "lib64", 62)
    _ldso.parse_cpu_level(text)
    parse_version(text)


def test_the_version_is_in_the_file_name() -> None:
    assert parse_version("/usr/lib/libcuda.so.580.159.04") == "580.159.04"
    assert parse_version("/x/libnccl.so.2") is None


def test_another_root_has_its_own_loader(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(old_cache())
    fact = loader(RootedHost(str(tmp_path)))
    assert fact.picked == {} and fact.path == ()
