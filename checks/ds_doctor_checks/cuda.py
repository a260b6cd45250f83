"""CUDA as the engine's Python has it: torch, what must fit it, and the libraries that it would load."""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, check, found, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.pci import Pci
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System
from ds_doctor.probes.torch_libs import CudaLibrary, TorchLibs

from . import _compat as compat
from . import _driver as of
from ._cuda_wheels import SHARE_A_FOLDER, wheel_of
from ._data import table
from ._gpus import gpus_of
from ._pins import Pin, kept, minor, pins, release

# Built against one torch's C++ interface: another minor version ends in undefined symbols or missing operators.
BOUND_TO_TORCH = ("torchvision", "torchaudio", "vllm", "xformers")
NCCL_LIBRARY = re.compile(r"libnccl\.so")
NCCL = re.compile(r"nvidia-nccl-cu\d+\Z")  # the nccl family's business


# -- torch and its companions --------------------------------------------------------------------------------------


@check("cuda-python-folder-gone")
def named_environments_are_there(packages: Packages) -> Findings:
    if packages.missing is not None:
        yield found("cuda-python-folder-gone", on=packages.missing, folder=packages.missing, python=packages.python)


@check("cuda-torch-missing")
def torch_is_installed(packages: Packages, torch: TorchBuild | None) -> Findings:
    if torch is None:
        yield found("cuda-torch-missing", on=packages.python, python=packages.python, how=packages.how)


@check("cuda-torch-cpu-only", "cuda-torch-rocm")
def torch_has_cuda(
    torch: TorchBuild, nvml: Nvml | None, pci: Pci | None, kernel: KernelModule | None, system: System | None
) -> Findings:
    if torch.cuda is not None:
        return
    # Where NVML could not be asked (--root), the bus and the driver tell that GPUs are there; a container may not have them.
    if nvml is not None or pci is None or kernel is None or not of.here(pci) or of.in_container(system):
        gpus_of(nvml)
    rule = "cuda-torch-rocm" if torch.hip is not None else "cuda-torch-cpu-only"
    yield found(rule, on=torch.folder, version=torch.version, hip=torch.hip or "")


@check("cuda-torch-pin-broken", "cuda-pin-broken", "cuda-nvidia-pin-differs")
def pins_are_kept(packages: Packages, torch: TorchBuild | None, system: System | None) -> Findings:
    for pin in pins(packages, system.machine if system is not None else ""):
        installed = packages.packages[pin.name].version
        if NCCL.match(pin.name):
            continue
        rule = _rule_of(pin, installed)
        keeps = kept(pin, installed)
        if keeps is None:
            yield undecided(rule, "pin-of-own-build", by=pin.by.name, want=str(pin), have=installed)
        elif not keeps:
            yield found(
                rule,
                on=pin.by.name,
                by=f"{pin.by.name} {pin.by.version}",
                want=str(pin),
                name=pin.name,
                have=installed,
                python=packages.python,
            )
    yield from _by_table(packages)
    yield from _by_tag(packages, torch)


def _rule_of(pin: Pin, installed: str) -> str:
    if pin.name == "torch" and pin.by.name in BOUND_TO_TORCH and minor(installed) != minor(pin.version):
        return "cuda-torch-pin-broken"
    return "cuda-nvidia-pin-differs" if pin.name.startswith(("nvidia-", "cuda-")) else "cuda-pin-broken"


def _by_table(packages: Packages) -> Findings:
    """torchvision without a pin of its own (conda, distributions): the table of releases that were built together."""
    torch, vision = packages.packages.get("torch"), packages.packages.get("torchvision")
    if torch is None or vision is None or any(re.match(r"torch\b.*[=~]=", r) for r in vision.requires):
        return
    for row in table("torch")["torch"]:
        wanted = row.get("torchvision")
        if wanted and release(torch.version) == release(row["version"]) and minor(vision.version) != minor(wanted):
            yield found(
                "cuda-torch-pin-broken",
                on="torchvision",
                by=f"torch {torch.version}",
                want=f"torchvision=={wanted}",
                name="torchvision",
                have=vision.version,
                python=packages.python,
            )


def _by_tag(packages: Packages, torch: TorchBuild | None) -> Findings:
    """torchvision of another CUDA than torch: its own extension.py refuses to be imported where the majors differ."""
    vision = packages.packages.get("torchvision")
    built = compat.cuda_of_tag("+" + vision.version.partition("+")[2]) if vision is not None else None
    if vision is None or built is None or torch is None or torch.cuda is None:
        return
    if compat.number(built)[0] != compat.number(torch.cuda)[0]:
        yield found(
            "cuda-torch-pin-broken",
            on="torchvision (CUDA)",
            by=f"torchvision {vision.version}",
            want=f"CUDA {built}",
            name="torch",
            have=f"{torch.version} (CUDA {torch.cuda})",
            python=packages.python,
        )


