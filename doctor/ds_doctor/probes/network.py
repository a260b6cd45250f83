"""The network interfaces and RDMA devices that this process sees: /proc/net, /sys/class/net, /sys/class/infiniband; never judges."""

from __future__ import annotations

import msgspec

from ..api import Absent, Denied, Host, Malformed, Trouble, Unseen, probe

INTERFACES = 4096


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """`running` as the kernel's IFF_RUNNING (up with a carrier), None when unknown. `ipv4`: an IPv4 route goes through
    it, `ipv6`: it has an IPv6 address that is not loopback; False means only that no sign of one was seen."""

    name: str
    running: bool | None = None
    ipv4: bool = False
    ipv6: bool = False


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """One port of an RDMA device: `state` such as ACTIVE or DOWN, `layer` InfiniBand or Ethernet, `rate_gbps`."""

    port: int
    state: str | None = None
    layer: str | None = None
    rate_gbps: float | None = None


class Hca(msgspec.Struct, frozen=True, kw_only=True):
    """One RDMA device, mlx5_0."""

    name: str
    ports: tuple[Port, ...] = ()


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """The interfaces of this network namespace in the kernel's order, and the RDMA devices."""

    interfaces: tuple[Interface, ...]
    hcas: tuple[Hca, ...] = ()


def parse_dev(text: str) -> tuple[str, ...]:
    """The names in /proc/net/dev, which is of this process's own network namespace. Malformed when it has no table."""
    lines = text.splitlines()
    if len(lines) < 2 or "|" not in lines[0]:
        raise Malformed("no-interface-table")
    names = (line.rpartition(":")[0].strip() for line in lines[2 : INTERFACES + 2])
    return tuple(n for n in names if n)


def parse_route(text: str) -> set[str]:
    """The interfaces of /proc/net/route, which have IPv4 routes."""
    return {line.split("\t", 1)[0].strip() for line in text.splitlines()[1:] if "\t" in line}


def parse_if_inet6(text: str) -> set[str]:
    """The interfaces of /proc/net/if_inet6 with an address that is not loopback."""
    rows = (line.split() for line in text.splitlines())
    return {r[5] for r in rows if len(r) == 6 and r[0] != "0" * 31 + "1"}


def parse_state(text: str) -> str | None:
    """`4: ACTIVE` -> ACTIVE."""
    return text.partition(":")[2].strip() or None


def parse_rate(text: str) -> float | None:
    """`400 Gb/sec (4X NDR)` -> 400.0."""
    word = text.split(" ", 1)[0]
    try:
        return float(word) if word.replace(".", "", 1).isascii() and len(word) < 12 else None
    except ValueError:
        return None


def is_running(flags: str, operstate: str) -> bool | None:
    """IFF_RUNNING out of sysfs: administratively up, and operating (`unknown` is what drivers without a carrier say)."""
    try:
        up = bool(int(flags.strip(), 16) & 1)
    except ValueError:
        return None
    return up and operstate.strip() in ("up", "unknown", "dormant")


def _or_empty(host: Host, path: str) -> str:
    try:
        return host.text(path, 1 << 20)
    except Trouble:
        return ""


def _interface(host: Host, name: str, ipv4: set[str], ipv6: set[str]) -> Interface:
    folder = f"/sys/class/net/{name}"
    running = is_running(_or_empty(host, f"{folder}/flags"), _or_empty(host, f"{folder}/operstate"))
    return Interface(name=name, running=running, ipv4=name in ipv4, ipv6=name in ipv6)


def _hca(host: Host, name: str) -> Hca:
    folder = f"/sys/class/infiniband/{name}/ports"
    try:
        numbers = [n for n in host.names(folder) if n.isascii() and n.isdigit()][:64]
    except Trouble:
        numbers = []
    ports = [
        Port(
            port=int(n),
            state=parse_state(_or_empty(host, f"{folder}/{n}/state")),
            layer=_or_empty(host, f"{folder}/{n}/link_layer").strip() or None,
            rate_gbps=parse_rate(_or_empty(host, f"{folder}/{n}/rate")),
        )
        for n in numbers
    ]
    return Hca(name=name, ports=tuple(ports))


@probe
def network(host: Host) -> Network:
    if not host.live:
        raise Unseen("not-under-root")
    names = parse_dev(host.text("/proc/net/dev", 1 << 20))
    ipv4 = parse_route(_or_empty(host, "/proc/net/route"))
    ipv6 = parse_if_inet6(_or_empty(host, "/proc/net/if_inet6"))
    try:
        hcas = host.names("/sys/class/infiniband")[:128]
    except (Absent, Denied):
        hcas = []
    return Network(
        interfaces=tuple(_interface(host, n, ipv4, ipv6) for n in names),
        hcas=tuple(_hca(host, n) for n in hcas),
    )
