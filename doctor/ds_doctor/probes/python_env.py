"""The Python that the engine will use, read from its files and never imported: interpreter, packages, torch; never judges."""

from __future__ import annotations

import msgspec


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """One installed distribution (normalised name). `requires`: its Requires-Dist lines without extras."""

    name: str
    version: str
    folder: str  # the *.dist-info folder
    requires: tuple[str, ...] = ()


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter and what is installed for it. `how` says where the interpreter came from (option, command,
    VIRTUAL_ENV, CONDA_PREFIX, PATH); `site` are its package folders in the order of sys.path; `broken` are dist-info
    folders without readable METADATA; `leftovers` folders such as `~orch` that an interrupted pip left."""

    python: str
    how: str
    version: str
    prefix: str
    site: tuple[str, ...]
    packages: dict[str, Package]
    doubled: dict[str, tuple[str, ...]] = {}  # name -> versions, when one site folder holds several dist-infos of it
    broken: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    """torch/version.py of that Python. `cuda` is None for a build without CUDA; `arches` what torch's libraries were
    compiled for (sm_90, compute_90 for PTX), None when it could not be read."""

    version: str
    cuda: str | None
    folder: str
    hip: str | None = None
    git: str | None = None
    arches: tuple[str, ...] | None = None
