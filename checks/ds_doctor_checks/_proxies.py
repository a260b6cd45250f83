"""Proxy variables as Python's clients read them; pure. Measured with requests 2.34 and httpx 0.28."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ._environment import Variable

NAMES = ("http_proxy", "https_proxy", "all_proxy")
SCHEMES = ("http", "https", "socks5", "socks5h")  # httpx/_config.py Proxy


def in_effect(given: dict[str, Variable], name: str) -> Variable | None:
    """The variable that counts: the one in small letters, even when it is empty, before the one in capitals."""
    v = given.get(name, given.get(name.upper()))
    return v if v is not None and v.value.strip() else None


def for_http(given: dict[str, Variable]) -> Variable | None:
    """The proxy of an http:// address."""
    return in_effect(given, "http_proxy") or in_effect(given, "all_proxy")


def bypassed(given: dict[str, Variable], address: str) -> bool:
    """Whether NO_PROXY lets a request to an IPv4 address go straight: `*` alone, the address, or a network around it."""
    import ipaddress

    v = given.get("no_proxy")
    if v is None or not v.value.strip():
        v = given.get("NO_PROXY")
    text = v.value.strip() if v is not None else ""
    if text == "*":
        return True
    for entry in (e.strip() for e in text.split(",")):
        if entry.lstrip(".") == address:
            return True
        if "/" in entry:
            try:
                if ipaddress.ip_address(address) in ipaddress.ip_network(entry, strict=False):
                    return True
            except ValueError:
                continue
    return False


def host_of(proxy: str) -> str:
    """The host of a proxy's address: `http://user@10.0.0.1:3128` -> 10.0.0.1."""
    rest = proxy.rpartition("//")[2].partition("/")[0].rpartition("@")[2]
    m = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::.*)?", rest)
    return (m[1] if m else rest).strip("[]").lower()


def is_here(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def unusable(given: dict[str, Variable]) -> Iterator[tuple[Variable, str]]:
    """(variable, what httpx raises as soon as a client is made) of proxies that cannot be read."""
    for name in NAMES:
        v = in_effect(given, name)
        if v is None:
            continue
        scheme, colon, rest = v.value.partition("://")
        if colon and scheme.lower() not in SCHEMES:
            yield v, f"ValueError: Unknown scheme for proxy URL ({scheme})"
            continue
        port = (rest if colon else v.value).rpartition("@")[2].partition("/")[0].rpartition("]")[2].rpartition(":")
        if port[1] and port[2] and not (port[2].isascii() and port[2].isdigit()) and ":" not in port[0]:
            yield v, f"InvalidURL: Invalid port: '{port[2]}'"


def socks(given: dict[str, Variable]) -> Variable | None:
    """The first proxy that speaks SOCKS."""
    found = (in_effect(given, n) for n in NAMES)
    return next((v for v in found if v is not None and v.value.lower().startswith(("socks5://", "socks5h://"))), None)
