"""Inside a container: does the driver meet what the image asks for, and were the libraries, a user and a temporary folder given?"""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.account import Account, Temp
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernel_module import KernelModule
from ds_doctor.probes.loader import Loader
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import TorchBuild
from ds_doctor.probes.system import System

from . import _container as shared
from . import _require
from ._data import table

FAMILY = "container"


@check("image-needs-newer-driver", "image-wants-newer-driver")
def driver_is_what_the_image_asks_for(environment: Environment, nvml: Nvml, loader: Loader | None) -> Findings:
    # Asked wherever the variable is: images become virtual machines too, which do not look like containers.
    requirements = _require.required(environment.variables)
    if not requirements:
        raise NotApplicable("no-requirement")
    if nvml.error is not None or nvml.driver is None:
        raise Undecided("no-nvml-driver")
    cuda = loader.picked.get("libcuda.so.1") if loader else None
    if cuda is not None and "/compat/" in cuda.real + cuda.path:
        raise NotApplicable("compat-libcuda")
    values = _require.Values(nvml.cuda, nvml.driver, None, _require.brands_of(tuple(g.name for g in nvml.gpus)))
    archs: list[str | None] = [*sorted({g.cc for g in nvml.gpus if g.cc})] or [None]
    for name, expression in requirements.items():
        yield from _unmet(name, expression, [values._replace(arch=a) for a in archs])


def _unmet(name: str, expression: str, gpus: list[_require.Values]) -> Findings:
    rules = ("image-needs-newer-driver", "image-wants-newer-driver")
    try:
        answers = [_require.settled(expression, values) for values in gpus]
    except ValueError as e:
        for rule in rules:
            yield undecided(rule, "requirement-unreadable", variable=name, part=str(e)[:60])
        return
    if False not in answers:
        if None in answers:
            for rule in rules:
                yield undecided(rule, "requirement-open", variable=name)
        return
    cuda, driver = gpus[0].cuda, gpus[0].driver
    want = _require.wanted_cuda(expression)
    # Within one CUDA major most programs run on an older driver (minor version compatibility); across majors none do.
    major = want is not None and cuda is not None and _require.numbers(want)[:1] > _require.numbers(cuda)[:1]
    first = expression.split(" ")[0]
    yield found(rules[0] if major else rules[1], on=name, require=first, cuda=cuda or "?", driver=driver)


@check("container-capabilities")
def container_has_compute_and_utility(
    environment: Environment, loader: Loader | None, module: KernelModule, system: System
) -> Findings:
    given = environment.variables.get("NVIDIA_DRIVER_CAPABILITIES", "")
    if not given:
        shared.in_a_container(system)
    named = {part.strip() for part in given.split(",") if part.strip()}
    if not named or "all" in named:
        return  # unset and empty mean the default, compute and utility
    libraries = (("compute", "libcuda.so.1"), ("utility", "libnvidia-ml.so.1"))
    # What was mounted by other means (CDI files take no notice of the variable) is there all the same.
    lacking = [c for c, library in libraries if c not in named and not (loader and library in loader.picked)]
    if lacking and loader is None:
        raise Undecided("no-loader-answer", given=given)
    if lacking:
        yield found("container-capabilities", given=given, lacking=lacking)


@check("container-user-unknown")
def user_has_a_name(account: Account, torch: TorchBuild, environment: Environment | None) -> Findings:
    if account.name is not None or account.from_environment:
        return
    known = table("container")["torch"]
    version = re.match(r"[0-9]{1,4}(?:\.[0-9]{1,4})*", torch.version)
    if version is None:
        raise Undecided("torch-version-odd", version=torch.version)
    if shared.at_least(version[0], known["no_user_name_since"]):
        return
    elsewhere = environment is not None and environment.variables.get("TORCHINDUCTOR_CACHE_DIR")
    if elsewhere and not shared.at_least(version[0], known["user_name_on_import_seen"]):
        raise Undecided("inductor-cache-set", torch=torch.version)
    others = [s for s in account.services if s not in ("files", "compat", "systemd")]
    if others:
        raise Undecided("user-elsewhere", services=others, uid=account.uid)
    yield found("container-user-unknown", uid=account.uid, torch=torch.version)


@check("temp-unusable", "temp-variable-unusable", "temp-noexec")
def temporary_files_can_be_written_and_loaded(temp: Temp) -> Findings:
    usable = [f for f in temp.folders if f.there and f.writable and not f.read_only]
    if not usable:
        if any(f.there and f.writable is None for f in temp.folders):
            raise Undecided("temp-unread")
        yield found("temp-unusable", folders=[f.path for f in temp.folders])
    for folder in temp.folders:
        if folder.source != "default" and folder not in usable:
            yield found("temp-variable-unusable", on=folder.source, variable=folder.source, folder=folder.path)
    if usable and usable[0].no_exec:
        yield found("temp-noexec", on=usable[0].path, folder=usable[0].path)
