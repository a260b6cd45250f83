"""The machine itself: kernel, distribution, virtual or not, inside a container or not; never judges."""

from __future__ import annotations

import msgspec


class System(msgspec.Struct, frozen=True, kw_only=True):
    """`container` is docker, podman, kubernetes, containerd, lxc, wsl, or None on the host. `hypervisor`: a VM."""

    hostname: str
    kernel: str
    machine: str
    os_name: str
    glibc: str | None = None
    hypervisor: str | None = None
    container: str | None = None
    cpus: int = 0
    memory_total_mib: int = 0
    memory_available_mib: int = 0
