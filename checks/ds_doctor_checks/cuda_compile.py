"""What run-time compilation needs: CUDA_HOME, nvcc, a host compiler, Python.h, ninja, and caches that can be written."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.caches import Caches
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.toolchain import Toolchain

from . import _compat as compat
from ._cuda_needs import building_with_ninja, compiling, needed, nvcc_version, where
from ._gpus import seen

FAMILY = "cuda"
# Orin's 8.7 came with CUDA 11.4, everything below it earlier: release notes of the CUDA toolkit.
OLD_CC, OLD_CUDA = (8, 7), "11.4"


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


@check("cuda-no-c-compiler", "cuda-no-python-header")
def triton_can_build_its_launcher(toolchain: Toolchain, packages: Packages) -> Findings:
    triton = packages.packages.get("triton")
    if triton is None:
        raise NotApplicable("no-triton")
    if toolchain.cc.unseen:
        yield undecided("cuda-no-c-compiler", "not-under-root")
    elif toolchain.cc.path is None:
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
