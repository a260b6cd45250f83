"""What the launch command loads beside its model: are the adapters and the drafter there, and does the engine take them?"""

from __future__ import annotations

from ds_doctor.api import Findings, Undecided, check, found
from ds_doctor.probes.companions import Companions
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.python_env import Packages

FAMILY = "launch"


@check(
    "launch-lora-missing",
    "launch-lora-broken",
    "launch-lora-rank",
    "launch-lora-unsupported",
    "launch-lora-off",
    "launch-lora-other-base",
)
def the_engine_takes_the_adapters(
    launch: Launch,
    flags: EngineFlags | None,
    companions: Companions,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _companions, _model

    case = _model.case(launch, flags, environment, packages)
    for fault in _companions.adapters(case, companions):
        yield found(fault.rule, on=fault.on, **fault.data)
    unseen = _companions.unseen(companions, "lora")
    if unseen is not None:
        raise Undecided("launch-companion-unseen", path=unseen)


@check("launch-draft-missing")
def the_drafter_is_there(
    launch: Launch,
    flags: EngineFlags | None,
    companions: Companions,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _companions, _model

    _model.case(launch, flags, environment, packages)
    for one in companions.items:
        if one.kind == "draft" and one.there is False:
            yield found("launch-draft-missing", on=one.given, given=one.given, path=one.path or one.given)
    unseen = _companions.unseen(companions, "draft")
    if unseen is not None:
        raise Undecided("launch-companion-unseen", path=unseen)


@check("launch-speculation-refused")
def the_engine_takes_the_speculation(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _companions, _model

    case = _model.case(launch, flags, environment, packages)
    config = case.value("speculative_config")
    if case.engine != "vllm" or not isinstance(config, dict):
        return
    fault = _companions.without_drafter(case, config)
    if fault is None and _companions.asks_mtp(config):
        fault = _companions.mtp(case, _model.shape(case, model), config)
    if fault is not None:
        yield found(fault.rule, on=fault.on, **fault.data)
