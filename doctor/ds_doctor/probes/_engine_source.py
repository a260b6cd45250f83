"""Finds the engine's package in the Python that the command would use, and has its flags read; never imports it."""

from __future__ import annotations

from ..api import Absent, Host, Trouble
from . import launch
from ._interpreter import interpreter
from .engine_flags import EngineFlags


def flags(host: Host) -> EngineFlags:
    """As the probe of engine_flags says it."""
    asked = launch.launch(host)
    if asked.engine is None:
        raise Absent("no-engine-command")
    if asked.container is not None:
        raise Absent("engine-in-container")
    folder, _ = place(host, asked.engine)
    raise Absent("engine-not-read", engine=asked.engine, folder=folder)


def place(host: Host, engine: str) -> tuple[str, tuple[str, ...]]:
    """(the engine's package folder, the site folders of the target Python). Absent where it is not installed."""
    python = interpreter(host)
    for site in python.site:
        try:
            if host.stat(f"{site}/{engine}").kind == "directory":
                return f"{site}/{engine}", python.site
        except Trouble:
            continue
    raise Absent("engine-not-installed", engine=engine, python=python.path)
