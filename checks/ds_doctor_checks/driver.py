"""GPU driver: is there a GPU, does the driver hold it, answer for it, and run the CUDA that PyTorch was built for?"""

from __future__ import annotations

from typing import Any

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.device_nodes import DeviceNodes
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import DriverGpus, KernelModule, Modules
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.pci import Pci
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System

from . import _compat as compat
from . import _driver as of
from ._gpus import architecture_of_pci, gpus_of, label, visible

MEMORY_IN_USE_MIB = 1024  # the driver's own use is in `reserved`; a CUDA context takes about 0.5 GiB
LOST = 15  # NVML_ERROR_GPU_IS_LOST

# -- is there a GPU, and who holds it? -----------------------------------------------------------------------------------


@check("gpu-none")
def there_is_a_gpu(pci: Pci | None, nvml: Nvml | None, known: DriverGpus | None, nodes: DeviceNodes | None) -> Findings:
    if pci is None and nodes is None:
        raise Undecided("not-under-root")
    seen = (pci and pci.gpus) or (nvml and nvml.gpus) or (known and known.gpus) or (nodes and of.has_nodes(nodes))
    if not seen:
        yield found("gpu-none")


@check("driver-wsl-missing")
def the_windows_driver_is_reached_from_wsl(nvml: Nvml | None, nodes: DeviceNodes, system: System | None) -> Findings:
    if "dxg" not in nodes.nodes:
        raise NotApplicable("not-on-wsl")
    if nvml is not None and nvml.error in (9, 12):
        yield found("driver-wsl-missing", code=nvml.error, detail=nvml.detail or "-")
    elif nvml is None or nvml.error is not None:
        raise Undecided("nvml-silent", code=nvml.error if nvml else "-", detail=nvml.detail if nvml else "")


@check("gpu-not-passed", "gpu-hidden-by-variable")
def the_container_has_the_gpus(
    pci: Pci | None,
    nodes: DeviceNodes,
    kernel: KernelModule | None,
    environment: Environment | None,
    system: System | None,
) -> Findings:
    if not of.in_container(system):
        raise NotApplicable("not-in-container")
    if of.has_nodes(nodes):  # Docker's CDI sets NVIDIA_VISIBLE_DEVICES=void and yet hands the GPUs in
        return
    if kernel is None and not (pci and pci.gpus):
        raise NotApplicable("no-gpu")
    value = environment.variables.get("NVIDIA_VISIBLE_DEVICES") if environment else None
    if value is not None and value.strip().lower() in ("", "void", "none"):
        yield found("gpu-hidden-by-variable", value=value)
        yield not_applicable("gpu-not-passed", "gpus-hidden-by-variable")
    else:
        yield found("gpu-not-passed", value=value or "-")
        yield not_applicable("gpu-hidden-by-variable", "gpus-not-passed")


@check("driver-nouveau", "driver-vfio", "driver-vfio-all")
def no_other_driver_holds_the_gpus(pci: Pci) -> Findings:
    if not pci.gpus:
        raise NotApplicable("no-gpu")
    for g in pci.gpus:
        if g.driver in of.OTHER_DRIVERS:
            yield found("driver-nouveau", on=g.bdf, bdf=g.bdf, driver=g.driver)
    if not of.here(pci):
        yield found("driver-vfio-all", count=len(pci.gpus))
        yield not_applicable("driver-vfio", "all-gpus-passed-through")
        return
    for g in pci.gpus:
        if g.driver == "vfio-pci" and not g.virtual:
            yield found("driver-vfio", on=g.bdf, bdf=g.bdf)


