"""Which GPUs the engine's compiled libraries hold kernels for, library by library; read from their headers, never loaded, never judged.

Only for a launch command: what each library is needed for follows from the command and the model.
"""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

from ..api import Absent, Host, Trouble, probe
from . import fatbin, launch
from ._interpreter import interpreter

# Folders below a package folder ("" is that folder itself) and the libraries in them that hold kernels: vllm 0.33.0, the wheels
# sglang-kernel 0.4.10 and sgl-flash-mla 1.0.0, flash-attn 2.8. DeepGEMM compiles at run time and holds none.
PLACES: dict[str, tuple[tuple[str, str], ...]] = {
    "vllm": (
        ("vllm", r"_C|_C_stable_libtorch|_moe_C|_moe_C_stable_libtorch|_flashmla_C"),
        ("vllm/vllm_flash_attn", r"_vllm_fa[23]_C"),
    ),
    "sglang": (
        ("sgl_kernel", r"common_ops|flash_ops|flashmla_ops"),
        ("sgl_kernel/sm90", "common_ops"),
        ("sgl_kernel/sm100", "common_ops"),
        ("flash_mla", "cuda|_C_legacy"),
    ),
}
MODULE = r"(?P<stem>%s)(\.abi3|\.cpython-[\w-]+)?\.so"
NAMES = 4000  # of one folder


class KernelLibrary(msgspec.Struct, frozen=True, kw_only=True):
    """One library. `name` is its place without the ending (`vllm/_moe_C`); `arches` as fatbin headers name them (sm_90a is
    machine code, compute_80 PTX), None where they could not be read."""

    name: str
    path: str
    arches: tuple[str, ...] | None = None


class Kernels(msgspec.Struct, frozen=True, kw_only=True):
    """The libraries of the engine of the launch command, as its Python has them."""

    of_command: ClassVar[bool] = True

    engine: str
    libraries: tuple[KernelLibrary, ...] = ()


@probe
def kernels(host: Host) -> Kernels:
    """Absent: no command, none of an engine, one inside a container, or no such library in its Python."""
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    asked = launch.launch(host)
    if asked.engine is None:
        raise Absent("no-engine-command")
    if asked.container is not None:
        raise Absent("engine-in-container")
    python = interpreter(host)
    libraries = [one for place in PLACES[asked.engine] for one in _libraries(host, python.site, *place)]
    if not libraries:
        raise Absent("engine-not-installed", engine=asked.engine, python=python.path)
    return Kernels(engine=asked.engine, libraries=tuple(libraries))


def _libraries(host: Host, site: tuple[str, ...], folder: str, stems: str) -> list[KernelLibrary]:
    """Those of the first package folder that has any: what Python would import."""
    pattern = re.compile(MODULE % stems)
    for place in site:
        try:
            names = sorted(host.names(f"{place}/{folder}"))[:NAMES]
        except Trouble:
            continue
        hits = [(n, m["stem"]) for n in names if (m := pattern.fullmatch(n))]
        if hits:
            return [_library(host, f"{folder}/{stem}", f"{place}/{folder}/{name}") for name, stem in hits]
    return []


def _library(host: Host, name: str, path: str) -> KernelLibrary:
    try:
        return KernelLibrary(name=name, path=path, arches=fatbin.arches(host, path))
    except Trouble:
        return KernelLibrary(name=name, path=path)
