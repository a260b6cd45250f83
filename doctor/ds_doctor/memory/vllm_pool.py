"""vLLM's KV pool: layers into groups, groups into blocks, and from a size in bytes to tokens, concurrency and the longest request.

Follows vllm/v1/core/kv_cache_planning.py (0.33) and kv_cache_utils.py of the versions before; differences stand where they matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import msgspec

from . import vllm_compressed
from .architecture import Architecture
from .kv import Kept, cached_layers, index_bytes, stage_layers, state_bytes, token_bytes
from .setting import Setting, is_v0
from .vllm_packed import packed


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Layers that share one table of blocks: `kind` and `window` as in Kept, `block` tokens a block; `layers` the numbers of its layers."""

    kind: str
    block: int
    window: int
    layers: tuple[int, ...]
    pages: tuple[int, ...]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The pool of one GPU. `block_bytes` of one block; `in_flight` tokens that are scheduled and not yet settled; `state_blocks` of one request
    in each recurrent group (0: as many as a full one). `cross_tokens`: the encoder's."""

    groups: tuple[Group, ...]
    block_bytes: int
    in_flight: int
    state_blocks: int = 1
    cross_tokens: int = 0
    growing: int = 0
    null_block: bool = False
    weighted: bool = (
        False  # DeepSeek V4 up to 0.26: another size of block, and requests charged by their groups' first pages
    )
    pool_block: int = 0
    parallel: int = 1  # ranks that share a full layer's tokens: decode context parallelism

    def blocks_for(self, length: int) -> int:
        """Blocks that one request of `length` tokens holds."""
        return sum(self._held(g, length) for g in self.groups)

    def _held(self, g: Group, length: int) -> int:
        """Blocks of one group that a request holds."""
        if g.kind == "full":
            return ceil(ceil(length / self.parallel) / g.block)
        if g.kind == "sliding":
            return -(-min(g.window - 1 + self.in_flight, length) // g.block) + 1
        if g.kind == "chunked":
            return -(-min(g.window + self.in_flight, length) // g.block)
        if g.kind == "ring":
            return 1
        if g.kind == "cross":
            return -(-self.cross_tokens // g.block)
        return self.state_blocks or -(-length // g.block)

    def need(self, length: int) -> int:
        """Bytes that one request of `length` tokens needs: what the engine compares with the memory that it has."""
        return self.blocks_for(length) * self.block_bytes

    def blocks(self, available: int) -> int:
        size = self.pool_block or self.block_bytes
        return max(0, available // size) if size else 0

    def concurrency(self, available: int, length: int) -> float:
        """Requests of `length` tokens that the pool holds at once."""
        need = self.blocks_for(length)
        if self.weighted:
            first = max(g.pages[0] for g in self.groups)
            need = -(-sum(self._held(g, length) * g.pages[0] for g in self.groups) // first)
        return self.blocks(available) / need if need else 0.0

    def tokens(self, available: int, length: int, version: Sequence[int]) -> int:
        """The number that "GPU KV cache size" prints."""
        if tuple(version) >= (0, 20, 1):
            return int(self.concurrency(available, length) * length)
        return self.blocks(available) // max(1, len(self.groups)) * min((g.block for g in self.groups), default=16)

    def longest(self, available: int, limit: int) -> int:
        """The longest request that fits, up to `limit`: the engine's "estimated maximum model length". 0: none does."""
        room = available - self.block_bytes if self.null_block else available
        if not self.groups or self.need(1) > room:
            return 0 if self.groups else limit
        low, high, best = 1, limit, 1
        while low <= high:
            mid = (low + high) // 2
            if self.need(mid) <= room:
                best, low = mid, mid + 1
            else:
                high = mid - 1
        return best


def in_flight(s: Setting, batched: int) -> int:
    """Tokens scheduled and not yet settled: from 0.26 one batch for each step in flight (config/vllm.py: max_in_flight_tokens)."""
    if s.at < (0, 26):
        return batched
    if s.batches is not None:
        return s.batches * batched
    return (s.pp + 1 if s.at >= (0, 30) or s.pp == 1 else s.pp) * batched


def block_size(a: Architecture, s: Setting) -> int:
    """Tokens of one block before hybrids enlarge it."""
    if vllm_compressed.is_compressed(a):
        return vllm_compressed.block_size(a, s)
    if s.block is not None:
        return s.block
    if any(x.attention is not None and x.attention.kind == "mla" and x.attention.index_dim for x in a.layers):
        return 64
    if any(x.attention is not None and x.attention.kind == "full" and x.attention.index_dim for x in a.layers):
        return 128
    return 16


def state_mode(a: Architecture, s: Setting) -> str:
    """How recurrent states are kept: "align" with prefix caching, "none" without."""
    if s.state_mode is not None:
        return s.state_mode
    if s.prefix_caching is not None:
        return "align" if s.prefix_caching else "none"
    return "none" if s.at < (0, 21) else "align"


def kept(a: Architecture, s: Setting) -> list[Kept]:
    """What every layer keeps on one GPU, before the engine makes the pages alike."""
    if vllm_compressed.is_compressed(a):
        return vllm_compressed.kept(a, s)
    layers = cached_layers(a, s)
    block = block_size(a, s)
    states = [state_bytes(a, x.state, s) for x in layers if x.state is not None]
    page = 0
    if states:
        tokens = [token_bytes(a, x.attention, s) for x in layers if x.attention is not None and x.attention.caches]
        if (
            tokens
        ):  # "Setting attention block size to N tokens to ensure that attention page size is >= mamba page size"
            step = max(block, 128) if a.is_mla else max(block, 16)
            wanted = step * -(-max(states) // (step * max(tokens)))
            block = max(block, wanted) if s.block is None or s.block < wanted else s.block
            page = block * max(tokens)
        else:
            page = max(states)
    result: list[Kept] = []
    sizes: dict[int, int] = {}
    for number, layer in enumerate(layers):
        x = layer.attention
        if layer.state is not None:
            result.append(Kept(kind="state", layer=number, block=block, page=max(page, state_bytes(a, layer.state, s))))
        if x is None or not x.caches:
            continue
        one = sizes.get(id(x), -1)
        if one < 0:
            one = sizes[id(x)] = token_bytes(a, x, s)
        kind: Any = "full" if x.kind in ("full", "mla") else x.kind
        if is_v0(s) or not s.hybrid_manager:
            kind = "full"
        result.append(
            Kept(kind=kind, layer=number, block=block, page=block * one, window=x.window if kind != "full" else 0)
        )
        if x.index_bytes:
            result.append(Kept(kind="full", layer=number, block=block, page=block * index_bytes(x)))
            if a.model_type.startswith("glm5_next"):  # the pooled indexer's open group of keys
                result.append(Kept(kind="ring", layer=number, block=block, page=8 * x.index_dim * 2))
        if x.cross:
            result.append(Kept(kind="cross", layer=number, block=block, page=block * one))
    return result


def pool(a: Architecture, s: Setting, batched: int, stage: range | None = None) -> Pool:
    """The pool of one GPU of a pipeline stage (None: one that holds every layer)."""
    every = kept(a, s)
    rows = packed(every) if _packs(a, s) and len({(k.kind, k.block, k.window) for k in every}) > 1 else None
    old_v4 = rows is not None and vllm_compressed.is_compressed(a) and s.at < (0, 27)
    groups = [_group(members) for members in rows] if rows is not None else _grouped(_unified(every))
    if stage is not None:
        groups = [_on_stage(g, stage, len(a.layers)) for g in groups]
    mode = state_mode(a, s)
    block_bytes = max((sum(g.pages) for g in groups), default=0)
    pool_block = 0
    if old_v4:
        block_bytes, pool_block = _old_blocks(next(g for g in groups if g.kind == "full"), groups)
    growing = sum(sum(g.pages) // g.block for g in groups if g.kind == "full")
    return Pool(
        groups=tuple(groups),
        block_bytes=block_bytes,
        in_flight=in_flight(s, batched),
        state_blocks=0 if mode == "all" else (2 if mode == "align" else 1) + s.speculative,
        cross_tokens=a.encoder_tokens,
        growing=growing // s.dcp,
        parallel=s.dcp,
        null_block=s.at >= (0, 33),
        weighted=old_v4,
        pool_block=pool_block,
    )


def _old_blocks(full: Group, groups: list[Group]) -> tuple[int, int]:
    """DeepSeek V4 up to 0.26: what a block of a request is charged, and the bytes of one block of the pool. Pages are padded to the next
    size that the full layers have (_get_kv_cache_groups_uniform_groups in kv_cache_utils.py)."""
    sizes = sorted(set(full.pages))

    def padded(page: int) -> int:
        return min((x for x in sizes if x >= page), default=page)

    counts = {size: max(sum(padded(p) == size for p in g.pages) for g in groups) for size in sizes}
    return max(counts.values()) * sum(sizes), sum(size * n for size, n in counts.items())


def _packs(a: Architecture, s: Setting) -> bool:
    """Blocks hold all layers side by side where an indexer's backend wants them so (supported_kv_cache_layouts: BLHNC)."""
    if vllm_compressed.is_compressed(a):
        return True
    return s.at >= (0, 27) and a.is_mla and any(x.attention is not None and x.attention.index_dim for x in a.layers)


def _on_stage(g: Group, stage: range, layers: int) -> Group:
    last = stage.stop >= layers
    keep = [i for i, n in enumerate(g.layers) if n in stage or (last and n >= layers)]
    return Group(
        kind=g.kind,
        block=g.block,
        window=g.window,
        layers=tuple(g.layers[i] for i in keep),
        pages=tuple(g.pages[i] for i in keep),
    )


def _unified(every: list[Kept]) -> list[Kept]:
    """Pages made alike: smaller ones get larger blocks, or padding (unify_kv_cache_spec_page_size)."""
    if len({(k.kind, k.window) for k in every}) <= 1:
        return every  # one kind: pages may differ
    largest = max(k.page for k in every)
    result = []
    for k in every:
        if k.page == largest:
            result.append(k)
        elif k.kind != "state" and k.page and largest % k.page == 0:
            result.append(msgspec.structs.replace(k, block=k.block * (largest // k.page), page=largest))
        else:
            result.append(msgspec.structs.replace(k, page=largest))
    return result


def _grouped(every: list[Kept]) -> list[Group]:
    kinds: dict[tuple[str, int, int], list[Kept]] = {}
    for k in every:
        kinds.setdefault((k.kind, k.block, k.window), []).append(k)
    buckets = list(kinds.values())
    if len(buckets) == 1:
        return [_group(buckets[0])]
    if not buckets:
        return []
    fewest, most = min(map(len, buckets)), max(map(len, buckets))
    size = most if most < fewest * 1.5 else fewest
    groups = []
    for bucket in buckets:
        count = -(-len(bucket) // size)
        groups += [_group(bucket[i::count]) for i in range(count)]
    return groups


def _group(members: list[Kept]) -> Group:
    first = members[0]
    return Group(
        kind=first.kind,
        block=first.block,
        window=first.window,
        layers=tuple(k.layer for k in members),
        pages=tuple(k.page for k in members),
    )


def stages(a: Architecture, s: Setting) -> list[range]:
    return stage_layers(len(a.layers), s.pp)
