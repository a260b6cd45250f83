"""A model's parameters, part by part: how many, on which pipeline stage, how they are divided over ranks; it weighs nothing yet."""

from __future__ import annotations

from typing import Literal

import msgspec

from .architecture import Architecture, Attention, Feed, Layer

Split = Literal["ranks", "heads", "kv", "vocabulary", "experts", "whole", "host"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """`count` parameters of one `role`. `layer`: its number, -1 before the first, None behind the last. `split`: over all ranks, over
    query heads, over KV heads (`heads` of them, then copied), over the vocabulary, over experts, not at all, or kept on the host. `stored`: whether a
    quantised checkpoint quantises it."""

    role: str
    count: int
    layer: int | None
    split: Split
    heads: int = 0
    stored: bool = True


def parts(a: Architecture) -> list[Part]:
    """Every part of the model as it is loaded without speculation."""
    result = [Part(role="embedding", count=a.vocabulary * a.width, layer=-1, split="vocabulary", stored=False)]
    if a.position_table:
        result.append(Part(role="positions", count=a.position_table, layer=-1, split="whole", stored=False))
    if a.input_tables:
        result.append(Part(role="embedding", count=a.input_tables, layer=-1, split="vocabulary", stored=False))
    for number, layer in enumerate(a.layers):
        result += layer_parts(a, layer, number)
    for layer in a.encoder:
        result += layer_parts(a, layer, -1)
    if a.vision:
        result.append(Part(role="vision", count=a.vision, layer=-1, split="ranks", stored=False))
    if a.host_tables:
        result.append(Part(role="tables", count=a.host_tables, layer=-1, split="host"))
    if not a.tied:
        result.append(Part(role="head", count=a.vocabulary * a.width, layer=None, split="vocabulary", stored=False))
    result.append(Part(role="norm", count=a.width, layer=None, split="whole", stored=False))
    return result


def layer_parts(a: Architecture, layer: Layer, number: int | None) -> list[Part]:
    result: list[Part] = []
    if layer.attention is not None:
        result += _attention(a.width, layer.attention, number)
    if layer.state is not None:
        result.append(Part(role="state", count=layer.state.parameters, layer=number, split="ranks"))
    if layer.feed is not None:
        result += _feed(a.width, layer.feed, number)
    if layer.other:
        result.append(Part(role="norm", count=layer.other, layer=number, split="whole", stored=False))
    return result


def _attention(hidden: int, x: Attention, number: int | None) -> list[Part]:
    if x.kind == "mla":
        found = _latent(hidden, x, number)
    elif x.kind == "compressed":
        return _compressed(hidden, x, number)
    else:
        queries = hidden * x.heads * x.head_dim * (2 if x.output_gate else 1) + hidden * x.heads * x.v_head_dim
        pairs = x.kv_heads * (x.head_dim + (0 if x.same_kv else x.v_head_dim)) * hidden
        found = [Part(role="attention", count=queries, layer=number, split="heads")]
        if x.caches or x.kv_heads == x.heads:
            found.append(Part(role="attention", count=pairs, layer=number, split="kv", heads=x.kv_heads))
        if x.cross:
            found.append(Part(role="attention", count=queries + pairs, layer=number, split="heads"))
        if x.bias:
            biases = x.heads * x.head_dim + x.kv_heads * (x.head_dim + x.v_head_dim)
            found.append(Part(role="bias", count=biases, layer=number, split="heads", stored=False))
        if x.index_dim:  # MiniMax M3
            found.append(
                Part(role="indexer", count=hidden * x.index_dim * (x.index_heads + 1), layer=number, split="whole")
            )
    return found


def _latent(hidden: int, x: Attention, number: int | None) -> list[Part]:
    per_head = x.nope_dim + x.rope_dim
    queries = x.heads * per_head * (x.q_rank or hidden)
    found = [
        Part(
            role="attention", count=hidden * (x.kv_rank + x.rope_dim) + hidden * x.q_rank, layer=number, split="whole"
        ),
        Part(role="attention", count=queries + x.heads * x.v_head_dim * hidden, layer=number, split="heads"),
        Part(role="latent", count=x.kv_rank * x.heads * (x.nope_dim + x.v_head_dim), layer=number, split="heads"),
    ]
    if x.index_dim:
        count = (x.q_rank or hidden) * x.index_heads * x.index_dim + hidden * (x.index_dim + x.index_heads)
        found.append(Part(role="indexer", count=count, layer=number, split="whole"))
    return found


def _compressed(hidden: int, x: Attention, number: int | None) -> list[Part]:
    """DeepSeek V4: low-rank queries, one shared latent, a grouped low-rank output, a compressor and an indexer."""
    groups, rank = max(1, x.nope_dim), x.kv_rank
    found = [
        Part(role="attention", count=hidden * (x.q_rank + x.head_dim), layer=number, split="whole"),
        Part(
            role="attention",
            count=x.q_rank * x.heads * x.head_dim + x.heads * x.head_dim * rank + groups * rank * hidden,
            layer=number,
            split="heads",
        ),
    ]
    if x.compress > 1 and x.caches:  # V4.1: only the layers whose latents the others read
        wide = (2 if x.compress == 4 else 1) * x.head_dim
        found.append(Part(role="compressor", count=2 * hidden * wide, layer=number, split="whole", stored=False))
    if x.index_dim:
        count = x.q_rank * x.index_heads * x.index_dim + hidden * x.index_heads + 4 * hidden * x.index_dim
        found.append(Part(role="indexer", count=count, layer=number, split="whole"))
    return found


def _feed(hidden: int, f: Feed, number: int | None) -> list[Part]:
    found = []
    if f.width:
        found.append(Part(role="mlp", count=f.matrices * hidden * f.width, layer=number, split="ranks"))
    if f.experts:
        inner = f.latent or hidden
        found.append(
            Part(
                role="experts",
                count=f.experts * f.expert_matrices * inner * f.expert_width,
                layer=number,
                split="experts",
            )
        )
        found.append(Part(role="router", count=f.experts * hidden, layer=number, split="whole", stored=False))
        if f.latent:
            found.append(Part(role="mlp", count=2 * hidden * f.latent, layer=number, split="whole"))
    if f.shared_width:
        found.append(
            Part(role="shared", count=f.expert_matrices * hidden * f.shared_width, layer=number, split="ranks")
        )
    return found


def parameters(a: Architecture) -> int:
    """How many parameters the model has, multi-token prediction layers apart."""
    return sum(p.count for p in parts(a))


def active(a: Architecture) -> int:
    """How many of them one token uses."""
    total = 0
    for p in parts(a):
        if p.role == "experts" and p.layer is not None:
            f = a.layers[p.layer].feed
            total += p.count * f.used // f.experts if f is not None and f.experts else p.count
        elif p.role not in ("embedding", "tables"):
            total += p.count
    return total
