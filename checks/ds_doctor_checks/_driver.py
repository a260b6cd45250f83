"""What several checks of the driver ask of the facts: where am I, which driver is it, which node is bad; it judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ds_doctor.api import Findings, not_applicable
from ds_doctor.probes.device_nodes import DeviceNodes, Node
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import DriverGpus, KernelModule
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.loader import Library, Loader
from ds_doctor.probes.nvml import Gpu, Nvml
from ds_doctor.probes.pci import Pci, PciGpu
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System

from ._compat import branch, cuda_of_tag, full_driver, number, oldest_cuda
from ._gpus import architecture_of_pci, line_of, seen

NVIDIA_MAJOR = 195  # of /dev/nvidiactl and /dev/nvidia<n>: NV_MAJOR_DEVICE_NUMBER in the kernel module's nv.h
NEWER_THAN_HOPPER = ("Blackwell",)
OTHER_DRIVERS = ("nouveau", "nova", "nova_core", "NovaCore")


def in_container(system: System | None) -> bool:
    return system is not None and system.container not in (None, "wsl")


def on_wsl(system: System | None, nodes: DeviceNodes | None = None) -> bool:
    """Under Windows' WSL the driver is Windows': no kernel module, /dev/dxg, libraries in /usr/lib/wsl/lib."""
    if nodes is not None and "dxg" in nodes.nodes:
        return True
    return system is not None and (system.container == "wsl" or "microsoft" in system.kernel.lower())


def on_tegra(nodes: DeviceNodes | None) -> bool:
    """Whether the GPU is the integrated one of a Jetson: no nvidia-uvm, a libcuda.so.1.1 that carries no driver's version."""
    return nodes is not None and "nvmap" in nodes.nodes


def has_nodes(nodes: DeviceNodes) -> bool:
    """Whether any GPU's device file is there."""
    return any(re.fullmatch(r"nvidia(\d+|ctl)|dxg|nvmap", name) for name in nodes.nodes)


def hidden(nodes: DeviceNodes | None, system: System | None) -> bool:
    """Whether this is a container to which no GPU was handed: what the driver then says has this cause."""
    return nodes is not None and in_container(system) and not has_nodes(nodes)


def here(pci: Pci) -> tuple[PciGpu, ...]:
    """The GPUs that are not handed to virtual machines, whole or in parts."""
    return tuple(g for g in pci.gpus if g.driver != "vfio-pci" and not g.virtual)


def missing_nodes(nodes: DeviceNodes | None, kernel: KernelModule | None, system: System | None) -> list[str]:
    """The device files without which NVML cannot start and that nothing makes when they are wanted."""
    if nodes is None or kernel is None or "nvmap" in nodes.nodes:
        return []
    made = nodes.on_demand and not in_container(system)
    return [] if made or "nvidiactl" in nodes.nodes else ["nvidiactl"]


def withheld(capability: str, environment: Environment | None, system: System | None) -> bool:
    """Whether NVIDIA_DRIVER_CAPABILITIES keeps the libraries of a capability (compute, utility) out of this container."""
    given = environment.variables.get("NVIDIA_DRIVER_CAPABILITIES", "") if environment is not None else ""
    named = {part.strip() for part in given.split(",") if part.strip()}
    return in_container(system) and bool(named) and "all" not in named and capability not in named


def driver_of(kernel: KernelModule | None, nvml: Nvml | None) -> str | None:
    """The version of the driver that runs; None where nothing tells."""
    if kernel is not None:
        return kernel.version
    return nvml.driver if nvml is not None else None