@check("driver-missing", "driver-not-loaded", "driver-library-missing")
def the_driver_is_installed_and_loaded(
    pci: Pci,
    nvml: Nvml | None,
    kernel: KernelModule | None,
    nodes: DeviceNodes,
    system: System | None,
    loader: Loader | None,
    environment: Environment | None,
) -> Findings:
    if of.on_wsl(system, nodes):
        raise NotApplicable("on-wsl")
    gpus = of.here(pci)
    if not gpus:
        raise NotApplicable("no-gpu")
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    if nvml is not None and nvml.error is None:
        return
    if kernel is not None:
        if nvml is not None and nvml.error == 12:
            if of.withheld("utility", environment, system):
                raise NotApplicable("capabilities-say")
            yield found("driver-library-missing", module=kernel.version)
        return
    if any(g.driver in of.OTHER_DRIVERS for g in gpus):
        raise NotApplicable("other-driver-holds-gpus")
    if of.too_old_for(gpus, of.library_version(loader)):
        raise NotApplicable("driver-too-old-for-gpu-says")
    # NVML is not asked where the driver left no trace: then only the loader knows whether its libraries are there.
    unasked = nvml is None and loader is not None and loader.cache_readable
    if (nvml is not None and nvml.error == 12) or (unasked and of.library_version(loader) is None):
        yield found("driver-missing", count=len(gpus), bdf=gpus[0].bdf)
        for rule in ("driver-not-loaded", "driver-library-missing"):
            yield not_applicable(rule, "driver-missing-says")
    else:
        yield found("driver-not-loaded", count=len(gpus))


@check("driver-mismatch")
def the_library_fits_the_kernel_module(
    nvml: Nvml | None, kernel: KernelModule | None, loader: Loader | None
) -> Findings:
    picked = loader.picked.get("libnvidia-ml.so.1") if loader is not None else None
    library = nvml.driver if nvml is not None and nvml.driver else of.version_of(picked) if picked is not None else None
    if nvml is not None and nvml.error == 18:
        yield found("driver-mismatch", library=library or "?", module=kernel.version if kernel else "?")
        return
    if kernel is None:
        raise NotApplicable("no-kernel-module")
    if nvml is not None and nvml.error == 12:
        raise NotApplicable("library-not-found")
    if library is None:
        raise Undecided("library-version-unknown")
    if library != kernel.version:
        yield found("driver-mismatch", library=library, module=kernel.version)


# -- does NVML answer? ---------------------------------------------------------------------------------------------------

_NVML_RULES = {-1: "nvml-hung", -2: "nvml-crashed", 4: "nvml-no-permission", 17: "nvml-blocked"}


@check(
    "nvml-hung",
    "nvml-crashed",
    "nvml-no-permission",
    "nvml-blocked",
    "nvml-unknown-error",
    "nvml-unknown-error-container",
    "nvml-error",
)
def nvml_answers(nvml: Nvml, kernel: KernelModule | None, nodes: DeviceNodes | None, system: System | None) -> Findings:
    code = nvml.error
    if code is None:
        return
    if code == -3:
        raise Undecided("nvml-bindings", detail=nvml.detail)
    if code in (12, 18) or (code == 9 and kernel is None):
        raise NotApplicable("nvml-not-usable", code=code, detail=nvml.detail)  # the driver's own rules tell
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    bad = of.bad_nodes(nodes) or of.missing_nodes(nodes, kernel, system)
    if code > 0 and bad:
        raise NotApplicable("device-nodes-bad", nodes=bad)
    if code == 999:
        rule = "nvml-unknown-error-container" if of.in_container(system) else "nvml-unknown-error"
    else:
        rule = _NVML_RULES.get(code, "nvml-error")
    yield found(rule, code=code, detail=nvml.detail or "-", timeout_s=nvml.timeout_s or 0, signal=nvml.signal or "-")
    for other in (*_NVML_RULES.values(), "nvml-unknown-error", "nvml-unknown-error-container", "nvml-error"):
        if other != rule:
            yield not_applicable(other, "nvml-not-usable", code=code, detail=nvml.detail)


