"""CUDA as the engine's Python has it: torch and what must fit it, and what compiling at run time needs."""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.caches import Caches
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System
from ds_doctor.probes.toolchain import Toolchain
from ds_doctor.probes.torch_libs import CudaLibrary, TorchLibs

from . import _compat as compat
from ._cuda_needs import building_with_ninja, compiling, needed, nvcc_version, where
from ._cuda_wheels import SHARE_A_FOLDER, wheel_of
from ._data import table
from ._gpus import gpus_of, seen
from ._pins import Pin, kept, minor, pins, release

# Built against one torch's C++ interface: another minor version ends in undefined symbols or missing operators.
BOUND_TO_TORCH = ("torchvision", "torchaudio", "vllm", "xformers")
# Orin's 8.7 came with CUDA 11.4, everything below it earlier: release notes of the CUDA toolkit.
OLD_CC, OLD_CUDA = (8, 7), "11.4"
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
def torch_has_cuda(torch: TorchBuild, nvml: Nvml | None) -> Findings:
    if torch.cuda is not None:
        return
    gpus_of(nvml)
    rule = "cuda-torch-rocm" if torch.hip is not None else "cuda-torch-cpu-only"
    yield found(rule, on=torch.folder, version=torch.version, hip=torch.hip or "")


@check("cuda-torch-pin-broken", "cuda-pin-broken", "cuda-nvidia-pin-differs")
def pins_are_kept(packages: Packages, system: System | None) -> Findings:
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


def _rule_of(pin: Pin, installed: str) -> str:
    if pin.name == "torch" and pin.by.name in BOUND_TO_TORCH and minor(installed) != minor(pin.version):
        return "cuda-torch-pin-broken"
    return "cuda-nvidia-pin-differs" if pin.name.startswith(("nvidia-", "cuda-")) else "cuda-pin-broken"


def _by_table(packages: Packages) -> Findings:
    """torchvision without a pin of its own (conda, distributions): the table of releases that were built together."""
    torch, vision = packages.packages.get("torch"), packages.packages.get("torchvision")
    if torch is None or vision is None or any(r.startswith("torch") for r in vision.requires):
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


# -- the CUDA toolkit ----------------------------------------------------------------------------------------------


@check("cuda-home-list", "cuda-home-missing", "cuda-home-no-nvcc")
def cuda_home_is_a_toolkit(
    toolchain: Toolchain, packages: Packages | None, environment: Environment | None
) -> Findings:
    if toolchain.how not in ("CUDA_HOME", "CUDA_PATH"):
        return
    value, name = toolchain.cuda_home or "", toolchain.how
    if toolchain.cuda_home_exists:
        if toolchain.nvcc is None:
            yield found("cuda-home-no-nvcc", on=f"{name}={value}", variable=name, value=value)
    elif ":" in value:
        yield found("cuda-home-list", on=f"{name}={value}", variable=name, value=value)
    else:
        yield found("cuda-home-missing", on=f"{name}={value}", variable=name, value=value)


@check("cuda-nvcc-missing")
def nvcc_is_there_for_what_compiles(toolchain: Toolchain, packages: Packages) -> Findings:
    who = compiling(packages)
    if toolchain.nvcc is not None:
        return
    if toolchain.how in ("CUDA_HOME", "CUDA_PATH"):
        raise NotApplicable("cuda-home-told", variable=toolchain.how)
    yield found("cuda-nvcc-missing", on=", ".join(who), who=who, looked=toolchain.cuda_home or "/usr/local/cuda")


@check("cuda-nvcc-other-major")
def nvcc_is_of_torchs_cuda(toolchain: Toolchain, torch: TorchBuild, packages: Packages) -> Findings:
    compiling(packages)
    version = nvcc_version(toolchain)
    if torch.cuda is None:
        raise NotApplicable("torch-without-cuda", version=torch.version)
    if compat.number(version)[0] != compat.number(torch.cuda)[0]:
        yield found(
            "cuda-nvcc-other-major",
            on=toolchain.nvcc,
            nvcc=version,
            cuda=torch.cuda,
            path=toolchain.nvcc or "",
            torch=torch.version,
        )


@check("cuda-nvcc-without-gpu")
def nvcc_knows_the_gpus(
    toolchain: Toolchain, packages: Packages, nvml: Nvml | None, environment: Environment | None
) -> Findings:
    compiling(packages)
    version = nvcc_version(toolchain)
    for cc in dict.fromkeys(g.cc for g in seen(nvml, environment, lambda g: g.cc)):
        dropped = compat.dropped_by(cc)
        if dropped is not None:
            if compat.number(version)[0] >= dropped:
                yield found("cuda-nvcc-without-gpu", on=toolchain.nvcc, nvcc=version, cc=cc, span=f"< {dropped}.0")
            continue
        known = compat.oldest_cuda(cc)
        if known is None and compat.number(cc) > OLD_CC:
            raise Undecided("cc-unknown", cc=cc)
        oldest, sure = known or (OLD_CUDA, False)
        if compat.number(version) < compat.number(oldest):
            if not sure:
                raise Undecided("cc-unknown", cc=cc)
            yield found("cuda-nvcc-without-gpu", on=toolchain.nvcc, nvcc=version, cc=cc, span=f">= {oldest}")


