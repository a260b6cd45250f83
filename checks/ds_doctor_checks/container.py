"""Containers: is Docker with the NVIDIA toolkit set up to hand GPUs on, and is this container fit to serve with them?"""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.account import Account, Temp
from ds_doctor.probes.cdi import Cdi
from ds_doctor.probes.docker import DaemonFile, Docker
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.kubernetes import Kubernetes
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import TorchBuild
from ds_doctor.probes.system import System
from ds_doctor.probes.toolkit import Toolkit

from . import _container as shared
from . import _require
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


@check("toolkit-config-invalid")
def toolkit_config_can_be_read(toolkit: Toolkit, system: System) -> Findings:
    shared.on_a_system(system)
    if not toolkit.configs:
        raise NotApplicable("no-toolkit-config")
    for config in toolkit.configs:
        if config.error == "syntax":
            place = f"{config.path}:{config.line}" if config.line else config.path
            yield found("toolkit-config-invalid", on=config.path, place=place, detail=config.text or config.detail)
        wrong = shared.no_booleans(config)
        if wrong:
            yield found("toolkit-config-invalid", on=config.path, place=config.path, detail=", ".join(wrong))
    yield from unread.config(toolkit, "toolkit-config-invalid")


@check("toolkit-no-cgroups", "toolkit-rootless-cgroups")
def toolkit_lets_containers_reach_gpus(docker: Docker, toolkit: Toolkit, cdi: Cdi | None, system: System) -> Findings:
    shared.on_the_host(system)
    yield from unread.config(toolkit, "toolkit-no-cgroups")
    yield from unread.config(toolkit, "toolkit-rootless-cgroups")
    flag = shared.gpus_flag_by_hook(docker, cdi, toolkit)
    for config in toolkit.configs:
        if config.error is not None or config.kind == "snap":
            continue
        if shared.no_booleans(config):  # the toolkit refuses the whole file, as another rule says
            yield undecided("toolkit-no-cgroups", "toolkit-config-broken", path=config.path)
            yield undecided("toolkit-rootless-cgroups", "toolkit-config-broken", path=config.path)
            continue
        off = config.values.get("nvidia-container-cli.no-cgroups") is True
        by_hook = shared.either(flag, shared.runtime_by_hook(toolkit, config))
        root, rootless = "root" in docker.kinds, "rootless" in docker.kinds
        rule = "toolkit-no-cgroups" if off else "toolkit-rootless-cgroups"
        # One file cannot be right for a daemon of root and one of a user: which of them is used is not for files to tell.
        concerned = (root and config.kind == "root") if off else rootless
        if not concerned or by_hook is False:
            continue
        if by_hook is None:
            yield undecided(rule, "no-docker-version")
        elif root and rootless:
            yield undecided(rule, "two-dockers", path=config.path)
        else:
            yield found(rule, on=config.path, path=config.path)


@check("toolkit-mode-unknown", "toolkit-disable-require", "toolkit-key-unknown")
def toolkit_settings_are_sound(toolkit: Toolkit, system: System) -> Findings:
    shared.on_the_host(system)
    for rule in ("toolkit-mode-unknown", "toolkit-disable-require", "toolkit-key-unknown"):
        yield from unread.config(toolkit, rule)
    modes = table("container")["toolkit"]["modes"]
    for config in (c for c in toolkit.configs if c.error is None):
        mode = config.values.get("nvidia-container-runtime.mode", "auto")
        if mode not in ("", *modes):
            yield found("toolkit-mode-unknown", on=config.path, path=config.path, mode=mode, modes=modes)
        if config.values.get("disable-require") is True:
            yield found("toolkit-disable-require", on=config.path, path=config.path)
        for key in shared.unknown_keys(config):
            yield found("toolkit-key-unknown", on=key, path=config.path, key=key)


@check("toolkit-mode-refuses-gpus-flag")
def gpus_flag_fits_the_mode(docker: Docker, toolkit: Toolkit, cdi: Cdi | None, system: System) -> Findings:
    shared.on_the_host(system)
    if "root" not in docker.kinds or toolkit.hook is None:
        raise NotApplicable("no-root-docker")
    yield from unread.config(toolkit, "toolkit-mode-refuses-gpus-flag")
    config = shared.root_config(toolkit)
    mode = config.values.get("nvidia-container-runtime.mode") if config else None
    if config is None or mode not in ("csv", "cdi", "jit-cdi"):
        return
    if config.values.get("nvidia-container-runtime-hook.skip-mode-detection") is True:
        return
    by_hook = shared.gpus_flag_by_hook(docker, cdi, toolkit)
    if by_hook is None:
        raise Undecided("no-docker-version")
    if by_hook:
        yield found("toolkit-mode-refuses-gpus-flag", on=config.path, path=config.path, mode=mode)