@check("gpu-lost", "gpu-reset-required", "gpu-unreachable")
def every_gpu_answers(nvml: Nvml, pci: Pci | None) -> Findings:
    if nvml.error is not None:
        raise Undecided("nvml-silent", code=nvml.error, detail=nvml.detail)
    some_answer = any(g.lost is None for g in nvml.gpus)
    # NVML does not say where a lost GPU sits; where as many are off the bus, they are the same ones.
    fallen = sum(g.answers is False for g in of.here(pci)) if pci is not None else 0
    if fallen and fallen >= sum(g.lost == LOST for g in nvml.gpus):
        yield not_applicable("gpu-lost", "off-the-bus-says")
    for g in nvml.gpus:
        if g.lost == LOST and fallen:
            fallen -= 1
        elif g.lost is not None and not (g.lost == 4 and some_answer):  # 4: a GPU that was given to somebody else
            rule = {LOST: "gpu-lost", 16: "gpu-reset-required"}.get(g.lost, "gpu-unreachable")
            yield found(rule, on=label(g), gpu=label(g), index=g.index, code=g.lost)


@check("gpu-fallen-off-the-bus", "gpu-unclaimed", "gpu-unseen")
def every_gpu_on_the_bus_is_seen(
    pci: Pci,
    nvml: Nvml | None,
    kernel: KernelModule | None,
    known: DriverGpus | None,
    nodes: DeviceNodes | None,
    system: System | None,
) -> Findings:
    gpus = of.here(pci)
    if not gpus:
        raise NotApplicable("no-gpu")
    for g in gpus:
        if g.answers is False:
            yield found("gpu-fallen-off-the-bus", on=g.bdf, bdf=g.bdf)
        elif g.driver is None and kernel is not None and of.refused(g, kernel):
            yield not_applicable("gpu-unclaimed", "driver-refuses-says")
        elif g.driver is None and kernel is None:
            yield not_applicable("gpu-unclaimed", "no-kernel-module")
        elif g.driver is None and kernel is not None:
            yield found("gpu-unclaimed", on=g.bdf, bdf=g.bdf, device=g.device, driver=kernel.version)
    if nvml is None:
        yield not_applicable("gpu-unseen", "no-driver")
        return
    if nvml.error is not None:
        yield undecided("gpu-unseen", "nvml-silent", code=nvml.error, detail=nvml.detail)
        return
    if of.in_container(system):  # a container sees the PCI functions of all GPUs, also of those it was not given
        if not nvml.gpus and not of.bad_nodes(nodes) and not of.hidden(nodes, system):
            yield found("gpu-unseen", bdf=gpus[0].bdf, seen=0, count=len(gpus))
        return
    excluded = {*nvml.excluded, *(g.bdf for g in (known.gpus if known else ()) if g.excluded)}
    seen = {g.bdf for g in nvml.gpus} | excluded
    if any(not g.bdf for g in nvml.gpus):
        yield not_applicable("gpu-unseen", "lost-gpu-unplaced")
        return
    if of.bad_nodes(nodes):
        yield not_applicable("gpu-unseen", "device-nodes-bad", nodes=of.bad_nodes(nodes))
        return
    held_back = of.held_back(nvml, known, nodes)
    for g in gpus:
        if g.driver == "nvidia" and g.answers is not False and g.bdf not in seen | held_back:
            yield found("gpu-unseen", on=g.bdf, bdf=g.bdf, seen=len(nvml.gpus), count=len(gpus))


@check("gpu-excluded")
def no_gpu_is_excluded(nvml: Nvml | None, known: DriverGpus | None) -> Findings:
    if nvml is None and known is None:
        raise NotApplicable("no-gpu")
    if known is None and nvml is not None and nvml.error is not None:
        raise Undecided("nvml-silent", code=nvml.error, detail=nvml.detail)
    excluded = {*(nvml.excluded if nvml else ()), *(g.bdf for g in (known.gpus if known else ()) if g.excluded)}
    for bdf in sorted(excluded):
        yield found("gpu-excluded", on=bdf, bdf=bdf)


# -- device files and modules --------------------------------------------------------------------------------------------


@check("driver-uvm-missing")
def unified_memory_is_loaded(
    kernel: KernelModule, modules: Modules, nodes: DeviceNodes, system: System | None
) -> Findings:
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    if "nvidia_uvm" in modules.loaded or "nvidia-uvm" in nodes.majors:
        return
    if of.on_tegra(nodes):
        raise NotApplicable("on-tegra")
    if nodes.on_demand and not of.in_container(system):
        raise NotApplicable("uvm-on-demand")
    yield found("driver-uvm-missing")


