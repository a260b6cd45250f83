"""Which CUDA libraries torch's process gets, library by library in the loader's order, and what the engines' extensions want; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..api import Absent, Host, Trouble, probe
from . import _elf, _ldso, fatbin
from ._interpreter import Interpreter, interpreter

# torch/__init__.py loads the first before anything else; the second is what torch._C pulls in.
ROOTS = ("libtorch_global_deps.so", "libtorch_cuda.so")
CUDA_LIBRARY = re.compile(
    r"lib(cudart|cublas|cublasLt|cudnn\w*|cufft|cufile|cupti|curand|cusolver\w*|cusparse|cusparseLt|nvrtc|nvJitLink|nvToolsExt|nvshmem_host|nccl)\.so\.\d+\Z"
)
LIMIT = 64  # libraries followed
EXTENSIONS = {
    "vllm": re.compile(r"_C\w*(\.abi3|\.cpython-[\w-]+)\.so\Z"),
    "sgl_kernel": re.compile(r"(common_ops|flash_ops|spatial_ops).*\.so\Z"),
}


class CudaLibrary(msgspec.Struct, frozen=True, kw_only=True):
    """One library that `by` (the first that asks) needs. `path` None: the loader finds none. `how` as in Loader, or `torch`: its
    __init__.py loads that file by its path before anything asks for it. `plain` is what it would be
    without LD_LIBRARY_PATH. `real_name` is the file's name with links followed, which often carries the version."""

    name: str
    by: str
    path: str | None = None
    how: str | None = None
    real_name: str | None = None
    plain: str | None = None
    in_site: bool = (
        False  # no file for the loader, but one below nvidia/ of a package folder, which torch then loads itself
    )


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """One compiled extension of an engine: the CUDA libraries it needs, and those of them that nothing gives."""

    package: str
    path: str
    needs: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    arches: tuple[str, ...] | None = None  # of vLLM's; SGLang keeps one file for each architecture


class TorchLibs(msgspec.Struct, frozen=True, kw_only=True):
    """The CUDA libraries of torch's process in the order they are met, and the engines' compiled extensions."""

    folder: str
    libraries: tuple[CudaLibrary, ...] = ()
    extensions: tuple[Extension, ...] = ()
    cache_readable: bool = True  # False: what stands only in /etc/ld.so.cache was not seen


@probe
def torch_libs(host: Host) -> TorchLibs:
    python = interpreter(host)
    folder = next((f"{s}/torch" for s in python.site if _ldso.there(host, f"{s}/torch/version.py")), None)
    if folder is None:
        raise Absent("no-torch", python=python.path)
    exe = _program(host, python)
    setup = _ldso.setup(host, exe[0].path if exe else None)
    process = _Process(host, setup, python, exe, folder)
    first, last = (f"{folder}/lib/{name}" for name in ROOTS)
    process.load(first)
    for path in _preloads(host, python, folder):
        process.load(path, f"{folder}/__init__.py")
    process.load(last)
    loaded = process.loaded
    return TorchLibs(
        folder=folder,
        libraries=tuple(loaded.values()),
        cache_readable=setup.cache_readable,
        extensions=tuple(
            _extensions(host, setup, python, exe, {n for n, one in loaded.items() if one.path or one.in_site})
        ),
    )


class _Process:
    """The CUDA libraries that a process has loaded so far: a name is looked for once, as the loader does."""

    def __init__(
        self, host: Host, setup: _ldso.Setup, python: Interpreter, exe: tuple[_elf.Elf, ...], folder: str
    ) -> None:
        self.host, self.setup, self.python, self.exe, self.folder = host, setup, python, exe, folder
        self.own: set[str] = set()  # torch's own libraries that were met
        self.loaded: dict[str, CudaLibrary] = {}

    def load(self, path: str, by: str | None = None) -> None:
        """A file by its path (`by` names who, when it is a CUDA library itself), then what it needs, level by level."""
        if by is not None:
            name = path.rpartition("/")[2]
            if name in self.loaded or not _ldso.there(self.host, path):
                return
            real = self.host.real(path).rpartition("/")[2]
            self.loaded[name] = CudaLibrary(name=name, by=by, path=path, how="torch", real_name=real, plain=path)
        todo = [(path, self.exe)]
        while todo and len(self.loaded) < LIMIT:
            path, chain = todo.pop(0)
            try:
                elf = _elf.read(self.host, path)
            except Trouble:
                continue
            for name in elf.needed:
                if name not in self.loaded and CUDA_LIBRARY.match(name):
                    one = _found(self.host, self.setup, name, (elf, *chain), self.python)
                    self.loaded[name] = one
                    if one.path is not None:
                        todo.append((one.path, (elf, *chain)))
                elif name.startswith(("libtorch", "libc10")) and name not in self.own:
                    self.own.add(name)
                    todo.append((f"{self.folder}/lib/{name}", (elf, *chain)))


