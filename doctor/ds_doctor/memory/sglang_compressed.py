"""SGLang's pool for DeepSeek V4 and V4.1: bytes of a token, what the window pool and the compressors' states take whatever the length.

Follows DSV4PoolConfigurator in srt/model_executor/pool_configurator.py and srt/mem_cache/deepseek_v4_memory_pool.py (0.5.23).
"""

from __future__ import annotations

from .architecture import Architecture
from .setting import Setting

PAGE = 256  # tokens of a page (arg_groups/deepseek_v4_hook.py)
_RECORD = 584  # one latent: 448 fp8 + 64 16-bit + 8 of scales; pages are padded to 576 bytes
_INDEX, _INDEX_FP4 = 132, 68
_RATIO = 0.1  # DSV4_DEFAULT_SWA_FULL_TOKENS_RATIO
_RINGS = {4: 8, 128: 128, 2: 2}  # rows of a compressor's state, without speculation
_EVICTION = 128  # SGLANG_SWA_EVICTION_INTERVAL
_CAPPED = (0, 5, 22)  # from here the window pool is sized by the requests, not by the tokens


def _latents(tokens: int) -> float:
    """Bytes of one token in a page of so many latents."""
    return -(-tokens * _RECORD // 576) * 576 / tokens


def pool_bytes(
    a: Architecture, s: Setting, batched: int, stage: range | None = None
) -> tuple[float, float, float, int]:
    """(of a token in what grows, of a token in the windows, windows' tokens for each token, bytes that do not depend on the length)."""
    grown, owners = 0.0, {1: 0, 2: 0, 4: 0, 128: 0}
    layers = 0
    dim = index_dim = 0
    for number, layer in enumerate(a.layers):
        x = layer.attention
        if x is None or (stage is not None and number not in stage):
            continue
        layers += 1
        dim = x.head_dim
        index_dim = max(index_dim, x.index_dim)
        rate = x.compress
        if rate not in owners or not x.caches:
            continue
        owners[rate] += 1
        if rate in (1, 2):
            grown += (_latents(PAGE // rate) + _INDEX_FP4) / rate
        elif rate == 4:
            grown += (_latents(PAGE // 4) + _INDEX) / 4
        else:
            grown += _latents(PAGE // 128) / 128
    window = _latents(PAGE) * layers + _RINGS[4] / PAGE * (4 * dim + 4 * index_dim) * 4 * owners[4]
    requests = max(1, (s.max_seqs or 256) // max(1, s.dp if s.dp_attention else 1))
    fixed = _state(owners[128], requests, _RINGS[128], 128, dim) + _state(owners[2], requests, _RINGS[2], 2, dim)
    told = s.swa_ratio if s.swa_ratio != Setting().swa_ratio else None  # --swa-full-tokens-ratio
    if told is not None or s.at < _CAPPED:
        return grown, window, _RATIO if told is None else told, fixed
    size = max((x.attention.window for x in a.layers if x.attention is not None), default=128)
    held = (size + _EVICTION + 2 * PAGE) * requests + 2 * batched + PAGE + 4 * requests * (size + PAGE)
    return grown, window, 0.0, fixed + int(held * window)


def _state(layers: int, requests: int, ring: int, to: int, dim: int) -> int:
    rows = -(-((requests + 1) * ring + ring + 1) // to) * to
    return layers * rows * 2 * dim * 4