@check("device-node-missing", "device-node-wrong", "device-node-denied", "device-node-cgroup")
def the_device_files_work(
    nodes: DeviceNodes,
    kernel: KernelModule,
    known: DriverGpus | None,
    modules: Modules | None,
    nvml: Nvml | None,
    system: System | None,
) -> Findings:
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    if of.on_tegra(nodes):
        raise NotApplicable("on-tegra")
    container = of.in_container(system)
    need = ["nvidiactl"]
    if modules is None or "nvidia_uvm" in modules.loaded:
        need.append("nvidia-uvm")
    held_back = of.held_back(nvml, known, nodes)
    those = [g for g in (known.gpus if known else ()) if g.bdf not in held_back]
    minors = [g.minor for g in those if g.minor is not None and not g.excluded]
    if held_back and not container and not nodes.on_demand:
        yield undecided("device-node-missing", "gpus-maybe-held-back", count=len(held_back))
    present = [n for n in nodes.nodes if n[len("nvidia") :].isdigit()]
    # A batch system gives a job some of the GPUs through the device cgroup: the others refuse it, and that is right.
    some_usable = any(nodes.nodes[n].usable and not of.wrong(n, nodes.nodes[n], nodes.majors) for n in present)
    if not container:
        need += [f"nvidia{m}" for m in minors]
    elif not present:
        need += [f"nvidia{m}" for m in minors[:1]] or ["nvidia0"]
    for name in dict.fromkeys([*need, *present]):
        node, path = nodes.nodes.get(name), f"/dev/{name}"
        if node is None:
            if container or not nodes.on_demand:
                yield found("device-node-missing", on=path, path=path)
        elif of.wrong(name, node, nodes.majors):
            yield found("device-node-wrong", on=path, path=path, kind=node.kind, major=node.major, minor=node.minor)
        elif node.usable is False and not (name in present and some_usable):
            # The mode lets everybody in and the kernel refuses all the same: only the device cgroup does that.
            rule = "device-node-cgroup" if node.mode & 0o006 == 0o006 else "device-node-denied"
            yield found(rule, on=path, path=path, mode=f"{node.mode:o}")


# -- libcuda -------------------------------------------------------------------------------------------------------------


@check("libcuda-missing", "libcuda-stub", "libcuda-compat-older", "libcuda-compat-newer", "libcuda-mismatch")
def the_loader_picks_the_drivers_libcuda(
    loader: Loader,
    kernel: KernelModule | None,
    nvml: Nvml | None,
    nodes: DeviceNodes | None,
    environment: Environment | None,
    system: System | None,
) -> Findings:
    if kernel is None and (nvml is None or nvml.error is not None):
        raise NotApplicable("no-kernel-module")
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    library = of.picked_libcuda(loader)
    if library is None:
        if nvml is not None and nvml.error == 12:
            raise NotApplicable("library-not-found")
        if of.withheld("compute", environment, system):
            raise NotApplicable("capabilities-say")
        if not loader.cache_readable:
            raise Undecided("ld-cache-unreadable")
        yield found("libcuda-missing")
        for rule in ("libcuda-stub", "libcuda-compat-older", "libcuda-compat-newer", "libcuda-mismatch"):
            yield not_applicable(rule, "libcuda-not-found")
        return
    how = "ld.so.cache" if library.how == "cache" else library.how
    if of.is_stub(library):
        yield found("libcuda-stub", path=library.path, how=how)
        return
    if kernel is None:  # WSL: the library is Windows' and carries no version of this driver
        return
    compares = ("libcuda-compat-older", "libcuda-compat-newer") if of.is_compat(library) else ("libcuda-mismatch",)
    version = of.version_of(library)
    if version is None:
        for rule in compares:
            if of.on_tegra(nodes):
                yield not_applicable(rule, "on-tegra")
            else:
                yield undecided(rule, "libcuda-version-unknown", path=library.path)
        return
    said = {"path": library.path, "how": how, "library": version, "module": kernel.version}
    if version == kernel.version:
        return
    if not of.is_compat(library):
        if nvml is not None and (nvml.error == 18 or nvml.driver == version):
            yield not_applicable("libcuda-mismatch", "mismatch-told")
        else:
            yield found("libcuda-mismatch", **said)
    elif compat.number(version) < compat.number(kernel.version):
        yield found("libcuda-compat-older", **said)
    else:
        may = of.forward_compatible(nvml.gpus) if nvml is not None and nvml.error is None and nvml.gpus else None
        if may is False:
            names = sorted({g.name for g in nvml.gpus}) if nvml is not None else []
            yield found("libcuda-compat-newer", **said, names=names)
        elif may is None:
            yield undecided("libcuda-compat-newer", "gpu-line-unknown")


