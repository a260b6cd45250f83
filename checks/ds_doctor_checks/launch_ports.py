"""Ports and addresses of the launch: free, allowed, apart from each other, and of this host?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Deployment, Launch
from ds_doctor.probes.ports import Ports

FAMILY = "launch"


def _in_own_network(launch: Launch) -> bool:
    """Whether the engine would have a network of its own, whose ports are not this host's. A pod may run elsewhere."""
    container = launch.container
    return container is not None and (container.network != "host" or container.program == "kubernetes")


def _need_engine(launch: Launch) -> None:
    if launch.engine not in ("vllm", "sglang"):
        raise NotApplicable("no-engine-started")


@check("launch-port-taken", "launch-port-shared")
def ports_are_free(
    launch: Launch,
    ports: Ports,
    flags: EngineFlags | None,
    environment: Environment | None,
    deployment: Deployment | None,
) -> Findings:
    from . import _ports
    from ._environment import variables
    from ._options import options

    _need_engine(launch)
    o = options(launch, flags)
    if _in_own_network(launch):
        wants = _ports.published(launch.container) if launch.container else []
        if not wants:
            raise NotApplicable("container-has-own-ports")
    else:
        wants = _ports.wants(launch, o, variables(environment, launch))
    for want in wants:
        socket, maybe = _ports.first_blocking(want, ports.listening)
        if socket is not None and deployment is not None and deployment.kind in ("compose", "systemd"):
            # What holds it may be this very service, which starts anew.
            yield undecided("launch-port-taken", "port-maybe-own", what=want.what, port=want.port, by=_ports.by(socket))
        elif socket is not None:
            rule = "launch-port-shared" if want.http and _ports.shares(socket, o) else "launch-port-taken"
            yield found(
                rule, on=want.what, what=want.what, port=want.port, by=_ports.by(socket), address=socket.address
            )
        elif maybe:
            yield undecided("launch-port-taken", "port-maybe-taken", what=want.what, port=want.port)


@check("launch-ports-equal")
def ports_differ_from_each_other(
    launch: Launch, flags: EngineFlags | None, environment: Environment | None
) -> Findings:
    from . import _ports
    from ._environment import variables
    from ._options import options

    _need_engine(launch)
    given = variables(environment, launch)
    seen: list[_ports.Want] = []
    for want in _ports.wants(launch, options(launch, flags), given):
        # SGLang itself refuses --grpc-port at --port; another rule tells that.
        told = launch.engine == "sglang" and want.what == "--grpc-port"
        other = next((w for w in seen if _ports.overlap(w, want) and not (told and w.http)), None)
        if other is not None:
            yield found("launch-ports-equal", on=want.what, port=want.port, one=other.what, two=want.what)
        seen.append(want)


@check("launch-port-privileged", "launch-port-ephemeral")
def port_may_be_bound(launch: Launch, ports: Ports, flags: EngineFlags | None) -> Findings:
    from . import _ports
    from ._options import options

    _need_engine(launch)
    if _in_own_network(launch):
        raise NotApplicable("container-has-own-ports")
    for want in _ports.wants(launch, options(launch, flags), {}):
        if not want.http:
            continue
        if ports.unprivileged is not None and want.port < ports.unprivileged and launch.container is None:
            if ports.net_bind is None:
                yield undecided("launch-port-privileged", "limit-not-read", limit="CapEff")
            elif not ports.net_bind and "sudo" not in launch.wrappers:
                yield found("launch-port-privileged", port=want.port, first=ports.unprivileged)
        elif ports.ephemeral is not None and ports.ephemeral[0] <= want.port <= ports.ephemeral[1]:
            yield found("launch-port-ephemeral", port=want.port, first=ports.ephemeral[0], last=ports.ephemeral[1])