@check("toolkit-vulnerable")
def toolkit_has_no_known_hole(toolkit: Toolkit, system: System) -> Findings:
    shared.on_the_host(system)
    if toolkit.version is None:
        raise Undecided("no-toolkit-version")
    holes = shared.defects(toolkit.version)
    if holes:
        yield found("toolkit-vulnerable", version=toolkit.version, holes=holes, fixed=shared.newest_fix())


# -- CDI -----------------------------------------------------------------------------------------------------------


@check("cdi-spec-missing")
def cdi_spec_is_there(
    cdi: Cdi, module: KernelModule, docker: Docker | None, toolkit: Toolkit | None, system: System
) -> Findings:
    shared.on_the_host(system)
    users = shared.cdi_users(cdi, docker, toolkit)
    if not users:
        raise NotApplicable("no-cdi-user")
    if any(s.error is None and s.kind == shared.KIND for s in cdi.specs):
        return
    if cdi.denied or any(s.error is not None for s in cdi.specs):
        raise Undecided("cdi-unread")
    yield found("cdi-spec-missing", users=users, driver=module.version)


@check("cdi-spec-stale", "cdi-spec-stale-unused")
def cdi_spec_is_of_this_driver(
    cdi: Cdi,
    module: KernelModule,
    docker: Docker | None,
    toolkit: Toolkit | None,
    loader: Loader | None,
    system: System,
) -> Findings:
    shared.on_the_host(system)
    shared.with_specs(cdi)
    users = shared.cdi_users(cdi, docker, toolkit)
    for spec in shared.in_force(cdi):
        if shared.is_of_installed_driver(spec, loader) and shared.is_stale(spec, module):
            # An upgraded driver that waits for its reboot: the specification is ahead of the module, not behind.
            yield not_applicable("cdi-spec-stale", "mismatch-told")
        elif shared.is_stale(spec, module):
            # Other kinds than nvidia.com/gpu are written by what uses them (device plugin, GPU Operator).
            rule = "cdi-spec-stale" if users or spec.kind != shared.KIND else "cdi-spec-stale-unused"
            yield found(rule, on=spec.path, path=spec.path, named=spec.drivers, driver=module.version)
    yield from unread.specs(cdi, "cdi-spec-stale")
    yield from unread.specs(cdi, "cdi-spec-stale-unused")


@check("cdi-path-missing")
def cdi_paths_are_there(
    cdi: Cdi, module: KernelModule | None, docker: Docker | None, toolkit: Toolkit | None, system: System
) -> Findings:
    shared.on_the_host(system)
    shared.with_specs(cdi)
    users = shared.cdi_users(cdi, docker, toolkit)
    used = [s for s in shared.in_force(cdi) if users or s.kind != shared.KIND]
    yield from unread.specs(cdi, "cdi-path-missing")
    if not used and cdi.specs and not users:
        raise NotApplicable("no-cdi-user")
    # What a driver upgrade took away is told by cdi-spec-stale, with the same remedy.
    current = [s for s in used if not shared.is_stale(s, module)]
    if used and not current:
        raise NotApplicable("cdi-stale-says")
    for spec in current:
        if spec.missing:
            yield found(
                "cdi-path-missing", on=spec.path, path=spec.path, missing=spec.missing_count, first=spec.missing[0]
            )


@check("cdi-device-twice")
def cdi_devices_are_defined_once(cdi: Cdi, system: System) -> Findings:
    shared.on_the_host(system)
    shared.with_specs(cdi)
    for a, b, devices in shared.doubled(cdi):
        yield found("cdi-device-twice", on=a.path, one=a.path, other=b.path, kind=a.kind, devices=devices[:5])
    yield from unread.specs(cdi, "cdi-device-twice")


# -- Kubernetes ----------------------------------------------------------------------------------------------------


@check("kubernetes-runtime-missing")
def node_runtime_knows_nvidia(node: Kubernetes, module: KernelModule, cdi: Cdi | None, system: System) -> Findings:
    shared.on_the_host(system)
    if not node.configs:
        raise Undecided("no-runtime-config")
    if any("nvidia" in h for c in node.configs for h in c.handlers):
        return
    if any(s.error is None and (s.kind or "").endswith(shared.KIND) for s in (cdi.specs if cdi else ())):
        return  # containers of the node get their GPUs through CDI
    unread = [c.path for c in node.configs if c.error]
    if unread:
        raise Undecided("file-denied", path=unread[0])
    yield found("kubernetes-runtime-missing", path=node.configs[0].path, engine=node.configs[0].engine)


@check("kubernetes-plugin-missing")
def node_offers_its_gpus(node: Kubernetes, module: KernelModule, system: System) -> Findings:
    shared.on_the_host(system)
    if "gpu.nvidia.com" in node.drivers:
        return  # NVIDIA's driver for dynamic resource allocation, which needs no device plugin
    if node.plugins is None:
        raise Undecided("file-denied", path="/var/lib/kubelet/device-plugins")
    if not any("nvidia" in name.lower() for name in node.plugins):
        yield found("kubernetes-plugin-missing", driver=module.version)


