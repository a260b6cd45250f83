"""Values that pass every check of vLLM's start and do harm afterwards; each is certain to be of no use, none is a matter of taste."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._data import table
from ._flag_table import bundled
from ._vllm_configs import classes
from ._vllm_types import one
from ._vllm_view import View

Worry = tuple[str, Any, str]  # the option, its value, the key of its words


def worries(v: View) -> Iterator[Worry]:
    """vllm 0.33.0, each tried with its own parser and configuration: all of these are accepted."""
    if v.tool_call_parser and not v.enable_auto_tool_choice:
        yield "tool_call_parser", v.tool_call_parser, "tool-choice-off"
    tools = bundled("vllm").names.get("tool-call-parser", ())
    if (
        v.tool_call_parser
        and not v.enable_auto_tool_choice
        and v.tool_call_parser not in tools
        and not v.tool_parser_plugin
    ):
        yield "tool_call_parser", v.tool_call_parser, "tool-parser-unchecked"
    if v.given("load_format") and str(v.load_format).lower() not in table("vllm_refusals")["load_formats"]:
        yield "load_format", v.load_format, "load-format"
    modes = bundled("vllm").names.get("tokenizer-mode", ())
    if v.given("tokenizer_mode") and str(v.tokenizer_mode).lower() not in (*modes, "slow"):
        yield "tokenizer_mode", v.tokenizer_mode, "tokenizer-mode"
    if v.given("port") and v.port == 0 and not v.uds:
        yield "port", 0, "port-zero"
    if v.serve and not v.headless and v.api_server_count is not None and v.api_server_count < 1:
        yield "api_server_count", v.api_server_count, "no-servers"
    if not v.enable_lora:
        for dest in (
            "max_lora_rank",
            "max_loras",
            "max_cpu_loras",
            "fully_sharded_loras",
            "lora_target_modules",
        ):
            if v.given(dest) and v.made.values.get(dest) not in (None, False):
                yield dest, _shown(v.made.values.get(dest)), "lora-off"
    bits = v.block_size
    if v.given("block_size") and isinstance(bits, int) and bits > 0 and bits % 16 and bits not in (1, 8):
        yield "block_size", bits, "block-size-odd"
    tokens, seqs, length = v.max_num_batched_tokens, v.max_num_seqs, v.max_model_len
    if None not in (tokens, seqs, length) and length > 0 and tokens > seqs * length:
        yield "max_num_batched_tokens", tokens, "tokens-beyond"
    if (
        v.given("gpu_memory_utilization")
        and isinstance(v.gpu_memory_utilization, float)
        and v.gpu_memory_utilization == 1
    ):
        yield "gpu_memory_utilization", 1, "memory-all"
    if v.disable_log_stats and v.kv_cache_metrics:
        yield "kv_cache_metrics", "on", "metrics-off"
    for dest, field in table("vllm_configs")["flag"].items():
        value = v.made.values.get(dest)
        if field["class"] == "MultiModalConfig" and v.given(dest) and value is not None:
            if any(one(field, value, classes(), dest)):
                yield dest, _shown(value), "multimodal-value"
    if v.given("node_rank") and v.nnodes == 1 and v.node_rank > 0:
        yield "node_rank", v.node_rank, "rank-alone"
    if bool(v.ssl_keyfile) != bool(v.ssl_certfile):
        yield (
            ("ssl_keyfile", v.ssl_keyfile, "ssl-half")
            if v.ssl_keyfile
            else ("ssl_certfile", v.ssl_certfile, "ssl-half")
        )


def _shown(value: Any) -> str:
    return str(value)[:80]