@check("cuda-flashinfer-parts-differ")
def flashinfer_and_its_kernels_are_one_version(packages: Packages, environment: Environment | None) -> Findings:
    main = packages.packages.get("flashinfer-python")
    if main is None:
        raise NotApplicable("no-flashinfer")
    if environment is not None and environment.variables.get("FLASHINFER_DISABLE_VERSION_CHECK"):
        raise NotApplicable("flashinfer-check-off")
    for name in ("flashinfer-cubin", "flashinfer-jit-cache"):
        part = packages.packages.get(name)
        # flashinfer/jit/env.py (0.7): the cubins' version is the same; the cache's may add +cu130.
        if part is None or part.version == main.version:
            continue
        if name == "flashinfer-jit-cache" and part.version.startswith(main.version + "+"):
            continue
        yield found(
            "cuda-flashinfer-parts-differ",
            on=name,
            name=name,
            have=part.version,
            main=main.version,
            python=packages.python,
        )


@check("cuda-flashinfer-other-cuda")
def flashinfers_kernels_are_of_torchs_cuda(packages: Packages, torch: TorchBuild) -> Findings:
    part = packages.packages.get("flashinfer-jit-cache")
    built = compat.cuda_of_tag("+" + part.version.partition("+")[2]) if part is not None else None
    if part is None or built is None:
        raise NotApplicable("no-flashinfer-kernels")
    if torch.cuda is None:
        raise NotApplicable("torch-without-cuda", version=torch.version)
    if compat.number(built)[0] != compat.number(torch.cuda)[0]:
        yield found(
            "cuda-flashinfer-other-cuda",
            on=part.name,
            have=part.version,
            built=built,
            torch=torch.version,
            cuda=torch.cuda,
        )


@check("cuda-wheels-collide")
def wheels_of_two_cudas_share_no_files(packages: Packages) -> Findings:
    groups: dict[str, list[str]] = {}
    for name in packages.packages:
        m = re.fullmatch(r"nvidia-(.+)-cu\d+", name)
        if m is not None and m[1] in SHARE_A_FOLDER:
            groups.setdefault(f"nvidia-{m[1]}", []).append(name)
    for stem, names in sorted(groups.items()):
        if len(names) > 1:
            yield found("cuda-wheels-collide", on=stem, names=sorted(names), python=packages.python)


@check("cuda-metadata-damaged")
def package_records_are_whole(packages: Packages) -> Findings:
    for folder in packages.broken:
        yield found("cuda-metadata-damaged", on=folder, folder=folder, python=packages.python)
    for name, versions in sorted(packages.doubled.items()):
        # Two records of one version (an egg-info beside a dist-info) mislead nobody.
        if len(set(versions)) > 1 and name in packages.packages and not NCCL.match(name):
            folder = packages.packages[name].folder
            yield found(
                "cuda-metadata-damaged",
                on=name,
                folder=f"{folder} ({name}: {', '.join(versions)})",
                python=packages.python,
            )


@check("cuda-pip-leftovers")
def pip_left_nothing_behind(packages: Packages) -> Findings:
    for folder in packages.leftovers:
        yield found("cuda-pip-leftovers", on=folder, folder=folder)


# -- the CUDA libraries --------------------------------------------------------------------------------------------


@check("cuda-library-missing", "cuda-library-shadowed", "cuda-engine-other-cuda")
def cuda_libraries_are_torchs_own(libs: TorchLibs, packages: Packages, torch: TorchBuild) -> Findings:
    for one in libs.libraries:
        if NCCL_LIBRARY.match(one.name):
            continue
        if one.path is None:
            if not libs.cache_readable:
                yield undecided("cuda-library-missing", "loader-cache-unread", name=one.name)
            elif not one.in_site:
                yield found("cuda-library-missing", on=one.name, name=one.name, by=one.by, python=packages.python)
        elif one.how == "LD_LIBRARY_PATH" and one.plain is not None and one.plain != one.path:
            yield from _shadow(one, packages)
    for extension in libs.extensions:
        if extension.lacks and not libs.cache_readable:
            yield undecided("cuda-engine-other-cuda", "loader-cache-unread", name=extension.lacks[0])
        elif extension.lacks:
            yield found(
                "cuda-engine-other-cuda",
                on=extension.path,
                path=extension.path,
                lacks=list(extension.lacks),
                torch=torch.version,
                cuda=torch.cuda or "-",
                python=packages.python,
            )


def _shadow(one: CudaLibrary, packages: Packages) -> Findings:
    """A library from LD_LIBRARY_PATH in front of the wheel's: a fault when it is older than the wheel's."""
    wheel = wheel_of(one.name, packages)
    have = re.search(r"\.so\.(\d+(?:\.\d+)+)\Z", one.real_name or "")
    data = {"name": one.name, "path": one.path, "own": one.plain, "by": one.by}
    want = release(wheel.version) if wheel else None
    got = release(have[1]) if have else None
    if wheel is None or want is None or got is None:
        yield undecided("cuda-library-shadowed", "shadow-version-unread", **data)
    elif got < want[: len(got)]:
        yield found("cuda-library-shadowed", on=one.name, have=have[1] if have else "?", want=wheel.version, **data)
