"""What a gateway in front of the engine allows: nginx, HAProxy, Kubernetes and Envoy files; text in, typed values out, no I/O.

Defaults are the programs' own: nginx https://nginx.org/en/docs/http/ngx_http_proxy_module.html, ingress-nginx
https://kubernetes.github.io/ingress-nginx/user-guide/nginx-configuration/annotations/, HAProxy
https://docs.haproxy.org/3.2/configuration.html, Envoy https://www.envoyproxy.io/docs/envoy/latest/faq/configuration/timeouts, GKE
https://cloud.google.com/kubernetes-engine/docs/how-to/ingress-configuration#timeout, AWS
https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/ingress/annotations/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .documents import documents, mapping, maps, text
from .problem import Problem
from .structs import Gateway

MOST = 200  # routes of one file
_ROUTES = re.compile(
    r"\b(?:kind[\"']?\s*:\s*[\"']?(?:Ingress|BackendConfig|GCPBackendPolicy|HTTPRoute|VirtualService|ServersTransport)\b"
    r"|static_resources|virtual_hosts)"
)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "M": 2592000, "y": 31536000}
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def read(data: str, name: str) -> tuple[Gateway, ...]:
    """Every route to a server that the text describes; empty where it is no gateway's file."""
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending not in ("yml", "yaml", "json") and re.search(r"\b(?:proxy_pass|grpc_pass)\s", data):
        return tuple(_nginx(data))[:MOST]
    if re.search(r"^\s*(?:backend|defaults|listen)\b", data, re.M) and re.search(r"^\s*server\s+\S+\s+\S+", data, re.M):
        return tuple(_haproxy(data))[:MOST]
    if _ROUTES.search(data):
        try:
            return tuple(g for d in documents(data) for g in _document(d))[:MOST]
        except (Problem, RecursionError):
            return ()
    return ()


# -- nginx -------------------------------------------------------------------------------------------------------------


def seconds(word: str | None, unit: float = 1.0) -> float | None:
    """`60`, `60s`, `1m30s`, `500ms`; None for anything else. `unit`: seconds of a bare number."""
    if word is None:
        return None
    word = word.strip().strip("\"'")
    if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", word):
        return float(word) * unit
    parts = re.findall(r"(\d{1,12}(?:\.\d{1,6})?)(ms|s|m|h|d|w|M|y)", word)
    if not parts or "".join(n + u for n, u in parts) != word.replace(" ", ""):
        return None
    return sum(float(n) * _UNITS[u] for n, u in parts)


def size(word: str | None) -> int | None:
    """`100m` in bytes; None for anything else."""
    m = re.fullmatch(r"(\d{1,12})([kmgKMG]?)[bB]?", word.strip().strip("\"'")) if word else None
    return int(m[1]) * _SIZES[m[2].lower()] if m else None


_TOKEN = re.compile(
    r"""\s+|\#[^\n]*|([{};])|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:\$\{[^}\s]*\}|[^\s{};"'#])(?:\$\{[^}\s]*\}|[^\s{};])*)"""
)


class _Block:
    def __init__(self, words: list[str], line: int, outer: _Block | None) -> None:
        self.words, self.line, self.outer = words, line, outer
        self.said: dict[str, list[str]] = {}

    def get(self, name: str) -> list[str] | None:
        """A directive here or in the blocks around."""
        block: _Block | None = self
        while block is not None:
            if name in block.said:
                return block.said[name]
            block = block.outer
        return None


def _blocks(data: str) -> list[_Block]:
    """The blocks of the file, outermost first. Braces that do not match are taken as far as they go."""
    current = _Block([], 1, None)
    every: list[_Block] = [current]
    words: list[str] = []
    at, line = 0, 1
    start = 1
    while at < len(data):
        m = _TOKEN.match(data, at)
        if m is None:
            at += 1
            continue
        at, line = m.end(), line + m[0].count("\n")
        if m[2] is not None:
            if not words:
                start = line
            words.append(m[2])
        elif m[1] == ";":
            if words:
                current.said[words[0]] = [w.strip("\"'") for w in words[1:]]
            words = []
        elif m[1] == "{":
            current = _Block(words, start, current)
            every.append(current)
            words = []
        elif m[1] == "}":
            current, words = current.outer or current, []
    return every


