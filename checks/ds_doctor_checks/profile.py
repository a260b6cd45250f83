"""The profile of the model to be served: do engine, GPUs, memory, disk and command give it what it takes?"""

from __future__ import annotations

import re
from typing import Any

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.cgroup import Cgroup
from ds_doctor.probes.disk import Disk
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch, has
from ds_doctor.probes.limits import Memory
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.profile import AskedProfile
from ds_doctor.probes.python_env import Packages
from ds_doctor.probes.system import System

GIB = 1 << 30
# Flags that leave weights in host memory, in both engines.
OFFLOAD = ("--cpu-offload-gb", "--offload-group-size", "--offload-config", "--offload-backend", "--kt-weight-path")


@check("profile-engine-too-old")
def engine_knows_the_model(
    packages: Packages | None, asked: AskedProfile | None, launch: Launch | None, folder: ModelFolder | None
) -> Findings:
    from ._profiles import aim, version_of

    profile, engine, needs = aim(asked, launch, folder, packages)
    if needs.min_version is None:
        raise NotApplicable("profile-says-nothing", profile=profile.name)
    version, how = version_of(engine, launch, packages)
    if version is None:
        raise Undecided("engine-version-unknown", engine=engine)
    from packaging.version import InvalidVersion, Version

    try:
        old = Version(version) < Version(needs.min_version)
    except InvalidVersion:
        raise Undecided("engine-version-unknown", engine=engine) from None
    if old:
        image = needs.images[0] if needs.images else f"{engine}=={needs.min_version}"
        yield found(
            "profile-engine-too-old",
            engine=engine,
            version=version,
            how=how,
            oldest=needs.min_version,
            profile=profile.name,
            image=image,
        )


@check("profile-gpu-unsupported", "profile-gpu-memory-too-small", "profile-gpu-memory-short", "profile-gpu-untested")
def gpus_carry_the_model(
    nvml: Nvml | None,
    environment: Environment | None,
    packages: Packages | None,
    asked: AskedProfile | None,
    launch: Launch | None,
    folder: ModelFolder | None,
    flags: EngineFlags | None,
    config: ModelConfig | None,
    memory: Memory | None,
) -> Findings:
    from ._profiles import aim
    from ._workers import visible_gpus

    profile, engine, needs = aim(asked, launch, folder, packages)
    gpus = visible_gpus(nvml, environment, launch)
    if not gpus:
        raise NotApplicable("no-gpu")
    if any(g.mig for g in gpus):
        raise Undecided("profile-mig")
    if not needs.capabilities:
        yield not_applicable("profile-gpu-unsupported", "profile-says-nothing", profile=profile.name)
    for gpu in gpus if needs.capabilities else ():
        major = gpu.cc.partition(".")[0]
        if not major.isdigit():
            yield undecided("profile-gpu-unsupported", "no-capability", gpu=gpu.index)
        elif int(major) not in needs.capabilities:
            yield found(
                "profile-gpu-unsupported",
                on=f"GPU {gpu.index}",
                gpu=gpu.name,
                cc=gpu.cc,
                engine=engine,
                profile=profile.name,
                majors=[f"{c}.x" for c in needs.capabilities],
            )

    nodes = max(1, (launch.nodes or 1) if launch is not None else 1)
    sizes = [g.memory_total_mib for g in gpus]
    if any(s is None for s in sizes):
        for rule in ("profile-gpu-memory-too-small", "profile-gpu-memory-short"):
            yield undecided(rule, "profile-gpu-memory-unknown")
    elif launch is not None and _counted(launch, flags, packages, config, nvml, environment, memory):
        for rule in ("profile-gpu-memory-too-small", "profile-gpu-memory-short"):
            yield not_applicable(rule, "memory-told", other="memory-weights")
    elif nodes > 1:
        for rule in ("profile-gpu-memory-too-small", "profile-gpu-memory-short"):
            yield undecided(rule, "profile-several-nodes", nodes=nodes)
    else:
        have = sum(s or 0 for s in sizes) / 1024
        data: dict[str, Any] = dict(have=round(have, 1), gpus=len(gpus), profile=profile.name)
        if launch is not None and has(launch.arguments, OFFLOAD):
            for rule in ("profile-gpu-memory-too-small", "profile-gpu-memory-short"):
                yield undecided(rule, "profile-offload")
        elif profile.gpu_weights_gib is not None and have < profile.gpu_weights_gib:
            yield found("profile-gpu-memory-too-small", need=profile.gpu_weights_gib, model=profile.models[0], **data)
            yield not_applicable("profile-gpu-memory-short", "profile-told", other="profile-gpu-memory-too-small")
        elif profile.gpu_memory_gib is not None and have < profile.gpu_memory_gib:
            yield found("profile-gpu-memory-short", need=profile.gpu_memory_gib, **data)
    tested = [t for t in profile.tested if t.engine == engine]
    if not tested:
        yield not_applicable("profile-gpu-untested", "profile-says-nothing", profile=profile.name)
    elif not any(len(gpus) >= t.count and all(t.gpu in re.split(r"[\s-]", g.name) for g in gpus) for t in tested):
        yield found(
            "profile-gpu-untested",
            gpus=f"{len(gpus)} x {gpus[0].name}" if len({g.name for g in gpus}) == 1 else [g.name for g in gpus],
            engine=engine,
            profile=profile.name,
            tested=[f"{t.count} x {t.gpu}" for t in tested],
        )


