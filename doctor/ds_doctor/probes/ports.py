"""Which ports are taken here, by whom, and which addresses this host has: /proc/net, /proc/*/fd; never connects, never judges.

Only asked with a launch command: a run without one does not pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

import msgspec

from ..api import Absent, Host, Malformed, Trouble, Unseen, probe
from .environment import redact
from .launch import asked_launch

CHUNK = 64 << 10
TABLE_LIMIT = 8 << 20  # bytes of one table; the kernel lists the listening sockets first (net/ipv4/tcp_ipv4.c)
PROCESSES = 20_000
LISTEN = "0A"
NET_BIND = 10  # CAP_NET_BIND_SERVICE
WORDS_SHOWN = 100  # characters of a process's command
# Ports that the engines and their helpers take when they are given none (vllm 0.33.0, sglang 0.5.23, ray, etcd, prometheus).
USUAL = frozenset(
    (8000, 30000, 29500, 29501, 29550, 29600, 8998, 6789, 6379, 8265, 10001, 5600, 5601, 5710, 9003, 30001, 40000)
)


class Socket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One TCP socket that listens: `address` as a text (`0.0.0.0`, `::`), the user's id, and, as far as this user may see,
    the process that holds it with its name and the beginning of its command (without secrets)."""

    address: str
    port: int
    uid: int = 0
    pid: int | None = None
    program: str | None = None
    command: str | None = None


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """The listening sockets of this network namespace in the order of their ports.

    `ephemeral`: the kernel's range for outgoing connections; `unprivileged`: the first port that needs no privilege, None
    where it could not be read; `net_bind`: whether this process has CAP_NET_BIND_SERVICE. `addresses`: this host's own,
    empty where they could not be read; `nonlocal_bind`: the kernel lets processes bind others too. `ipv6`: there is IPv6.
    """

    of_command: ClassVar[bool] = True

    listening: tuple[Socket, ...]
    ephemeral: tuple[int, int] | None = None
    unprivileged: int | None = None
    net_bind: bool | None = None
    addresses: tuple[str, ...] = ()
    nonlocal_bind: bool = False
    ipv6: bool = False


# -- parsers -----------------------------------------------------------------------------------------------------------


def parse_address(text: str) -> tuple[str, int]:
    """`0100007F:1F90` or the 32 digits of IPv6, as the kernel prints them (host byte order, word by word)."""
    import ipaddress  # here, since every start of the program imports this module

    digits, _, port = text.partition(":")
    if len(digits) not in (8, 32) or not port:
        raise Malformed("not-a-socket-table", line=text[:80])
    try:
        raw = b"".join(bytes.fromhex(digits[i : i + 8])[::-1] for i in range(0, len(digits), 8))
        return str(ipaddress.ip_address(raw)), int(port, 16)
    except ValueError:
        raise Malformed("not-a-socket-table", line=text[:80]) from None


def parse_listening(text: str) -> Iterator[tuple[str, int, int, str]]:
    """(address, port, uid, inode) of the listening sockets in /proc/net/tcp or tcp6."""
    for line in text.splitlines()[1:]:
        row = line.split()
        if len(row) > 9 and row[3] == LISTEN:
            address, port = parse_address(row[1])
            yield address, port, int(row[7]) if row[7].isdigit() else 0, row[9]


def parse_local(text: str) -> tuple[str, ...]:
    """This host's own IPv4 addresses out of /proc/net/fib_trie: the `/32 host LOCAL` leaves."""
    found: dict[str, None] = {}
    leaf = ""
    for line in text.splitlines():
        m = re.match(r"\s*\|--\s+(\d+\.\d+\.\d+\.\d+)", line)
        if m:
            leaf = m[1]
        elif leaf and "/32 host LOCAL" in line:
            found[leaf] = None
    return tuple(found)


def parse_if_inet6(text: str) -> tuple[str, ...]:
    """This host's own IPv6 addresses out of /proc/net/if_inet6."""
    import ipaddress

    rows = (line.split() for line in text.splitlines())
    return tuple(
        str(ipaddress.IPv6Address(bytes.fromhex(r[0])))
        for r in rows
        if len(r) == 6 and re.fullmatch("[0-9a-f]{32}", r[0])
    )


def parse_range(text: str) -> tuple[int, int] | None:
    """`32768\t60999`."""
    m = re.match(r"\s*(\d{1,5})\s+(\d{1,5})\s*\Z", text)
    return (int(m[1]), int(m[2])) if m else None


