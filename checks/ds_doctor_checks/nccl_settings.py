"""NCCL's settings: are they known, allowed and consistent, and do the interfaces, devices and files exist that they name?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nccl import NcclCopies
from ds_doctor.probes.nccl_config import NcclConfig
from ds_doctor.probes.network import Network
from ds_doctor.probes.nvml import Nvml

from . import _nccl_settings as settings
from ._nccl_copies import version
from ._workers import visible_gpus, workers

FAMILY = "nccl"
ALGO_STRICT = (2, 24)  # since then an unknown word in NCCL_ALGO or NCCL_PROTO is an error (user guide)
OLD_TORCH_NAMES = {  # torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, since torch 2.2
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}


@check("nccl-variable-misspelt", "nccl-variable-value", "nccl-conf-line")
def settings_are_ones_that_nccl_reads(
    config: NcclConfig, environment: Environment | None, launch: Launch | None
) -> Findings:
    config = settings.for_engine(config, launch)
    for name, setting in config.settings.items():
        if not settings.known(name):
            meant = settings.meant(name)
            if meant is not None:
                yield found("nccl-variable-misspelt", on=name, name=name, meant=meant, source=setting.source)
            elif name.startswith("NCCL_"):
                yield undecided("nccl-variable-misspelt", "nccl-name-unknown", name=name, source=setting.source)
        elif setting.value.strip():
            read = settings.wrong_value(name, setting.value)
            if read is not None:
                yield found(
                    "nccl-variable-value", on=name, name=name, value=setting.value, read=read, source=setting.source
                )
    for line in config.odd:
        yield found("nccl-conf-line", on=f"{line.path}:{line.line}", path=line.path, line=line.line, name=line.name)
    if config.unreadable:
        yield undecided("nccl-conf-line", "nccl-conf-unread", path=config.unreadable[0])


@check("nccl-algo-rejected")
def algorithms_are_ones_that_nccl_accepts(
    config: NcclConfig, environment: Environment | None, copies: NcclCopies | None, launch: Launch | None
) -> Findings:
    config = settings.for_engine(config, launch)
    torch = copies.torch if copies else None
    for name in ("NCCL_ALGO", "NCCL_PROTO"):
        setting = config.settings.get(name)
        words = settings.rejected_words(name, setting.value) if setting and setting.value else []
        if not setting or not words:
            continue
        if torch is None or torch.version is None:
            yield undecided("nccl-algo-rejected", "nccl-version-unread", path="libnccl.so.2")
        elif version(torch.version)[:2] >= ALGO_STRICT:
            yield found(
                "nccl-algo-rejected",
                on=name,
                name=name,
                value=setting.value,
                words=", ".join(words),
                version=torch.version,
                source=setting.source,
            )


@check("nccl-variables-contradict")
def settings_agree(config: NcclConfig, environment: Environment | None, launch: Launch | None) -> Findings:
    config = settings.for_engine(config, launch)
    for wins, void in settings.contradictions(config):
        a, b = config.settings[wins], config.settings[void]
        yield found(
            "nccl-variables-contradict",
            on=void,
            wins=f"{wins}={a.value}",
            void=f"{void}={b.value}",
            name=void,
            source=b.source,
        )


@check("nccl-old-torch-name")
def torch_settings_have_their_new_names(
    config: NcclConfig, environment: Environment | None, launch: Launch | None
) -> Findings:
    config = settings.for_engine(config, launch)
    for old, new in OLD_TORCH_NAMES.items():
        setting = config.settings.get(old)
        if setting is not None and not setting.source.startswith("/"):
            yield found("nccl-old-torch-name", on=old, old=old, new=new, value=setting.value)


@check("nccl-interface-missing")
def nccl_finds_a_socket_interface(config: NcclConfig, network: Network, launch: Launch | None) -> Findings:
    config = settings.for_engine(config, launch)
    setting = config.settings.get("NCCL_SOCKET_IFNAME")
    if setting is None or len(setting.value) < 2:  # NCCL itself takes a shorter value as unset (src/misc/socket.cc)
        return
    if launch is not None and launch.container is not None:
        raise Undecided("container-interfaces-unseen")
    names = [i.name for i in network.interfaces]
    running = [i.name for i in settings.usable(network.interfaces)]
    if not settings.matches(setting.value, running):
        down = [f"{n} (down)" for n in settings.matches(setting.value, names)]
        yield found(
            "nccl-interface-missing",
            on="NCCL_SOCKET_IFNAME",
            value=setting.value,
            source=setting.source,
            interfaces=", ".join([*(n for n in running if n != "lo"), *down])[:200] or "lo",
        )


@check("gloo-interface-missing")
def gloo_finds_its_interface(environment: Environment, network: Network, launch: Launch | None) -> Findings:
    if launch is not None and launch.container is not None:
        if launch.environment.get("GLOO_SOCKET_IFNAME"):
            raise Undecided("container-interfaces-unseen")
        return
    value = environment.variables.get("GLOO_SOCKET_IFNAME", "")
    have = {i.name for i in network.interfaces}
    absent = [n for n in value.split(",") if n and n not in have]
    if absent:
        shown = ", ".join(i.name for i in settings.usable(network.interfaces) if i.name != "lo")
        yield found("gloo-interface-missing", name=absent[0], value=value, interfaces=shown[:200] or "lo")


@check("nccl-hca-missing")
def nccl_finds_the_rdma_devices(config: NcclConfig, network: Network, launch: Launch | None) -> Findings:
    config = settings.for_engine(config, launch)
    setting = config.settings.get("NCCL_IB_HCA")
    if setting is None or not setting.value or settings.number(config, "NCCL_IB_DISABLE") == 1:
        return
    names = [h.name for h in network.hcas]
    if launch is not None and launch.container is not None and not settings.matches(setting.value, names):
        raise Undecided("container-interfaces-unseen")
    if setting.value.startswith("^") and not names:
        return  # a list of devices to leave out names nothing that must be there
    if not settings.matches(setting.value, names):
        yield found(
            "nccl-hca-missing",
            on="NCCL_IB_HCA",
            value=setting.value,
            source=setting.source,
            count=len(names),
            hcas=", ".join(names)[:200] or "-",
        )


@check("nccl-file-missing", "nccl-plugin-missing")
def files_and_plugins_are_there(config: NcclConfig, environment: Environment | None, launch: Launch | None) -> Findings:
    config = settings.for_engine(config, launch)
    for name, path in config.missing.items():
        yield found("nccl-file-missing", on=name, name=name, path=path, source=config.settings[name].source)
    for name, there in config.plugins.items():
        if not there:
            setting = config.settings[name]
            yield found("nccl-plugin-missing", on=name, name=name, value=setting.value, source=setting.source)


@check("nccl-p2p-disabled", "nccl-shm-disabled", "nccl-shm-disabled-idle")
def settings_leave_the_fast_ways_open(
    config: NcclConfig, nvml: Nvml, environment: Environment | None, launch: Launch | None
) -> Findings:
    config = settings.for_engine(config, launch)
    if nvml.error is not None:
        raise Undecided("nccl-gpus-unknown")
    gpus = visible_gpus(nvml, environment, launch)
    if len(gpus) < 2 or workers(launch, len(gpus)).count < 2:
        raise NotApplicable("nccl-one-gpu")
    links = sum(link.active for gpu in gpus for link in gpu.nvlinks)
    off = settings.p2p_off(config)
    if off is not None and links:
        setting = config.settings[off]
        yield found(
            "nccl-p2p-disabled",
            on=off,
            name=off,
            value=setting.value,
            links=links,
            gpus=len(gpus),
            source=setting.source,
        )
    if settings.number(config, "NCCL_SHM_DISABLE") == 1:
        told = bool(nvml.pairs) and all(p.read is not None and p.write is not None for p in nvml.pairs)
        denied = any(p.read not in (0, None) or p.write not in (0, None) for p in nvml.pairs)
        if off is None and not denied and not told and not links:
            yield undecided("nccl-shm-disabled", "nccl-p2p-unknown")
        elif off is not None or denied:
            source = config.settings["NCCL_SHM_DISABLE"].source
            yield found("nccl-shm-disabled", on="NCCL_SHM_DISABLE", source=source, gpus=len(gpus))
        elif links:  # P2P over NVLink carries everything, so the setting waits for the day when it does not
            source = config.settings["NCCL_SHM_DISABLE"].source
            yield found("nccl-shm-disabled-idle", on="NCCL_SHM_DISABLE", source=source, gpus=len(gpus))