@check("launch-bind-elsewhere")
def bind_address_is_of_this_host(launch: Launch, ports: Ports, flags: EngineFlags | None) -> Findings:
    from . import _ports
    from ._options import options

    _need_engine(launch)
    if _in_own_network(launch):
        raise NotApplicable("container-has-own-ports")
    host = options(launch, flags).get("host")
    address = _ports.bind_address(host if isinstance(host, str) else None)
    if address is None:
        raise Undecided("host-is-a-name", host=str(host))
    if address in (_ports.ANY, "::") or _ports.is_loopback(address):
        return
    if not ports.addresses or ports.nonlocal_bind:
        raise Undecided("addresses-unread")
    if address not in ports.addresses:
        yield found("launch-bind-elsewhere", host=address, addresses=", ".join(ports.addresses[:8]))


@check("launch-bind-loopback-container")
def server_is_reached_from_outside(launch: Launch, flags: EngineFlags | None) -> Findings:
    from . import _ports
    from ._options import options

    _need_engine(launch)
    o = options(launch, flags)
    if not o.serves or (o.config and not o.of("host")):
        raise NotApplicable("no-engine-started")
    host = o.get("host")
    if not _ports.is_loopback(_ports.bind_address(host if isinstance(host, str) else None)):
        return
    if _in_own_network(launch):
        yield found(
            "launch-bind-loopback-container", host=host, program=launch.container.program if launch.container else ""
        )


@check("launch-master-loopback", "launch-master-elsewhere", "launch-master-here")
def nodes_meet_at_the_first(launch: Launch, ports: Ports | None, flags: EngineFlags | None) -> Findings:
    from . import _ports
    from ._options import options

    _need_engine(launch)
    o = options(launch, flags)
    nodes, rank = o.get("nnodes"), o.get("node_rank")
    nodes, rank = nodes if isinstance(nodes, int) else 1, rank if isinstance(rank, int) else 0
    remote = _ports.data_parallel_head(o) if launch.engine == "vllm" else None
    if remote is not None and nodes < 2:
        what, host, nodes = "--data-parallel-address", *remote
    elif nodes < 2 or o.get("distributed_executor_backend") == "ray":
        raise NotApplicable("one-node")
    elif launch.engine == "vllm":
        what, host = "--master-addr", str(o.get("master_addr") or "127.0.0.1")
    else:
        given = o.get("dist_init_addr")
        if not given:
            raise NotApplicable("one-node")  # the engine itself refuses that, and another rule says so
        what, host = "--dist-init-addr", _ports.split(str(given))[0]
    address = _ports.bind_address(host)
    if _ports.is_loopback(address):
        yield found("launch-master-loopback", what=what, host=host, nodes=nodes)
        return
    if address is None:
        raise Undecided("host-is-a-name", host=host)
    if ports is None or not ports.addresses or _in_own_network(launch):
        raise Undecided("addresses-unread")
    here = address in ports.addresses
    if rank == 0 and not here and address != _ports.ANY:
        yield found("launch-master-elsewhere", what=what, host=host, addresses=", ".join(ports.addresses[:8]))
    elif rank > 0 and here:
        yield found("launch-master-here", what=what, host=host, rank=rank)


@check("launch-env-host-ip", "launch-env-port-same")
def own_address_is_of_this_host(
    launch: Launch, ports: Ports | None, flags: EngineFlags | None, environment: Environment | None
) -> Findings:
    from . import _ports
    from ._environment import variables
    from ._options import options

    _need_engine(launch)
    given = variables(environment, launch)
    names = ("VLLM_HOST_IP",) if launch.engine == "vllm" else ("SGLANG_HOST_IP", "HOST_IP")
    v = next((given[n] for n in names if given.get(n) is not None and given[n].value), None)
    if v is not None and not _in_own_network(launch):
        address = _ports.as_address(v.value)
        if address is None:
            yield undecided("launch-env-host-ip", "host-is-a-name", host=v.value)
        elif ports is None or not ports.addresses:
            yield undecided("launch-env-host-ip", "addresses-unread")
        elif address not in ports.addresses:
            yield found(
                "launch-env-host-ip",
                on=v.name,
                name=v.name,
                value=v.value,
                addresses=", ".join(ports.addresses[:8]),
                source=v.source,
            )
    port = options(launch, flags).get("port")
    first = given.get("VLLM_PORT")
    if launch.engine == "vllm" and first is not None and first.value.strip() == str(port):
        yield found("launch-env-port-same", on="VLLM_PORT", port=port, source=first.source)
