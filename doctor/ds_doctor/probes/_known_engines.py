"""The releases whose flag tables stand with the checks, known again by the files that decide those tables; it reads nothing.

`python tests/engine_digests.py FOLDER` prints the entry of an installed engine; tests compare the releases with the tables.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """`digest`: of the bytes of `files`, which are all that the reader of the flags looks at, relative to the package."""

    release: str
    digest: str
    files: tuple[str, ...]


KNOWN: dict[str, Known] = {
    "vllm": Known(
        "0.33.0",
        "001147c799425d4bbc1743ea",
        (
            "config/__init__.py",
            "config/attention.py",
            "config/aux_output.py",
            "config/cache.py",
            "config/compilation.py",
            "config/device.py",
            "config/diffusion.py",
            "config/ec_manager_config.py",
            "config/ec_transfer.py",
            "config/engram.py",
            "config/fault_tolerance.py",
            "config/kernel.py",
            "config/kv_events.py",
            "config/kv_transfer.py",
            "config/load.py",
            "config/logging.py",
            "config/lora.py",
            "config/mamba.py",
            "config/model.py",
            "config/multimodal.py",
            "config/observability.py",
            "config/offload.py",
            "config/parallel.py",
            "config/pooler.py",
            "config/profiler.py",
            "config/quantization.py",
            "config/reasoning.py",
            "config/scheduler.py",
            "config/speculative.py",
            "config/structured_outputs.py",
            "config/utils.py",
            "config/vllm.py",
            "config/watchdog_config.py",
            "config/watermarking.py",
            "config/weight_transfer.py",
            "engine/arg_utils.py",
            "entrypoints/anthropic/protocol.py",
            "entrypoints/cli/serve.py",
            "entrypoints/cli/types.py",
            "entrypoints/common/cli_args.py",
            "entrypoints/common/startup.py",
            "entrypoints/launchers/api_server/entry.py",
            "entrypoints/launchers/utils/constants.py",
            "entrypoints/openai/api_server.py",
            "entrypoints/openai/models/protocol.py",
            "model_executor/layers/quantization/__init__.py",
            "model_executor/model_loader/__init__.py",
            "plugins/__init__.py",
            "reasoning/__init__.py",
            "renderers/chat_utils/__init__.py",
            "renderers/chat_utils/types.py",
            "tool_parsers/__init__.py",
            "tool_parsers/abstract_tool_parser.py",
            "tool_parsers/tool_strict_level.py",
            "transformers_utils/config.py",
            "utils/argparse_utils.py",
            "utils/import_utils.py",
            "v1/attention/backends/mla/prefill/registry.py",
            "v1/attention/backends/registry.py",
        ),
    ),
    "sglang": Known(
        "0.5.23",
        "0007127529128c915573e33d",
        (
            "cli/serve.py",
            "kernels/ops/kv_canary/consts.py",
            "srt/arg_groups/arg_utils.py",
            "srt/arg_groups/argparse_actions.py",
            "srt/arg_groups/choices.py",
            "srt/arg_groups/field_order.py",
            "srt/arg_groups/fields/device.py",
            "srt/arg_groups/fields/disagg.py",
            "srt/arg_groups/fields/exec_.py",
            "srt/arg_groups/fields/lora.py",
            "srt/arg_groups/fields/memory.py",
            "srt/arg_groups/fields/mm.py",
            "srt/arg_groups/fields/model.py",
            "srt/arg_groups/fields/observability.py",
            "srt/arg_groups/fields/parallel.py",
            "srt/arg_groups/fields/schedule.py",
            "srt/arg_groups/fields/serving.py",
            "srt/arg_groups/fields/spec.py",
            "srt/function_call/parser_names.py",
            "srt/lora/lora_registry.py",
            "srt/model_executor/cuda_graph_config.py",
            "srt/parser/reasoning_parser_names.py",
            "srt/server_args.py",
            "srt/utils/common.py",
        ),
    ),
}
