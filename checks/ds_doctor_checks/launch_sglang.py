"""The SGLang command's values: what the engine refuses behind its parser, and what passes and dies later."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, check
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml

FAMILY = "launch"


def _meant(launch: Launch) -> None:
    """Before anything is imported for the other engine."""
    if launch.engine != "sglang":
        raise NotApplicable("launch-not-sglang")


@check("launch-sglang-refused")
def sglang_starts_with_these_values(
    launch: Launch,
    engine_flags: EngineFlags | None,
    environment: Environment | None,
    nvml: Nvml | None,
    model_config: ModelConfig | None,
) -> Findings:
    _meant(launch)
    from ._launch_sglang import refused

    yield from refused(launch, engine_flags, environment, nvml, model_config)


@check("launch-sglang-dies-later")
def sglang_runs_with_these_values(
    launch: Launch, engine_flags: EngineFlags | None, environment: Environment | None
) -> Findings:
    _meant(launch)
    from ._launch_sglang import dying

    yield from dying(launch, engine_flags, environment)


@check("launch-sglang-replaced")
def sglang_takes_these_values(
    launch: Launch, engine_flags: EngineFlags | None, environment: Environment | None, model_config: ModelConfig | None
) -> Findings:
    _meant(launch)
    from ._launch_sglang import silently_replaced

    yield from silently_replaced(launch, engine_flags, environment, model_config)
