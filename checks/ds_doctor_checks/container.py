"""Docker on the host: is its configuration valid, and can it hand GPUs on to containers?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found
from ds_doctor.probes.cdi import Cdi
from ds_doctor.probes.docker import DaemonFile, Docker
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.system import System
from ds_doctor.probes.toolkit import Toolkit

from . import _container as shared
from . import _unread as unread
from ._data import table

# -- daemon.json ---------------------------------------------------------------------------------------------------


@check("docker-daemon-json-invalid")
def daemon_json_can_be_read(docker: Docker, system: System) -> Findings:
    shared.on_a_system(system)
    shared.with_daemon_json(docker)
    for file in docker.files:
        if file.error in ("syntax", "shape"):
            place = f":{file.line}:{file.column or 1}" if file.line else ""
            yield found(
                "docker-daemon-json-invalid", on=file.path, path=file.path, place=file.path + place, detail=file.detail
            )
    yield from unread.daemon_json(docker, "docker-daemon-json-invalid")


def _readable(docker: Docker) -> list[DaemonFile]:
    return [f for f in docker.files if f.error is None]


@check("docker-mirror-malformed")
def registry_mirrors_are_urls(docker: Docker, system: System) -> Findings:
    shared.on_a_system(system)
    shared.with_daemon_json(docker)
    for file in _readable(docker):
        for mirror in file.mirrors:
            if shared.mirror_fault(mirror) is not None:
                yield found("docker-mirror-malformed", on=mirror, mirror=mirror, path=file.path)
    yield from unread.daemon_json(docker, "docker-mirror-malformed")


@check("docker-default-runtime-undeclared")
def default_runtime_is_declared(docker: Docker, system: System) -> Findings:
    shared.on_a_system(system)
    shared.with_daemon_json(docker)
    stock = table("container")["docker"]["stock_runtimes"]
    for file in _readable(docker):
        name = file.default_runtime
        # A name with a dot is a containerd shim, which dockerd looks for when it is used.
        if (
            name is None
            or name in stock
            or name in file.runtimes
            or name in docker.flag_runtimes
            or ("." in name and "/" not in name)
        ):
            continue
        yield found("docker-default-runtime-undeclared", on=file.path, path=file.path, runtime=name)
    yield from unread.daemon_json(docker, "docker-default-runtime-undeclared")


@check("docker-runtime-program-missing")
def runtime_programs_are_there(docker: Docker, system: System) -> Findings:
    shared.on_a_system(system)
    shared.with_daemon_json(docker)
    for file in _readable(docker):
        for name, runtime in file.runtimes.items():
            used = "nvidia" in name or name == file.default_runtime
            if used and runtime.found is False:
                yield found(
                    "docker-runtime-program-missing", on=name, runtime=name, program=runtime.path, path=file.path
                )
    yield from unread.daemon_json(docker, "docker-runtime-program-missing")


@check("docker-data-root-missing")
def data_root_is_there(docker: Docker, system: System) -> Findings:
    shared.on_a_system(system)
    shared.with_daemon_json(docker)
    for file in _readable(docker):
        if file.data_root_there is False:
            yield found("docker-data-root-missing", on=file.path, path=file.path, folder=file.data_root)
    yield from unread.daemon_json(docker, "docker-data-root-missing")


@check("docker-nvidia-runtime-undeclared")
def nvidia_runtime_is_declared(docker: Docker, toolkit: Toolkit, system: System) -> Findings:
    shared.on_the_host(system)
    if "root" not in docker.kinds:
        raise NotApplicable("no-root-docker")
    if toolkit.runtime is None:
        raise NotApplicable("no-nvidia-runtime")
    file = shared.root_file(docker)
    if file is not None and file.error is not None:
        yield from unread.daemon_json(docker, "docker-nvidia-runtime-undeclared")
    elif not any("nvidia" in name for name in (*(file.runtimes if file else ()), *docker.flag_runtimes)):
        if file is not None and "nvidia" in (file.default_runtime or ""):
            raise NotApplicable("default-runtime-says")
        path = file.path if file else "/etc/docker/daemon.json"
        yield found("docker-nvidia-runtime-undeclared", on=path, path=path)


# -- how GPUs reach containers -------------------------------------------------------------------------------------


@check("toolkit-missing")
def docker_can_hand_gpus_on(
    docker: Docker, module: KernelModule, toolkit: Toolkit | None, cdi: Cdi | None, system: System
) -> Findings:
    shared.on_the_host(system)
    if "root" not in docker.kinds:
        raise NotApplicable("no-root-docker")
    if toolkit is not None and toolkit.hook is not None:
        return
    if any("nvidia" in name and r.found is False for f in _readable(docker) for name, r in f.runtimes.items()):
        raise NotApplicable("runtime-program-says")
    by_hook = shared.gpus_flag_by_hook(docker, cdi, toolkit)
    if by_hook is None:
        raise Undecided("no-docker-version")
    if by_hook:
        runtime = shared.operator_runtime(docker)
        if runtime is not None:
            raise NotApplicable("gpus-by-runtime", program=runtime)
        yield found("toolkit-missing", driver=module.version)


@check("docker-snap")
def docker_is_no_snap(docker: Docker, module: KernelModule, system: System) -> Findings:
    shared.on_the_host(system)
    if "snap" in docker.kinds:
        yield found("docker-snap", driver=module.version)


@check("docker-systemd-drops-gpus")
def running_containers_keep_their_gpus(
    docker: Docker, module: KernelModule, toolkit: Toolkit, cdi: Cdi | None, system: System
) -> Findings:
    shared.on_the_host(system)
    if "root" not in docker.kinds:
        raise NotApplicable("no-root-docker")
    driver = shared.cgroup_driver(docker)
    by_hook = shared.either(
        shared.gpus_flag_by_hook(docker, cdi, toolkit), shared.runtime_by_hook(toolkit, shared.root_config(toolkit))
    )
    if driver == "cgroupfs" or by_hook is False or docker.nvidia_char_links:
        return
    if driver is None:
        raise Undecided("no-cgroup-driver")
    if by_hook is None:
        raise Undecided("no-docker-version")
    if docker.nvidia_char_links is None:
        raise Undecided("no-char-links")
    yield found("docker-systemd-drops-gpus", docker=docker.version or "?", toolkit=toolkit.version or "?")
