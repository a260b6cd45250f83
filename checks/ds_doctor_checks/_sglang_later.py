"""Values of an SGLang command that pass all checks of the engine and let it end or hang later; sglang 0.5.23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ._sglang_view import View


class Worry(NamedTuple):
    """An option, its value, and the key of its words in data/sglang_refusals.toml."""

    dest: str
    value: Any
    words: str


# (option, smallest, largest, words). Where each ends: entrypoints/engine.py _calculate_rank_ranges (no rank is started),
# model_executor/pool_configurator.py (memory), uvicorn's bind, managers/scheduler.py and utils/common.py set_random_seed,
# managers/scheduler_components/metrics_reporter.py (% decode_log_interval).
_RANGES: tuple[tuple[str, float | None, float | None, str], ...] = (
    *((name, 1, None, "size") for name in ("tp_size", "pp_size", "dp_size", "ep_size", "nnodes")),
    ("port", 1, 65535, "port"),
    ("nccl_port", 1, 65535, "port"),
    ("disaggregation_bootstrap_port", 1, 65535, "port"),
    ("max_running_requests", 1, None, "positive"),
    ("max_total_tokens", 1, None, "positive"),
    ("max_prefill_tokens", 1, None, "positive"),
    ("context_length", 1, None, "positive"),
    ("page_size", 1, None, "page"),
    ("random_seed", 0, 2**32 - 1, "seed"),
    ("decode_log_interval", 1, None, "interval"),
    ("speculative_num_steps", 1, None, "steps"),
    ("speculative_eagle_topk", 1, None, "steps"),
)


def worries(v: View) -> Iterator[Worry]:
    """Of the options that were given; the engine's own defaults are sound."""
    for dest, least, most, words in _RANGES:
        value = v.get(dest, None)
        if dest not in v.given or not isinstance(value, (int, float)):
            continue
        if (least is not None and value < least) or (most is not None and value > most):
            yield Worry(dest, value, words)
    part = v.get("mem_fraction_static", None)
    if part is not None and "mem_fraction_static" in v.given and not 0 < part < 1:
        yield Worry("mem_fraction_static", part, "memory")
    nodes = v.get("nnodes", 1)
    rank = v.get("node_rank", 0)
    if nodes > 1 and not 0 <= rank < nodes:
        yield Worry("node_rank", rank, "rank")
    overridden = "SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE" in v.environment
    if nodes > 1 and v.get("dist_init_addr", None) is None and not overridden:
        yield Worry("nnodes", nodes, "address")
