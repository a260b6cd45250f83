"""How glibc's dynamic loader finds a library, told from files: its parsers and its order of search; never judges.

The order is that of glibc 2.36 (elf/dl-load.c, _dl_map_object): a library that is already in the process under that
name; DT_RPATH of the object that asks and of its loaders, unless the object has a DT_RUNPATH; LD_LIBRARY_PATH;
DT_RUNPATH of the object; /etc/ld.so.cache; the default folders. A library of another class or machine is passed over;
a file that is no library at all ends the search. /etc/ld.so.conf is not among them: only ldconfig reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ..host import Host
from ..model import Absent, Denied, Trouble
from . import _elf, _ldcache

X86_64, AARCH64 = 62, 183
MULTIARCH = {X86_64: "x86_64-linux-gnu", AARCH64: "aarch64-linux-gnu"}
PLATFORM = {X86_64: "x86_64", AARCH64: "aarch64"}

# sysdeps/x86_64/dl-hwcaps_subdirs.c: what each level needs, by the names of /proc/cpuinfo.
_V2 = ("cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave")
_V4 = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the loader would take. `fault`: it is no library, so that loading ends there with an error."""

    path: str
    how: str
    soname: str | None = None
    fault: str | None = None


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What the loader of a process starts from: the machine, LD_LIBRARY_PATH, the cache, the default folders."""

    machine: int
    bits: int
    lib: str  # $LIB
    library_path: tuple[str, ...] = ()
    cache: Mapping[str, tuple[_ldcache.Entry, ...]] = {}
    defaults: tuple[str, ...] = ()
    hwcaps: tuple[str, ...] = ()  # glibc-hwcaps folders that this CPU may use, best first
    plain: frozenset[str] = frozenset()  # folders that are known to have no glibc-hwcaps
    cache_readable: bool = True


# -- parsers -----------------------------------------------------------------------------------------------------------


def split_path(text: str) -> list[str]:
    """LD_LIBRARY_PATH: colons and semicolons; an empty entry is the current folder, all empty is no path."""
    return re.split("[:;]", text) if text else []


def split_preload(text: str) -> list[str]:
    """LD_PRELOAD: spaces and colons."""
    return [p for p in re.split("[ :]", text) if p]


def split_preload_file(text: str) -> list[str]:
    """/etc/ld.so.preload: white space and colons, `#` to the end of the line."""
    return [p for line in text.splitlines() for p in re.split(r"[\s:]+", line.partition("#")[0]) if p]


def expand(text: str, origin: str, lib: str, machine: int) -> str:
    """$ORIGIN, $LIB and $PLATFORM, also in braces."""
    values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": PLATFORM.get(machine, "")}

    def value(m: re.Match[str]) -> str:
        return values[m[1] or m[2]]

    return re.sub(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))", value, text)


def parse_cpu_level(text: str) -> tuple[str, ...]:
    """The glibc-hwcaps folders for the CPU of /proc/cpuinfo, best first."""
    m = re.search(r"^flags\s*:(.*)$", text, re.M)
    flags = set(m[1].split()) if m else set()
    levels: list[str] = []
    for name, needs in (("x86-64-v2", _V2), ("x86-64-v3", _V3), ("x86-64-v4", _V4)):
        if not flags.issuperset(needs):
            break
        levels.insert(0, name)
    return tuple(levels)


# -- the setup of a process -------------------------------------------------------------------------------------------


def setup(host: Host, exe: str | None = None) -> Setup:
    """What a process of this host starts from. `exe` is its program: it gives the machine and LD_LIBRARY_PATH's $ORIGIN."""
    bits, machine = 64, X86_64
    for candidate in (exe, "/bin/sh", "/usr/bin/env"):
        try:
            head = _elf.read_head(host, candidate) if candidate else None
        except Trouble:
            continue
        if head is not None:
            bits, machine = head.bits, head.machine
            break
    multiarch = MULTIARCH.get(machine)
    debian = multiarch is not None and any(there(host, f"{d}/{multiarch}") for d in ("/usr/lib", "/lib"))
    lib = f"lib/{multiarch}" if debian else "lib64" if bits == 64 else "lib"
    if debian:
        defaults: tuple[str, ...] = (f"/lib/{multiarch}", f"/usr/lib/{multiarch}", "/lib", "/usr/lib")
    else:
        defaults = ("/lib64", "/usr/lib64") if bits == 64 else ("/lib", "/usr/lib")
    cache, readable = _cache(host, machine)
    origin = folder_of(host.real(exe)) if exe else "/usr/bin"
    return Setup(
        machine=machine,
        bits=bits,
        lib=lib,
        library_path=library_path(host, origin, lib, machine),
        cache=cache,
        defaults=defaults,
        hwcaps=_hwcaps(host, machine),
        cache_readable=readable,
    )


