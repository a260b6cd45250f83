"""How NVML's and the kernel's words on links, peers and fabrics are to be read; it judges nothing."""

from __future__ import annotations

from ds_doctor.probes.iommu import GpuPath
from ds_doctor.probes.nvml import Gpu, Nvml, Pair

# nvmlGpuP2PStatus_t
OK = 0
UNKNOWN = 6
P2P_WORDS = {  # as `nvidia-smi topo -p2p` abbreviates and explains them
    1: "CNS, chipset not supported",
    2: "GNS, GPU not supported",
    3: "TNS, topology not supported",
    4: "DR, disabled by regkey",
    5: "NS, not supported",
}
SYSTEM = 50  # NVML_TOPOLOGY_SYSTEM: only over the link between the sockets
FABRIC_STATES = {1: "not started", 2: "in progress"}
COMPLETED = 3

# nvmlGpuFabricInfo healthMask: (shift, width) of each field; in two-bit fields 1 is true, 2 false, 0 not supported.
DEGRADED_BANDWIDTH, ROUTE_RECOVERY, ROUTE_UNHEALTHY, ACCESS_TIMEOUT = 0, 2, 4, 6
CONFIGURATION_SHIFT = 8
CONFIGURATIONS = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
# PCI Express ACS control bits that send peer traffic up to the root: source validation 0, request redirect 2,
# completion redirect 3, upstream forwarding 4, egress control 5.
ACS_REDIRECT = 0b101100


def active_links(gpu: Gpu) -> int:
    return sum(link.active for link in gpu.nvlinks)


def link_peers(gpu: Gpu) -> set[str]:
    """What the active links lead to; one name for all switches."""
    return {"switch" if link.remote_type == "switch" else link.remote_bdf or "?" for link in gpu.nvlinks if link.active}


def pairs_of(nvml: Nvml, gpus: tuple[Gpu, ...]) -> list[tuple[Pair, Gpu, Gpu]]:
    by_index = {g.index: g for g in gpus}
    return [(p, by_index[p.a], by_index[p.b]) for p in nvml.pairs if p.a in by_index and p.b in by_index]


def linked(pair: Pair, a: Gpu, b: Gpu) -> bool:
    """Whether NVLink leads from one to the other: directly, by NVML's word, or over switches that both reach."""
    return pair.links > 0 or pair.nvlink == OK or ("switch" in link_peers(a) and "switch" in link_peers(b))


def p2p_code(pair: Pair) -> int | None:
    """The worse of reading and writing; None where NVML does not say (6: it says that it does not know)."""
    codes = [c for c in (pair.read, pair.write) if c is not None]
    return None if not codes or UNKNOWN in codes else max(codes)


def pair_label(a: Gpu, b: Gpu) -> str:
    return f"GPU {a.index} - GPU {b.index}"


def health_words(mask: int) -> tuple[list[str], list[str]]:
    """(faults, weaknesses) that a fabric's health mask names."""
    configuration = CONFIGURATIONS.get(mask >> CONFIGURATION_SHIFT & 0xF)
    bad = ["route unhealthy"] if mask >> ROUTE_UNHEALTHY & 3 == 1 else []
    bad += [f"configuration: {configuration}"] if configuration else []
    weak = {
        "degraded bandwidth": DEGRADED_BANDWIDTH,
        "route recovery in progress": ROUTE_RECOVERY,
        "access timeout recovery in progress": ACCESS_TIMEOUT,
    }
    return bad, [word for word, shift in weak.items() if mask >> shift & 3 == 1]


def switches_between(a: GpuPath | None, b: GpuPath | None) -> list[str]:
    """The bridges through which peer traffic of the two would pass if none of them sent it up: those above either GPU
    below the nearest one that they share. Empty when they share none but a root."""
    if a is None or b is None:
        return []
    common = 0
    while common < min(len(a.bridges), len(b.bridges)) and a.bridges[common] == b.bridges[common]:
        common += 1
    return [*a.bridges[common:], *b.bridges[common:]] if common else []
