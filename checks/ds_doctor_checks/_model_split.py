"""How the engines divide a model among GPUs, and what does not divide; pure arithmetic, it looks at nothing.

vllm 0.33.0: vllm/config/model.py `verify_with_parallel_config`, model_executor/layers/linear.py QKVParallelLinear,
vocab_parallel_embedding.py, quantization/utils/fp8_utils.py; sglang 0.5.23: the modules of the same names under sglang/srt/layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ._model import Case, Shape, whole

VOCABULARY_STEP = 64  # vocab_parallel_embedding.py DEFAULT_VOCAB_PADDING_SIZE, both engines
# Their KV heads are counted by rules of their own (model_arch_config_convertor.py).
OWN_KV_HEADS = frozenset(
    ("falcon", "RefinedWeb", "RefinedWebModel", "mpt", "dbrx", "nemotron-nas", "gpt_bigcode", "mamba", "mamba2", "falcon_mamba")
)  # fmt: skip
# From this one on a block of experts' scales is cut finer where it does not fit (quantization/fp8.py `weight_scale_refine`).
VLLM_REFINES_BLOCKS = "0.31.0"


class Fault(NamedTuple):
    """A rule, what it is on, and what fills its blanks; `message` is the line with which the engine would refuse."""

    rule: str
    on: str
    data: dict[str, Any]


def faults(case: Case, shape: Shape) -> Iterator[Fault]:
    """What of the model does not divide by the sizes that the command asks for."""
    yield from _heads(case, shape)
    yield from _vocabulary(case, shape)
    yield from _blocks(case, shape)
    yield from _experts(case, shape)
    yield from _layers(case, shape)


def _flag(case: Case) -> str:
    return "--tensor-parallel-size" if case.engine == "vllm" else "--tp-size"


def fitting(heads: int, kv_heads: int | None = None) -> list[int]:
    """The sizes up to 64 that divide the attention heads, and the KV heads or a multiple of them."""
    sizes = [n for n in range(1, min(heads, 64) + 1) if heads % n == 0]
    return [n for n in sizes if kv_heads is None or kv_heads % n == 0 or n % kv_heads == 0]


def _heads(case: Case, shape: Shape) -> Iterator[Fault]:
    ranks = case.size("tensor") if case.engine == "vllm" else case.attention_ranks
    heads = shape.heads
    if heads is None or ranks == 1:
        return
    kv_heads = None if shape.mla or shape.model_type in OWN_KV_HEADS else shape.kv_heads
    common = {
        "ranks": ranks,
        "heads": heads,
        "fits": ", ".join(map(str, fitting(heads, kv_heads))),
        "flag": _flag(case),
    }
    if heads % ranks:
        message = (
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({ranks})."
            if case.engine == "vllm"
            else f"{heads} is not divisible by {ranks}"
        )
        yield Fault("launch-tp-heads", _flag(case), {**common, "message": message})
    elif kv_heads is not None and kv_heads % ranks and ranks % kv_heads:
        more, less = max(kv_heads, ranks), min(kv_heads, ranks)
        message = f"{more} is not divisible by {less}"
        yield Fault("launch-tp-kv-heads", _flag(case), {**common, "kv_heads": kv_heads, "message": message})


def _vocabulary(case: Case, shape: Shape) -> Iterator[Fault]:
    ranks, words = case.size("tensor"), shape.vocabulary
    # SGLang pads further where this does not divide.
    if case.engine != "vllm" or words is None or ranks == 1 or (shape.heads or ranks) % ranks:
        return
    padded = -(-words // VOCABULARY_STEP) * VOCABULARY_STEP
    if padded % ranks:
        message = f"{padded} is not divisible by {ranks}"
        data = {"ranks": ranks, "words": words, "padded": padded, "flag": _flag(case), "message": message}
        yield Fault("launch-tp-vocabulary", _flag(case), data)


def _blocks(case: Case, shape: Shape) -> Iterator[Fault]:
    """Experts whose quantisation blocks of FP8 do not divide."""
    size, width = _block(shape), whole(shape.text.get("moe_intermediate_size"))
    if size is None or width is None or shape.experts is None:
        return
    ranks = case.size("tensor")
    if case.engine == "vllm":
        if case.value("enable_expert_parallel") or case.before(VLLM_REFINES_BLOCKS) is not True:
            return
    else:
        ranks //= whole(case.value("ep_size")) or 1
        if case.value("moe_a2a_backend") not in (None, "none") or case.value("moe_dp_size") not in (None, 1):
            return
    if ranks < 2 or width % ranks or (width // ranks) % size == 0:
        return
    part = width // ranks
    message = (
        f"The output_size of gate's and up's weight = {part} is not divisible by weight quantization block_n = {size}."
    )
    fits = ", ".join(
        str(n) for n in range(1, 65) if width % n == 0 and width // n % size == 0 and (shape.heads or n) % n == 0
    )
    ep = "--enable-expert-parallel" if case.engine == "vllm" else f"--ep-size {case.size('tensor')}"
    data = {"ranks": ranks, "width": width, "part": part, "block": size, "fits": fits, "ep": ep, "flag": _flag(case)}
    yield Fault("launch-tp-blocks", _flag(case), {**data, "message": message})


def _block(shape: Shape) -> int | None:
    """Rows of a quantisation block of an FP8 checkpoint whose experts are FP8, too."""
    q = shape.quantisation or {}
    sizes = q.get("weight_block_size")
    if (
        shape.method != "fp8"
        or not isinstance(sizes, list)
        or not sizes
        or str(shape.model_type).startswith("deepseek_v4")
    ):
        return None
    skipped = q.get("modules_to_not_convert") or q.get("ignored_layers") or ()
    if isinstance(skipped, list) and any("expert" in str(n) and "shared" not in str(n) for n in skipped):
        return None
    return whole(sizes[0])


def _experts(case: Case, shape: Shape) -> Iterator[Fault]:
    if case.engine != "vllm" or not case.value("enable_expert_parallel"):
        return
    # Some name their experts as neither engine's aliases do: then nothing is said.
    if shape.experts is None and not any(
        "expert" in k or "moe" in k or k == "block_configs" for k in (*shape.text, *shape.config)
    ):
        message = "Number of experts in the model must be greater than 0 when expert parallelism is enabled."
        yield Fault(
            "launch-ep-dense", "--enable-expert-parallel", {"kind": shape.model_type or "?", "message": message}
        )


def _layers(case: Case, shape: Shape) -> Iterator[Fault]:
    stages, layers = case.size("pipeline"), shape.layers
    if layers is not None and stages > layers:
        flag = "--pipeline-parallel-size" if case.engine == "vllm" else "--pp-size"
        yield Fault("launch-pp-layers", flag, {"stages": stages, "layers": layers, "flag": flag})
