"""What the dynamic loader would really pick, in its own order: RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default folders; never judges."""

from __future__ import annotations

import msgspec


class Library(msgspec.Struct, frozen=True, kw_only=True):
    """One library file: as found, with links followed, how it was found, and the version its name or content tells."""

    path: str
    real: str
    how: str  # LD_PRELOAD, RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default
    version: str | None = None


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """`picked`: soname -> what a plain process would load (libcuda.so.1, libnvidia-ml.so.1, libnccl.so.2, libcudart.so.12
    ...); a name that is not found has no entry. `others`: further copies on the search path, in order. `preload`: the files of LD_PRELOAD
    and /etc/ld.so.preload. `path`: the folders of LD_LIBRARY_PATH that exist; `path_missing`: those that do not."""

    picked: dict[str, Library]
    others: dict[str, tuple[Library, ...]] = {}
    preload: tuple[str, ...] = ()
    preload_missing: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    path_missing: tuple[str, ...] = ()
    cache_readable: bool = True
