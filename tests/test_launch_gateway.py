"""Files of gateways are read as the programs read them, and stand beside a command."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.launch.gateway import Gateway, read, seconds, size

NGINX = """
# a comment with { braces; }
upstream llm { least_conn; server 10.0.0.5:8000; server 10.0.0.6:8000 max_fails=3; }
http {
    proxy_read_timeout 5m;
    server {
        listen 443 ssl;
        client_max_body_size 64m;
        location /v1/ { proxy_pass http://llm; proxy_buffering off; }
        location /slow { proxy_pass http://127.0.0.1:8001/; proxy_read_timeout 1h30m; }
        location /static { root /var/www; }
    }
    server { location ~ ^/(a|b)$ { proxy_pass http://$backend; client_max_body_size 0; } }
}
"""


def one(text: str, name: str = "x.yaml") -> Gateway:
    (route,) = read(text, name)
    return route


def test_nginx_inherits_from_the_blocks_around() -> None:
    v1, slow, named = read(NGINX, "nginx.conf")
    assert (v1.timeout_s, v1.buffers, v1.body_bytes, v1.ports) == (300, False, 64 << 20, (8000, 8000))
    assert (slow.timeout_s, slow.buffers, slow.ports) == (5400, True, (8001,))
    assert (named.body_bytes, named.ports) == (None, ())
    assert v1.where == "line 9, location /v1/"


def test_nginx_without_settings_has_its_own_defaults() -> None:
    route = one("server { location / { proxy_pass http://127.0.0.1:8000; } }", "site.conf")
    assert (route.timeout_s, route.default, route.buffers, route.body_bytes, route.body_default) == (
        60,
        True,
        True,
        1 << 20,
        True,
    )


def test_haproxy_counts_milliseconds() -> None:
    text = "defaults\n  timeout server 50000\nbackend llm\n  server a 10.0.0.5:8000 check\nbackend big\n  timeout server 30m\n  server b 10.0.0.6:30000\n"
    llm, big = read(text, "haproxy.cfg")
    assert (llm.timeout_s, llm.ports, big.timeout_s, big.ports) == (50, (8000,), 1800, (30000,))


INGRESS = """
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: llm
  annotations: { %s }
spec:
  ingressClassName: %s
  rules: [{ http: { paths: [{ path: /, pathType: Prefix, backend: { service: { name: llm, port: { number: 8000 } } } }] } }]
"""


@pytest.mark.parametrize(
    ("notes", "kind", "want"),
    [
        ("", "nginx", ("ingress-nginx", 60, True, False, 1 << 20)),
        ('nginx.ingress.kubernetes.io/proxy-read-timeout: "3600", nginx.ingress.kubernetes.io/proxy-body-size: "0"', "nginx", ("ingress-nginx", 3600, False, False, None)),
        ('nginx.ingress.kubernetes.io/proxy-buffering: "on"', "nginx", ("ingress-nginx", 60, True, True, 1 << 20)),
        ("", "alb", ("alb", 60, True, False, None)),
        ("alb.ingress.kubernetes.io/load-balancer-attributes: 'routing.http2.enabled=true,idle_timeout.timeout_seconds=900'", "alb", ("alb", 900, False, False, None)),
        ('haproxy.org/timeout-server: "5m"', "haproxy", ("haproxy", 300, False, False, None)),
    ],
)  # fmt: skip
def test_an_ingress_is_read_by_its_class(notes: str, kind: str, want: tuple[object, ...]) -> None:
    route = one(INGRESS % (notes, kind))
    assert (route.kind, route.timeout_s, route.default, route.buffers, route.body_bytes) == want
    assert route.ports == (8000,) and route.where == "Ingress/llm"


def test_an_ingress_of_a_class_that_is_not_known_says_nothing() -> None:
    assert read(INGRESS % ("", "kong"), "i.yaml") == ()


@pytest.mark.parametrize(
    ("text", "kind", "timeout_s"),
    [
        ("apiVersion: cloud.google.com/v1\nkind: BackendConfig\nmetadata: {name: b}\nspec: {timeoutSec: 40}", "gke", 40),
        ("apiVersion: cloud.google.com/v1\nkind: BackendConfig\nmetadata: {name: b}\nspec: {}", "gke", 30),
        ("apiVersion: networking.gke.io/v1\nkind: GCPBackendPolicy\nmetadata: {name: b}\nspec: {default: {timeoutSec: 90}}", "gke", 90),
        ("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\nspec: {rules: [{timeouts: {request: 10s}}]}", "gateway-api", 10),
        ("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v}\nspec: {http: [{timeout: 1m}]}", "istio", 60),
        ("static_resources: {listeners: [{filter_chains: [{filters: [{typed_config: {route_config: {virtual_hosts: [{routes: [{match: {prefix: /}, route: {cluster: llm}}]}]}}}]}]}]}", "envoy", 15),
    ],
)  # fmt: skip
def test_limits_of_whole_requests_are_told_from_silence(text: str, kind: str, timeout_s: float) -> None:
    route = one(text)
    assert (route.kind, route.timeout_s, route.whole) == (kind, timeout_s, True)


@pytest.mark.parametrize("text", ["kind: HTTPRoute\nspec: {rules: [{timeouts: {request: 0s}}]}", "kind: HTTPRoute\nspec: {rules: [{}]}", "kind: Deployment", "", "vllm serve m", "\0", "kind: Ingress\nspec: ["])  # fmt: skip
def test_what_limits_nothing_or_is_no_gateway_is_left_alone(text: str) -> None:
    assert read(text, "x.yaml") == ()


@given(st.text(alphabet="abc{};#\"'\\ \n$proxy_pass http://x:1;", max_size=300))
def test_no_text_breaks_the_readers(text: str) -> None:
    for name in ("nginx.conf", "haproxy.cfg", "x.yaml"):
        read("proxy_pass " + text, name)
        read("defaults\n" + text + "\nbackend a\n server b c:1", name)


def test_a_large_file_is_read_in_bounded_time() -> None:
    text = "http {" + "location /a { proxy_pass http://b:1; } " * 20_000
    start = time.process_time()
    assert len(read(text, "nginx.conf")) == 200
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("word", "want"), [("60", 60), ("1m30s", 90), ("500ms", 0.5), ("x", None), ("", None), ("1y", 31536000)]
)
def test_times_are_read(word: str, want: float | None) -> None:
    assert seconds(word) == want


@pytest.mark.parametrize(
    ("word", "want"), [("1m", 1 << 20), ("64M", 64 << 20), ("0", 0), ("10k", 10240), ("x", None), (None, None)]
)
def test_sizes_are_read(word: str | None, want: int | None) -> None:
    assert size(word) == want


def test_a_gateways_file_stands_beside_the_command(tmp_path: Path) -> None:
    path = tmp_path / "nginx.conf"
    path.write_text("server { location / { proxy_pass http://127.0.0.1:8000; } }")
    words = ["run", "--lang", "en", "--only", "launch-gateway-*", "-f", str(path), "--", "vllm", "serve", "m"]
    done = subprocess.run([sys.executable, "-m", "ds_doctor", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "launch-gateway-timeout" in done.stdout and "vllm serve m" in done.stdout
    assert "silent for 60 s" in " ".join(done.stdout.split())
