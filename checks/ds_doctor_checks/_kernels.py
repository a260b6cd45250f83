"""Which compiled libraries a launch needs, and what each holds for a GPU; it looks at nothing.

vllm 0.33.0: vllm/platforms/cuda.py _get_backend_priorities, vllm/v1/attention/backends/fa_utils.py get_flash_attn_version;
sglang 0.5.23: sglang/srt/layers/attention/flashattention_backend.py; sgl_kernel/load_utils.py of sglang-kernel 0.4.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from ds_doctor.probes.kernels import KernelLibrary, Kernels
from ds_doctor.probes.nvml import Gpu

from ._arch import capability, compiled
from ._model import Case, Shape
from ._model_precision import backend
from ._model_split import Fault

Held = Literal["exact", "same-major", "ptx", "none"]
Capability = tuple[int, int]
FLASHMLA = ("FLASHMLA", "FLASHMLA_SPARSE")


class Need(msgspec.Struct, frozen=True):
    """Libraries of which one is used. `certain`: without it nothing runs; otherwise the engine may take another way."""

    names: tuple[str, ...]
    certain: bool


def holds(names: Iterable[str], cc: Capability) -> Held:
    """The best that a library has for a GPU: machine code of that very capability, of a smaller one of the same major
    (which runs as well), PTX that the driver compiles first, or nothing."""
    arches = [a for a in compiled(names) if a.runs_on(cc)]
    code = [a for a in arches if not a.ptx]
    if any((a.major, a.minor) == cc for a in code):
        return "exact"
    return "same-major" if code else "ptx" if arches else "none"


def needs(case: Case, shape: Shape | None, cc: Capability, there: Mapping[str, KernelLibrary]) -> Iterator[Need]:
    """What the command and the model use on such a GPU, as far as it can be told. `shape`: None where it was not seen."""
    named = backend(case)
    if case.engine == "vllm":
        yield Need(("vllm/_C_stable_libtorch", "vllm/_C"), False)
        if shape is not None and shape.experts:
            yield Need(("vllm/_moe_C_stable_libtorch", "vllm/_moe_C"), False)
        if named in FLASHMLA:
            yield Need(("vllm/_flashmla_C",), True)
        attention = _flash_attention(case, shape, named, cc)
        if attention is not None:
            yield attention
        return
    # The folder by the GPU, and the one library of the releases that had no folders where there is none.
    folder = "sm90" if cc == (9, 0) else "sm100"
    name = f"sgl_kernel/{folder}/common_ops"
    yield Need((name if name in there else "sgl_kernel/common_ops",), False)
    halves = case.value("prefill_attention_backend"), case.value("decode_attention_backend")
    if named == "fa3":
        yield Need(("sgl_kernel/flash_ops",), not any(halves))
    if named == "flashmla":
        yield Need(("sgl_kernel/flashmla_ops", "flash_mla/cuda", "flash_mla/_C_legacy"), False)


def _flash_attention(case: Case, shape: Shape | None, named: str | None, cc: Capability) -> Need | None:
    """FlashAttention 2 or 3 of vLLM; 4 is compiled at run time."""
    config = case.value("attention_config")
    version = config.get("flash_attn_version") if isinstance(config, dict) else None
    if version is None:
        version = case.variables.get("VLLM_FLASH_ATTN_VERSION")
    if named not in (None, "FLASH_ATTN") or (named is None and (shape is None or shape.mla)):
        return None
    if version is None and cc[0] in (8, 12):
        return Need(("vllm/vllm_flash_attn/_vllm_fa2_C",), named is not None)
    if version is None and cc[0] == 9 and named is not None:
        return Need(("vllm/vllm_flash_attn/_vllm_fa3_C", "vllm/vllm_flash_attn/_vllm_fa2_C"), False)
    return None


def faults(case: Case, shape: Shape | None, kernels: Kernels, gpus: Iterable[Gpu]) -> Iterator[Fault]:
    there = {one.name: one for one in kernels.libraries}
    first: dict[Capability, str] = {}
    for gpu in gpus:
        cc = capability(gpu.cc)
        if cc is not None:
            first.setdefault(cc, f"GPU {gpu.index} ({gpu.name})")
    for cc, gpu_name in first.items():
        for need in needs(case, shape, cc, there):
            read = [there[n] for n in need.names if n in there]
            if read and all(one.arches for one in read):
                yield from _judged(need, read, cc, gpu_name)


def _judged(need: Need, read: list[KernelLibrary], cc: Capability, gpu: str) -> Iterator[Fault]:
    held = [holds(one.arches or (), cc) for one in read]
    if any(h in ("exact", "same-major") for h in held):
        return
    best = read[held.index("ptx")] if "ptx" in held else read[0]
    if "ptx" in held:
        rule = "launch-kernels-ptx-only"
    elif need.names[-1] == "vllm/_C":
        return  # arch-engine-misses-gpu says it, command or not
    else:
        rule = "launch-kernels-missing" if need.certain else "launch-kernels-doubtful"
    data = {
        "library": best.name,
        "path": best.path,
        "arches": list(best.arches or ()),
        "cc": f"{cc[0]}.{cc[1]}",
        "gpu": gpu,
    }
    yield Fault(rule, best.name, data)
