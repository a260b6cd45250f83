"""NVLink, NVSwitch and peer access: can the GPUs of one engine reach each other as the machine is built?"""

from __future__ import annotations

from collections import Counter

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.fabric import NvFabric
from ds_doctor.probes.iommu import Iommu
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nvml import Gpu, Nvml
from ds_doctor.probes.system import System

from ._data import table
from ._gpus import gpus_of, label
from ._nvlink import (
    ACS_REDIRECT,
    COMPLETED,
    FABRIC_STATES,
    OK,
    P2P_WORDS,
    SYSTEM,
    active_links,
    health_words,
    link_peers,
    linked,
    p2p_code,
    pair_label,
    pairs_of,
    switches_between,
)
from ._workers import groups, visible_gpus, workers


def _several(nvml: Nvml | None, environment: Environment | None, launch: Launch | None) -> tuple[Gpu, ...]:
    """The visible GPUs that have links of their own; NotApplicable when there are fewer than two."""
    gpus = visible_gpus(nvml, environment, launch)
    if len(gpus) < 2:
        raise NotApplicable("one-gpu", count=len(gpus))
    return gpus


# -- links -----------------------------------------------------------------------------------------------------------


@check("nvlink-inactive", "nvlink-unbridged", "nvlink-slow", "nvlink-fewer")
def links_are_up_as_on_the_siblings(
    nvml: Nvml | None,
    environment: Environment | None,
    launch: Launch | None,
    fabric: NvFabric | None,
    system: System | None,
) -> Findings:
    gpus = _several(nvml, environment, launch)
    unmanaged = _is_unmanaged(fabric, gpus, system)
    judged = [g for g in gpus if not g.mig]
    if not judged:
        raise NotApplicable("all-mig")
    for gpu in judged:
        siblings = [g for g in gpus_of(nvml) if g.name == gpu.name and not g.mig and g.index != gpu.index]
        best = max(siblings, key=active_links, default=None)
        have = active_links(gpu)
        if best is not None and have < active_links(best):
            down = [str(link.link) for link in gpu.nvlinks if not link.active]
            # Cards with bridges: one without a bridge is built so, not broken. A mesh or a switch reaches everybody.
            bridged = "switch" not in link_peers(best) and len(link_peers(best)) == 1
            if have == 0 and bridged:
                yield found("nvlink-unbridged", on=label(gpu), others=active_links(best), name=gpu.name)
            elif bridged and _bridged_alike(gpu, siblings):
                # Both ends of a bridge see as many links: there are fewer bridges on this pair, none is broken.
                yield found("nvlink-fewer", on=label(gpu), have=have, want=active_links(best), name=gpu.name)
            else:
                yield found(
                    "nvlink-inactive",
                    on=label(gpu),
                    have=have,
                    want=active_links(best),
                    down=", ".join(down) or "-",
                    sibling=f"GPU {best.index}",
                )
        yield from _speed(gpu, siblings)
        # No link at all is also how a board looks whose fabric is not up, which is another rule's fault.
        waits = unmanaged or (gpu.fabric is not None and gpu.fabric.state in FABRIC_STATES)
        if active_links(gpu) or not waits:
            yield from _as_built(gpu, siblings)


def _speed(gpu: Gpu, siblings: list[Gpu]) -> Findings:
    speeds = [s.speed_mbps for g in [gpu, *siblings] for s in g.nvlinks if s.active and s.speed_mbps]
    want = max(speeds, default=0)
    slow = [s for s in gpu.nvlinks if s.active and s.speed_mbps and s.speed_mbps < want]
    if slow:
        yield found(
            "nvlink-slow",
            on=label(gpu),
            links=", ".join(str(s.link) for s in slow),
            have_mbps=min(s.speed_mbps or 0 for s in slow),
            want_mbps=want,
        )


def _bridged_alike(gpu: Gpu, siblings: list[Gpu]) -> bool:
    peers = link_peers(gpu)
    other = next((s for s in siblings if peers == {s.bdf}), None)
    return other is not None and active_links(other) == active_links(gpu)


def _as_built(gpu: Gpu, siblings: list[Gpu]) -> Findings:
    """Against the board's own number, where all siblings agree: a single odd one is told above."""
    board = next((b for b in table("nvlink")["board"] if b["name"] == gpu.name), None)
    have = active_links(gpu)
    if board is None or have >= board["links"] or any(active_links(s) > have for s in siblings):
        return
    yield found("nvlink-fewer", on=label(gpu), have=have, want=board["links"], name=gpu.name)


# -- peers -----------------------------------------------------------------------------------------------------------


