"""What compiling at run time finds: CUDA_HOME, nvcc, the host compilers, Python.h, ninja; never judges.

The search order is that of torch/utils/cpp_extension.py `_find_cuda_home` (torch 2.11), which FlashInfer's jit/cpp_ext.py
repeats: CUDA_HOME, CUDA_PATH, the folder above the nvcc on PATH, /usr/local/cuda. The C compiler is searched as Triton does
(triton/runtime/build.py, 3.6): CC, gcc, clang; the C++ compiler as torch does: CXX, c++.
"""

from __future__ import annotations

import re

import msgspec

from ..api import Denied, Host, Trouble, probe
from ._interpreter import interpreter

DEFAULT = "/usr/local/cuda"


class Compiler(msgspec.Struct, frozen=True, kw_only=True):
    """One compiler. `asked`: the word that names it (a value of CC or CXX, or gcc); `path` None: not found. `gcc` is its
    major version when it is a GCC, `clang` when it is a Clang; both None when that was not seen. `unseen`: none was found, and
    where one would lie is not here (--root with a tree of a few files)."""

    asked: str
    variable: str | None = None
    path: str | None = None
    gcc: int | None = None
    clang: int | None = None
    unseen: bool = False


class Toolchain(msgspec.Struct, frozen=True, kw_only=True):
    """The CUDA toolkit and the compilers that run-time compilation would use.

    `cuda_home` is the folder that torch and FlashInfer would use and `how` where it comes from (CUDA_HOME, CUDA_PATH,
    nvcc, default), None when there is none. `nvcc` is the file bin/nvcc in it, `nvcc_version` such as 13.0.
    `nvcc_newest_gcc`: the newest GCC that the nvcc's own crt/host_config.h accepts. `nvcc_on_path`: the one a shell would find.
    `python_header` is Python.h of the engine's Python, `python_header_missing` where it should lie and does not; both None
    when the Python is not known.
    """

    cuda_home: str | None = None
    how: str | None = None
    cuda_home_exists: bool = False
    nvcc: str | None = None
    nvcc_version: str | None = None
    nvcc_newest_gcc: int | None = None
    nvcc_on_path: str | None = None
    runtime_header: bool = False
    cc: Compiler
    cxx: Compiler
    ninja: str | None = None
    ninja_beside_python: str | None = None
    python_header: str | None = None
    python_header_missing: str | None = None


# -- parsers -------------------------------------------------------------------------------------------------------


def parse_version_json(text: str) -> str | None:
    """The nvcc of a toolkit's version.json, as 13.0; None when it says nothing of it."""
    m = re.search(r'"cuda_nvcc"\s*:\s*\{[^{}]*"version"\s*:\s*"(\d+\.\d+)', text)
    return m[1] if m else None


def parse_nvcc(text: str) -> str | None:
    """The release that `nvcc --version` prints."""
    m = re.search(r"release (\d+\.\d+)", text)
    return m[1] if m else None


def parse_host_config(text: str) -> int | None:
    """The newest GCC that crt/host_config.h accepts."""
    m = re.search(r"__GNUC__\s*>\s*(\d{1,3})\b", text)
    return int(m[1]) if m else None


def parse_compiler_name(name: str) -> tuple[str, int] | None:
    """("gcc", 13) out of x86_64-linux-gnu-gcc-13 or clang-18; None when the name tells no version."""
    m = re.search(r"(?:\A|-)(gcc|g\+\+|clang|clang\+\+)-(\d{1,2})(?:\.[\d.]+)?\Z", name)
    return (("clang" if m[1].startswith("clang") else "gcc"), int(m[2])) if m else None


def parse_compiler_banner(text: str) -> tuple[str, int] | None:
    """("gcc", 13) or ("clang", 18) out of what `--version` prints."""
    first = text.split("\n", 1)[0]
    clang = re.search(r"clang version (\d{1,3})", first)
    if clang is not None:
        return "clang", int(clang[1])
    gcc = re.search(r"\) (\d{1,3})\.\d", first)
    return ("gcc", int(gcc[1])) if gcc is not None and "Free Software Foundation" in text else None


# -- probe ---------------------------------------------------------------------------------------------------------


