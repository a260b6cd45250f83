"""NCCL: does the copy that torch and vLLM would load fit, and do the NCCL_* settings say what this host can do?"""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nccl import NcclCopies
from ds_doctor.probes.nccl_config import NcclConfig
from ds_doctor.probes.network import Network
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages

from . import _nccl_settings as settings
from ._data import table
from ._nccl_copies import ENGINES, is_foreign, is_too_old, owns_wheel, pinned, used, version
from ._workers import visible_gpus, workers

ALGO_STRICT = (2, 24)  # since then an unknown word in NCCL_ALGO or NCCL_PROTO is an error (user guide)
OLD_TORCH_NAMES = {  # torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp, since torch 2.2
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
    "NCCL_ENABLE_TIMING": "TORCH_NCCL_ENABLE_TIMING",
}


# -- copies -----------------------------------------------------------------------------------------------------------


def _torch_with_nccl(copies: NcclCopies) -> None:
    """Leave where torch loads no libnccl file."""
    if copies.links == "unreadable":
        raise Undecided("torch-libraries-unreadable", python=copies.python or "?")
    if copies.links is None:
        raise NotApplicable("nccl-no-torch")
    if copies.links == "none":
        raise NotApplicable("nccl-torch-cpu")
    if copies.links == "static":
        raise NotApplicable("nccl-in-torch")


@check("nccl-missing")
def torch_finds_nccl(copies: NcclCopies) -> Findings:
    _torch_with_nccl(copies)
    if copies.torch is None:
        yield found("nccl-missing", library=copies.asked_by or "libtorch_cuda.so", python=copies.python or "python3")


@check("nccl-preloaded", "nccl-shadowed")
def torch_gets_its_own_nccl(copies: NcclCopies, packages: Packages | None) -> Findings:
    if copies.links in (None, "none"):
        raise NotApplicable("nccl-no-torch" if copies.links is None else "nccl-torch-cpu")
    own = copies.own if owns_wheel(packages) else None
    if own is not None and is_foreign(copies) and is_too_old(copies, packages):
        raise NotApplicable("nccl-too-old-says")
    for one in copies.copies:
        if one.real in copies.preloaded and (own is None or one.real != own.real):
            yield found(
                "nccl-preloaded",
                on=one.path,
                path=one.path,
                version=one.version or "?",
                how=next((h for h in one.found if "preload" in h.lower()), "LD_PRELOAD"),
                own=own.version or "?" if own else "?",
            )
    torch = copies.torch
    if torch and own and is_foreign(copies) and torch.real not in copies.preloaded:
        yield found(
            "nccl-shadowed",
            on=torch.path,
            path=torch.path,
            version=torch.version or "?",
            how=copies.torch_how or "?",
            own_path=own.path,
            own=own.version or "?",
        )


@check("nccl-two-copies", "nccl-so-path-broken")
def engines_use_the_nccl_of_torch(copies: NcclCopies, packages: Packages) -> Findings:
    if copies.links is None:
        raise NotApplicable("nccl-no-torch")
    for asked in copies.asked:
        engine = ENGINES[asked.variable]
        if engine not in packages.packages:
            continue
        if asked.trouble is not None:
            yield found(
                "nccl-so-path-broken", on=asked.variable, variable=asked.variable, path=asked.text, engine=engine
            )
        elif copies.torch is not None and asked.real != copies.torch.real:
            second = next((c for c in copies.copies if c.real == asked.real), None)
            yield found(
                "nccl-two-copies",
                on=asked.variable,
                variable=asked.variable,
                engine=engine,
                path=asked.text,
                version=(second.version if second else None) or "?",
                torch_path=copies.torch.path,
                torch_version=copies.torch.version or "?",
            )


# -- versions ---------------------------------------------------------------------------------------------------------