@check("nvlink-no-p2p", "nvlink-pcie-no-p2p", "nvlink-none")
def gpus_reach_each_other(
    nvml: Nvml | None,
    environment: Environment | None,
    launch: Launch | None,
    fabric: NvFabric | None,
    system: System | None,
) -> Findings:
    gpus = _several(nvml, environment, launch)
    if _is_unmanaged(fabric, gpus, system):
        raise NotApplicable("manager-says")  # without it GPUs on switches have neither links nor peers
    if all(g.mig for g in gpus):
        raise NotApplicable("all-mig")
    assert nvml is not None
    pairs = [p for p in pairs_of(nvml, gpus) if not p[1].mig and not p[2].mig]
    if not pairs:
        raise Undecided("no-pairs")
    silent = [pair_label(a, b) for p, a, b in pairs if p2p_code(p) is None]
    joined = [(p, a, b) for p, a, b in pairs if linked(p, a, b)]
    pcie: dict[str, list[str]] = {}
    for pair, a, b in pairs:
        code = p2p_code(pair) or OK
        if code != OK:
            why = P2P_WORDS.get(code, str(code))
            if linked(pair, a, b):
                yield found("nvlink-no-p2p", on=pair_label(a, b), why=why)
            else:
                pcie.setdefault(why, []).append(pair_label(a, b))
    for why, where in pcie.items():
        yield found("nvlink-pcie-no-p2p", on=", ".join(where[:8]), pairs=len(where), why=why)
    if workers(launch, len(gpus)).group < 2:
        yield not_applicable("nvlink-none", "no-group")
    elif not joined:
        yield found("nvlink-none", gpus=len(gpus))
    if silent:
        for rule in ("nvlink-no-p2p", "nvlink-pcie-no-p2p"):
            yield undecided(rule, "no-p2p-answer", pairs=", ".join(silent[:4]))


@check("nvlink-cross-socket")
def a_group_stays_on_one_socket(
    nvml: Nvml | None, environment: Environment | None, launch: Launch | None, iommu: Iommu | None
) -> Findings:
    gpus = _several(nvml, environment, launch)
    of = workers(launch, len(gpus))
    if of.group < 2:
        raise NotApplicable("no-group")
    assert nvml is not None
    nodes = {p.bdf: p.numa_node for p in iommu.gpus} if iommu else {}
    for group in groups(gpus, of):
        apart: list[str] = []
        for pair, a, b in pairs_of(nvml, group):
            node_a = a.numa_node if a.numa_node is not None else nodes.get(a.bdf)
            node_b = b.numa_node if b.numa_node is not None else nodes.get(b.bdf)
            other = node_a is not None and node_b is not None and node_a != node_b
            if (other or pair.ancestor == SYSTEM) and not linked(pair, a, b):
                apart.append(pair_label(a, b))
        if apart:
            on = ", ".join(str(g.index) for g in group)
            yield found("nvlink-cross-socket", on=f"GPU {on}", pairs=len(apart), first=apart[0], size=len(group))


# -- fabric ----------------------------------------------------------------------------------------------------------


@check("nvlink-fabric-not-ready", "nvlink-fabric-failed", "nvlink-fabric-unhealthy", "nvlink-fabric-degraded")
def the_fabric_is_ready(
    nvml: Nvml | None,
    environment: Environment | None,
    launch: Launch | None,
    fabric_manager: NvFabric | None,
    system: System | None,
) -> Findings:
    gpus = visible_gpus(nvml, environment, launch)
    unmanaged = _is_unmanaged(fabric_manager, gpus, system)
    with_fabric = [(g, g.fabric) for g in gpus if g.fabric is not None and g.fabric.state != 0]
    if not with_fabric:
        raise NotApplicable("no-fabric")
    for gpu, fabric in with_fabric:
        if fabric.state in FABRIC_STATES and unmanaged:
            yield not_applicable("nvlink-fabric-not-ready", "manager-says")
        elif fabric.state in FABRIC_STATES and gpu.mig:
            # Its instances use no NVLink; no document says whether CUDA waits for the fabric all the same.
            yield undecided(
                "nvlink-fabric-not-ready", "fabric-of-mig", gpu=label(gpu), state=FABRIC_STATES[fabric.state]
            )
        elif fabric.state in FABRIC_STATES:
            yield found("nvlink-fabric-not-ready", on=label(gpu), state=FABRIC_STATES[fabric.state])
        # "Must be checked only if state returns complete": nvml.h, nvmlGpuFabricInfo.
        elif fabric.state == COMPLETED and fabric.status != 0:
            yield found("nvlink-fabric-failed", on=label(gpu), status=fabric.status)
        if fabric.health_mask is not None:
            yield from _health(gpu, fabric.health_mask)


def _is_unmanaged(fabric: NvFabric | None, gpus: tuple[Gpu, ...], system: System | None) -> bool:
    """Whether the switches are this host's, no fabric manager runs, and none has set the fabric up before."""
    if fabric is None or fabric.manager is not False or (system is not None and system.container is not None):
        return False
    up = all(g.fabric is not None and g.fabric.state == COMPLETED for g in gpus)
    return bool(fabric.switches or fabric.switch_nodes) and not up


def _health(gpu: Gpu, mask: int) -> Findings:
    bad, weak = health_words(mask)
    if bad:
        yield found("nvlink-fabric-unhealthy", on=label(gpu), what=", ".join(bad))
    if weak:
        yield found("nvlink-fabric-degraded", on=label(gpu), what=", ".join(weak))


