"""The gateway in front of the engine: does it wait as long as an answer takes, pass it on at once, and let prompts through?"""

from __future__ import annotations

from ds_doctor.api import Findings, check, found
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.gateway import Gateway, Gateways
from ds_doctor.probes.launch import Launch

FAMILY = "launch"
# Proposals. Until the first token nothing flows: a long prompt behind a queue takes longer than a minute, and an answer
# without streaming is silent to its end. The documents ask for 120 s (seed 003_f9c1240eaa1047a0 §5.3).
SILENT_S = 120
# 8192 tokens at 20 tokens a second take 410 s.
WHOLE_S = 600
# A request of 100,000 tokens is about half a MiB of text; one photograph in base64 is 1 to 5 MiB.
BODY = 8 << 20
MIB = 1 << 20


def _of_engine(gateways: Gateways, launch: Launch | None, flags: EngineFlags | None) -> list[Gateway]:
    """The routes to the engine's port where one of them names it; else all of the file."""
    if launch is None or launch.engine is None:
        return list(gateways.routes)
    from ._options import options

    mine = {options(launch, flags).get("port")}
    if launch.container is not None:
        mine |= {p.published[0] for p in launch.container.ports if p.published is not None}
    return [g for g in gateways.routes if mine & set(g.ports)] or list(gateways.routes)


@check("launch-gateway-timeout", "launch-gateway-deadline")
def gateway_waits_for_the_answer(gateways: Gateways, launch: Launch | None, flags: EngineFlags | None) -> Findings:
    for g in _of_engine(gateways, launch, flags):
        if g.timeout_s is None or g.timeout_s <= 0 or g.timeout_s >= (WHOLE_S if g.whole else SILENT_S):
            continue
        rule = "launch-gateway-deadline" if g.whole else "launch-gateway-timeout"
        yield found(rule, on=g.where, where=g.where, setting=g.setting, have_s=f"{g.timeout_s:g}", kind=g.kind)


@check("launch-gateway-buffers", "launch-gateway-body")
def gateway_passes_on_what_it_gets(gateways: Gateways, launch: Launch | None, flags: EngineFlags | None) -> Findings:
    for g in _of_engine(gateways, launch, flags):
        if g.buffers:
            yield found("launch-gateway-buffers", on=g.where, where=g.where, kind=g.kind)
        if g.body_bytes is not None and g.body_bytes < BODY:
            yield found(
                "launch-gateway-body", on=g.where, where=g.where, setting=g.body_setting, have_kib=g.body_bytes // 1024
            )