@check("nccl-too-old", "nccl-not-the-pinned")
def nccl_is_the_one_torch_was_built_with(copies: NcclCopies, packages: Packages) -> Findings:
    _torch_with_nccl(copies)
    pin = pinned(packages)
    if pin is None:
        raise Undecided("nccl-pin-unknown")
    if copies.torch is None:
        raise NotApplicable("nccl-not-found")
    if copies.torch.version is None:
        raise Undecided("nccl-version-unread", path=copies.torch.path)
    has, want = version(copies.torch.version), version(pin[1])
    torch = packages.packages["torch"].version
    data = {
        "path": copies.torch.path,
        "how": copies.torch_how or "-",
        "version": copies.torch.version,
        "pinned": pin[1],
        "torch": torch,
        "wheel": pin[0],
    }
    if is_too_old(copies, packages):
        yield found("nccl-too-old", on=copies.torch.path, **data, python=packages.python)
    elif has != want and is_foreign(copies):
        yield not_applicable("nccl-not-the-pinned", "nccl-foreign-says")
    elif has != want:
        yield found("nccl-not-the-pinned", on=copies.torch.path, **data, python=packages.python)


@check("nccl-known-bad")
def nccl_has_no_known_hang(
    copies: NcclCopies, packages: Packages, nvml: Nvml | None, environment: Environment | None, launch: Launch | None
) -> Findings:
    ours = used(copies, packages)
    if not ours:
        raise NotApplicable("nccl-not-found")
    count: int | None = None
    if nvml is not None and nvml.error is None:
        count = workers(launch, len(visible_gpus(nvml, environment, launch))).count
    for copy in ours:
        if copy.version is None:
            yield undecided("nccl-known-bad", "nccl-version-unread", path=copy.path)
            continue
        for bad in table("nccl")["bad"]:
            if version(bad["from"]) <= version(copy.version) < version(bad["until"]):
                if count is None:
                    yield undecided("nccl-known-bad", "nccl-gpu-count-unknown")
                elif count >= bad["min_gpus"]:
                    yield found(
                        "nccl-known-bad",
                        on=copy.path,
                        version=copy.version,
                        until=bad["until"],
                        issue=bad["source"],
                        python=packages.python,
                    )


# -- packages ---------------------------------------------------------------------------------------------------------


@check("nccl-two-wheels", "nccl-leftover-metadata", "nccl-wheel-overwritten")
def one_nccl_wheel_is_installed(packages: Packages, copies: NcclCopies) -> Findings:
    wheels = {n: p for n, p in packages.packages.items() if re.match(r"nvidia-nccl-cu\d+\Z", n)}
    if not wheels:
        raise NotApplicable("nccl-no-wheel")
    file, python = copies.own, packages.python
    in_force = file.version if file and file.version else "?"
    doubled = [n for n in wheels if n in packages.doubled]
    if len(wheels) > 1:
        names = ", ".join(f"{n} {p.version}" for n, p in sorted(wheels.items()))
        yield found("nccl-two-wheels", wheels=names, names=" ".join(sorted(wheels)), version=in_force, python=python)
    for name in doubled:
        versions = ", ".join(packages.doubled[name])
        yield found("nccl-leftover-metadata", on=name, wheel=name, versions=versions, version=in_force, python=python)
    if len(wheels) > 1 or doubled:
        return  # which of them the file belongs to is what the other two rules speak of
    (wheel,) = wheels.values()
    if file is None or file.version is None or not file.read:
        yield undecided("nccl-wheel-overwritten", "nccl-version-unread", path=file.path if file else wheel.folder)
    elif version(file.version) != version(wheel.version):
        yield found(
            "nccl-wheel-overwritten",
            on=file.path,
            wheel=wheel.name,
            said=wheel.version,
            version=file.version,
            path=file.path,
            python=python,
        )


# -- settings ---------------------------------------------------------------------------------------------------------

# They ask for the environment so that nothing passes where it cannot be seen (--root): it is where most settings stand.


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


# -- what the settings name -------------------------------------------------------------------------------------------


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


# -- settings that slow an NVLink host ---------------------------------------------------------------------------------


@check("nccl-p2p-disabled", "nccl-shm-disabled")
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
