"""What the engines do where a flag is not given: utilisation, sequences, batched tokens, static fraction; by card and version."""

from __future__ import annotations

from .architecture import Architecture
from .setting import GIB, Setting


def utilisation(s: Setting) -> float:
    """--gpu-memory-utilization of vLLM: 0.9, and 0.92 from 0.20.0 (the class defaults of the wheels)."""
    if s.utilisation is not None:
        return s.utilisation
    return 0.9 if s.at < (0, 20) else 0.92


def _tier(total: int, name: str) -> int:
    """0 small, 1 from 70 GiB (A100 and GB10 apart), 2 from 160 GiB (engine/arg_utils.py: get_batch_defaults)."""
    if total >= 160 * GIB:
        return 2
    if total >= 70 * GIB and "a100" not in name.lower() and "gb10" not in name.lower() and "spark" not in name.lower():
        return 1
    return 0


def max_seqs(s: Setting, total: int, name: str) -> int:
    if s.max_seqs is not None:
        return s.max_seqs
    if s.engine == "sglang":
        return 256
    if s.at < (0, 8, 5):
        return 256
    return 1024 if _tier(total, name) and s.at >= (0, 8, 5) else 256


def batched_tokens(s: Setting, total: int, name: str, max_len: int) -> int:
    """Tokens of one step: --max-num-batched-tokens of `vllm serve`, --chunked-prefill-size of SGLang."""
    if s.batched_tokens is not None:
        return s.batched_tokens
    if s.engine == "sglang":
        gib = total / GIB
        return 2048 if gib < 20 else 4096 if gib < 60 else 8192 if gib < 160 else 16384
    if s.at < (0, 8):  # the first engine: without chunked prefill (up to 32k) the whole context
        return max_len if 0 < max_len <= 32768 else 2048
    tier = _tier(total, name)
    if tier == 2 and s.at < (0, 26):
        tier = 1
    return (2048, 8192, 16384)[tier]


def static_fraction(a: Architecture, s: Setting, total: int) -> float:
    """--mem-fraction-static of SGLang (arg_groups/memory_hook.py in 0.5.23, server_args.py before)."""
    if s.utilisation is not None:
        return s.utilisation
    ranks = s.tp * s.pp
    if s.at < (0, 4, 5):
        return {1: 0.88, 2: 0.87, 4: 0.85, 8: 0.81}.get(s.tp, 0.79 if s.tp >= 16 else 0.87)
    mib = total / (1 << 20)
    if s.at < (0, 5, 5):
        gib = mib / 1024
        reserve = 1024 * (
            (2.8 + ranks / 10) if gib < 35 else (9.5 + ranks / 2) if gib < 90 else (12 + ranks / 2) if gib < 160 else 32
        )
        return round(max(0.05, (mib - reserve) / mib), 3)
    reserve = 512 + 1.5 * max(batched_tokens(s, total, "", 0), 2048) + ranks / 8 * 1024 + _graphs_mib(a, s, mib)
    if mib > 60 * 1024:
        reserve = max(reserve, 10 * 1024)
    fraction = round(max(0.05, (mib - reserve) / mib), 3)
    return fraction * 0.95 if a.vision and not s.language_only else fraction


def _graphs_mib(a: Architecture, s: Setting, mib: float) -> float:
    """What SGLang sets aside for CUDA graphs: 2 MiB for each captured batch, more with data-parallel attention and for MLA."""
    if s.eager:
        return 0.0
    few = s.tp < 4
    largest = (
        8
        if mib < 20 * 1024
        else (48 if few else 160)
        if mib < 35 * 1024
        else (32 if few else 160)
        if mib < 60 * 1024
        else 512
    )
    if 60 * 1024 <= mib < 160 * 1024 and few:
        largest = 256
    largest = min(largest, s.max_seqs) if s.max_seqs else largest
    reserve = largest * 2.0
    if s.dp_attention:
        reserve += largest * s.dp * (4.5 if largest > 300 else 3)
    return reserve + (1536 if a.is_mla else 50 * 8)
