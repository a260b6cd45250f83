"""Quantisation, number formats and attention backends against the checkpoint and the GPUs, as the engines check them; it looks at nothing.

vllm 0.33.0: vllm/config/model.py, config/vllm.py, platforms/cuda.py; sglang 0.5.23: sglang/srt/configs/model_config.py,
model_loader/loader.py, layers/attention/attention_registry.py. What each takes is in data/quantisation.toml and attention.toml.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ds_doctor.probes.engine_models import EngineModels
from ds_doctor.probes.nvml import Gpu

from ._arch import capability
from ._data import table
from ._model import Case, Shape
from ._model_split import Fault

BFLOAT16 = (8, 0)  # vllm/platforms/cuda.py check_if_supports_dtype
HALF = ("half", "float16")
# vllm/config/model.py _FLOAT16_NOT_SUPPORTED_MODELS, 0.6.6 to 0.33.0, for an engine whose source is not here.
NO_FLOAT16 = ("gemma2", "gemma3", "gemma3_text", "glm4")
SGLANG_LEAST = (7, 5)  # sglang/srt/model_executor/model_runner_components/load_model_utils.py


def faults(case: Case, shape: Shape, engine: EngineModels | None) -> Iterator[Fault]:
    """What the checkpoint does not take."""
    yield from _mismatch(case, shape)
    dtype = str(case.value("dtype") or "auto").lower()
    refused = engine.float16_refused if engine is not None and engine.float16_refused else NO_FLOAT16
    if case.engine == "vllm" and dtype in HALF and shape.model_type in refused:
        message = (
            f"The model type {shape.model_type!r} does not support float16. Reason: Numerical instability. "
            "Please use bfloat16 or float32 instead."
        )
        yield Fault("launch-float16-refused", "--dtype", {"kind": shape.model_type, "dtype": dtype, "message": message})


def _mismatch(case: Case, shape: Shape) -> Iterator[Fault]:
    asked, method = case.value("quantization"), shape.method
    if not isinstance(asked, str) or method is None:
        return
    tables = table("quantisation")[case.engine]
    data: dict[str, Any] = {"asked": asked, "method": method}
    if shape.model_type in tables.get("replaced", {}).get("model_types", ()):
        if asked not in (method, "humming", "deepseek_v4_fp8", "gpt_oss_mxfp4"):
            yield Fault("launch-quantisation-replaced", "--quantization", {**data, "kind": shape.model_type})
        return
    takes = tables["checkpoint"].get(method, {}).get("takes")
    if takes is not None and asked not in takes:
        message = (
            f"Quantization method specified in the model config ({method}) does not match the quantization method specified "
            f"in the `quantization` argument ({asked})."
        )
        yield Fault("launch-quantisation-mismatch", "--quantization", {**data, "takes": takes, "message": message})


def of_gpus(case: Case, shape: Shape | None, gpus: tuple[Gpu, ...]) -> Iterator[Fault]:
    """What the GPUs do not take. `shape`: None where the model's files were not seen."""
    for cc, names in _capabilities(gpus):
        yield from _method(case, shape, cc, names)
        yield from _bfloat16(case, cc, names)
        yield from _attention(case, shape, cc, names)


def _capabilities(gpus: tuple[Gpu, ...]) -> Iterator[tuple[tuple[int, int], str]]:
    """Each compute capability that is here with the GPU that has it; MIG and lost GPUs say none."""
    first: dict[tuple[int, int], str] = {}
    for gpu in gpus:
        cc = capability(gpu.cc)
        if cc is not None:
            first.setdefault(cc, f"GPU {gpu.index} ({gpu.name})")
    yield from first.items()


def _method(case: Case, shape: Shape | None, cc: tuple[int, int], gpu: str) -> Iterator[Fault]:
    asked = case.value("quantization")
    method = shape.method if shape is not None and shape.method else asked
    if not isinstance(method, str):
        return
    for row in table("quantisation")[case.engine]["method"]:
        if row["name"] != method:
            continue
        least: int = row["capability"]
        if "from" in row:
            older = case.before(row["from"])
            # An engine whose release is not known gets the benefit of the doubt.
            least = (
                row["before"] if older is True else row["capability"] if older is False else min(row["before"], least)
            )
        if cc[0] * 10 + cc[1] < least:
            message = (
                f"The quantization method {method} is not supported for the current GPU. Minimum capability: {least}. "
                f"Current capability: {cc[0] * 10 + cc[1]}."
            )
            data = {
                "method": method,
                "need": f"{least // 10}.{least % 10}",
                "cc": f"{cc[0]}.{cc[1]}",
                "message": message,
            }
            yield Fault("launch-quantisation-gpu", gpu, {**data, "gpu": gpu})


