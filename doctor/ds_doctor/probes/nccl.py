"""Every libnccl of the host with its version, and which copy torch and vLLM's pynccl would get; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..api import Absent, Host, Trouble, probe
from . import _elf, _ldso
from ._interpreter import Interpreter, interpreter

SONAME = "libnccl.so.2"
IN_SITE = "nvidia/nccl/lib/libnccl.so.2"  # where the nvidia-nccl-cu11, -cu12 and -cu13 wheels all put it
RODATA_LIMIT = 64 << 20  # bytes; NCCL 2.30.7 has half a MiB of it
TORCH_LIBRARIES = 64  # of torch's own libraries that are looked at
# What each engine takes instead of the name libnccl.so.2: vllm/envs.py (0.33.0), sglang pynccl_wrapper.py (0.5.23).
SO_PATHS = ("VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH")
# "NCCL version 2.28.9+cuda13.0" and "NCCL version 2.28.9" stand in .rodata (src/init.cc: VERSION_STRING).
_VERSION = re.compile(rb"NCCL version (\d{1,3}\.\d{1,3}\.\d{1,3})(?:\+cuda(\d{1,3}\.\d{1,3}))?(?![\d.])")
_NAMED = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)\Z")


class NcclCopy(msgspec.Struct, frozen=True, kw_only=True):
    """One libnccl file. `found`: how it was met (wheel, torch, conda, LD_PRELOAD, /etc/ld.so.preload, LD_LIBRARY_PATH,
    RPATH, RUNPATH, cache, default, a variable's name), each once. `version` from its content, else its file name."""

    path: str
    real: str
    found: tuple[str, ...]
    version: str | None = None
    cuda: str | None = None
    read: bool = False  # the version stands in the content


class NcclAsked(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that names a libnccl for one engine: the text, and the real file that it leads to. `trouble`: missing,
    denied, not-elf, other-machine; None when it can be loaded."""

    variable: str
    text: str
    real: str | None = None
    trouble: str | None = None


class NcclCopies(msgspec.Struct, frozen=True, kw_only=True):
    """Every libnccl on the host, and the one that torch gets.

    `links`: shared (torch's libraries want libnccl.so.2), static (torch with CUDA, NCCL inside), none (torch without
    CUDA), unreadable (its libraries), None without torch. `torch` is the copy that torch gets (None: the
    loader finds none) and `torch_how` the way; `own` the copy of torch's own wheels. `asked_by` is the library that
    asks, `path_kind` RPATH or RUNPATH as it carries. `preloaded`: real files of preloaded libnccl copies.
    """

    python: str | None = None
    copies: tuple[NcclCopy, ...] = ()
    links: str | None = None
    asked_by: str | None = None
    path_kind: str | None = None
    torch: NcclCopy | None = None
    torch_how: str | None = None
    own: NcclCopy | None = None
    asked: tuple[NcclAsked, ...] = ()
    preloaded: tuple[str, ...] = ()


def parse_version(data: bytes) -> tuple[str, str | None] | None:
    """(NCCL version, CUDA it was built with) out of a libnccl's read-only data."""
    best: tuple[str, str | None] | None = None
    for m in _VERSION.finditer(data):
        one = (m[1].decode(), m[2].decode() if m[2] else None)
        if best is None or (best[1] is None and one[1] is not None and one[0] == best[0]):
            best = one
    return best


def _copy(host: Host, path: str, how: str) -> NcclCopy | None:
    try:
        _elf.read_head(host, path)
        real = host.real(path)
    except Trouble:
        return None
    got = None
    try:
        data = _elf.section(host, path, b".rodata", RODATA_LIMIT)
        got = parse_version(data) if data is not None else None
    except Trouble:
        pass
    if got is not None:
        return NcclCopy(path=path, real=real, found=(how,), version=got[0], cuda=got[1], read=True)
    named = _NAMED.search(real)
    return NcclCopy(path=path, real=real, found=(how,), version=named[1] if named else None)


class _Seen:
    """The copies met so far; each file is read once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.by_real: dict[str, NcclCopy] = {}

    def meet(self, path: str, how: str) -> NcclCopy | None:
        try:
            known = self.by_real.get(self.host.real(path))
        except Trouble:
            return None
        if known is None:
            known = _copy(self.host, path, how)
        elif how not in known.found:
            known = msgspec.structs.replace(known, found=(*known.found, how))
        if known is not None:
            self.by_real[known.real] = known
        return known


def torch_chain(host: Host, setup: _ldso.Setup, torch: str, exe: _elf.Elf | None) -> tuple[str, tuple[_elf.Elf, ...]]:
    """(`links` as in the fact, the first of torch's libraries that wants libnccl.so.2 and what loaded it, up to the program).

    Walked in the loader's own order: torch/_C, then the libraries it needs, level by level. They lie in torch/lib, or
    where distributions put them (conda: lib/ of the environment), which the loader finds.
    """
    top = (exe,) if exe is not None else ()
    try:
        starts = [f"{torch}/{n}" for n in host.names(torch) if n.startswith("_C.") and n.endswith(".so")]
    except Trouble:
        return "unreadable", ()
    if not starts:
        starts = [f"{torch}/lib/libtorch_cuda.so"]
    todo: list[tuple[str, tuple[_elf.Elf, ...]]] = [(path, top) for path in starts]
    seen: set[str] = set()
    cuda = read = lost = False
    while todo and len(seen) < TORCH_LIBRARIES:
        path, chain = todo.pop(0)
        if path in seen:
            continue
        seen.add(path)
        try:
            elf = _elf.read(host, path)
        except Trouble:
            lost = True  # what it wants is not known
            continue
        read = True
        cuda = cuda or path.endswith("/libtorch_cuda.so")
        if SONAME in elf.needed:
            return "shared", (elf, *chain)
        for name in elf.needed:
            if name.startswith(("libtorch", "libc10")):
                beside: str | None = f"{torch}/lib/{name}"
                if not _ldso.there(host, f"{torch}/lib/{name}"):
                    found = _ldso.first(host, setup, name, (elf, *chain))
                    beside = found.path if found is not None else None
                if beside is None:
                    lost = True
                else:
                    todo.append((beside, (elf, *chain)))
    if cuda:
        return "static", ()
    return "none" if read and not lost else "unreadable", ()


def _program(host: Host, python: Interpreter | None) -> _elf.Elf | None:
    if python is None:
        return None
    try:
        return _elf.read(host, host.real(python.path))
    except Trouble:
        return None


def _asked(host: Host, setup: _ldso.Setup, seen: _Seen, exe: _elf.Elf | None) -> Iterator[NcclAsked]:
    for variable in SO_PATHS:
        text = host.env.get(variable, "")
        if not text:
            continue
        found = _ldso.first(host, setup, text, (exe,) if exe else ())
        trouble: str | None = None
        real = None
        if found is None:
            trouble = _why_not(host, text)
        elif found.fault is not None:
            trouble = found.fault
        else:
            copy = seen.meet(found.path, variable)
            real = copy.real if copy else None
        yield NcclAsked(variable=variable, text=text, real=real, trouble=trouble)


def _why_not(host: Host, text: str) -> str:
    if "/" not in text:
        return "missing"
    try:
        _elf.read_head(host, text)
    except Absent:
        return "missing"
    except Trouble as t:
        return t.kind
    return "other-machine"


@probe
def nccl_copies(host: Host) -> NcclCopies:
    try:
        python: Interpreter | None = interpreter(host)
    except Trouble:
        python = None
    exe = _program(host, python)
    setup = _ldso.setup(host, exe.path if exe else None)
    preloads = _ldso.preloads(host, setup, exe)
    seen = _Seen(host)
    preloaded = []
    for one in preloads:
        if one.path is not None and (one.answers(SONAME) or re.search(r"/libnccl\.so[^/]*\Z", one.path)):
            copy = seen.meet(one.path, one.how)
            if copy is not None:
                preloaded.append(copy.real)
    own: NcclCopy | None = None
    links: str | None = None
    chain: tuple[_elf.Elf, ...] = ()
    for site in python.site if python else ():
        wheel = seen.meet(f"{site}/{IN_SITE}", "wheel")
        if links is None and _ldso.there(host, f"{site}/torch/version.py"):
            links, chain = torch_chain(host, setup, f"{site}/torch", exe)
            own = wheel or seen.meet(f"{site}/torch/lib/{SONAME}", "torch")
    if python is not None:
        seen.meet(f"{python.prefix}/lib/{SONAME}", "conda")
    torch, how = _of_torch(host, setup, preloads, seen, chain) if links == "shared" else (None, None)
    asked = tuple(_asked(host, setup, seen, exe))
    for found in _ldso.search(host, setup, SONAME):
        seen.meet(found.path, found.how)
    return NcclCopies(
        python=python.path if python else None,
        copies=tuple(seen.by_real.values()),
        links=links,
        asked_by=chain[0].path if chain else None,
        path_kind=("RUNPATH" if chain[0].has_runpath else "RPATH" if chain[0].rpath else None) if chain else None,
        torch=torch,
        torch_how=how,
        own=own,
        asked=asked,
        preloaded=tuple(preloaded),
    )


def _of_torch(
    host: Host, setup: _ldso.Setup, preloads: list[_ldso.Preload], seen: _Seen, chain: tuple[_elf.Elf, ...]
) -> tuple[NcclCopy | None, str | None]:
    """The copy that torch gets: a preloaded one that answers to the name, else the first on its search path."""
    for one in preloads:
        if one.path is not None and one.answers(SONAME):
            return seen.meet(one.path, one.how), one.how
    found = _ldso.first(host, setup, SONAME, chain)
    if found is None:
        return None, None
    return seen.meet(found.path, found.how), found.how
