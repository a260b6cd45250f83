"""What a config.json says of a model, in the words that memory is counted in: layers, what each keeps, what it weighs."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec


class Attention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One layer's attention. `kind`: full, sliding (`window` tokens), chunked (`window`), mla (one latent of `kv_rank` + `rope_dim`
    a token, shared by all heads), compressed (DeepSeek V4: a `window` and, for `compress` > 1, a latent each `compress` tokens).
    `index_bytes` a token are kept for a sparse indexer. `caches` False: reads the cache of an earlier layer. `cross_heads`: heads of an
    encoder-decoder's cross attention."""

    kind: Literal["full", "sliding", "chunked", "mla", "compressed"] = "full"
    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int = 0
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    index_heads: int = 0
    index_dim: int = 0
    index_bytes: int = 0
    compress: int = 0
    caches: bool = True
    cross: bool = False
    output_gate: bool = False
    same_kv: bool = False
    bias: bool = False


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a recurrent layer keeps of a request, whatever its length: a convolution of `kernel` columns of `conv` elements, and `cells`
    elements of state. `groups` and `group_size`: the part of the columns that is copied to every rank once there are more ranks than groups
    (Mamba 2). `wide`: the cells are 32-bit. `split` False: every rank holds all of it."""

    kind: Literal["gated-delta", "kda", "mamba1", "mamba2", "linear", "short-conv"]
    conv: int = 0
    kernel: int = 0
    cells: int = 0
    groups: int = 0
    group_size: int = 0
    wide: bool = False
    split: bool = True
    parameters: int = 0


class Feed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One layer's feed-forward part: dense (`width`, `matrices` of hidden x width) and, or, `experts` of `expert_width`, with shared ones of
    `shared_width` altogether. `latent`: the width that experts read instead of hidden."""

    width: int = 0
    matrices: int = 3
    experts: int = 0
    expert_width: int = 0
    expert_matrices: int = 3
    shared_width: int = 0
    used: int = 0
    latent: int = 0


class Layer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One layer: what it attends with, what state it keeps, how it feeds forward; `other` parameters beside, whole on every rank."""

    attention: Attention | None = None
    state: State | None = None
    feed: Feed | None = None
    other: int = 0


class Quantisation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a checkpoint is stored: `bits` of one weight with its scales, for the plain linear layers, for the experts and for the whole feed-forward part (None: as the rest);
    what `skips` names stays in the model's own type. `kv_bytes`: the element size of the KV cache that the checkpoint asks for."""

    method: str
    bits: float
    expert_bits: float | None = None
    feed_bits: float | None = None
    skips: tuple[str, ...] = ()
    kv_bytes: int | None = None
    known: bool = True


class Architecture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model. `certain` False: its type is not known here, and it was read as plain grouped-query attention. `positions`: its
    context, scaling included (0: not said). `spare`: layers for multi-token prediction, loaded only with speculation. `encoder`: layers
    of an encoder of its own (whisper, t5), `encoder_tokens` its length. `vision`: parameters of the towers beside the text.
    `host_tables`: parameters that the engine may keep in host memory (Engram). `width` is the hidden size."""

    model_type: str
    width: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool
    dtype: str = "bfloat16"
    positions: int = 0
    spare: tuple[Layer, ...] = ()
    encoder: tuple[Layer, ...] = ()
    encoder_tokens: int = 0
    vision: int = 0
    host_tables: int = 0
    position_table: int = 0
    input_tables: int = 0
    quantisation: Quantisation | None = None
    certain: bool = True
    notes: tuple[str, ...] = ()

    @property
    def heads(self) -> int:
        """Query heads of the widest layer; 0 without attention."""
        return max((x.attention.heads for x in self.layers if x.attention), default=0)

    @property
    def kv_heads(self) -> int:
        return max((x.attention.kv_heads for x in self.layers if x.attention), default=0)

    @property
    def experts(self) -> int:
        return max((x.feed.experts for x in self.layers if x.feed), default=0)

    @property
    def is_mla(self) -> bool:
        return any(x.attention is not None and x.attention.kind in ("mla", "compressed") for x in self.layers)

    @property
    def element(self) -> int:
        """Bytes of one weight in the model's own type."""
        return {"float32": 4, "float": 4, "float64": 8}.get(self.dtype, 2)

    def counted(self) -> list[tuple[str, int]]:
        """Kinds of layers by how many there are, as people name them."""
        names = Counter(_name(x) for x in self.layers)
        return sorted(names.items(), key=lambda item: -item[1])


def _name(layer: Layer) -> str:
    parts: list[str] = []
    if layer.attention is not None:
        parts.append(layer.attention.kind)
    if layer.state is not None:
        parts.append(layer.state.kind)
    return "+".join(parts) or "feed-forward"