def _bfloat16(case: Case, cc: tuple[int, int], gpu: str) -> Iterator[Fault]:
    # SGLang goes back to float16 by itself; so does vLLM where the number format is left to it.
    if case.engine == "vllm" and str(case.value("dtype")).lower() == "bfloat16" and cc < BFLOAT16:
        message = (
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. You can use float16 instead by "
            "explicitly setting the `dtype` flag in CLI, for example: --dtype=half."
        )
        yield Fault("launch-bfloat16-gpu", gpu, {"gpu": gpu, "cc": f"{cc[0]}.{cc[1]}", "message": message})
    if case.engine == "sglang" and cc < SGLANG_LEAST:
        data = {"gpu": gpu, "cc": f"{cc[0]}.{cc[1]}", "message": "SGLang only supports sm75 and above."}
        yield Fault("launch-sglang-gpu", gpu, data)


def backend(case: Case) -> str | None:
    """The attention backend that the command names, as data/attention.toml does."""
    named = case.value("attention_backend")
    if case.engine == "vllm":
        config = case.value("attention_config")
        named = named or (config.get("backend") if isinstance(config, dict) else None)
        named = named or case.variables.get("VLLM_ATTENTION_BACKEND") if case.before("0.14.0") else named
        return named.upper() if isinstance(named, str) else None
    return named if isinstance(named, str) else None


def unread(case: Case) -> str | None:
    """The engine's release, where a backend is named and its source was not read for that release."""
    table_of = table("attention")[case.engine]
    if backend(case) not in table_of["backend"] or case.version is None:
        return None
    return None if ".".join(case.version.split(".")[:2]) in table_of["releases"] else case.version


def _attention(case: Case, shape: Shape | None, cc: tuple[int, int], gpu: str) -> Iterator[Fault]:
    named = backend(case)
    row = table("attention")[case.engine]["backend"].get(named)
    if row is None or unread(case) or (shape is not None and str(shape.model_type).startswith("deepseek_v4")):
        return
    majors = row.get("majors")
    if cc[0] * 10 + cc[1] >= row.get("least", 0) and (majors is None or cc[0] in majors):
        return
    wants = ", ".join(f"{m}.x" for m in majors) if majors else f">= {row['least'] // 10}.{row['least'] % 10}"
    message = (
        f"Selected backend AttentionBackendEnum.{named} is not valid for this configuration. Reason: "
        "['compute capability not supported']"
        if case.engine == "vllm"
        else "FlashAttention v3 Backend requires SM>=80 and SM<=90."
    )
    data = {"backend": named, "wants": wants, "gpu": gpu, "cc": f"{cc[0]}.{cc[1]}", "message": message}
    yield Fault("launch-attention-gpu", gpu, data)


def attention_of_model(case: Case, shape: Shape) -> Iterator[Fault]:
    """A backend for latent attention with a model that has none, or the other way round."""
    named = backend(case)
    wants = table("attention")[case.engine]["backend"].get(named, {}).get("mla")
    if (
        wants is None
        or unread(case)
        or wants == shape.mla
        or str(shape.model_type).startswith("deepseek_v4")
        or shape.model_type is None
    ):
        return
    if case.engine == "vllm" and case.variables.get("VLLM_MLA_DISABLE", "0") not in ("", "0"):
        return
    # A model that only has layers without attention, or of which the configuration says no heads, is judged by nobody here.
    if shape.heads is None:
        return
    reason = "MLA not supported" if shape.mla else "non-MLA not supported"
    message = (
        f"Selected backend AttentionBackendEnum.{named} is not valid for this configuration. Reason: ['{reason}']"
        if case.engine == "vllm"
        else f"{named} backend can only be used with MLA models."
    )
    yield Fault(
        "launch-attention-model",
        "--attention-backend",
        {"backend": named, "kind": shape.model_type, "message": message},
    )