@check("nvlink-manager-missing", "nvlink-manager-version")
def the_fabric_manager_runs(
    fabric: NvFabric, nvml: Nvml | None, environment: Environment | None, system: System | None
) -> Findings:
    gpus = visible_gpus(nvml, environment)
    assert nvml is not None
    if not fabric.switches and not fabric.switch_nodes:
        # A tenant's VM sees no switches: the host runs the manager. NVLink 5 systems show none on PCI at all.
        raise NotApplicable("no-switches")
    inside = system is not None and system.container is not None
    other = not inside and None not in (fabric.manager_version, nvml.driver) and fabric.manager_version != nvml.driver
    ready = [g for g in gpus if g.fabric is not None and g.fabric.state == COMPLETED]
    if fabric.manager is not True:
        if ready and len(ready) == len(gpus):
            pass  # the fabric is up: whoever set it up ran, here or outside of what can be seen
        elif system is not None and system.container is not None:
            yield undecided("nvlink-manager-missing", "manager-outside", container=system.container)
        elif other:
            yield not_applicable("nvlink-manager-missing", "manager-version-says")  # it ends as soon as it is started
        elif fabric.manager is None:
            yield undecided("nvlink-manager-missing", "processes-hidden")
        else:
            yield found("nvlink-manager-missing", switches=max(len(fabric.switches), len(fabric.switch_nodes)))
    if system is not None and system.container is not None:
        # A package inside an image is not the manager that runs.
        yield not_applicable("nvlink-manager-version", "manager-outside", container=system.container)
    elif fabric.manager_version is None or nvml.driver is None:
        yield undecided("nvlink-manager-version", "no-manager-version")
    elif other:
        yield found("nvlink-manager-version", manager=fabric.manager_version, driver=nvml.driver)


# -- the set of GPUs -------------------------------------------------------------------------------------------------


@check("nvlink-mixed-models", "nvlink-mixed-vbios")
def gpus_of_a_group_are_alike(nvml: Nvml | None, environment: Environment | None, launch: Launch | None) -> Findings:
    gpus = _several(nvml, environment, launch)
    of = workers(launch, len(gpus))
    if of.group < 2:
        raise NotApplicable("no-group")
    for group in groups(gpus, of):
        names = Counter(g.name for g in group)
        if len(names) > 1:
            said = ", ".join(f"{n} x {name}" for name, n in names.most_common(4))
            yield found("nvlink-mixed-models", on=said, least_mib=min(g.memory_total_mib or 0 for g in group))
        by_name: dict[str, set[str]] = {}
        for g in group:
            if g.vbios:
                by_name.setdefault(g.name, set()).add(g.vbios)
        for name, versions in by_name.items():
            if len(versions) > 1:
                yield found("nvlink-mixed-vbios", on=name, versions=", ".join(sorted(versions)))


@check("nvlink-mig")
def no_group_spans_mig_gpus(nvml: Nvml | None, environment: Environment | None, launch: Launch | None) -> Findings:
    gpus = gpus_of(nvml)
    mig = [g for g in gpus if g.mig]
    if not mig:
        return
    if launch is None or launch.engine is None:
        raise NotApplicable("no-command")
    of = workers(launch, 0)
    if of.group < 2:
        raise NotApplicable("no-group")
    if len(gpus) - len(mig) < of.group:
        yield found("nvlink-mig", on=", ".join(label(g) for g in mig[:4]), size=of.group)


# -- PCIe ------------------------------------------------------------------------------------------------------------


@check("nvlink-iommu", "nvlink-acs")
def peers_on_pcie_pass_straight(
    nvml: Nvml | None, environment: Environment | None, launch: Launch | None, iommu: Iommu, system: System | None
) -> Findings:
    gpus = _several(nvml, environment, launch)
    assert nvml is not None
    if system is None:
        raise Undecided("no-system")
    if system.hypervisor is not None:
        raise NotApplicable("virtual-machine", hypervisor=system.hypervisor)
    peers = [(a, b) for p, a, b in pairs_of(nvml, gpus) if not linked(p, a, b) and p.read == OK]
    if not peers:
        raise NotApplicable("no-pcie-peers")
    paths = {p.bdf: p for p in iommu.gpus}
    used = {g.bdf: g for pair in peers for g in pair}
    translated = [b for b in used if b in paths and (paths[b].group_type or "").startswith("DMA")]
    if translated:
        yield found(
            "nvlink-iommu",
            on=", ".join(label(used[b]) for b in translated[:8]),
            type=paths[translated[0]].group_type,
            parameters=" ".join(iommu.parameters) or "-",
        )
    above = [b for a, c in peers for b in switches_between(paths.get(a.bdf), paths.get(c.bdf))]
    redirecting = sorted({b for b in above if iommu.acs.get(b, 0) & ACS_REDIRECT})
    if redirecting:
        yield found("nvlink-acs", on=", ".join(redirecting[:8]), bridges=len(redirecting))
    elif any(b in iommu.acs_denied for b in above):
        yield undecided("nvlink-acs", "acs-denied")
    elif not above:
        yield not_applicable("nvlink-acs", "no-common-switch")
