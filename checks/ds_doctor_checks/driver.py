"""The driver itself: is there a GPU, is a driver installed, loaded and whole, and does NVML answer?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.device_nodes import DeviceNodes
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import DriverGpus, KernelModule, Modules
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.pci import Pci
from ds_doctor.probes.system import System

from . import _driver as of

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
    if code in (12, 15, 18) or (code == 9 and kernel is None):
        raise NotApplicable(
            "nvml-not-usable", code=code, detail=nvml.detail
        )  # the driver's own rules, and gpu-lost, tell
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