def library_path(host: Host, origin: str, lib: str, machine: int) -> tuple[str, ...]:
    """The folders of LD_LIBRARY_PATH as the loader reads them, each once, there or not."""
    folders: dict[str, None] = {}
    cwd: str | None = None
    for part in split_path(host.env.get("LD_LIBRARY_PATH", "")):
        folder = expand(part, origin, lib, machine)
        if not folder.startswith("/"):
            if cwd is None:
                cwd = _cwd(host)
            folder = f"{cwd}/{folder}" if folder else cwd
        folders[folder.rstrip("/") or "/"] = None
    return tuple(folders)


def _cwd(host: Host) -> str:
    try:
        return host.link("/proc/self/cwd")
    except Trouble:
        return "/"


def _cache(host: Host, machine: int) -> tuple[dict[str, tuple[_ldcache.Entry, ...]], bool]:
    try:
        entries = _ldcache.parse(host.read(_ldcache.PATH, _ldcache.LIMIT))
    except Absent:
        # The loader goes without, and so do we. Under another root a few files without it are no system whose loader we know.
        return {}, host.live
    except Trouble:
        return {}, False
    flags = _ldcache.FLAGS.get(machine)
    by_name: dict[str, list[_ldcache.Entry]] = {}
    for entry in entries:
        if flags is None or entry.flags in (1, flags):
            by_name.setdefault(entry.name, []).append(entry)
    return {n: tuple(es) for n, es in by_name.items()}, True


def _hwcaps(host: Host, machine: int) -> tuple[str, ...]:
    if machine != X86_64:
        return ()
    try:
        # The first CPU stands in the first page; the whole file costs milliseconds on a large machine.
        return parse_cpu_level(host.read_at("/proc/cpuinfo", 0, 4096).decode("utf-8", "replace"))
    except Trouble:
        return ()


# -- the search ---------------------------------------------------------------------------------------------------------


def search(host: Host, setup: Setup, name: str, chain: Sequence[_elf.Elf] = ()) -> Iterator[Found]:
    """The files of that name in the loader's order, of the right class and machine; a process gets the first.

    `chain`: the object that asks, the one that loaded it, and so on up to the program (that with links followed).
    A name with a slash is a path.
    """
    if "/" in name:
        found = _look(host, setup, name, "path")
        if found is not None:
            yield found
        return
    asks = chain[0] if chain else None
    folders: list[tuple[str, str]] = []
    if asks is None or not asks.has_runpath:
        for elf in chain:
            folders += [("RPATH", f) for f in _folders(host, setup, elf, elf.rpath)]
    folders += [("LD_LIBRARY_PATH", f) for f in setup.library_path]
    if asks is not None:
        folders += [("RUNPATH", f) for f in _folders(host, setup, asks, asks.runpath)]
    seen: set[tuple[str, str]] = set()
    for how, folder in folders:
        if (how, folder) not in seen:
            seen.add((how, folder))
            yield from _in_folder(host, setup, folder, name, how)
    if asks is not None and asks.no_default:
        return
    yield from _in_cache(host, setup, name)
    for folder in setup.defaults:
        yield from _in_folder(host, setup, folder, name, "default")


