"""Which ports a launch would listen on, and whether a socket that listens stands in the way; pure, touches nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ds_doctor.probes.launch import Container, Launch
from ds_doctor.probes.ports import Socket

from ._environment import Variable, parse_version
from ._options import Options

ANY = "0.0.0.0"
# sglang 0.5.23 srt/server_args.py: ZMQ_TCP_PORT_DELTA, and the ports counted from there with attention data parallelism.
DELTA = 233
DERIVED = ("tokenizer", "detokenizer", "rpc", "metrics", "scheduler")


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """One port that the engine opens. `what`: the flag or variable that sets it; `address`: where it is bound, None for a
    name that nobody looked up; `every`: it must be free on every address; `http`: of the server itself; `default`: the port
    was not given; `dual`: an IPv6 wildcard takes IPv4 too."""

    what: str
    port: int
    address: str | None = ANY
    every: bool = False
    http: bool = False
    default: bool = False
    dual: bool = False

    @property
    def shown(self) -> str:
        return f"{self.what} {self.port}"


def bind_address(host: str | None) -> str | None:
    """The address that a --host binds; None for a name other than localhost."""
    if host in (None, "", ANY, "*"):
        return ANY
    assert host is not None
    host = host.strip("[]")
    if host.lower() == "localhost":
        return "127.0.0.1"
    return as_address(host)


def as_address(text: str) -> str | None:
    """An IP address in its usual spelling; None for anything else."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text.strip("[]").partition("%")[0]))
    except ValueError:
        return None


def split(text: str) -> tuple[str, int | None]:
    """(host, port) of `tcp://10.0.0.1:29500`, `[::1]:29500`, `node0:29500`."""
    text = text.rpartition("//")[2]
    host, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdigit() and len(port) < 7 and (":" not in host or host.endswith("]")):
        return host.strip("[]"), int(port)
    return text.strip("[]"), None


def is_loopback(address: str | None) -> bool:
    return address is not None and (address.startswith("127.") or address == "::1")


# -- what the engines open ------------------------------------------------------------------------------------------------


def wants(launch: Launch, options: Options, given: dict[str, Variable]) -> list[Want]:
    """Every port that the command makes its engine listen on, as far as the command says it."""
    if not options.serves or options.help:
        return []
    if launch.engine == "vllm":
        return [w for w in _vllm(options, given) if 0 < w.port < 65536]
    if launch.engine == "sglang":
        return [w for w in _sglang(options, given) if 0 < w.port < 65536]
    return []


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _variable(given: dict[str, Variable], name: str) -> int | None:
    v = given.get(name)
    return int(v.value) if v is not None and re.fullmatch(r"\s*\d{1,5}\s*", v.value) else None


def _vllm(o: Options, given: dict[str, Variable]) -> Iterator[Want]:
    host = bind_address(o.get("host"))
    if not o.get("headless") and not o.get("uds"):
        port = _number(o.get("port"))
        if port is not None and (o.of("port") or not o.config):
            yield Want(what="--port", port=port, address=host, http=True, default=o.of("port") is None, dual=True)
        grpc = _number(o.get("grpc_port"))
        if grpc is not None:
            yield Want(what="--grpc-port", port=grpc, address=host, dual=True)
    nodes, rank = _number(o.get("nnodes")) or 1, _number(o.get("node_rank")) or 0
    master = _number(o.get("master_port"))
    if nodes > 1 and rank == 0 and master is not None and o.get("distributed_executor_backend") != "ray":
        yield Want(what="--master-port", port=master, default=o.of("master_port") is None)
    size, local = _number(o.get("data_parallel_size")) or 1, _number(o.get("data_parallel_size_local"))
    rpc = _number(o.get("data_parallel_rpc_port")) or 29550  # vllm 0.33.0 config/parallel.py
    if size > 1 and local is not None and local < size and not o.get("headless"):
        yield Want(what="--data-parallel-rpc-port", port=rpc, default=o.of("data_parallel_rpc_port") is None)
    connector = str(o.get("kv_transfer_config") or "")
    if "Nixl" in connector:
        port = _variable(given, "VLLM_NIXL_SIDE_CHANNEL_PORT")
        yield Want(what="VLLM_NIXL_SIDE_CHANNEL_PORT", port=port or 5600, default=port is None)
    if "MooncakeConnector" in connector and "kv_consumer" not in connector:
        port = _variable(given, "VLLM_MOONCAKE_BOOTSTRAP_PORT")
        yield Want(what="VLLM_MOONCAKE_BOOTSTRAP_PORT", port=port or 8998, default=port is None)


