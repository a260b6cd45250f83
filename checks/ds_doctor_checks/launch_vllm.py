"""The vLLM command's values: what the engine refuses behind its parser, and what passes and fails later."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, check
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch

FAMILY = "launch"


def _meant(launch: Launch) -> None:
    """Before anything is imported for the other engine."""
    if launch.engine != "vllm":
        raise NotApplicable("launch-not-vllm")


@check("launch-vllm-refused")
def vllm_starts_with_these_values(
    launch: Launch, engine_flags: EngineFlags | None, environment: Environment | None
) -> Findings:
    _meant(launch)
    from ._launch_vllm import refused

    yield from refused(launch, engine_flags, environment)


@check("launch-vllm-fails-later")
def vllm_runs_with_these_values(
    launch: Launch, engine_flags: EngineFlags | None, environment: Environment | None
) -> Findings:
    _meant(launch)
    from ._launch_vllm import failing

    yield from failing(launch, engine_flags, environment)
