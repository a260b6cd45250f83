"""The engine of the launch command, the model it would load and the GPUs here: do they go together?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ds_doctor.api import Finding, Findings, NotApplicable, Undecided, check, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.engine_models import EngineModels
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.kernels import Kernels
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages

if TYPE_CHECKING:
    from ._model_split import Fault

FAMILY = "launch"


def _told(faults: Iterable[Fault], *rules: str) -> Iterator[Finding]:
    """The findings of these rules; of all where none is named."""
    for fault in faults:
        if not rules or fault.rule in rules:
            yield found(fault.rule, on=fault.on, **fault.data)


@check(
    "launch-architecture-unknown",
    "launch-architecture-fallback",
    "launch-model-type-unknown",
    "launch-remote-code-needed",
)
def the_engine_knows_the_model(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    engine: EngineModels | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_support

    case = _model.case(launch, flags, environment, packages)
    shape = _model.shape(case, model)
    if engine is None:
        raise Undecided("launch-engine-unseen", engine=case.engine)
    yield from _told(_model_support.faults(case, shape, engine))


@check("launch-engine-too-old")
def the_engine_is_new_enough_for_the_model(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    engine: EngineModels | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_support

    case = _model.case(launch, flags, environment, packages)
    if engine is not None and "registry" not in engine.missed:
        raise NotApplicable("launch-registry-read", folder=engine.folder)
    if model is not None and model.config is not None:
        names = _model.shape(case, model).architectures
    else:
        known = _model_support.published(case.options.model or "")
        names = (known,) if known else ()
    if not names:
        raise Undecided("launch-model-unseen", model=case.options.model or "?")
    if case.version is None:
        raise Undecided("launch-engine-unseen", engine=case.engine)
    late = [_model_support.too_old(case, n) for n in names]
    if all(late):
        yield from _told([f for f in late if f is not None][:1])


@check(
    "launch-tp-heads",
    "launch-tp-kv-heads",
    "launch-tp-vocabulary",
    "launch-tp-blocks",
    "launch-ep-dense",
    "launch-pp-layers",
)
def the_model_divides_as_asked(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_split

    case = _model.case(launch, flags, environment, packages)
    if case.size("tensor") * case.size("pipeline") == 1 and not case.value("enable_expert_parallel"):
        return  # nothing is divided
    yield from _told(_model_split.faults(case, _model.shape(case, model, bundled=True)))


@check("launch-too-few-gpus")
def the_host_has_the_gpus_asked_for(
    launch: Launch,
    flags: EngineFlags | None,
    nvml: Nvml | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_gpus

    case = _model.case(launch, flags, environment, packages)
    yield from _told(_model_gpus.faults(case, nvml, environment))


@check(
    "launch-quantisation-mismatch",
    "launch-quantisation-replaced",
    "launch-float16-refused",
    "launch-attention-model",
)
def the_checkpoint_takes_what_is_asked(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    engine: EngineModels | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_precision

    case = _model.case(launch, flags, environment, packages)
    if (
        not case.value("quantization")
        and case.value("dtype") in (None, "auto")
        and _model_precision.backend(case) is None
    ):
        return  # all is left to the engine
    shape = _model.shape(case, model)
    yield from _told(_model_precision.faults(case, shape, engine))
    yield from _told(_model_precision.attention_of_model(case, shape))
    if version := _model_precision.unread(case):
        yield undecided("launch-attention-model", "launch-attention-unread", engine=case.engine, version=version)


@check("launch-quantisation-gpu", "launch-bfloat16-gpu", "launch-sglang-gpu", "launch-attention-gpu")
def the_gpus_take_what_is_asked(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    nvml: Nvml | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_gpus, _model_precision

    case = _model.case(launch, flags, environment, packages)
    gpus = _model_gpus.seen(case, nvml, environment)
    try:
        shape = _model.shape(case, model)
    except Undecided:  # what the command itself asks is judged without the model
        shape = None
    yield from _told(_model_precision.of_gpus(case, shape, gpus))
    if version := _model_precision.unread(case):
        yield undecided("launch-attention-gpu", "launch-attention-unread", engine=case.engine, version=version)


@check("launch-kernels-missing", "launch-kernels-doubtful", "launch-kernels-ptx-only")
def the_engines_kernels_are_for_these_gpus(
    launch: Launch,
    flags: EngineFlags | None,
    kernels: Kernels | None,
    model: ModelConfig | None,
    nvml: Nvml | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _kernels, _model, _model_gpus

    case = _model.case(launch, flags, environment, packages)
    if kernels is None:
        raise Undecided("launch-engine-unseen", engine=case.engine)
    if not any(one.arches for one in kernels.libraries):
        raise Undecided("extension-arches-unread", path=kernels.libraries[0].path if kernels.libraries else "?")
    gpus = _model_gpus.seen(case, nvml, environment)
    try:
        shape = _model.shape(case, model)
    except Undecided:  # what the command itself asks is judged without the model
        shape = None
    yield from _told(_kernels.faults(case, shape, kernels, gpus))


@check("launch-context-too-long", "launch-context-beyond-model")
def the_context_is_within_the_models(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_context

    case = _model.case(launch, flags, environment, packages)
    if not case.value("context"):
        return
    yield from _told(_model_context.faults(case, _model.shape(case, model)))


@check("launch-parser-of-another-model", "launch-tokenizer-mode", "launch-chat-template-missing")
def parsers_and_templates_are_the_models(
    launch: Launch,
    flags: EngineFlags | None,
    model: ModelConfig | None,
    packages: Packages | None,
    environment: Environment | None,
) -> Findings:
    from . import _model, _model_words

    case = _model.case(launch, flags, environment, packages)
    shape = _model.shape(case, model)
    if model is not None:
        yield from _told(_model_words.faults(case, shape, model))