def _sglang(o: Options, given: dict[str, Variable]) -> Iterator[Want]:
    host = bind_address(o.get("host"))
    port = _number(o.get("port"))
    if port is not None and (o.of("port") or not o.config):
        yield Want(what="--port", port=port, address=host, http=True, default=o.of("port") is None)
    grpc = _number(o.get("grpc_port")) or _variable(given, "SGLANG_GRPC_PORT")
    if grpc is not None:
        yield Want(what="--grpc-port", port=grpc, address=host)
    nccl = _number(o.get("nccl_port"))
    if nccl is not None:
        yield Want(what="--nccl-port", port=nccl)
    rank = _number(o.get("node_rank")) or 0
    address = o.get("dist_init_addr")
    base = split(str(address))[1] if address else None
    attention = bool(o.get("enable_dp_attention")) and (_number(o.get("dp_size")) or 1) > 1
    if base is not None and rank == 0:
        yield Want(what="--dist-init-addr", port=base, every=attention)
    if attention and rank == 0 and (base is not None or port is not None):
        what = "--dist-init-addr" if base is not None else "--port"
        first = base
        if first is None and port is not None:
            first = port + DELTA if port + DELTA <= 65535 else port - DELTA
            yield Want(what=f"--port +{DELTA}", port=first, every=True, default=True)
        if first is not None and first + 6 <= 65535:
            for n, name in enumerate(DERIVED, 1):
                yield Want(what=f"{what} ({name})", port=first + n, every=True, default=True)
    if o.get("disaggregation_mode") == "prefill":
        bootstrap = _number(o.get("disaggregation_bootstrap_port"))
        if bootstrap is not None and "SGLANG_RUST_SERVER" not in given:
            default = o.of("disaggregation_bootstrap_port") is None
            yield Want(what="--disaggregation-bootstrap-port", port=bootstrap, address=host, default=default)
    if o.get("remote_instance_weight_loader_start_seed_via_transfer_engine") and rank == 0:
        info = _number(o.get("engine_info_bootstrap_port"))
        if info is not None:
            yield Want(
                what="--engine-info-bootstrap-port",
                port=info,
                every=True,
                default=not o.of("engine_info_bootstrap_port"),
            )
    gate = _number(o.get("gated_launch_port"))
    if gate is not None and rank == 0:
        yield Want(what="--gated-launch-port", port=gate)


def data_parallel_head(o: Options) -> tuple[str, int] | None:
    """(the address, the engines) where this is the node that the engines of other nodes report to: vLLM binds it there."""
    size, local = _number(o.get("data_parallel_size")) or 1, _number(o.get("data_parallel_size_local"))
    address = o.get("data_parallel_address")
    if o.get("headless") or not address or local is None or local >= size:
        return None
    return str(address), size


def published(container: Container) -> list[Want]:
    """The ports of this host that a container's runtime opens for it."""
    if container.program == "kubernetes" or container.running:
        return []
    return [
        Want(what="-p", port=p.published[0], address=bind_address(p.address))
        for p in container.ports
        if p.published is not None and p.published[0] == p.published[1] and p.protocol == "tcp" and p.published[0]
    ]


# -- what stands in the way -----------------------------------------------------------------------------------------------


def blocks(socket: Socket, want: Want) -> bool | None:
    """Whether a listening socket keeps the engine from its port; None where it depends on what the kernel does not tell
    (an IPv6 wildcard may or may not take IPv4 too)."""
    if socket.port != want.port:
        return False
    if want.every or want.address is None:
        return True if want.every else None
    there = socket.address.removeprefix("::ffff:") if "." in socket.address else socket.address
    if ":" not in want.address:
        if ":" not in there:
            return ANY in (there, want.address) or there == want.address
        return None if there == "::" else False
    if ":" not in there:
        return want.address == "::" and want.dual
    return "::" in (there, want.address) or there == want.address


def by(socket: Socket) -> str:
    """Who holds a socket, as far as it is seen."""
    if socket.pid is None:
        return f"uid {socket.uid}"
    return f"{socket.command or socket.program or '?'} (pid {socket.pid})"


def shares(socket: Socket, options: Options) -> bool:
    """Whether both may hold the port at once, each taking a part of the requests: two vLLMs that bind with SO_REUSEPORT.

    Wheels of vLLM up to 0.24 always do; from 0.26 on only with several API servers, of which data parallelism starts one
    each (entrypoints/cli/serve.py).
    """
    if options.table.engine != "vllm" or "vllm" not in f"{socket.program or ''} {socket.command or ''}".lower():
        return False
    release = parse_version(options.table.wanted) if options.table.wanted else (99,)
    servers = _number(options.get("api_server_count")) or _number(options.get("data_parallel_size")) or 1
    return release < (0, 26) or servers > 1


def overlap(a: Want, b: Want) -> bool:
    """Whether two ports of one engine are the same one on the same address."""
    if a.port != b.port:
        return False
    return (
        None in (a.address, b.address) or a.address == b.address or ANY in (a.address, b.address) or a.every or b.every
    )


def first_blocking(want: Want, listening: Sequence[Socket]) -> tuple[Socket | None, bool]:
    """(the socket in the way, whether one may be)."""
    maybe = False
    for socket in listening:
        answer = blocks(socket, want)
        if answer:
            return socket, False
        maybe = maybe or answer is None
    return None, maybe
