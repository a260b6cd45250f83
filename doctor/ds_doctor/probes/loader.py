"""What the dynamic loader would really pick, in its own order: LD_PRELOAD, LD_LIBRARY_PATH, cache, default folders; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Host, Trouble, Unseen, probe
from . import _ldcache, _ldso

# The names under which GPU software opens its libraries (the sonames of the driver, of CUDA 11 to 13 and of NCCL).
NAMES = (
    "libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1", "libnccl.so.2",
    "libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13",
    "libcublas.so.11", "libcublas.so.12", "libcublas.so.13",
    "libcublasLt.so.11", "libcublasLt.so.12", "libcublasLt.so.13",
    "libcudnn.so.8", "libcudnn.so.9",
    "libnvrtc.so.11.2", "libnvrtc.so.12", "libnvrtc.so.13",
    "libnvJitLink.so.12", "libnvJitLink.so.13",
    "libcusparse.so.11", "libcusparse.so.12", "libcufft.so.10", "libcufft.so.11", "libcufft.so.12",
    "libcusolver.so.11", "libcusolver.so.12", "libcurand.so.10", "libcupti.so.12", "libcupti.so.13",
    "libcusparseLt.so.0", "libcufile.so.0", "libnvshmem_host.so.3",
    "libibverbs.so.1", "libstdc++.so.6",
)  # fmt: skip
_NUMBERED = re.compile(r"\.so\.(\d+(?:\.\d+)+)\Z")


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """One library file: as found, with links followed, how it was found, and the version its file name tells
    (580.159.04, 13.0.96; None for a bare soname). `fault`: the file is no library (`not-elf`), loading it fails."""

    path: str
    real: str
    how: str  # LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default
    version: str | None = None
    fault: str | None = None


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """The libraries that the dynamic loader gives a plain process.

    `picked`: soname -> what a plain process would load (libcuda.so.1, libnvidia-ml.so.1, libnccl.so.2, libcudart.so.12
    ...); a name that is not found has no entry. `others`: further copies on the search path, in order. `preload`: the files of LD_PRELOAD
    and /etc/ld.so.preload. `path`: the folders of LD_LIBRARY_PATH that exist; `path_missing`: those that do not.
    """

    picked: dict[str, Library]
    others: dict[str, tuple[Library, ...]] = {}
    preload: tuple[str, ...] = ()
    preload_missing: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    path_missing: tuple[str, ...] = ()
    cache_readable: bool = True


def parse_version(path: str) -> str | None:
    """`/usr/lib/libcuda.so.580.159.04` -> 580.159.04; None for a bare soname such as libnccl.so.2."""
    m = _NUMBERED.search(path)
    return m[1] if m else None


def as_library(host: Host, path: str, how: str, fault: str | None = None) -> Library:
    """The file with its links followed and the version that its name tells."""
    try:
        real = host.real(path)
    except Trouble:
        real = path
    return Library(path=path, real=real, how=how, version=parse_version(real), fault=fault)


def copies(host: Host, setup: _ldso.Setup, preloads: list[_ldso.Preload], name: str) -> list[Library]:
    """Every file that answers to the name, in the loader's order, each file once."""
    out = [as_library(host, p.path, p.how) for p in preloads if p.path is not None and p.answers(name)]
    out += [as_library(host, f.path, f.how, f.fault) for f in _ldso.search(host, setup, name)]
    once: dict[str, Library] = {}
    for one in out:
        once.setdefault(one.real, one)
    return list(once.values())


@probe
def loader(host: Host) -> Loader:
    if not host.live and not host.exists(_ldcache.PATH) and not host.exists("/lib"):
        raise Unseen("not-under-root")
    setup = _ldso.setup(host)
    preloads = _ldso.preloads(host, setup)
    there = {f: _ldso.there(host, f) for f in setup.library_path}
    # What is not there is asked once, not once a name.
    path = tuple(f for f in setup.library_path if there[f])
    plain = frozenset(f for f in (*path, *setup.defaults) if not _ldso.there(host, f"{f}/glibc-hwcaps"))
    short = msgspec.structs.replace(setup, library_path=path, plain=plain)
    picked: dict[str, Library] = {}
    others: dict[str, tuple[Library, ...]] = {}
    for name in NAMES:
        found = copies(host, short, preloads, name)
        if found:
            picked[name] = found[0]
        if len(found) > 1:
            others[name] = tuple(found[1:])
    return Loader(
        picked=picked,
        others=others,
        preload=tuple(p.path for p in preloads if p.path is not None),
        preload_missing=tuple(p.text for p in preloads if p.path is None),
        path=path,
        path_missing=tuple(f for f in setup.library_path if not there[f]),
        cache_readable=setup.cache_readable,
    )
