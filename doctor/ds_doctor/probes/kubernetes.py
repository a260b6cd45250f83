"""A Kubernetes node as far as its files show: kubelet, device plugins, the container runtime's handlers; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, probe
from .docker import there

# Of kubeadm, k3s and RKE2; of MicroK8s (a snap); of k0s.
KUBELETS = ("/var/lib/kubelet", "/var/snap/microk8s/common/var/lib/kubelet", "/var/lib/k0s/kubelet")
CONTAINERD = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/k0s/containerd.toml",
)
CONTAINERD_PARTS = ("/etc/containerd/conf.d", "/etc/k0s/containerd.d")
CRIO = ("/etc/crio/crio.conf",)
# CRI-O's own folder, and the one that nvidia-ctk writes to (cmd/nvidia-ctk-installer, DefaultDropInConfig).
CRIO_PARTS = ("/etc/crio/crio.conf.d", "/etc/crio/conf.d")
LIMIT = 1 << 20
PARTS = 50  # files of one folder


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
    """What the files of a Kubernetes node say about GPUs.

    `plugins`: the sockets in the kubelet's device plugin folder; None when this user may not look. `drivers`: the
    drivers of dynamic resource allocation and of volumes that have a folder at the kubelet (gpu.nvidia.com).
    """

    kubelet: bool
    plugins: tuple[str, ...] | None = None
    drivers: tuple[str, ...] = ()
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


def parse_imports(text: str) -> list[str]:
    """The files and patterns that a containerd configuration takes in (`imports = [...]`, man 5 containerd-config.toml)."""
    m = re.search(r"^[ \t]*imports[ \t]*=[ \t]*\[([^\]]{0,4000})\]", text, re.M)
    return [a or b for a, b in re.findall(r"\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'", m[1])][:PARTS] if m else []


def _parts(host: Host, folder: str, pattern: str = "*") -> list[str]:
    import fnmatch

    try:
        return [f"{folder}/{n}" for n in fnmatch.filter(host.names(folder), pattern)[:PARTS]]
    except Trouble:
        return []


def _imported(host: Host, path: str, text: str) -> list[str]:
    files: list[str] = []
    for given in parse_imports(text):
        whole = given if given.startswith("/") else f"{path.rpartition('/')[0]}/{given}"
        folder, _, name = whole.rpartition("/")
        files += _parts(host, folder, name) if any(c in name for c in "*?[") else [whole]
    return files[:PARTS]


def _configs(host: Host) -> list[RuntimeConfig]:
    places = [(p, "containerd") for p in (*CONTAINERD, *(f for d in CONTAINERD_PARTS for f in _parts(host, d)))]
    places += [(p, "crio") for p in (*CRIO, *(f for d in CRIO_PARTS for f in _parts(host, d)))]
    configs: dict[str, RuntimeConfig] = {}
    while places and len(configs) < 4 * PARTS:
        path, engine = places.pop(0)
        if path in configs:
            continue
        try:
            text = host.text(path, LIMIT)
        except Absent:
            continue
        except Trouble as t:
            configs[path] = RuntimeConfig(path=path, engine=engine, error=t.kind)
            continue
        configs[path] = parse_config(text, path, engine)
        if engine == "containerd":
            places += [(f, engine) for f in _imported(host, path, text)]
    return list(configs.values())


def _sockets(host: Host, kubelet: str) -> tuple[str, ...] | None:
    try:
        return tuple(n for n in host.names(f"{kubelet}/device-plugins") if n.endswith(".sock"))
    except Absent:
        return ()
    except Trouble:
        return None


@probe
def kubernetes(host: Host) -> Kubernetes:
    kubelet = next((k for k in KUBELETS if there(host, k)), None)
    if kubelet is None:
        raise Absent("no-kubelet")
    try:
        drivers = tuple(host.names(f"{kubelet}/plugins")[:PARTS])
    except Trouble:
        drivers = ()
    return Kubernetes(kubelet=True, plugins=_sockets(host, kubelet), drivers=drivers, configs=tuple(_configs(host)))