# -- inside a container --------------------------------------------------------------------------------------------


@check("image-needs-newer-driver", "image-wants-newer-driver")
def driver_is_what_the_image_asks_for(environment: Environment, nvml: Nvml, loader: Loader | None) -> Findings:
    # Asked wherever the variable is: images become virtual machines too, which do not look like containers.
    requirements = _require.required(environment.variables)
    if not requirements:
        raise NotApplicable("no-requirement")
    if nvml.error is not None or nvml.driver is None:
        raise Undecided("no-nvml-driver")
    cuda = loader.picked.get("libcuda.so.1") if loader else None
    if cuda is not None and "/compat/" in cuda.real + cuda.path:
        raise NotApplicable("compat-libcuda")
    values = _require.Values(nvml.cuda, nvml.driver, None, _require.brands_of(tuple(g.name for g in nvml.gpus)))
    archs: list[str | None] = [*sorted({g.cc for g in nvml.gpus if g.cc})] or [None]
    for name, expression in requirements.items():
        yield from _unmet(name, expression, [values._replace(arch=a) for a in archs])


def _unmet(name: str, expression: str, gpus: list[_require.Values]) -> Findings:
    rules = ("image-needs-newer-driver", "image-wants-newer-driver")
    try:
        answers = [_require.settled(expression, values) for values in gpus]
    except ValueError as e:
        for rule in rules:
            yield undecided(rule, "requirement-unreadable", variable=name, part=str(e)[:60])
        return
    if False not in answers:
        if None in answers:
            for rule in rules:
                yield undecided(rule, "requirement-open", variable=name)
        return
    cuda, driver = gpus[0].cuda, gpus[0].driver
    want = _require.wanted_cuda(expression)
    # Within one CUDA major most programs run on an older driver (minor version compatibility); across majors none do.
    major = want is not None and cuda is not None and _require.numbers(want)[:1] > _require.numbers(cuda)[:1]
    first = expression.split(" ")[0]
    yield found(rules[0] if major else rules[1], on=name, require=first, cuda=cuda or "?", driver=driver)


@check("container-capabilities")
def container_has_compute_and_utility(
    environment: Environment, loader: Loader | None, module: KernelModule, system: System
) -> Findings:
    given = environment.variables.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if not given:
        shared.in_a_container(system)
    named = {part.strip() for part in given.split(",") if part.strip()}
    if not named or "all" in named:
        return  # unset and empty mean the default, compute and utility
    libraries = (("compute", "libcuda.so.1"), ("utility", "libnvidia-ml.so.1"))
    # What was mounted by other means (CDI files take no notice of the variable) is there all the same.
    lacking = [c for c, library in libraries if c not in named and not (loader and library in loader.picked)]
    if lacking and loader is None:
        raise Undecided("no-loader-answer", given=given)
    if lacking:
        yield found("container-capabilities", given=given, lacking=lacking)


@check("container-user-unknown")
def user_has_a_name(account: Account, torch: TorchBuild, environment: Environment | None) -> Findings:
    if account.name is not None or account.from_environment:
        return
    known = table("container")["torch"]
    version = re.match(r"[0-9]{1,4}(?:\.[0-9]{1,4})*", torch.version)
    if version is None:
        raise Undecided("torch-version-odd", version=torch.version)
    if shared.at_least(version[0], known["no_user_name_since"]):
        return
    elsewhere = environment is not None and environment.variables.get("TORCHINDUCTOR_CACHE_DIR")
    if elsewhere and not shared.at_least(version[0], known["user_name_on_import_seen"]):
        raise Undecided("inductor-cache-set", torch=torch.version)
    others = [s for s in account.services if s not in ("files", "compat", "systemd")]
    if others:
        raise Undecided("user-elsewhere", services=others, uid=account.uid)
    yield found("container-user-unknown", uid=account.uid, torch=torch.version)


@check("temp-unusable", "temp-variable-unusable", "temp-noexec")
def temporary_files_can_be_written_and_loaded(temp: Temp) -> Findings:
    usable = [f for f in temp.folders if f.there and f.writable and not f.read_only]
    if not usable:
        if any(f.there and f.writable is None for f in temp.folders):
            raise Undecided("temp-unread")
        yield found("temp-unusable", folders=[f.path for f in temp.folders])
    for folder in temp.folders:
        if folder.source != "default" and folder not in usable:
            yield found("temp-variable-unusable", on=folder.source, variable=folder.source, folder=folder.path)
    if usable and usable[0].no_exec:
        yield found("temp-noexec", on=usable[0].path, folder=usable[0].path)
