"""What several container checks share: versions, the way Docker hands GPUs on, CDI precedence; it yields no finding."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ds_doctor.api import NotApplicable
from ds_doctor.probes.cdi import Cdi, CdiSpec
from ds_doctor.probes.docker import DaemonFile, Docker
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.system import System
from ds_doctor.probes.toolkit import Toolkit, ToolkitConfig

from ._data import table
from ._require import numbers

KIND = "nvidia.com/gpu"
OPERATOR = "/usr/local/nvidia/toolkit/"  # where the GPU Operator puts the toolkit, outside of PATH


def on_the_host(system: System) -> None:
    """A container does not see the engine that runs it."""
    if system.container not in (None, "wsl"):
        raise NotApplicable("inside-container", kind=system.container)


def on_a_system(system: System) -> None:
    """The same, but for containers that are whole systems (LXC) and run a Docker of their own. What their Docker needs of
    the toolkit is another matter: without rights over devices `no-cgroups = true` is right there."""
    if system.container != "lxc":
        on_the_host(system)


def in_a_container(system: System) -> None:
    if system.container in (None, "wsl"):
        raise NotApplicable("not-in-container")


def at_least(version: str | None, minimum: str) -> bool | None:
    """Whether the version is the minimum or newer; None when it is not known."""
    return None if version is None else numbers(version) >= numbers(minimum)


def gpus_flag_by_hook(docker: Docker, cdi: Cdi | None, toolkit: Toolkit | None) -> bool | None:
    """Whether `docker run --gpus` goes through the prestart hook; None when it cannot be told.

    From Docker 29.2 on it goes by CDI where a specification and nvidia-cdi-hook are there (moby#50228). Under the
    nvidia runtime as default, that runtime decides: it takes the hook out where it injects the devices itself.
    """
    file = root_file(docker)
    if toolkit is not None and file is not None and "nvidia" in (file.default_runtime or ""):
        return runtime_by_hook(toolkit, root_config(toolkit))
    by_cdi = docker_tries_cdi(docker)
    if by_cdi is False or toolkit is None or toolkit.cdi_hook is None:
        return True
    if cdi is None or not any(s.kind == KIND for s in cdi.specs):
        unread = cdi is not None and (cdi.denied or any(s.error for s in cdi.specs))
        return None if unread else True
    return None if by_cdi is None else False


def with_daemon_json(docker: Docker) -> None:
    if not docker.files:
        raise NotApplicable("no-daemon-json")


def with_specs(cdi: Cdi) -> None:
    if not cdi.specs and not cdi.denied:
        raise NotApplicable("no-cdi-spec")


def docker_tries_cdi(docker: Docker) -> bool | None:
    """Whether `--gpus` looks for a CDI specification first; None when Docker's version is not known."""
    file = root_file(docker)
    if file is not None and file.cdi is False:
        return False
    return at_least(docker.version, table("container")["docker"]["gpus_by_cdi_since"])


def cdi_users(cdi: Cdi, docker: Docker | None, toolkit: Toolkit | None) -> list[str]:
    """What here takes GPUs from nvidia.com/gpu specifications without being asked to."""
    config = root_config(toolkit) if toolkit else None
    users = ["Podman"] if cdi.podman else []
    if docker is not None and toolkit is not None and toolkit.cdi_hook and docker_tries_cdi(docker):
        users.append(f"Docker {docker.version}")
    if config is not None and config.values.get("nvidia-container-runtime.mode") == "cdi":
        users.append("nvidia-container-runtime")
    return users


def runtime_by_hook(toolkit: Toolkit, config: ToolkitConfig | None) -> bool | None:
    """Whether `docker run --runtime nvidia` goes through the prestart hook; None when it cannot be told."""
    mode = (config.values.get("nvidia-container-runtime.mode") if config else None) or "auto"
    if mode != "auto":
        return mode == "legacy"
    jit = at_least(toolkit.version, table("container")["toolkit"]["jit_cdi_since"])
    return None if jit is None else not jit


def operator_runtime(docker: Docker) -> str | None:
    """The program of a declared runtime that is there and came with the GPU Operator, whose hook lies beside it."""
    file = root_file(docker)
    runtimes = file.runtimes.items() if file is not None else ()
    return next((r.path for _, r in runtimes if r.found and (r.path or "").startswith(OPERATOR)), None)


def either(*answers: bool | None) -> bool | None:
    """True when one is, None when that is not known."""
    if any(a is True for a in answers):
        return True
    return None if any(a is None for a in answers) else False


def root_config(toolkit: Toolkit) -> ToolkitConfig | None:
    """The config.toml of the system's toolkit, when it could be read."""
    return next((c for c in toolkit.configs if c.kind == "root" and c.error is None), None)


def root_file(docker: Docker) -> DaemonFile | None:
    return next((f for f in docker.files if f.kind == "root"), None)


def cgroup_driver(docker: Docker) -> str | None:
    """What dockerd uses: the exec-opt, or systemd on cgroup v2 with systemd (Docker documentation), cgroupfs elsewhere."""
    file = root_file(docker)
    if file is not None and file.error is not None:
        return None
    if file is not None and file.cgroup_driver:
        return file.cgroup_driver
    if docker.cgroup_v2 is None or docker.systemd is None:
        return None
    return "systemd" if docker.cgroup_v2 and docker.systemd else "cgroupfs"


def in_force(cdi: Cdi) -> list[CdiSpec]:
    """NVIDIA's specifications of which a device is really used: a later folder's device hides an earlier one's."""
    ours = [s for s in cdi.specs if s.error is None and (s.kind or "").endswith(KIND)]
    used: list[CdiSpec] = []
    taken: set[tuple[str | None, str]] = set()
    for folder in sorted({_folder(s.path) for s in ours}, key=lambda f: f != "/var/run/cdi"):
        here = [s for s in ours if _folder(s.path) == folder]
        used += [s for s in here if not s.devices or {(s.kind, d) for d in s.devices} - taken]
        taken |= {(s.kind, d) for s in here for d in s.devices}
    return used


def is_stale(spec: CdiSpec, module: KernelModule | None) -> bool:
    """Whether the specification names the libraries of another driver than the running one."""
    return module is not None and bool(spec.drivers) and module.version not in spec.drivers


def is_of_installed_driver(spec: CdiSpec, loader: Loader | None) -> bool:
    """Whether the specification names the driver whose libraries are installed, which may not run yet."""
    picked = loader.picked.get("libnvidia-ml.so.1") if loader is not None else None
    return picked is not None and picked.version is not None and picked.version in spec.drivers


def doubled(cdi: Cdi) -> list[tuple[CdiSpec, CdiSpec, list[str]]]:
    """Pairs of files of one folder that define the same device: CDI then knows neither."""
    good = [s for s in cdi.specs if s.error is None]
    pairs = []
    for i, a in enumerate(good):
        for b in good[i + 1 :]:
            both = sorted(set(a.devices) & set(b.devices))
            if a.kind == b.kind and _folder(a.path) == _folder(b.path) and both:
                pairs.append((a, b, both))
    return pairs


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def mirror_fault(url: str) -> str | None:
    """What dockerd refuses in a registry mirror (moby daemon/pkg/registry, ValidateMirror): scheme, rest or login."""
    scheme, marks, rest = url.partition("://")
    if not marks or not scheme:
        return "no-scheme"
    if scheme.lower() not in ("http", "https"):
        return "scheme"
    if re.search(r"[\s\x00-\x1f\x7f]", url) or re.search(r"%(?![0-9A-Fa-f]{2})", rest):
        return "no-url"
    if "?" in rest.rstrip("?") or rest.partition("#")[2]:
        return "query"
    return "login" if "@" in re.split(r"[/?#]", rest)[0] else None


def unknown_keys(config: ToolkitConfig) -> list[str]:
    """Keys of a config.toml that no known release reads."""
    known = table("container")["toolkit"]
    return [k for k in config.values if k not in known["keys"] and not k.startswith(tuple(known["open_tables"]))]


def wrong_kinds(config: ToolkitConfig) -> list[str]:
    """What a config.toml sets to a value of another kind than the toolkit takes, which refuses the whole file then."""
    known = table("container")["toolkit"]
    kinds: tuple[tuple[str, type, str], ...] = (
        ("booleans", bool, "true or false"),
        ("lists", list, "a list"),
        ("texts", str, "a text"),
    )
    return [
        f"{key} = {config.values[key]!r} ({due} is due)"
        for group, kind, due in kinds
        for key in known[group]
        if key in config.values and not isinstance(config.values[key], kind)
    ]


def defects(version: str) -> list[str]:
    """The published security defects that a toolkit of this version still has."""
    return [d["id"] for d in table("container")["defect"] if not at_least(version, d["fixed"])]


def newest_fix() -> str:
    """The oldest toolkit without any of the known defects."""
    fixes: Iterable[str] = (d["fixed"] for d in table("container")["defect"])
    return max(fixes, key=numbers)