@check("cuda-gcc-too-new")
def nvcc_accepts_the_host_compiler(
    toolchain: Toolchain, packages: Packages, environment: Environment | None
) -> Findings:
    compiling(packages)
    variables = environment.variables if environment else {}
    flags = variables.get("NVCC_PREPEND_FLAGS", "") + " " + variables.get("NVCC_APPEND_FLAGS", "")
    if variables.get("NVCC_CCBIN"):
        raise NotApplicable("host-compiler-set", flags=f"NVCC_CCBIN={variables['NVCC_CCBIN']}")
    if "-ccbin" in flags or "compiler-bindir" in flags or "allow-unsupported-compiler" in flags:
        raise NotApplicable("host-compiler-set", flags=flags.strip())
    newest = toolchain.nvcc_newest_gcc
    if toolchain.nvcc is None:
        raise NotApplicable("no-nvcc")
    if newest is None or toolchain.cc.path is None or (toolchain.cc.gcc is None and toolchain.cc.clang is None):
        raise Undecided("compiler-version-unread")
    if toolchain.cc.gcc is not None and toolchain.cc.gcc > newest:
        yield found(
            "cuda-gcc-too-new",
            on=toolchain.cc.path,
            have=toolchain.cc.gcc,
            newest=newest,
            nvcc=toolchain.nvcc_version or "?",
        )


# -- what else compiling needs -------------------------------------------------------------------------------------


@check("cuda-no-c-compiler", "cuda-no-python-header")
def triton_can_build_its_launcher(toolchain: Toolchain, packages: Packages) -> Findings:
    triton = packages.packages.get("triton")
    if triton is None:
        raise NotApplicable("no-triton")
    if toolchain.cc.path is None:
        cc = f"CC={toolchain.cc.asked}" if toolchain.cc.variable else "gcc, clang"
        yield found("cuda-no-c-compiler", on=packages.python, triton=triton.version, looked=cc)
    if toolchain.python_header_missing is not None:
        yield found(
            "cuda-no-python-header",
            on=packages.python,
            file=toolchain.python_header_missing,
            python=packages.version,
            triton=triton.version,
        )
    elif toolchain.python_header is None:
        yield undecided("cuda-no-python-header", "python-header-unseen")


@check("cuda-no-ninja")
def ninja_is_on_path(toolchain: Toolchain, packages: Packages) -> Findings:
    who = building_with_ninja(packages)
    if toolchain.ninja is None:
        beside = toolchain.ninja_beside_python
        yield found("cuda-no-ninja", on=packages.python, who=who, python=packages.python, beside=beside or "-")


@check("cuda-cache-unwritable", "cuda-cache-noexec", "cuda-build-folder-unwritable")
def caches_take_compiled_kernels(caches: Caches, packages: Packages) -> Findings:
    folders = needed(packages)
    for rule in ("cuda-cache-unwritable", "cuda-cache-noexec", "cuda-build-folder-unwritable"):
        if not folders:
            yield not_applicable(rule, "nothing-compiles")
    at_home = any(f.what in folders - {"torch-extensions"} and f.writable is False for f in caches.folders)
    for folder in caches.folders:
        if folder.what not in folders:
            continue
        if folder.what == "torch-extensions" and folder.variable is None and folder.writable is False and at_home:
            yield not_applicable("cuda-build-folder-unwritable", "cache-says")
            continue
        rule = "cuda-build-folder-unwritable" if folder.what == "torch-extensions" else "cuda-cache-unwritable"
        if folder.writable is None:
            yield undecided(rule, "folder-unseen", path=folder.path)
        elif not folder.writable:
            yield found(rule, on=folder.path, **where(folder))
        elif folder.no_exec:
            yield found("cuda-cache-noexec", on=folder.path, **where(folder))


@check("cuda-home-folder-unknown")
def the_user_has_a_home(caches: Caches, packages: Packages) -> Findings:
    if not needed(packages):
        raise NotApplicable("nothing-compiles")
    if caches.home is None:
        yield found("cuda-home-folder-unknown", on="HOME")


@check("cuda-tmpdir-unusable")
def tmpdir_is_a_writable_folder(caches: Caches) -> Findings:
    for folder in caches.folders:
        if folder.what == "tmp" and folder.variable is not None and (not folder.exists or folder.writable is False):
            yield found(
                "cuda-tmpdir-unusable",
                on=f"{folder.variable}={folder.path}",
                variable=folder.variable,
                path=folder.path,
            )