@probe
def toolchain(host: Host) -> Toolchain:
    home, how = _cuda_home(host)
    nvcc = _file(host, f"{home}/bin/nvcc") if home else None
    header, missing, beside = _python_side(host)
    return Toolchain(
        cuda_home=home,
        how=how,
        cuda_home_exists=home is not None and home.startswith("/") and _there(host, home),
        nvcc=nvcc,
        nvcc_version=_nvcc_version(host, home, nvcc) if home and nvcc else None,
        nvcc_newest_gcc=_newest_gcc(host, home) if home and nvcc else None,
        nvcc_on_path=host.which("nvcc"),
        runtime_header=any(_there(host, f"{i}/cuda_runtime.h") for i in _includes(home)),
        cc=_compiler(host, "CC", ("gcc", "clang")),
        cxx=_compiler(host, "CXX", ("c++",)),
        ninja=host.which("ninja"),
        ninja_beside_python=beside,
        python_header=header,
        python_header_missing=missing,
    )


def _cuda_home(host: Host) -> tuple[str | None, str | None]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if host.env.get(name):
            return host.env[name], name
    nvcc = host.which("nvcc")
    if nvcc is not None:
        return nvcc.rpartition("/")[0].rpartition("/")[0] or "/", "nvcc"
    return (DEFAULT, "default") if _there(host, DEFAULT) else (None, None)


def _includes(home: str | None) -> list[str]:
    if not home or not home.startswith("/"):
        return []
    return [f"{home}/include", f"{home}/targets/x86_64-linux/include", f"{home}/targets/sbsa-linux/include"]


def _nvcc_version(host: Host, home: str, nvcc: str) -> str | None:
    """From version.json; else the program itself is asked, which only prints; else from the folder's name."""
    try:
        said = parse_version_json(host.text(f"{home}/version.json", 1 << 16))
        if said is not None:
            return said
    except Trouble:
        pass
    if host.live:
        try:
            said = parse_nvcc(host.run([nvcc, "--version"], timeout_s=5.0).out)
            if said is not None:
                return said
        except Trouble:
            pass
    m = re.search(r"/cuda-(\d+\.\d+)\Z", host.real(home))
    return m[1] if m else None


def _newest_gcc(host: Host, home: str) -> int | None:
    for include in _includes(home):
        try:
            return parse_host_config(host.text(f"{include}/crt/host_config.h", 1 << 18))
        except Trouble:
            continue
    return None


def _compiler(host: Host, variable: str, names: tuple[str, ...]) -> Compiler:
    value = host.env.get(variable)
    if value is not None:
        # Triton and torch take the value as one word each; an empty one is a program with an empty name.
        path = _file(host, value) if value.startswith("/") else host.which(value) if value else None
        return _versioned(host, Compiler(asked=value, variable=variable, path=path))
    for name in names:
        path = host.which(name)
        if path is not None:
            return _versioned(host, Compiler(asked=name, path=path))
    return Compiler(asked=names[0], unseen=not _whole(host))


def _whole(host: Host) -> bool:
    """Whether the programs and headers of a system are here: a tree of a few files lacks them all, and that is no fault."""
    return host.live or _there(host, "/bin/sh")


def _versioned(host: Host, compiler: Compiler) -> Compiler:
    if compiler.path is None:
        return compiler
    told = parse_compiler_name(host.real(compiler.path).rpartition("/")[2])
    if told is None and host.live:
        try:
            said = host.run([compiler.path, "--version"], timeout_s=3.0).out
        except Trouble:
            return compiler
        told = parse_compiler_banner(said)
    if told is None:
        return compiler
    return msgspec.structs.replace(compiler, **{told[0]: told[1]})


def _python_side(host: Host) -> tuple[str | None, str | None, str | None]:
    """Python.h of the engine's Python, or where it should lie; and a ninja in the folder of that Python."""
    try:
        python = interpreter(host)
    except Trouble:
        return None, None, None
    beside = _file(host, python.path.rpartition("/")[0] + "/ninja")
    folder = f"{python.base}/include"
    for name in (f"python{python.version}", f"python{python.version}t"):
        try:
            if host.exists(f"{folder}/{name}/Python.h"):
                return f"{folder}/{name}/Python.h", None, beside
        except Denied:
            return None, None, beside
    return None, f"{folder}/python{python.version}/Python.h" if _whole(host) else None, beside


def _there(host: Host, path: str) -> bool:
    try:
        return host.exists(path)
    except Trouble:
        return False


def _file(host: Host, path: str) -> str | None:
    """The path when an executable file is there."""
    try:
        s = host.stat(path)
    except Trouble:
        return None
    return path if s.kind == "file" and s.mode & 0o111 else None