def used(nvml: Nvml | None, environment: Environment | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA would use, or all of them where the variables leave none. Raises as `seen` does."""
    return seen(nvml, environment, lambda g: g.name)


def untold(rule: str, values: Iterable[object]) -> Findings:
    """The rule does not apply where no GPU says what it is about: GeForce cards have no ECC, Jetsons little of all this."""
    if all(value is None for value in values):
        yield not_applicable(rule, "gpus-do-not-say")


def wrong(name: str, node: Node, majors: dict[str, int]) -> bool:
    """Whether the device file is not the driver's: /dev/null over it, or a number of an earlier boot."""
    if node.kind != "character":
        return True
    if re.fullmatch(r"nvidia(\d+|ctl)", name):
        return node.major != NVIDIA_MAJOR
    return name == "nvidia-uvm" and "nvidia-uvm" in majors and node.major != majors["nvidia-uvm"]


def held_back(nvml: Nvml | None, known: DriverGpus | None, nodes: DeviceNodes | None) -> set[str]:
    """The GPUs of the kernel module that have no device file here and that NVML, which sees others, does not see: jobs
    in a file system of their own (enroot, pyxis, systemd) are given some of the GPUs so, and nothing marks a container."""
    if nvml is None or nvml.error is not None or not nvml.gpus or known is None or nodes is None:
        return set()
    seen = {g.bdf for g in nvml.gpus}
    without = {g.bdf for g in known.gpus if g.minor is not None and f"nvidia{g.minor}" not in nodes.nodes}
    return without - seen


def bad_nodes(nodes: DeviceNodes | None) -> list[str]:
    """The device files that are wrong or refuse this process."""
    if nodes is None:
        return []
    matter = {n: d for n, d in nodes.nodes.items() if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", n)}
    return [n for n, d in matter.items() if wrong(n, d, nodes.majors) or d.usable is False]


# -- a container that is to be started -------------------------------------------------------------------------------


def named_for(launch: Launch) -> tuple[str, tuple[str, ...]] | None:
    """(what names them, the GPUs that are named for the container); None where all are handed in, or no word is said."""
    if launch.container is not None and launch.container.gpus is not None:
        return "--gpus" if launch.container.program == "docker" else "--device", launch.container.gpus
    value = launch.environment.get("NVIDIA_VISIBLE_DEVICES", "").strip()
    if value.lower() in ("", "all", "void", "none") or value.startswith("/"):
        return None
    return "NVIDIA_VISIBLE_DEVICES", tuple(e.strip() for e in value.split(",") if e.strip())


def gpus_named(gpus: tuple[Gpu, ...], entries: tuple[str, ...]) -> tuple[tuple[Gpu, ...] | None, list[str]]:
    """(the GPUs in the order of the bus, as the container numbers them; the entries that name none), as the NVIDIA
    container toolkit reads them: an index or a UUID of NVML, for a MIG device `GPU:device` or its UUID. The first is
    None where some name none."""
    chosen: list[Gpu] = []
    absent: list[str] = []
    for entry in entries:
        word = entry.partition("::")[0]  # the device plugin's mark of a shared GPU
        owner = word.partition(":")[0] if re.fullmatch(r"[0-9]+:[0-9]+", word) else word
        fits = [
            g
            for g in gpus
            if owner in (str(g.index), g.uuid)
            or word in g.mig_uuids
            or (g.lost is not None and not word.isdigit())  # it tells no UUID, and may be the one
            or (word.startswith("MIG-GPU-") and g.uuid and word[len("MIG-") :].startswith(g.uuid))
        ]
        if word != "all" and not fits:
            absent.append(entry)
        chosen += fits if word != "all" else gpus
    return (None if absent else tuple(g for g in gpus if g in chosen)), absent


# -- which GPUs the driver takes -----------------------------------------------------------------------------------------


def library_version(loader: Loader | None) -> str | None:
    """The version of the installed driver by its libraries; "" where they are there and do not say it."""
    picked = loader.picked.get("libnvidia-ml.so.1") if loader is not None else None
    return (picked.version or "") if picked is not None else None


def oldest_branch() -> int:
    """The first branch that knows the GPUs after Hopper; 0 where the tables do not tell."""
    first = oldest_cuda("10.0")
    full = full_driver(first[0]) if first is not None else None
    return branch(full) if full is not None else 0


def too_old_for(gpus: tuple[PciGpu, ...], driver: str | None) -> tuple[PciGpu, ...]:
    """The GPUs that are newer than the driver."""
    if not driver or branch(driver) >= oldest_branch():
        return ()
    return tuple(g for g in gpus if architecture_of_pci(g.device) in NEWER_THAN_HOPPER)


def refused(gpu: PciGpu, kernel: KernelModule) -> bool:
    """Whether the loaded module leaves the GPU alone: it is too old for it, or is the closed one, which takes no Blackwell."""
    if architecture_of_pci(gpu.device) not in NEWER_THAN_HOPPER:
        return False
    return bool(too_old_for((gpu,), kernel.version)) or kernel.flavour == "proprietary"


# -- libcuda ---------------------------------------------------------------------------------------------------------


def picked_libcuda(loader: Loader | None) -> Library | None:
    return loader.picked.get("libcuda.so.1") if loader is not None else None


def version_of(library: Library) -> str | None:
    """The driver's version in a library's file name; None for numbers of another kind (libcuda.so.1.1 of Jetson and WSL)."""
    version = library.version
    return version if version is not None and re.match(r"[0-9]{3,}\.", version) else None


def is_compat(library: Library) -> bool:
    """Whether it is a forward-compatibility copy, by the folder that all such packages use."""
    return any(re.search(r"/(cuda-)?compat(/|-)", path) for path in (library.path, library.real))


def is_stub(library: Library) -> bool:
    return any("/stubs/" in path for path in (library.path, library.real))


def forward_compatible(gpus: tuple[Gpu, ...]) -> bool | None:
    """Whether the GPUs may run with a newer libcuda: data-centre cards and Jetsons may. None where the names do not tell."""
    lines = {line_of(g.name) for g in gpus}
    if "geforce" in lines:  # of workstation cards selected ones may
        return False
    return True if lines and lines <= {"data-center", "jetson"} else None


def newer_compat(driver: str, loader: Loader | None) -> str | None:
    """The version of the compat copy of libcuda that programs would get, where it is newer than the driver."""
    library = picked_libcuda(loader)
    version = version_of(library) if library is not None else None
    if library is None or version is None or not is_compat(library) or is_stub(library):
        return None
    return version if number(version) > number(driver) else None


def vllm_brings_compat(environment: Environment | None, packages: Packages | None) -> bool:
    """Whether vLLM puts a compat folder in front of LD_LIBRARY_PATH by itself: vllm/env_override.py (0.33.0)."""
    value = environment.variables.get("VLLM_ENABLE_CUDA_COMPATIBILITY", "") if environment is not None else ""
    return value.strip().lower() in ("1", "true") and packages is not None and "vllm" in packages.packages


def cuda_programs(torch: TorchBuild | None, packages: Packages | None) -> list[tuple[str, str]]:
    """(name and version, CUDA) of torch and of the engines whose wheels say their CUDA in the version."""
    found = []
    if torch is not None and torch.cuda:
        found.append((f"torch {torch.version}", torch.cuda))
    for name in ("vllm", "sglang", "sgl-kernel", "sglang-kernel"):
        package = packages.packages.get(name) if packages is not None else None
        cuda = cuda_of_tag("+" + package.version.partition("+")[2]) if package and "+" in package.version else None
        if package and cuda:
            found.append((f"{name} {package.version}", cuda))
    return found
