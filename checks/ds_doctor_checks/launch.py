"""The launch command's words: does the engine's own parser take them, and as what they were meant?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, check
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.launch import Launch

FAMILY = "launch"


@check("launch-module-unknown")
def entry_exists(launch: Launch, engine_flags: EngineFlags | None) -> Findings:
    from ._launch_entry import judged

    if launch.engine is None:
        raise NotApplicable("no-engine-command")
    yield from judged(launch, engine_flags)


@check(
    "launch-flag-unknown",
    "launch-flag-misspelt",
    "launch-flag-other-engine",
    "launch-flag-removed",
    "launch-flag-retired",
    "launch-flag-ambiguous",
    "launch-value-missing",
    "launch-value-refused",
    "launch-value-no-choice",
    "launch-json-malformed",
    "launch-switch-with-value",
    "launch-word-left-over",
    "launch-docker-option-behind-image",
    "launch-image-starts-the-server",
    "launch-dash-typographic",
    "launch-model-missing",
    "launch-model-not-first",
    "launch-config-file-refused",
)
def parser_takes_every_word(launch: Launch, engine_flags: EngineFlags | None) -> Findings:
    from ._launch_words import refused

    if launch.engine is None:
        raise NotApplicable("no-engine-command")
    yield from refused(launch, engine_flags)


@check(
    "launch-flag-abbreviated",
    "launch-flag-usual-abbreviation",
    "launch-flag-repeated",
    "launch-flag-deprecated",
    "launch-integer-decimal",
    "launch-value-swallowed",
    "launch-default-model",
    "launch-quotes-curly",
    "launch-flags-of-other-version",
)
def words_mean_what_they_say(launch: Launch, engine_flags: EngineFlags | None) -> Findings:
    from ._launch_words import surprising

    if launch.engine is None:
        raise NotApplicable("no-engine-command")
    yield from surprising(launch, engine_flags)
