"""How an engine is asked to run a model, as far as memory depends on it; whoever reads a command or options fills it."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

Version = tuple[int, ...]

GIB = 1 << 30
NEWEST: dict[str, Version] = {"vllm": (0, 33, 0), "sglang": (0, 5, 23)}  # what the arithmetic here was read from


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """`version` None: the newest known. `dp` replicas, `ep` whether experts are spread whole over the ranks. `max_len` etc. None: the
    engine's own default. `kv_dtype` and `dtype` as the flags take them. `speculative`: tokens a step; `drafter_layers`: full-attention layers
    that the drafter adds to the cache. `state_mode`: how recurrent states are kept ("none", "align", "all"; None: the default).
    `dp_attention`: SGLang's --enable-dp-attention. `offload_gib`: weights that stay on the host, each GPU. `batches`: steps in flight (None: the
    default). `lora_slots`: adapters that are loaded at once (0: none), each of `lora_rank` at most. `host_tables`: whether Engram tables stay in
    host memory (None: the engine's default)."""

    engine: Literal["vllm", "sglang"] = "vllm"
    version: Version | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    ep_size: int = 1
    dcp: int = 1
    dp_attention: bool = False
    kv_dtype: str = "auto"
    dtype: str = "auto"
    block: int | None = None
    max_len: int | None = None
    max_seqs: int | None = None
    batched_tokens: int | None = None
    utilisation: float | None = None
    eager: bool = False
    speculative: int = 0
    drafter_layers: int = 0
    state_mode: str | None = None
    state_dtype: str = "auto"
    hybrid_manager: bool = True
    batches: int | None = None
    offload_gib: float = 0.0
    quantisation: str | None = None
    capability: tuple[int, int] | None = None
    swa_ratio: float = 0.8
    language_only: bool = False
    kv_bytes_given: int | None = None
    prefix_caching: bool | None = None
    lora_slots: int = 0
    lora_rank: int = 16
    host_tables: bool | None = None

    @property
    def at(self) -> Version:
        return self.version or NEWEST[self.engine]

    @property
    def ranks(self) -> int:
        """GPUs of the whole deployment."""
        if self.engine == "sglang" and self.dp_attention:
            return self.tp * self.pp
        return self.tp * self.pp * self.dp


def version(text: str) -> Version | None:
    """The first version in a text: "V1, 0.11.0" gives (0, 11, 0), "0.2x" gives (0, 20); None without one."""
    m = re.search(r"(\d+)\.(\d+)(x?)(?:\.(\d+))?", text)
    if m is None:
        return None
    minor = int(m[2]) * 10 if m[3] else int(m[2])
    return (int(m[1]), minor, int(m[4])) if m[4] else (int(m[1]), minor)


def is_v0(s: Setting) -> bool:
    """vLLM's first engine, the default up to 0.7."""
    return s.engine == "vllm" and s.at < (0, 8)
