"""Each GPU: does it answer, is its memory sound and free, may it be used, and do the variables name GPUs that are there?"""

from __future__ import annotations

from typing import Any

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.device_nodes import DeviceNodes
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import DriverGpus, KernelModule
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.pci import Pci
from ds_doctor.probes.system import System

from . import _driver as of
from ._gpus import gpus_of, label, visible

FAMILY = "driver"
MEMORY_IN_USE_MIB = 1024  # the driver's own use is in `reserved`; a CUDA context takes about 0.5 GiB
LOST = 15  # NVML_ERROR_GPU_IS_LOST
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


@check("gpu-lost", "gpu-reset-required", "gpu-unreachable")
def every_gpu_answers(nvml: Nvml, pci: Pci | None) -> Findings:
    if nvml.error == LOST:  # not even the library starts
        yield found("gpu-lost", gpu="GPU ?", index="?", code=nvml.error)
        for rule in ("gpu-reset-required", "gpu-unreachable"):
            yield undecided(rule, "nvml-silent", code=nvml.error, detail=nvml.detail)
        return
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
    taken = {g.bdf for g in known.gpus} if known is not None else set()  # by the driver's own word
    for g in gpus:
        if g.answers is False:
            yield found("gpu-fallen-off-the-bus", on=g.bdf, bdf=g.bdf)
        elif g.driver is None and kernel is not None and of.refused(g, kernel):
            yield not_applicable("gpu-unclaimed", "driver-refuses-says")
        elif g.driver is None and kernel is None:
            yield not_applicable("gpu-unclaimed", "no-kernel-module")
        elif g.driver is None and g.bdf not in taken:
            yield found("gpu-unclaimed", on=g.bdf, bdf=g.bdf, device=g.device, driver=kernel.version if kernel else "?")
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
