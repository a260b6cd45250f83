"""Values of an SGLang command that pass all checks of the engine: those with which it ends or hangs later, and those that it replaces; sglang 0.5.23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ._sglang_experts import SPANNING
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


class Replaced(NamedTuple):
    """An option whose value the engine replaces by `now`, and the key of the words that say why."""

    dest: str
    value: Any
    now: Any
    words: str


# arg_groups/overrides.py, _mla_backend_page_constraints.
_MLA_PAGES = {"flashmla": (64,), "trtllm_mla": (32, 64), "cutedsl_mla": (32, 64), "trtllm_mha": (16, 32, 64, 128)}


def replaced(v: View) -> Iterator[Replaced]:
    """What was given and does not count. The engine says so in a warning that few read."""
    if v.model.architecture == "DeepseekV4ForCausalLM":
        yield from _differs(v, "attention_backend", "dsv4", "model")
        yield from _differs(v, "page_size", 256, "model")
    elif v.model.dsa:
        yield from _differs(v, "page_size", 64, "model")
    else:
        pages = _MLA_PAGES.get(v.get("attention_backend", ""), ())
        if pages and v.get("page_size", None) not in (None, *pages):
            yield from _differs(v, "page_size", 64, "backend")
    if v.get("moe_a2a_backend", "none") in SPANNING:
        yield from _differs(v, "ep_size", v.tp_size, "exchange")
    algorithm = str(v.get("speculative_algorithm", "") or "").upper()
    if algorithm in ("DSPARK", "DFLASH"):
        yield from _differs(v, "speculative_num_steps", 1, "algorithm")
        yield from _differs(v, "speculative_eagle_topk", 1, "algorithm")
    steps = v.get("speculative_num_steps", None)
    if algorithm in ("EAGLE", "EAGLE3", "NEXTN") and v.get("speculative_eagle_topk", None) == 1 and steps is not None:
        yield from _differs(v, "speculative_num_draft_tokens", steps + 1, "chain")


def _differs(v: View, dest: str, now: Any, words: str) -> Iterator[Replaced]:
    value = v.get(dest, None)
    if dest in v.given and value is not None and value != now:
        yield Replaced(dest, value, now, words)
