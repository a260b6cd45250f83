"""A Kubernetes node as far as its files show: kubelet, device plugins, the container runtime's handlers; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, probe
from .docker import there

KUBELET = "/var/lib/kubelet"
PLUGINS = KUBELET + "/device-plugins"
CONTAINERD = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
CONTAINERD_PARTS = "/etc/containerd/conf.d"
CRIO = ("/etc/crio/crio.conf",)
CRIO_PARTS = "/etc/crio/crio.conf.d"
LIMIT = 1 << 20


class RuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration file of containerd or CRI-O. `handlers`: the runtimes that it defines. `error`: it could not
    be read. `cdi`: enable_cdi of containerd."""

    path: str
    engine: str  # containerd, crio
    error: str | None = None
    handlers: tuple[str, ...] = ()
    default: str | None = None
    cdi: bool | None = None


class Kubernetes(msgspec.Struct, frozen=True, kw_only=True):
    """`plugins`: the sockets in the kubelet's device plugin folder; None when this user may not look."""

    kubelet: bool
    plugins: tuple[str, ...] | None = None
    configs: tuple[RuntimeConfig, ...] = ()


_HANDLER = re.compile(r"""\s*\[\s*(?:.*\.)?runtimes\.(?:"([^"]{1,80})"|'([^']{1,80})'|([A-Za-z0-9_-]{1,80}))\s*\]""")
_DEFAULT = re.compile(r"""^\s*(?:default_runtime_name|default_runtime)\s*=\s*["']([^"']{0,80})["']""")
_CDI = re.compile(r"^\s*enable_cdi\s*=\s*(true|false)\b")


def parse_config(text: str, path: str, engine: str) -> RuntimeConfig:
    """Handlers and default out of the lines; comments do not count."""
    handlers: list[str] = []
    default: str | None = None
    cdi: bool | None = None
    for line in text.splitlines():
        if m := _HANDLER.match(line):
            handlers.append(m[1] or m[2] or m[3])
        elif m := _DEFAULT.match(line):
            default = m[1] or default
        elif m := _CDI.match(line):
            cdi = m[1] == "true"
    return RuntimeConfig(path=path, engine=engine, handlers=tuple(dict.fromkeys(handlers)), default=default, cdi=cdi)


def _parts(host: Host, folder: str) -> list[str]:
    try:
        return [f"{folder}/{n}" for n in host.names(folder)[:50]]
    except Trouble:
        return []


def _configs(host: Host) -> list[RuntimeConfig]:
    places = [(p, "containerd") for p in (*CONTAINERD, *_parts(host, CONTAINERD_PARTS))]
    places += [(p, "crio") for p in (*CRIO, *_parts(host, CRIO_PARTS))]
    configs: list[RuntimeConfig] = []
    for path, engine in places:
        try:
            configs.append(parse_config(host.text(path, LIMIT), path, engine))
        except Absent:
            continue
        except Trouble as t:
            configs.append(RuntimeConfig(path=path, engine=engine, error=t.kind))
    return configs


@probe
def kubernetes(host: Host) -> Kubernetes:
    if not there(host, KUBELET):
        raise Absent("no-kubelet")
    try:
        plugins = tuple(n for n in host.names(PLUGINS) if n.endswith(".sock"))
    except Trouble:
        plugins = None
    return Kubernetes(kubelet=True, plugins=plugins, configs=tuple(_configs(host)))
