"""Findings on the values of an SGLang command; which values are wrong, the _sglang modules know."""

from __future__ import annotations

from typing import Any

from ds_doctor.api import Findings, NotApplicable, Undecided, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml

from ._data import table
from ._launch_view import Names, around
from ._open_words import need_certain
from ._options import Options, options
from ._sglang_later import replaced, worries
from ._sglang_refusals import refusals, unseen, view_of
from ._sglang_view import VERSION, View


def _made(launch: Launch, installed: EngineFlags | None) -> Options:
    """The command's options. NotApplicable where no values of SGLang can be judged."""
    if launch.engine != "sglang":
        raise NotApplicable("launch-not-sglang")
    made = options(launch, installed)
    if not made.serves or made.help:
        raise NotApplicable("launch-sglang-no-server")
    if made.errors:
        raise NotApplicable("launch-sglang-parser-first")
    need_certain(made, numbers=True)
    return made


def _capability(launch: Launch, environment: Environment | None, nvml: Nvml | None) -> tuple[int, int] | None:
    """The compute capability of the GPUs that the engine would see; None: not known, or they differ."""
    if nvml is None:
        return None
    from ._arch import capability
    from ._workers import visible_gpus

    try:
        kinds = {capability(g.cc) for g in visible_gpus(nvml, environment, launch)}
    except (NotApplicable, Undecided):
        return None
    return kinds.pop() if len(kinds) == 1 else None


def _config(launch: Launch, model: ModelConfig | None) -> dict[str, Any] | None:
    """The config.json of the command's own model; one that was given beside the command may be another's."""
    if model is None or model.source != "command" or launch.container is not None:
        return None
    return model.config


def refused(
    launch: Launch,
    installed: EngineFlags | None,
    environment: Environment | None,
    nvml: Nvml | None,
    model: ModelConfig | None,
) -> Findings:
    rule = "launch-sglang-refused"
    made = _made(launch, installed)
    capability = _capability(launch, environment, nvml)
    view = view_of(made, around(launch, environment), capability, _config(launch, model))
    names = Names(launch, installed, made)
    all_of_them = refusals(view)
    if made.table.wanted not in (None, VERSION):
        if all_of_them:
            about = ", ".join(names.of(d) for d in all_of_them[0].about)
            raise Undecided("launch-sglang-other-version", version=made.table.wanted, known=VERSION, flags=about)
        return
    if made.config is not None:
        raise Undecided("launch-sglang-config-file", path=made.config)
    words = table("sglang_refusals")["words"] if all_of_them else {}
    for n, refusal in enumerate(all_of_them, 1):
        flags = [names.of(d) for d in refusal.about]
        yield found(
            rule,
            on=flags[0] if flags else None,
            flags=flags,
            words=words[refusal.id],
            message=" / ".join(refusal.message.split("\n")),
            version=VERSION,
            n=n,
            of=len(all_of_them),
        )
    if not all_of_them:
        left = unseen(view)
        if left:
            yield undecided(rule, "launch-sglang-unseen", flags=", ".join(map(names.of, left)))


def dying(launch: Launch, installed: EngineFlags | None, environment: Environment | None) -> Findings:
    made = _made(launch, installed)
    view: View = view_of(made, around(launch, environment))
    names = Names(launch, installed, made)
    for worry in worries(view):
        flag, words = names.of(worry.dest), table("sglang_refusals")["later"][worry.words]
        yield found("launch-sglang-dies-later", on=flag, flag=flag, value=worry.value, words=words)


def silently_replaced(
    launch: Launch, installed: EngineFlags | None, environment: Environment | None, model: ModelConfig | None
) -> Findings:
    made = _made(launch, installed)
    view: View = view_of(made, around(launch, environment), None, _config(launch, model))
    names = Names(launch, installed, made)
    for r in replaced(view):
        flag, words = names.of(r.dest), table("sglang_refusals")["replaced"][r.words]
        yield found("launch-sglang-replaced", on=flag, flag=flag, value=r.value, now=r.now, words=words)
