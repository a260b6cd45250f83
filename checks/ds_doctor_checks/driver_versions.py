"""Versions: does the driver run the CUDA of the installed wheels, does it fit the GPUs, is it maintained, is libcuda the driver's own?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.device_nodes import DeviceNodes
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.pci import Pci
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System

from . import _compat as compat
from . import _driver as of
from ._gpus import architecture_of_pci, gpus_of, label

FAMILY = "driver"


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
        # Both libraries of another version than the module: that is the whole driver, and told as such.
        whole = (
            nvml.error == 18 or nvml.driver == version if nvml is not None else of.library_version(loader) == version
        )
        if whole:
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


@check("gsp-firmware-differs")
def the_gsp_firmware_is_the_drivers(nvml: Nvml, kernel: KernelModule) -> Findings:
    gpus = gpus_of(nvml)
    yield from of.untold("gsp-firmware-differs", (g.gsp_firmware for g in gpus))
    for g in gpus:
        if g.gsp_firmware and g.gsp_firmware != kernel.version:
            said = {"gpu": label(g), "firmware": g.gsp_firmware, "driver": kernel.version}
            yield found("gsp-firmware-differs", on=label(g), **said)
