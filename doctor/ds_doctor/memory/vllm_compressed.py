"""What the layers of DeepSeek V4 and V4.1 keep in vLLM: windows, compressed latents, indexes and the compressors' own states.

Sizes: vllm/models/deepseek_v4/attention.py, compressor.py; vllm/models/deepseek_v41/attention.py, compressor.py (0.33.0).
"""

from __future__ import annotations

from .architecture import Architecture
from .kv import Kept
from .setting import Setting

# One record of the packed latent: 448 fp8 + 64 16-bit + 8 scales. V4.1 on compute capability 10: 528 (MXFP8), 288 (nvfp4_ds_mla).
_RECORD, _RECORD_V41_SM100, _RECORD_NVFP4 = 584, 528, 288
_INDEX = 132  # 128 fp8 + 4 scale
_INDEX_FP4 = 68  # 64 + 4


def is_compressed(a: Architecture) -> bool:
    return any(x.attention is not None and x.attention.kind == "compressed" for x in a.layers)


def is_v41(a: Architecture) -> bool:
    return a.model_type.startswith("deepseek_v41")


def _up(size: int, to: int) -> int:
    return -(-size // to) * to


def kept(a: Architecture, s: Setting) -> list[Kept]:
    return _v41(a, s) if is_v41(a) else _v4(a, s)


def block_size(a: Architecture, s: Setting) -> int:
    """V4: 256. V4.1: 64 on Hopper, 128 on Blackwell (the sparse backends' kernel blocks)."""
    if s.block is not None:
        return s.block
    if not is_v41(a):
        return 256
    return 64 if s.capability is None or s.capability[0] == 9 else 128


def _v4(a: Architecture, s: Setting) -> list[Kept]:
    block, result = block_size(a, s), []
    for n, layer in enumerate(a.layers):
        x = layer.attention
        if x is None:
            continue
        page = _up(64 * _RECORD, 576)
        result.append(Kept(kind="sliding", layer=n, block=64, page=page, window=x.window))
        if x.compress > 1:
            result.append(Kept(kind="full", layer=n, block=block, page=_up(block // x.compress * _RECORD, 576)))
            wide = 2 if x.compress == 4 else 1
            rows = 4 if x.compress == 4 else 8
            state = _up(rows * wide * 2 * x.head_dim * 4, 576)
            result.append(Kept(kind="sliding", layer=n, block=rows, page=state, window=wide * x.compress))
        if x.index_dim:
            result.append(Kept(kind="full", layer=n, block=block, page=_up(block // 4 * _INDEX, 576)))
            result.append(Kept(kind="sliding", layer=n, block=4, page=_up(4 * 2 * 2 * x.index_dim * 4, 576), window=8))
    return result


def _v41(a: Architecture, s: Setting) -> list[Kept]:
    """Every layer a window; the four source layers a latent and an index key, and where they halve the tokens a ring of eight rows."""
    block, result = block_size(a, s), []
    blackwell = s.capability is not None and s.capability[0] >= 10
    record = _RECORD_V41_SM100 if blackwell else _RECORD
    # Mega attention, the default on capability 10, makes auto and fp8 nvfp4_ds_mla (flash_mla_mega_attn.py, packed_kv_cache_dtype).
    mega = s.engine == "vllm" and s.capability is not None and s.capability[0] == 10 and s.kv_dtype in ("auto", "fp8")
    nvfp4 = mega or s.kv_dtype == "nvfp4_ds_mla"
    latent = _RECORD_NVFP4 if nvfp4 else record
    to = 512 if blackwell else 576
    index = _INDEX_FP4 if nvfp4 else _INDEX
    for n, layer in enumerate(a.layers):
        x = layer.attention
        if x is None:
            continue
        result.append(Kept(kind="sliding", layer=n, block=32, page=_up(32 * record, to), window=x.window))
        if x.caches:
            ratio = max(1, x.compress)
            result.append(Kept(kind="full", layer=n, block=block, page=_up(block // ratio * latent, to)))
            result.append(Kept(kind="full", layer=n, block=block, page=_up(block // ratio * index, to)))
            if ratio > 1:
                result.append(Kept(kind="ring", layer=n, block=8, page=8 * 2 * x.head_dim * 4))
    return result
