"""GPU architectures: do the lists that steer compilation, and torch's own kernels, cover the GPUs that are here?"""

from __future__ import annotations

from collections.abc import Iterable

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.nvml import Gpu, Nvml
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.torch_libs import TorchLibs

from ._arch import Arch, capability, cmake_list, compiled, flashinfer_list, torch_list
from ._data import table
from ._gpus import seen


@check("arch-list-invalid")
def torch_understands_the_arch_list(environment: Environment, torch: TorchBuild) -> Findings:
    value = _torch_value(environment)
    if value is None:
        return
    for entry in torch_list(value, torch.known_arches, torch.named_arches)[1]:
        yield found("arch-list-invalid", on="TORCH_CUDA_ARCH_LIST", entry=entry, value=value, torch=torch.version)


@check("arch-list-misses-gpu")
def arch_list_covers_the_gpus(environment: Environment, torch: TorchBuild, nvml: Nvml | None) -> Findings:
    value = _torch_value(environment)
    if value is None:
        return
    good, bad = torch_list(value, torch.known_arches, torch.named_arches)
    if bad:
        raise NotApplicable("arch-list-refused", variable="TORCH_CUDA_ARCH_LIST", entry=bad[0])
    gpus = seen(nvml, environment, lambda g: g.cc)
    for cc, names in _uncovered(good, gpus):
        yield found("arch-list-misses-gpu", on="TORCH_CUDA_ARCH_LIST", value=value, cc=cc, gpus=names, want=_want(gpus))


@check("arch-flashinfer-list-invalid")
def flashinfer_understands_its_arch_list(environment: Environment, packages: Packages) -> Findings:
    value = _flashinfer_value(environment, packages)
    if value is None:
        return
    for entry in flashinfer_list(value)[1]:
        yield found("arch-flashinfer-list-invalid", on="FLASHINFER_CUDA_ARCH_LIST", entry=entry, value=value)


@check("arch-flashinfer-list-misses-gpu")
def flashinfer_arch_list_covers_the_gpus(environment: Environment, packages: Packages, nvml: Nvml | None) -> Findings:
    value = _flashinfer_value(environment, packages)
    if value is None:
        return
    good, bad = flashinfer_list(value)
    if bad:
        raise NotApplicable("arch-list-refused", variable="FLASHINFER_CUDA_ARCH_LIST", entry=bad[0])
    gpus = seen(nvml, environment, lambda g: g.cc)
    for cc, names in _uncovered(good, gpus):
        yield found("arch-flashinfer-list-misses-gpu", on="FLASHINFER_CUDA_ARCH_LIST", value=value, cc=cc, gpus=names)


@check("arch-cmake-list")
def cmake_arch_list_covers_the_gpus(environment: Environment, nvml: Nvml | None) -> Findings:
    value = environment.variables.get("CUDAARCHS")
    read = cmake_list(value) if value else None
    if read is None:
        return
    good, bad = read
    if bad:
        yield found("arch-cmake-list", on="CUDAARCHS", value=value, lacks=bad[0] or '""')
        return
    for cc, _ in _uncovered(good, seen(nvml, environment, lambda g: g.cc)):
        yield found("arch-cmake-list", on="CUDAARCHS", value=value, lacks=cc)


@check("arch-torch-misses-gpu", "arch-torch-ptx-only")
def torch_was_built_for_the_gpus(torch: TorchBuild, nvml: Nvml | None, environment: Environment | None) -> Findings:
    if torch.cuda is None:
        raise NotApplicable("torch-without-cuda", version=torch.version)
    gpus = seen(nvml, environment, lambda g: g.cc)
    names, source = _torch_arches(torch)
    arches = compiled(names)
    for cc, on in _uncovered(arches, gpus):
        yield found("arch-torch-misses-gpu", on=on, cc=cc, torch=torch.version, arches=list(names), source=source)
    machine_code = [a for a in arches if not a.ptx]
    lost = {cc for cc, _ in _uncovered(arches, gpus)}
    for cc, on in _uncovered(machine_code, gpus):
        if cc not in lost:
            yield found("arch-torch-ptx-only", on=on, on_gpu=on, cc=cc, torch=torch.version, arches=list(names))


@check("arch-engine-misses-gpu")
def vllm_was_built_for_the_gpus(libs: TorchLibs, nvml: Nvml | None, environment: Environment | None) -> Findings:
    extensions = [e for e in libs.extensions if e.package == "vllm"]
    if not extensions:
        raise NotApplicable("no-vllm")
    gpus = seen(nvml, environment, lambda g: g.cc)
    known = [e for e in extensions if e.arches]
    if not known:
        raise Undecided("extension-arches-unread", path=extensions[0].path)
    # Some of the extensions hold kernels of a few architectures alone, on purpose: only what none of them covers is lost.
    names = tuple(dict.fromkeys(a for e in known for a in e.arches or ()))
    lost = _uncovered(compiled(names), gpus)
    unread = next((e.path for e in extensions if e.arches is None), None)
    if lost and unread is not None:
        raise Undecided("extension-arches-unread", path=unread)
    for cc, on in lost:
        yield found("arch-engine-misses-gpu", on=on, cc=cc, path=known[0].path, arches=list(names))


def _torch_value(environment: Environment) -> str | None:
    """TORCH_CUDA_ARCH_LIST where it says something: unset, empty and `native` mean the visible GPUs."""
    value = environment.variables.get("TORCH_CUDA_ARCH_LIST")
    return None if value in (None, "", "native") else value


def _flashinfer_value(environment: Environment, packages: Packages) -> str | None:
    """FLASHINFER_CUDA_ARCH_LIST; also empty it is read, unlike torch's."""
    value = environment.variables.get("FLASHINFER_CUDA_ARCH_LIST")
    if value is not None and "flashinfer-python" not in packages.packages:
        raise NotApplicable("no-flashinfer")
    return value


def _uncovered(arches: Iterable[Arch], gpus: Iterable[Gpu]) -> list[tuple[str, str]]:
    """(capability, the GPUs that have it) for every one that none of the targets runs on."""
    every = list(arches)
    lost: dict[str, list[str]] = {}
    for gpu in gpus:
        cc = capability(gpu.cc)
        if cc is None:
            raise Undecided("no-capability", gpu=gpu.index)
        if not any(a.runs_on(cc) for a in every):
            lost.setdefault(gpu.cc, []).append(str(gpu.index))
    return [(cc, "GPU " + ", ".join(on)) for cc, on in lost.items()]


def _want(gpus: Iterable[Gpu]) -> str:
    return ";".join(sorted({g.cc for g in gpus}, key=lambda cc: capability(cc) or (0, 0)))


def _torch_arches(torch: TorchBuild) -> tuple[tuple[str, ...], str]:
    """What torch was compiled for, and where that stands."""
    if torch.arches:
        return torch.arches, "libtorch_cuda.so"
    if torch.version.partition("+")[2] == f"cu{(torch.cuda or '').replace('.', '')}":
        release = _release(torch.version)
        rows = [r for r in table("torch")["arches"] if r["cuda"] == torch.cuda and release >= _release(r["from_torch"])]
        if rows:  # of every machine together: the fact does not say which one this is
            return tuple(dict.fromkeys(a for r in rows for a in r["arches"])), rows[0]["source"]
    raise Undecided("torch-arches-unread", folder=torch.folder)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.partition("+")[0].split(".") if p.isdigit())