def first(host: Host, setup: Setup, name: str, chain: Sequence[_elf.Elf] = ()) -> Found | None:
    """The file that a process gets for the name; None when the loader finds nothing."""
    return next(search(host, setup, name, chain), None)


def _folders(host: Host, setup: Setup, elf: _elf.Elf, entries: Sequence[str]) -> Iterator[str]:
    origin = folder_of(elf.path)  # as it was opened: the loader follows no link for this, but for the program's own
    for entry in entries:
        folder = expand(entry, origin, setup.lib, setup.machine)
        if not folder.startswith("/"):
            folder = f"{_cwd(host)}/{folder}"
        yield folder.rstrip("/") or "/"


def _in_folder(host: Host, setup: Setup, folder: str, name: str, how: str) -> Iterator[Found]:
    if setup.hwcaps and folder not in setup.plain and there(host, f"{folder}/glibc-hwcaps"):
        for level in setup.hwcaps:
            found = _look(host, setup, f"{folder}/glibc-hwcaps/{level}/{name}", how)
            if found is not None:
                yield found
    found = _look(host, setup, f"{folder}/{name}", how)
    if found is not None:
        yield found


def _in_cache(host: Host, setup: Setup, name: str) -> Iterator[Found]:
    entries = setup.cache.get(name, ())
    best = [e for level in setup.hwcaps for e in entries if e.hwcap == level]
    plain = [e for e in entries if e.hwcap is None]
    for entry in [*best, *plain]:
        found = _look(host, setup, entry.path, "cache")
        if found is not None:
            yield found


def _look(host: Host, setup: Setup, path: str, how: str) -> Found | None:
    """The file as the loader's open_verify sees it: None to go on."""
    try:
        head = _elf.read_head(host, path)
    except (Absent, Denied):
        return None
    except Trouble as t:
        # A folder, or a file that is no ELF: the loader stops there. What it cannot even open, it passes over.
        return Found(path=path, how=how, fault="not-elf") if t.reason.id in ("not-elf", "not-a-file") else None
    if (head.bits, head.machine) != (setup.bits, setup.machine):
        return None
    return Found(path=path, how=how)


# -- preloads -----------------------------------------------------------------------------------------------------------


class Preload(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of LD_PRELOAD or /etc/ld.so.preload as it is written, the file, and the name it answers to."""

    text: str
    how: str  # LD_PRELOAD, /etc/ld.so.preload
    path: str | None = None
    soname: str | None = None

    def answers(self, name: str) -> bool:
        """Whether the loader takes it where a library of that name is wanted."""
        return self.path is not None and (self.soname == name or ("/" not in self.text and self.text == name))


def preloads(host: Host, setup: Setup, exe: _elf.Elf | None = None) -> list[Preload]:
    """What the loader puts into every process before anything else, in its order."""
    entries = [("LD_PRELOAD", t) for t in split_preload(host.env.get("LD_PRELOAD", ""))]
    try:
        entries += [("/etc/ld.so.preload", t) for t in split_preload_file(host.text("/etc/ld.so.preload", 1 << 16))]
    except Trouble:
        pass
    out = []
    chain = (exe,) if exe else ()
    origin = folder_of(exe.path) if exe else "/usr/bin"
    for how, text in entries[:64]:
        name = expand(text, origin, setup.lib, setup.machine)
        if "/" in name and not name.startswith("/"):
            name = f"{_cwd(host)}/{name}"
        found = first(host, setup, name, chain)
        soname = None
        if found is not None and found.fault is None:
            try:
                soname = _elf.read(host, found.path).soname
            except Trouble:
                pass
        usable = found is not None and found.fault is None
        out.append(Preload(text=text, how=how, path=found.path if found and usable else None, soname=soname))
    return out


def folder_of(path: str) -> str:
    """The folder part of an absolute path."""
    return path.rpartition("/")[0] or "/"


def there(host: Host, path: str) -> bool:
    """Whether the path leads to something that this process can see."""
    try:
        return host.exists(path)
    except Trouble:
        return False