# -- is the driver new enough? -------------------------------------------------------------------------------------------


@check("driver-too-old", "driver-ptx-too-old")
def the_driver_runs_the_cuda_of_the_wheels(
    torch: TorchBuild | None,
    packages: Packages | None,
    kernel: KernelModule | None,
    nvml: Nvml | None,
    loader: Loader | None,
    environment: Environment | None,
    system: System | None,
) -> Findings:
    programs = of.cuda_programs(torch, packages)
    if not programs:
        raise NotApplicable("no-cuda-wheels")
    driver = of.driver_of(kernel, nvml)
    if driver is None:
        raise NotApplicable("no-driver")
    newer = of.newer_compat(driver, loader)
    may = of.forward_compatible(nvml.gpus) if nvml is not None and nvml.error is None else None
    effective = newer if newer is not None and may else driver
    digits = 1 if of.on_wsl(system) else 3  # Windows' builds are numbered otherwise; the branch is the same
    for name, cuda in programs:
        try:
            oldest = compat.oldest_driver(cuda)
        except Undecided as unknown:  # of this program; the others are judged all the same
            for rule in ("driver-too-old", "driver-ptx-too-old"):
                yield undecided(rule, unknown.reason.id, **unknown.reason.data)
            continue
        if compat.number(effective)[:digits] < compat.number(oldest)[:digits]:
            if newer is not None and may is None:
                yield undecided("driver-too-old", "gpu-line-unknown")
            elif newer is None and may is not False and of.vllm_brings_compat(environment, packages):
                yield undecided("driver-too-old", "vllm-compat-unseen")
            else:
                yield found("driver-too-old", on=name, program=name, cuda=cuda, driver=effective, oldest=oldest)
            continue
        knows = compat.cuda_of_driver(effective) or (nvml.cuda if nvml is not None else None)
        full = compat.full_driver(cuda)
        if knows is None and compat.branch(effective) > compat.newest_branch():
            continue  # newer than every CUDA that a wheel can have been built with
        if knows is None:
            yield undecided("driver-ptx-too-old", "driver-cuda-unknown", driver=effective)
        elif compat.number(knows) < compat.number(cuda)[:2]:
            yield found(
                "driver-ptx-too-old", on=name, program=name, cuda=cuda, driver=effective, knows=knows, full=full or "-"
            )


@check("driver-too-old-for-gpu", "driver-closed-module")
def the_driver_fits_the_gpus(pci: Pci, kernel: KernelModule | None, loader: Loader | None) -> Findings:
    gpus = of.here(pci)
    if not gpus:
        raise NotApplicable("no-gpu")
    # A module that finds no GPU which it knows does not stay loaded: its libraries tell the version all the same.
    driver = kernel.version if kernel is not None else of.library_version(loader)
    if driver is None:
        raise NotApplicable("no-driver")
    old = of.too_old_for(gpus, driver)
    for g in gpus:
        said = {"bdf": g.bdf, "architecture": architecture_of_pci(g.device), "driver": driver}
        if g in old:
            yield found("driver-too-old-for-gpu", on=g.bdf, **said, oldest=of.oldest_branch())
        elif kernel is not None and of.refused(g, kernel):
            yield found("driver-closed-module", on=g.bdf, **said)
    if kernel is None:
        yield not_applicable("driver-closed-module", "no-kernel-module")