def parse_may_bind(status: str) -> bool | None:
    """CAP_NET_BIND_SERVICE among the effective capabilities of /proc/self/status."""
    m = re.search(r"^CapEff:\s*([0-9a-fA-F]{1,16})\s*$", status, re.M)
    return bool(int(m[1], 16) >> NET_BIND & 1) if m else None


def wanted(words: Iterable[str]) -> frozenset[int]:
    """The ports that a command may mean: every number in its words that could be one, and the usual ones."""
    numbers = {int(n) for word in words for n in re.findall(r"(?<!\d)\d{2,5}(?!\d)", word)}
    return (
        USUAL
        | {n + d for n in numbers if n < 65536 for d in range(8)}
        | {n + 233 + d for n in numbers for d in range(8)}
    )


# -- the probe ---------------------------------------------------------------------------------------------------------


def _or_empty(host: Host, path: str, limit: int = 1 << 20) -> str:
    try:
        return host.text(path, limit)
    except Trouble:
        return ""


def _listening_part(host: Host, path: str) -> str:
    """The table as far as listening sockets reach into it: a host with many connections has megabytes behind them."""
    text = ""
    while len(text) < TABLE_LIMIT:
        part = host.read_at(path, len(text), CHUNK).decode("ascii", "replace")
        text += part
        if len(part) < CHUNK or any(f" {state} " in part for state in ("01", "06")):
            break
    return text


def _owners(host: Host, inodes: set[str]) -> dict[str, int]:
    """inode -> process, as far as this user may look."""
    found: dict[str, int] = {}
    try:
        pids = [n for n in host.names("/proc") if n.isdigit()][:PROCESSES]
    except Trouble:
        return found
    for pid in pids:
        if len(found) == len(inodes) or host.time_left_s() < 1:
            break
        try:
            descriptors = host.names(f"/proc/{pid}/fd")
        except Trouble:
            continue
        for fd in descriptors:
            try:
                target = host.link(f"/proc/{pid}/fd/{fd}")
            except Trouble:
                continue
            if target.startswith("socket:[") and target[8:-1] in inodes:
                found.setdefault(target[8:-1], int(pid))
    return found


def _command(host: Host, pid: int) -> str | None:
    words = [w for w in _or_empty(host, f"/proc/{pid}/cmdline", 64 << 10).split("\0") if w]
    if not words:
        return None
    text = " ".join(redact((words[0].rpartition("/")[2], *words[1:12])))
    return text if len(text) <= WORDS_SHOWN else text[: WORDS_SHOWN - 1] + "…"


@probe
def ports(host: Host) -> Ports:
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    if not host.live:
        raise Unseen("not-under-root")
    rows: list[tuple[str, int, int, str]] = list(parse_listening(_listening_part(host, "/proc/net/tcp")))
    try:
        rows += parse_listening(_listening_part(host, "/proc/net/tcp6"))
    except Absent:
        pass
    launch = asked_launch(host.asked)
    published = launch.container.ports if launch.container else ()
    numbers = (str(p.published[0]) for p in published if p.published)
    interesting = wanted((*host.asked.command, *launch.arguments, *numbers))
    owners = _owners(host, {inode for _, port, _, inode in rows if port in interesting})

    def socket(address: str, port: int, uid: int, inode: str) -> Socket:
        pid = owners.get(inode)
        if pid is None:
            return Socket(address=address, port=port, uid=uid)
        program = _or_empty(host, f"/proc/{pid}/comm").strip() or None
        return Socket(address=address, port=port, uid=uid, pid=pid, program=program, command=_command(host, pid))

    first = _or_empty(host, "/proc/sys/net/ipv4/ip_unprivileged_port_start").strip()
    inet6 = parse_if_inet6(_or_empty(host, "/proc/net/if_inet6"))
    return Ports(
        listening=tuple(sorted((socket(*row) for row in rows), key=lambda s: (s.port, s.address))),
        ephemeral=parse_range(_or_empty(host, "/proc/sys/net/ipv4/ip_local_port_range")),
        unprivileged=int(first) if first.isdigit() else None,
        net_bind=parse_may_bind(_or_empty(host, "/proc/self/status")),
        addresses=(*parse_local(_or_empty(host, "/proc/net/fib_trie")), *inet6),
        nonlocal_bind=_or_empty(host, "/proc/sys/net/ipv4/ip_nonlocal_bind").strip() == "1",
        ipv6=bool(inet6),
    )