def _nginx(data: str) -> Iterator[Gateway]:
    blocks = _blocks(data)
    upstreams = {b.words[1]: _ports(data, b) for b in blocks if b.words[:1] == ["upstream"] and len(b.words) > 1}
    for block in blocks:
        to = block.said.get("proxy_pass") or block.said.get("grpc_pass")
        if not to:
            continue
        name = "grpc_read_timeout" if "grpc_pass" in block.said else "proxy_read_timeout"
        given = block.get(name)
        buffering, body = block.get("proxy_buffering"), block.get("client_max_body_size")
        target = re.match(r"(?:\w+://)?(\[[^\]]*\]|[^:/$]+)(?::(\d{1,5}))?", to[0])
        ports = (int(target[2]),) if target and target[2] else upstreams.get(target[1], ()) if target else ()
        yield Gateway(
            kind="nginx",
            where=f"line {block.line}, {' '.join(block.words)}".rstrip(", ")[:80],
            setting=name,
            timeout_s=seconds(given[0]) if given else 60,
            default=given is None,
            buffers="grpc_pass" not in block.said and (buffering is None or buffering[:1] == ["on"]),
            body_bytes=(size(body[0]) or None) if body else 1 << 20,
            body_setting="client_max_body_size",
            body_default=body is None,
            ports=ports,
        )


def _ports(data: str, block: _Block) -> tuple[int, ...]:
    """The ports of an upstream's servers: a block keeps one directive of a name, so its text is looked at again."""
    body = re.search(rf"upstream\s+{re.escape(block.words[1])}\s*\{{([^}}]*)\}}", data)
    return tuple(int(p) for p in re.findall(r"server\s+[^\s;]*?:(\d{1,5})", body[1])) if body else ()


# -- HAProxy -----------------------------------------------------------------------------------------------------------


def _haproxy(data: str) -> Iterator[Gateway]:
    defaults: dict[str, str] = {}
    sections: list[tuple[str, int, dict[str, str], list[int]]] = []
    said: dict[str, str] = defaults
    for number, raw in enumerate(data.splitlines(), 1):
        words = raw.partition("#")[0].split()
        if not words:
            continue
        if words[0] in (
            "global",
            "defaults",
            "frontend",
            "backend",
            "listen",
            "userlist",
            "resolvers",
            "peers",
            "cache",
        ):
            said = defaults if words[0] == "defaults" else {}
            if words[0] in ("backend", "listen"):
                sections.append((" ".join(words[:2]), number, said, []))
        elif words[0] == "timeout" and len(words) > 2:
            said[words[1]] = words[2]
        elif words[0] == "server" and len(words) > 2 and sections and said is sections[-1][2]:
            port = re.search(r":(\d{1,5})\Z", words[2])
            sections[-1][3].extend([int(port[1])] if port else [])
    for name, number, own, ports in sections:
        given = own.get("server", defaults.get("server"))
        yield Gateway(
            kind="haproxy",
            where=f"line {number}, {name}"[:80],
            setting="timeout server",
            timeout_s=seconds(given, 0.001),
            ports=tuple(ports),
        )


# -- Kubernetes, Envoy, Traefik ------------------------------------------------------------------------------------------


def _document(value: Any) -> Iterator[Gateway]:
    if isinstance(value, list):
        for one in value:
            yield from _document(one)
        return
    if not isinstance(value, dict):
        return
    kind = text(value.get("kind")) or ""
    if kind.endswith("List") and isinstance(value.get("items"), list):
        for one in value["items"]:
            yield from _document(one)
    elif "static_resources" in value or "virtual_hosts" in value:
        yield from _envoy(value, 0)
    elif kind:
        name = f"{kind}/{text(mapping(value.get('metadata')).get('name')) or '?'}"
        reader = {
            "Ingress": _ingress, "BackendConfig": _gke, "GCPBackendPolicy": _gke, "HTTPRoute": _route, "VirtualService": _istio,
            "ServersTransport": _traefik,
        }.get(kind)  # fmt: skip
        if reader is not None:
            yield from reader(value, name)


