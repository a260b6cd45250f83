"""What vLLM's server refuses before it makes a configuration: vllm 0.33.0 entrypoints/common/cli_args.py, entrypoints/cli/serve.py and entrypoints/launchers/."""

from __future__ import annotations

from ._data import table
from ._flag_table import bundled
from ._vllm_view import Refusals, View, no


def serving(v: View) -> Refusals:
    yield from _grpc(v)
    yield from _logs_and_tools(v)
    yield from _effort(v)
    if v.data_parallel_multi_port_external_lb:
        yield from _multi_port(v)
    if v.serve and not v.grpc:
        yield from _servers(v)
    if not (v.headless and v.serve) and not v.grpc and not v.data_parallel_multi_port_external_lb:
        yield from _front_end(v)


def _grpc(v: View) -> Refusals:
    port = v.grpc_port
    if port is None:
        return
    if v.grpc:
        said = (
            "--grpc and --grpc-port are mutually exclusive. Use --grpc --port for the Python gRPC server, "
            "or VLLM_USE_RUST_FRONTEND=1 with --grpc-port for the Rust frontend."
        )
        yield no("grpc-both", said, "grpc", "grpc_port")
    elif not v.on("VLLM_USE_RUST_FRONTEND") or not v.serve:
        yield no("grpc-rust", "--grpc-port requires VLLM_USE_RUST_FRONTEND=1 vllm serve", "grpc_port")
    elif v.headless or (v.api_server_count is not None and v.api_server_count <= 0):
        said = "--grpc-port requires a Rust frontend; remove --headless and non-positive --api-server-count"
        yield no("grpc-headless", said, "grpc_port", "headless" if v.headless else "api_server_count")
    elif v.data_parallel_multi_port_external_lb:
        said = (
            "--grpc-port is incompatible with --data-parallel-multi-port-external-lb: "
            "its frontends would share the same gRPC port"
        )
        yield no("grpc-multi-port", said, "grpc_port", "data_parallel_multi_port_external_lb")
    elif not 0 <= port <= 65535:
        yield no("port-range", "--grpc-port must be between 0 and 65535", "grpc_port")
    elif port != 0 and port == v.port and not v.uds:
        yield no("grpc-same-port", "--grpc-port must differ from --port when HTTP uses TCP", "grpc_port", "port")


def _logs_and_tools(v: View) -> Refusals:
    if v.enable_auto_tool_choice and not v.tool_call_parser:
        said = "Error: --enable-auto-tool-choice requires --tool-call-parser"
        yield no("tool-parser-missing", said, "enable_auto_tool_choice", "tool_call_parser", kind="TypeError")
    if v.enable_log_outputs and not v.enable_log_requests:
        said = "Error: --enable-log-outputs requires --enable-log-requests"
        yield no("log-outputs", said, "enable_log_outputs", "enable_log_requests", kind="TypeError")
    if (v.sse_keep_alive_interval or 0) < 0:
        said = "Error: --sse-keep-alive-interval must be a non-negative integer (0 disables keep-alive comments)."
        yield no("keep-alive", said, "sse_keep_alive_interval")
    if v.enable_per_request_metrics and v.disable_log_stats:
        said = (
            "Error: --enable-per-request-metrics requires engine statistics logging; "
            "remove --disable-log-stats to enable per-request metrics."
        )
        yield no("request-metrics", said, "enable_per_request_metrics", "disable_log_stats")


def _effort(v: View) -> Refusals:
    efforts, known = v.reasoning_effort_map, table("vllm_configs")["efforts"]
    if efforts is None:
        return
    if not isinstance(efforts, dict) or not all(isinstance(e, str) for e in efforts.values()):
        said = "Error: --reasoning-effort-map must be a JSON object mapping reasoning efforts to strings."
        yield no("effort-map", said, "reasoning_effort_map")
    elif unknown := sorted(set(efforts) - set(known)):
        said = f"Error: --reasoning-effort-map has unknown efforts {unknown}; keys must be one of {known}."
        yield no("effort-map", said, "reasoning_effort_map")


