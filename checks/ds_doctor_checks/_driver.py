"""What several checks of the driver ask of the facts: where am I, which driver is it, which node is bad; it judges nothing."""

from __future__ import annotations

import re

from ds_doctor.probes.device_nodes import DeviceNodes, Node
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.loader import Library, Loader
from ds_doctor.probes.nvml import Gpu, Nvml
from ds_doctor.probes.pci import Pci, PciGpu
from ds_doctor.probes.python_env import Packages, TorchBuild
from ds_doctor.probes.system import System

from ._compat import branch, cuda_of_tag, full_driver, number, oldest_cuda
from ._gpus import architecture_of_pci, gpus_of, line_of, visible

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
    """The GPUs that CUDA would use, or all of them where the variables leave none. Raises as gpus_of does."""
    gpus = gpus_of(nvml)
    return visible(gpus, environment.variables if environment else {}).gpus or gpus


def wrong(name: str, node: Node, majors: dict[str, int]) -> bool:
    """Whether the device file is not the driver's: /dev/null over it, or a number of an earlier boot."""
    if node.kind != "character":
        return True
    if re.fullmatch(r"nvidia(\d+|ctl)", name):
        return node.major != NVIDIA_MAJOR
    return name == "nvidia-uvm" and "nvidia-uvm" in majors and node.major != majors["nvidia-uvm"]


def bad_nodes(nodes: DeviceNodes | None) -> list[str]:
    """The device files that are wrong or refuse this process."""
    if nodes is None:
        return []
    matter = {n: d for n, d in nodes.nodes.items() if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", n)}
    return [n for n, d in matter.items() if wrong(n, d, nodes.majors) or d.usable is False]


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


def is_compat(library: Library) -> bool:
    """Whether it is a forward-compatibility copy, by the folder that all such packages use."""
    return any(re.search(r"/(cuda-)?compat(/|-)", path) for path in (library.path, library.real))


def is_stub(library: Library) -> bool:
    return any("/stubs/" in path for path in (library.path, library.real))


def forward_compatible(gpus: tuple[Gpu, ...]) -> bool | None:
    """Whether the GPUs may run with a newer libcuda: data-centre cards may. None where the names do not tell."""
    lines = {line_of(g.name) for g in gpus}
    if lines & {"geforce", "workstation"}:
        return False
    return True if lines == {"data-center"} else None


def newer_compat(driver: str, loader: Loader | None) -> str | None:
    """The version of the compat copy of libcuda that programs would get, where it is newer than the driver."""
    library = picked_libcuda(loader)
    if library is None or library.version is None or not is_compat(library) or is_stub(library):
        return None
    return library.version if number(library.version) > number(driver) else None


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
