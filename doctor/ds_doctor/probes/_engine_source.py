"""Finds the engine's package in the Python that the command would use, and has its flags read; never imports it.

A release whose table stands with the checks is only recognised; of any other the table is worked out once and kept.
"""

from __future__ import annotations

import re
import zlib

import msgspec

from ..api import Absent, Host, Trouble
from . import launch
from ._engine_table import SPENT, Read
from ._interpreter import interpreter
from .engine_flags import EngineFlags, Flag

READER = 2  # raised when the same source reads otherwise: what an older one kept is not used
VERSION_FILES = 64 << 10  # bytes
_FINDER = re.compile(r"^MAPPING\b[^=]*=\s*(\{.*\})", re.M)


class Kept(msgspec.Struct, frozen=True):
    """A table in the cache directory. `files`: path -> its size and time of change, None: it was not there."""

    reader: str
    folder: str
    files: dict[str, tuple[int, float] | None]
    flags: tuple[Flag, ...]
    ways: tuple[str, ...]
    entries: tuple[str, ...]
    names: dict[str, tuple[str, ...]]
    open_names: tuple[str, ...]
    missed: tuple[str, ...]


def flags(host: Host) -> EngineFlags:
    """As the probe of engine_flags says it."""
    asked = launch.launch(host)
    if asked.engine is None:
        raise Absent("no-engine-command")
    if asked.container is not None:
        raise Absent("engine-in-container")
    folder, sites = place(host, asked.engine)
    return table(host, asked.engine, folder, version(host, asked.engine, folder, sites))


def place(host: Host, engine: str) -> tuple[str, tuple[str, ...]]:
    """(the engine's package folder, the site folders of the target Python). Absent where it is not installed."""
    python = interpreter(host)
    for site in python.site:
        if _is_folder(host, f"{site}/{engine}"):
            return f"{site}/{engine}", python.site
    for site in python.site:  # a checkout installed with `pip install -e`, as setuptools notes it
        try:
            finders = [n for n in host.names(site) if n.startswith("__editable__") and n.endswith("_finder.py")]
            for name in [n for n in finders if engine in n][:8]:
                folder = mapped(host.text(f"{site}/{name}", 1 << 20), engine)
                if folder is not None and _is_folder(host, folder):
                    return folder, python.site
        except Trouble:
            continue
    raise Absent("engine-not-installed", engine=engine, python=python.path)


def mapped(text: str, package: str) -> str | None:
    """The folder of a package in setuptools' finder for an editable install."""
    m = _FINDER.search(text)
    found = re.search(rf"['\"]{re.escape(package)}['\"]\s*:\s*['\"](/[^'\"\n]*)['\"]", m[1]) if m else None
    return found[1] if found else None


def _is_folder(host: Host, path: str) -> bool:
    try:
        return host.stat(path).kind == "directory"
    except Trouble:
        return False


def version(host: Host, engine: str, folder: str, sites: tuple[str, ...]) -> str | None:
    """As pip's metadata says it, else the package's own _version.py."""
    beside = folder.rpartition("/")[0]
    for site in [beside, *(s for s in sites if s != beside)]:
        try:
            names = host.names(site)
        except Trouble:
            continue
        for name in names:
            stem, _, ending = name.rpartition(".")
            if ending == "dist-info" and stem.lower().startswith(engine + "-"):
                return stem[len(engine) + 1 :]
    for file in ("_version.py", "version.py"):
        try:
            said = host.text(f"{folder}/{file}", VERSION_FILES)
        except Trouble:
            continue
        m = re.search(r"^(?:__version__\s*=\s*)?(?:version|__version__)\s*=\s*['\"]([^'\"\n]{1,60})['\"]", said, re.M)
        if m:
            return m[1]
    return None


def table(host: Host, engine: str, folder: str, installed: str | None) -> EngineFlags:
    """The engine's flags: left out where its files are those of a release that the checks know, kept ones where they still
    hold, else read from the source."""
    release = recognised(host, engine, folder, installed)
    if release is not None:
        return EngineFlags(engine=engine, version=installed, folder=folder, flags=(), release=release)
    name = f"flags-{zlib.crc32(folder.encode('utf-8', 'surrogateescape')):08x}.json"
    kept = _kept(host, name, folder)
    if kept is None:
        watched = Watched(host)
        read = _read(watched, engine, folder)
        kept = Kept(_reader(), folder, watched.seen, *read)
        if SPENT not in kept.missed:
            host.keep(name, msgspec.json.encode(kept))
    return EngineFlags(
        engine=engine,
        version=installed,
        folder=folder,
        flags=kept.flags,
        ways=kept.ways,
        entries=kept.entries,
        names=kept.names,
        open_names=kept.open_names,
        complete=not kept.missed,
        missed=kept.missed,
    )


def recognised(host: Host, engine: str, folder: str, installed: str | None) -> str | None:
    """The known release whose deciding files lie in this folder, byte for byte."""
    from ._known_engines import KNOWN

    known = KNOWN.get(engine)
    if known is None or installed is None or not installed.startswith(known.release):
        return None
    return known.release if digest(host, folder, known.files) == known.digest else None


def digest(host: Host, folder: str, files: tuple[str, ...]) -> str | None:
    """Of the bytes of these files; None where one cannot be read. It tells a patched file from a release's, no forged one."""
    crc = adler = size = 0
    for file in files:
        try:
            data = host.read(f"{folder}/{file}")
        except Trouble:
            return None
        crc, adler, size = zlib.crc32(data, crc), zlib.adler32(data, adler or 1), size + len(data)
    return f"{size:08x}{crc:08x}{adler:08x}"


class Watched(Host):
    """The same host; it notes which files were asked for, so that a kept table is known to be theirs."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.asked, host.env)
        self.host = host
        self.deadline = host.deadline
        self.seen: dict[str, tuple[int, float] | None] = {}

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        """As Host.read."""
        self.seen[path] = _mark(self.host, path)
        return self.host.read(path, limit)

    def names(self, path: str) -> list[str]:
        """As Host.names."""
        self.seen[path] = _mark(self.host, path)
        return self.host.names(path)


def _mark(host: Host, path: str) -> tuple[int, float] | None:
    try:
        s = host.stat(path)
    except Trouble:
        return None
    return s.size, s.mtime


def _kept(host: Host, name: str, folder: str) -> Kept | None:
    data = host.recall(name)
    if data is None:
        return None
    try:
        kept = msgspec.json.decode(data, type=Kept)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if kept.reader != _reader() or kept.folder != folder or not kept.files:
        return None
    return kept if all(_mark(host, path) == mark for path, mark in kept.files.items()) else None


def _reader() -> str:
    return f"{READER} {' '.join(Flag.__struct_fields__)}"


def _read(host: Host, engine: str, folder: str) -> Read:
    if engine == "vllm":
        from . import _vllm_flags

        return _vllm_flags.flags(host, folder)
    from . import _sglang_flags

    return _sglang_flags.flags(host, folder)
