"""SGLang's KV pool: bytes a token, tokens, the second pool of sliding layers and the states of recurrent ones.

Follows srt/model_executor/pool_configurator.py and srt/mem_cache/kv_cache_configurator.py (0.5.23).
"""

from __future__ import annotations

import msgspec

from .architecture import Architecture
from .kv import cached_layers, stage_layers, state_bytes, token_bytes
from .setting import Setting


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on one GPU: `full` of a token in the layers that grow, `sliding` of one in the others, `index` in the sparse indexers; `state` of one
    request's recurrent states (all layers). `fixed`: what does not depend on the tokens. `parallel`: ranks that share a token's latent (decode context
    parallelism). `ratio`: sliding tokens for each full one; `page` tokens a page."""

    full: float
    sliding: float
    index: int
    state: int
    ratio: float = 0.8
    page: int = 1
    window: int = 0
    state_share: float = 0.9
    fixed: int = 0
    parallel: int = 1

    @property
    def cell(self) -> float:
        """Bytes for each token of max_total_num_tokens."""
        grown = self.full / self.parallel + self.index
        return grown + self.ratio * self.sliding if grown else float(self.sliding)

    def tokens(self, pool: int) -> int:
        """max_total_num_tokens out of a pool of so many bytes."""
        room = pool - self.fixed
        if self.state:  # the states take mamba_full_memory_ratio / (1 + ratio) of it
            budget = int(pool * self.state_share / (1 + self.state_share))
            slots = max(0, (budget - self.state) // self.state)
            room = pool - (slots + 1) * self.state
        cell = self.cell
        return max(0, int(room // cell)) // self.page * self.page if cell else 0

    def states(self, pool: int) -> int:
        """Slots for recurrent states."""
        if not self.state:
            return 0
        return max(0, (int(pool * self.state_share / (1 + self.state_share)) - self.state) // self.state)


def pool(a: Architecture, s: Setting, stage: range | None = None, batched: int = 8192) -> Pool:
    if any(x.attention is not None and x.attention.kind == "compressed" for x in a.layers):
        from .sglang_compressed import PAGE, pool_bytes

        grown, windows, ratio, fixed = pool_bytes(a, s, batched, stage)
        return Pool(full=grown, sliding=windows, index=0, state=0, ratio=ratio, page=PAGE, fixed=fixed)
    full = sliding = index = state = window = 0
    layers = cached_layers(a, s)
    for number, layer in enumerate(layers):
        if stage is not None and number not in stage and not (number >= len(a.layers) and stage.stop == len(a.layers)):
            continue
        if layer.state is not None:
            state += state_bytes(a, layer.state, s)
        x = layer.attention
        if x is None or not x.caches:
            continue
        one = token_bytes(a, x, s)
        if x.kind in ("sliding", "compressed"):
            sliding += one
            window = max(window, x.window)
        else:
            full += one
            index += x.index_bytes if s.at >= (0, 5, 3) else 0
    page = s.block or (64 if index else 1)
    return Pool(
        full=full, sliding=sliding, index=index, state=state, ratio=s.swa_ratio, page=page, window=window,
        parallel=s.dcp if a.is_mla else 1,
    )  # fmt: skip


def stages(a: Architecture, s: Setting) -> list[range]:
    return stage_layers(len(a.layers), s.pp)