@check("driver-branch-ended")
def the_driver_is_maintained(kernel: KernelModule) -> Findings:
    branch = compat.branch(kernel.version)
    if branch > compat.newest_branch():
        raise Undecided("driver-newer-than-tables", driver=kernel.version)
    ended = compat.branch_ended(kernel.version)
    kept = compat.maintained_branches()
    if ended is not None:
        yield found("driver-branch-ended", driver=kernel.version, branch=branch, ended=ended, maintained=kept)
    elif branch not in kept:
        raise Undecided("driver-branch-unlisted", branch=branch)


# -- the state of the GPUs -----------------------------------------------------------------------------------------------


@check("gsp-firmware-differs")
def the_gsp_firmware_is_the_drivers(nvml: Nvml, kernel: KernelModule) -> Findings:
    gpus = gpus_of(nvml)
    yield from of.untold("gsp-firmware-differs", (g.gsp_firmware for g in gpus))
    for g in gpus:
        if g.gsp_firmware and g.gsp_firmware != kernel.version:
            said = {"gpu": label(g), "firmware": g.gsp_firmware, "driver": kernel.version}
            yield found("gsp-firmware-differs", on=label(g), **said)


@check("persistence-off")
def persistence_is_on(nvml: Nvml) -> Findings:
    gpus = gpus_of(nvml)
    yield from of.untold("persistence-off", (g.persistence for g in gpus))
    off = [g.index for g in gpus if g.persistence is False]
    if off:
        yield found("persistence-off", gpus=off, seconds=nvml.seconds or 0)


@check("visible-empty", "visible-none", "visible-repeated", "visible-cut")
def cuda_visible_devices_names_gpus_that_exist(nvml: Nvml, environment: Environment, launch: Launch | None) -> Findings:
    gpus, variables = gpus_of(nvml), environment.variables
    if launch is not None and launch.container is not None:
        # Nothing of this environment is handed into a container; inside it the GPUs are numbered anew.
        variables, named = launch.environment, of.named_for(launch)
        if named is not None:
            asked = of.gpus_named(gpus, named[1])[0]
            if asked is None:
                raise NotApplicable("gpu-request-told")
            gpus = asked
    left = visible(gpus, variables)
    said: dict[str, Any] = {"value": left.value, "entry": left.cut, "left": left.count, "count": len(gpus)}
    if left.why == "empty" or (left.why == "negative" and not left.count):
        yield found("visible-empty", **said)
    elif left.why == "repeated":
        yield found("visible-repeated", **said)
    elif left.why is not None and left.why != "negative":
        yield found("visible-cut" if left.count else "visible-none", **said)


@check("gpu-request-absent")
def the_container_asks_for_gpus_that_exist(nvml: Nvml, launch: Launch) -> Findings:
    if launch.container is None:
        raise NotApplicable("no-container-started")
    gpus_of(nvml)
    named = of.named_for(launch)
    if named is None:
        return
    by, entries = named
    said: dict[str, Any] = {"by": by, "count": len(nvml.gpus), "program": launch.container.program}
    for entry in of.gpus_named(nvml.gpus, entries)[1]:
        yield found("gpu-request-absent", on=entry, entry=entry, **said)


@check("nvidia-visible-absent")
def nvidia_visible_devices_names_gpus_of_this_container(
    nvml: Nvml, environment: Environment, nodes: DeviceNodes, system: System | None
) -> Findings:
    if not of.in_container(system):
        raise NotApplicable("not-in-container")
    if of.hidden(nodes, system):
        raise NotApplicable("gpus-not-passed")
    gpus_of(nvml)
    value = environment.variables.get("NVIDIA_VISIBLE_DEVICES", "")
    # Indices are those of the host, and say nothing in here.
    uuids = [e.strip() for e in value.split(",") if e.strip().startswith(("GPU-", "MIG-"))]
    for entry in of.gpus_named(nvml.gpus, tuple(uuids))[1]:
        yield found("nvidia-visible-absent", on=entry, entry=entry, value=value, count=len(nvml.gpus))