def parse_preloads(text: str) -> list[tuple[str, str]]:
    """(wheel's folder, library's stem) that torch/__init__.py loads by path after its first library, in order.

    torch 2.11 does it for all of them, older ones for nvJitLink and nvrtc or for none (pytorch issues 138460, 145580).
    """
    m = re.search(r"^def _load_global_deps\b.*?^    except OSError", text, re.M | re.S)
    block = m[0].partition("/proc/self/maps")[2] if m else ""
    if re.search(r"_preload_cuda_deps\(\)", block):
        every = re.search(r"^def _preload_cuda_deps\b.*?^    \]", text, re.M | re.S)
        block = every[0] if every else ""
        return re.findall(r"""\(\s*["'](\w+)["'],\s*["'](lib[\w-]+)\.so""", block)
    return re.findall(r"""_preload_cuda_(?:deps|lib)\(\s*["'](\w+)["'],\s*["'](lib[\w-]+)\.so""", block)


def _preloads(host: Host, python: Interpreter, folder: str) -> Iterator[str]:
    """The files of those, up to the first that is not there: torch gives up quietly then."""
    try:
        wanted = parse_preloads(host.text(f"{folder}/__init__.py", 1 << 20))
    except Trouble:
        return
    names: dict[str, list[str]] = {}
    for wheel, stem in wanted:
        path = next(_wheel_files(host, python, wheel, stem, names), None)
        if path is None:
            return
        yield path


def _wheel_files(host: Host, python: Interpreter, wheel: str, stem: str, names: dict[str, list[str]]) -> Iterator[str]:
    pattern = re.compile(re.escape(stem) + r"\.so\..*[0-9]\Z")
    for site in python.site:
        for place in (f"{site}/nvidia/{wheel}/lib", f"{site}/nvidia/cu13/lib", f"{site}/nvidia/cu12/lib"):
            if place not in names:
                try:
                    names[place] = host.names(place)
                except Trouble:
                    names[place] = []
            for name in names[place]:
                if pattern.match(name):
                    yield f"{place}/{name}"


def _program(host: Host, python: Interpreter) -> tuple[_elf.Elf, ...]:
    try:
        return (_elf.read(host, host.real(python.path)),)
    except Trouble:
        return ()


def _found(host: Host, setup: _ldso.Setup, name: str, chain: tuple[_elf.Elf, ...], python: Interpreter) -> CudaLibrary:
    first = _ldso.first(host, setup, name, chain)
    by = chain[0].path
    if first is None:
        return CudaLibrary(name=name, by=by, in_site=_in_site(host, python, name))
    plain: _ldso.Found | None = first
    real = host.real(first.path)
    if first.how == "LD_LIBRARY_PATH":
        plain = _ldso.first(host, msgspec.structs.replace(setup, library_path=()), name, chain)
        if plain is not None and host.real(plain.path) == real:
            plain = first  # the same file by another way, as /usr/local/cuda/lib64 and the cache give it
    return CudaLibrary(
        name=name,
        by=by,
        path=first.path,
        how=first.how,
        real_name=real.rpartition("/")[2],
        plain=plain.path if plain else None,
    )


def _in_site(host: Host, python: Interpreter, name: str) -> bool:
    for site in python.site:
        try:
            parts = host.names(f"{site}/nvidia")
        except Trouble:
            continue
        if any(_ldso.there(host, f"{site}/nvidia/{part}/lib/{name}") for part in parts):
            return True
    return False


def _extensions(
    host: Host, setup: _ldso.Setup, python: Interpreter, exe: tuple[_elf.Elf, ...], loaded: set[str]
) -> Iterator[Extension]:
    for package, pattern in EXTENSIONS.items():
        for path in _files(host, python, package, pattern):
            try:
                elf = _elf.read(host, path)
            except Trouble:
                continue
            needs = tuple(n for n in elf.needed if CUDA_LIBRARY.match(n))
            lacks = tuple(n for n in needs if n not in loaded and _ldso.first(host, setup, n, (elf, *exe)) is None)
            arches = _arches(host, path) if package == "vllm" else None
            yield Extension(package=package, path=path, needs=needs, lacks=lacks, arches=arches)


def _arches(host: Host, path: str) -> tuple[str, ...] | None:
    try:
        return fatbin.arches(host, path)
    except Trouble:
        return None


def _files(host: Host, python: Interpreter, package: str, pattern: re.Pattern[str]) -> list[str]:
    for site in python.site:
        try:
            names = host.names(f"{site}/{package}")
        except Trouble:
            continue
        found = [f"{site}/{package}/{n}" for n in names if pattern.match(n)]
        for name in names:
            if name.startswith("sm"):  # sgl_kernel keeps one for each architecture
                try:
                    found += [
                        f"{site}/{package}/{name}/{n}"
                        for n in host.names(f"{site}/{package}/{name}")
                        if pattern.match(n)
                    ]
                except Trouble:
                    continue
        return found[:4]
    return []