def _ingress(value: dict[str, Any], where: str) -> Iterator[Gateway]:
    notes = {n: text(v) or "" for n, v in mapping(mapping(value.get("metadata")).get("annotations")).items()}
    own = text(mapping(value.get("spec")).get("ingressClassName")) or notes.get("kubernetes.io/ingress.class", "")
    nginx = {n.rpartition("/")[2]: v for n, v in notes.items() if n.startswith("nginx.ingress.kubernetes.io/")}
    ports = tuple(_backend_ports(value.get("spec"), 0))
    if nginx or "nginx" in own:
        given, body = nginx.get("proxy-read-timeout"), nginx.get("proxy-body-size")
        yield Gateway(
            kind="ingress-nginx",
            where=where,
            setting="nginx.ingress.kubernetes.io/proxy-read-timeout",
            timeout_s=seconds(given) if given else 60,
            default=given is None,
            buffers=nginx.get("proxy-buffering") == "on",
            body_bytes=(size(body) or None) if body is not None else 1 << 20,
            body_setting="nginx.ingress.kubernetes.io/proxy-body-size",
            body_default=body is None,
            ports=ports,
        )
    elif "alb" in own or any(n.startswith("alb.ingress.kubernetes.io/") for n in notes):
        given = notes.get("alb.ingress.kubernetes.io/load-balancer-attributes", "")
        m = re.search(r"idle_timeout\.timeout_seconds=(\d{1,6})", given)
        yield Gateway(
            kind="alb",
            where=where,
            setting="alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds",
            timeout_s=float(m[1]) if m else 60,
            default=m is None,
            ports=ports,
        )
    else:
        for name in ("haproxy.org/timeout-server", "haproxy-ingress.github.io/timeout-server"):
            if name in notes:
                yield Gateway(kind="haproxy", where=where, setting=name, timeout_s=seconds(notes[name]), ports=ports)


def _backend_ports(value: Any, depth: int) -> Iterator[int]:
    if depth > 12:
        return
    if isinstance(value, dict):
        number = text(mapping(value.get("port")).get("number")) if isinstance(value.get("port"), dict) else None
        if number is not None and number.isdigit():
            yield int(number)
        for inner in value.values():
            yield from _backend_ports(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _backend_ports(inner, depth + 1)


def _gke(value: dict[str, Any], where: str) -> Iterator[Gateway]:
    spec = mapping(value.get("spec"))
    given = text(spec.get("timeoutSec")) or text(mapping(spec.get("default")).get("timeoutSec"))
    setting = "spec.timeoutSec" if text(value.get("kind")) == "BackendConfig" else "spec.default.timeoutSec"
    yield Gateway(
        kind="gke",
        where=where,
        setting=setting,
        timeout_s=seconds(given) if given else 30,
        whole=True,
        default=given is None,
    )


def _route(value: dict[str, Any], where: str) -> Iterator[Gateway]:
    for rule in maps(mapping(value.get("spec")).get("rules")):
        limits = mapping(rule.get("timeouts"))
        for name in ("request", "backendRequest"):
            given = seconds(text(limits.get(name)))
            if given:  # 0s switches it off
                yield Gateway(kind="gateway-api", where=where, setting=f"timeouts.{name}", timeout_s=given, whole=True)


def _istio(value: dict[str, Any], where: str) -> Iterator[Gateway]:
    for rule in maps(mapping(value.get("spec")).get("http")):
        given = seconds(text(rule.get("timeout")))
        if given:
            yield Gateway(kind="istio", where=where, setting="http.timeout", timeout_s=given, whole=True)


def _traefik(value: dict[str, Any], where: str) -> Iterator[Gateway]:
    limits = mapping(mapping(value.get("spec")).get("forwardingTimeouts"))
    given = seconds(text(limits.get("responseHeaderTimeout")))
    if given:
        yield Gateway(kind="traefik", where=where, setting="forwardingTimeouts.responseHeaderTimeout", timeout_s=given)


def _envoy(value: Any, depth: int) -> Iterator[Gateway]:
    if depth > 40:
        return
    if isinstance(value, list):
        for inner in value:
            yield from _envoy(inner, depth + 1)
    elif isinstance(value, dict):
        route = value.get("route")
        if isinstance(route, dict) and ("cluster" in route or "weighted_clusters" in route):
            given = text(route.get("timeout"))
            number = seconds(given) if given else 15.0
            yield Gateway(
                kind="envoy",
                where=f"cluster {text(route.get('cluster')) or '?'}"[:80],
                setting="route.timeout",
                timeout_s=number or None,
                whole=True,
                default=given is None,
            )
        for inner in value.values():
            yield from _envoy(inner, depth + 1)