@check("gpu-compute-prohibited", "gpu-compute-exclusive")
def the_gpus_take_several_processes(nvml: Nvml, environment: Environment | None) -> Findings:
    gpus = of.used(nvml, environment)
    for rule in ("gpu-compute-prohibited", "gpu-compute-exclusive"):
        yield from of.untold(rule, (g.compute_mode for g in gpus))
    for g in gpus:
        if g.compute_mode == "prohibited":
            yield found("gpu-compute-prohibited", on=label(g), gpu=label(g), index=g.index)
        elif g.compute_mode in ("exclusive-process", "exclusive-thread"):
            yield found("gpu-compute-exclusive", on=label(g), gpu=label(g), index=g.index)


# nvmlDeviceGpuRecoveryAction_t in nvml.h
RECOVERY = {
    1: "GPU_RESET",
    2: "NODE_REBOOT",
    3: "DRAIN_P2P",
    4: "DRAIN_AND_RESET",
    5: "RECOVER_IMEX_DOMAIN",
    6: "BUS_RESET",
    7: "SYSTEM_REBOOT",
}


@check("gpu-recovery-needed")
def the_driver_asks_for_no_recovery(nvml: Nvml, environment: Environment | None) -> Findings:
    gpus = of.used(nvml, environment)
    for g in gpus:
        if g.recovery_action:
            action = RECOVERY.get(g.recovery_action, f"{g.recovery_action}")
            yield found("gpu-recovery-needed", on=label(g), gpu=label(g), index=g.index, action=action)
    if all(g.recovery_action is None for g in gpus):
        raise NotApplicable("recovery-not-told")


@check("gpu-ecc-uncorrected", "gpu-ecc-pending", "gpu-rows-failed", "gpu-rows-pending")
def the_gpu_memory_is_sound(nvml: Nvml, environment: Environment | None) -> Findings:
    gpus = of.used(nvml, environment)
    yield from of.untold("gpu-ecc-uncorrected", (g.ecc_uncorrected for g in gpus))
    yield from of.untold("gpu-ecc-pending", (g.ecc_pending for g in gpus))
    yield from of.untold("gpu-rows-failed", (g.rows_failed for g in gpus))
    yield from of.untold("gpu-rows-pending", (g.rows_pending for g in gpus))
    for g in gpus:
        if g.ecc_uncorrected:
            yield found("gpu-ecc-uncorrected", on=label(g), gpu=label(g), index=g.index, errors=g.ecc_uncorrected)
        if g.ecc is not None and g.ecc_pending is not None and g.ecc != g.ecc_pending:
            yield found("gpu-ecc-pending", on=label(g), gpu=label(g), index=g.index)
        if g.rows_failed:
            yield found("gpu-rows-failed", on=label(g), gpu=label(g), index=g.index)
        if g.rows_pending:
            yield found("gpu-rows-pending", on=label(g), gpu=label(g), index=g.index)


@check("gpu-memory-in-use")
def the_gpu_memory_is_free(nvml: Nvml, environment: Environment | None) -> Findings:
    gpus = of.used(nvml, environment)
    yield from of.untold("gpu-memory-in-use", (g.memory_used_mib for g in gpus))
    for g in gpus:
        # Without the reserved part told apart (an old driver), `used` holds it, too: then only processes count.
        if g.memory_used_mib is None or (g.memory_reserved_mib is None and not g.holders):
            continue
        if g.memory_used_mib >= MEMORY_IN_USE_MIB:
            yield found(
                "gpu-memory-in-use",
                on=label(g),
                gpu=label(g),
                used_mib=g.memory_used_mib,
                total_mib=g.memory_total_mib or 0,
                holders=[f"{h.pid} {h.name or ''}".strip() for h in g.holders] or ["?"],
            )
