"""Folders that Python searches before the installed packages, and source trees in them; never imports, never judges."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe
from .launch import Launch, asked_launch

FOLDERS = 32
# Packages of which a source tree without its compiled part cannot work: what the name of that part begins with.
COMPILED = {"vllm": "_C", "torch": "_C"}


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """One folder. `how`: PYTHONPATH, or `python -m` where it is the folder in which the command starts. `packages`: those of
    COMPILED that it holds, `uncompiled` those without their compiled part."""

    path: str
    how: str
    packages: tuple[str, ...] = ()
    uncompiled: tuple[str, ...] = ()


class PythonPath(msgspec.Struct, frozen=True, kw_only=True):
    """The folders before the installed packages that hold one of them, in their order."""

    of_command: ClassVar[bool] = True

    folders: tuple[Folder, ...] = ()


def places(launch: Launch, env: dict[str, str], folder: str) -> list[tuple[str, str]]:
    """(folder, how it gets on the path): where `python -m` starts comes first, then PYTHONPATH."""
    found = []
    if launch.python is not None and launch.entry is not None and "." in launch.entry:
        found.append((folder, "python -m"))
    for part in {**env, **launch.environment}.get("PYTHONPATH", "").split(":")[:FOLDERS]:
        if part:
            found.append((part if part.startswith("/") else f"{folder}/{part}", "PYTHONPATH"))
    return found


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names(path)
    except Trouble:
        return []


@probe
def python_path(host: Host) -> PythonPath:
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    if not host.live:
        raise Unseen("not-under-root")
    launch = asked_launch(host.asked)
    if launch.container is not None:
        return PythonPath()
    folders = []
    for path, how in places(launch, dict(host.env), launch.folder or host.real(".")):
        packages = [n for n in COMPILED if "__init__.py" in _names(host, f"{path}/{n}")]
        bare = [
            n
            for n in packages
            if not any(f.startswith(COMPILED[n]) and ".so" in f for f in _names(host, f"{path}/{n}"))
        ]
        if packages:
            folders.append(Folder(path=path, how=how, packages=tuple(packages), uncompiled=tuple(bare)))
    return PythonPath(folders=tuple(folders))
