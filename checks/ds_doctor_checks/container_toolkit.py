"""The NVIDIA Container Toolkit, CDI and Kubernetes on the host: are they configured so that containers get their GPUs?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.cdi import Cdi
from ds_doctor.probes.docker import Docker
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.kubernetes import Kubernetes
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.system import System
from ds_doctor.probes.toolkit import Toolkit

from . import _container as shared
from . import _unread as unread
from ._data import table

FAMILY = "container"


@check("toolkit-config-invalid")
def toolkit_config_can_be_read(toolkit: Toolkit, system: System) -> Findings:
    shared.on_a_system(system)
    if not toolkit.configs:
        raise NotApplicable("no-toolkit-config")
    for config in toolkit.configs:
        if config.error == "syntax":
            place = f"{config.path}:{config.line}" if config.line else config.path
            yield found("toolkit-config-invalid", on=config.path, place=place, detail=config.text or config.detail)
        wrong = shared.wrong_kinds(config)
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
        if shared.wrong_kinds(config):  # the toolkit refuses the whole file, as another rule says
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
        if isinstance(mode, str) and mode not in ("", *modes):  # of another kind the whole file is refused, as told
            yield found("toolkit-mode-unknown", on=config.path, path=config.path, mode=mode, modes=modes)
        if config.values.get("disable-require") is True:
            yield found("toolkit-disable-require", on=config.path, path=config.path)
        for key in shared.unknown_keys(config):
            yield found("toolkit-key-unknown", on=key, path=config.path, key=key)


@check("toolkit-mode-refuses-gpus-flag")
def gpus_flag_fits_the_mode(docker: Docker, toolkit: Toolkit, cdi: Cdi | None, system: System) -> Findings:
    shared.on_the_host(system)
    if "root" not in docker.kinds:
        raise NotApplicable("no-root-docker")
    if toolkit.hook is None:
        raise NotApplicable("no-hook")
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