def _multi_port(v: View) -> Refusals:
    flag, word = "data_parallel_multi_port_external_lb", "Error: --data-parallel-multi-port-external-lb"
    size, local, start = v.data_parallel_size, v.data_parallel_size_local, v.data_parallel_start_rank or 0
    if v.grpc:
        yield no("multi-port", f"{word} does not support --grpc", flag, "grpc")
    elif v.uds is not None:
        yield no("multi-port", f"{word} does not support --uds", flag, "uds")
    elif bool(v.ssl_keyfile) != bool(v.ssl_certfile):
        said = "Error: --ssl-keyfile and --ssl-certfile must be provided together"
        yield no("ssl-pair", said, "ssl_keyfile", "ssl_certfile")
    elif v.api_server_count not in (None, 1):
        yield no("multi-port", f"{word} currently requires --api-server-count=1", flag, "api_server_count")
    elif v.data_parallel_rank is not None:
        said = f"{word} manages child --data-parallel-rank values internally"
        yield no("multi-port", said, flag, "data_parallel_rank")
    elif v.data_parallel_external_lb or v.data_parallel_hybrid_lb:
        said = f"{word} cannot be combined with --data-parallel-external-lb or --data-parallel-hybrid-lb"
        other = "data_parallel_external_lb" if v.data_parallel_external_lb else "data_parallel_hybrid_lb"
        yield no("balancing-modes", said, flag, other)
    elif size < 2:
        yield no("multi-port", f"{word} requires --data-parallel-size > 1", flag, "data_parallel_size")
    elif local is None or local < 2:
        said = f"{word} requires --data-parallel-size-local >= 2"
        yield no("multi-port", said, flag, "data_parallel_size_local")
    elif local > size:
        said = "Error: --data-parallel-size-local cannot exceed --data-parallel-size"
        yield no("local-size", said, "data_parallel_size_local", "data_parallel_size")
    elif size % local:
        said = "Error: --data-parallel-size must be divisible by --data-parallel-size-local"
        yield no("local-size", said, "data_parallel_size_local", "data_parallel_size")
    elif v.nnodes == 1 and start + local > size:
        said = "Error: multi-port supervised ranks would exceed --data-parallel-size"
        yield no("multi-port", said, flag, "data_parallel_start_rank")
    elif v.port <= (v.data_parallel_supervisor_port or 0) <= v.port + local - 1:
        said = (
            f"Error: --data-parallel-supervisor-port {v.data_parallel_supervisor_port} overlaps with child rank "
            f"ports {v.port}-{v.port + local - 1}"
        )
        yield no("supervisor-port", said, "data_parallel_supervisor_port", "port")


def _servers(v: View) -> Refusals:
    """entrypoints/cli/serve.py, ServeSubcommand.cmd: `vllm serve` only."""
    if v.headless and v.api_server_count is not None and v.api_server_count > 0:
        said = (
            f"--api-server-count={v.api_server_count} cannot be used with --headless "
            "(no API servers are started in headless mode)."
        )
        yield no("headless-servers", said, "headless", "api_server_count")
        return
    multi = bool(v.data_parallel_multi_port_external_lb)
    external = bool(v.data_parallel_external_lb) or v.data_parallel_rank is not None
    hybrid = bool(v.data_parallel_hybrid_lb)
    if not hybrid and not multi:
        hybrid = v.data_parallel_start_rank is not None
    if multi + external + hybrid > 1:
        said = (
            "Cannot use more than one data parallel load balancing mode. Choose one of: "
            "--data-parallel-multi-port-external-lb, --data-parallel-external-lb (or --data-parallel-rank), "
            "--data-parallel-hybrid-lb (or --data-parallel-start-rank)."
        )
        modes = (
            *(["data_parallel_multi_port_external_lb"] if multi else []),
            *(
                ["data_parallel_rank" if not v.data_parallel_external_lb else "data_parallel_external_lb"]
                if external
                else []
            ),
            *(
                ["data_parallel_hybrid_lb" if v.data_parallel_hybrid_lb else "data_parallel_start_rank"]
                if hybrid
                else []
            ),
        )
        yield no("balancing-modes", said, *modes)
    if v.headless and v.data_parallel_hybrid_lb:
        said = "data_parallel_hybrid_lb is not applicable in headless mode"
        yield no("headless-hybrid", said, "headless", "data_parallel_hybrid_lb", kind="AssertionError")


def _front_end(v: View) -> Refusals:
    """entrypoints/launchers/launcher.py: setup_server. A plug-in file may bring names of its own."""
    tools = bundled("vllm").names.get("tool-call-parser", ())
    parser = v.tool_call_parser
    if v.enable_auto_tool_choice and parser and parser not in tools and not v.tool_parser_plugin:
        said = f"'invalid tool call parser: {parser} (chose from {{ {','.join(tools)} }})'"
        yield no("tool-parser", said, "tool_call_parser", kind="KeyError")
    known = bundled("vllm").names.get("reasoning-parser", ())
    reasoning = v.config("structured_outputs_config").get("reasoning_parser")
    if reasoning and reasoning not in known and not v.reasoning_parser_plugin:
        said = f"'invalid reasoning parser: {reasoning} (chose from {{ {','.join(known)} }})'"
        yield no("reasoning-parser", said, "structured_outputs_config", kind="KeyError")
    if not v.uds and v.port is not None and not 0 <= v.port <= 65535:
        yield no("port-range", "bind(): port must be 0-65535.", "port", kind="OverflowError")