def _counted(
    launch: Launch,
    flags: EngineFlags | None,
    packages: Packages | None,
    config: ModelConfig | None,
    nvml: Nvml | None,
    environment: Environment | None,
    memory: Memory | None,
) -> bool:
    """Whether the memory rules judge this very command on these GPUs: they know more than the sums of a profile."""
    from ._memory_ask import ask
    from ._memory_live import rooms
    from ._memory_model import known

    try:
        asks = ask(launch, flags, packages, environment)
        return bool(rooms(asks, launch, nvml, environment, memory)) and known(asks, config).sure
    except (NotApplicable, Undecided):
        return False


@check("profile-tensor-parallel")
def tensor_parallel_size_works(
    packages: Packages | None, asked: AskedProfile | None, launch: Launch, folder: ModelFolder | None
) -> Findings:
    from ._profiles import aim

    profile, _, needs = aim(asked, launch, folder, packages)
    if not needs.tensor_parallel:
        raise NotApplicable("profile-says-nothing", profile=profile.name)
    size = launch.tensor_parallel or 1
    if size not in needs.tensor_parallel:
        yield found("profile-tensor-parallel", size=size, good=list(needs.tensor_parallel), profile=profile.name)


@check("profile-host-memory-short")
def host_memory_holds_its_part(
    system: System,
    cgroup: Cgroup | None,
    packages: Packages | None,
    asked: AskedProfile | None,
    launch: Launch | None,
    folder: ModelFolder | None,
    nvml: Nvml | None,
    environment: Environment | None,
    flags: EngineFlags | None,
    config: ModelConfig | None,
    memory: Memory | None,
) -> Findings:
    from ._profiles import aim

    profile, engine, needs = aim(asked, launch, folder, packages)
    if needs.host_memory_gib is None:
        raise NotApplicable("profile-says-nothing", profile=profile.name)
    if launch is not None and _counted(launch, flags, packages, config, nvml, environment, memory):
        raise NotApplicable("memory-told", other="memory-host-short")
    if not system.memory_total_mib:
        raise Undecided("profile-host-memory-unknown")
    have, where = system.memory_total_mib / 1024, "RAM"
    limits = [cgroup.memory_limit] if cgroup is not None and (launch is None or launch.container is None) else []
    limits += [launch.container.memory] if launch is not None and launch.container is not None else []
    for limit in limits:
        if limit is not None and limit / GIB < have:
            have, where = limit / GIB, "memory limit"
    if have < needs.host_memory_gib:
        yield found(
            "profile-host-memory-short",
            have=round(have, 1),
            what=where,
            need=needs.host_memory_gib,
            engine=engine,
            profile=profile.name,
        )


@check("profile-disk-too-small")
def disk_takes_the_checkpoint(
    disk: Disk, asked: AskedProfile | None, launch: Launch | None, folder: ModelFolder | None
) -> Findings:
    from ._profiles import profile_for

    profile = profile_for(asked, launch, folder)
    if profile.checkpoint_gib is None:
        raise NotApplicable("profile-says-nothing", profile=profile.name)
    if launch is not None and launch.engine is None:
        raise NotApplicable("profile-no-engine")
    if launch is not None and launch.container is not None:
        raise NotApplicable("model-in-container")
    have = 0.0
    if folder is not None and folder.layout == "folder":
        have = folder.weights_bytes / GIB
        if have >= 0.99 * profile.checkpoint_gib:
            raise NotApplicable("profile-model-is-here", path=folder.path or folder.given)
    if launch is None or launch.model not in profile.models:
        raise NotApplicable("profile-not-downloaded")  # a folder: nothing is fetched into a cache
    place = next((p for p in disk.places if p.role == "hf-hub"), None)
    if place is None or place.free is None:
        raise Undecided("profile-disk-unknown")
    need = profile.checkpoint_gib - have
    if place.free / GIB < need:
        yield found(
            "profile-disk-too-small",
            on=place.path,
            path=place.path,
            free=round(place.free / GIB, 1),
            need=round(need, 1),
            profile=profile.name,
        )


@check("profile-setting-refused", "profile-setting-bad", "profile-recipe-differs")
def command_gives_no_bad_setting(
    packages: Packages | None, asked: AskedProfile | None, launch: Launch, folder: ModelFolder | None
) -> Findings:
    from ._profiles import aim, differences, said

    profile, engine, needs = aim(asked, launch, folder, packages)
    if launch.engine is None:
        raise NotApplicable("profile-no-engine")
    for setting in profile.setting:
        if setting.engine == engine:
            for word in said(setting, launch):
                yield found(
                    "profile-setting-refused" if setting.level == "fail" else "profile-setting-bad",
                    setting=word,
                    profile=profile.name,
                    says={"en": setting.says.en, "zh": setting.says.zh},
                    source=setting.source,
                )
    missing = differences(needs, launch)
    if missing:
        yield found("profile-recipe-differs", missing=missing, engine=engine, profile=profile.name)
