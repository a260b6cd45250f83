"""The towers beside the text model (vision, audio): about how many parameters they have; it never knows them exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .values import COUNT, LAYERS, Values

_PLACES = ("vision_config", "vit_config", "visual", "audio_config", "vision_tower_config")
# What a type's tower is where the file only says that there is one: parameters. From the types' own configuration classes.
_USUAL = {
    "qwen3_5": 456_000_000, "qwen3_5_moe": 447_000_000, "qwen2_5_vl": 676_000_000, "qwen2_vl": 676_000_000, "qwen3_vl": 576_000_000,
    "qwen3_vl_moe": 576_000_000, "mistral4": 439_000_000, "mistral3": 439_000_000, "minimax_m3_vl": 700_000_000, "glm5_next": 900_000_000,
    "deepseek_v41": 470_000_000, "gemma3": 417_000_000, "kimi_k25": 470_000_000,
}  # fmt: skip


def towers(config: Mapping[str, Any], kind: str, hidden: int) -> int:
    """Parameters of what stands beside the text model; 0 where nothing does."""
    thinker = config.get("thinker_config")
    holder = thinker if isinstance(thinker, Mapping) else config
    total = 0
    for name in _PLACES:
        inner = holder.get(name)
        if isinstance(inner, Mapping) and inner:
            total += _tower(Values(inner, f"{name}."), kind, hidden)
    if not total and (config.get("vision") is True or ("text_config" in config and kind in _USUAL)):
        total = _USUAL.get(kind, 0)
    return total


def _tower(v: Values, kind: str, hidden: int) -> int:
    depth = v.whole("depth", "num_hidden_layers", "layers", "encoder_layers", "n_layers", default=0, low=0, high=LAYERS)
    size = v.whole("hidden_size", "embed_dim", "width", "d_model", "dim", default=0, low=0)
    if kind == "qwen2_vl":
        size = v.whole("embed_dim", default=1280)
    if not depth or not size:
        return _USUAL.get(kind, 0)
    wide = v.whole("intermediate_size", "encoder_ffn_dim", "mlp_dim", default=0, low=0) or int(
        v.number("mlp_ratio", default=4.0) * size
    )
    gated = (
        3
        if kind.startswith(("qwen2_5", "pixtral", "mistral", "glm", "deepseek_v41", "gemma4"))
        or v.word("hidden_act") == "silu"
        else 2
    )
    patch = v.whole("patch_size", "spatial_patch_size", default=14, high=1024)
    merge = v.whole("spatial_merge_size", default=2, high=64) ** 2 * size
    out = v.whole("out_hidden_size", default=hidden)
    projector = merge * merge + merge * out
    deep = v.raw("deepstack_visual_indexes")  # qwen3_vl: a projector of its own for each of these layers
    if isinstance(deep, list):
        projector *= 1 + len(deep[:64])
    heads = v.whole("num_heads", "num_attention_heads", default=16, high=COUNT)
    dim = v.whole("head_dim", default=-(-size // heads))
    return depth * (4 * size * heads * dim + gated * size * wide) + 3 * patch * patch * size + projector
