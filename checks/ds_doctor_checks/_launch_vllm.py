"""Findings on the values of a vLLM command; which values are wrong, the _vllm modules know."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, found
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch

from ._data import table
from ._launch_refusal import Refusal
from ._launch_view import Names, around
from ._open_words import need_certain
from ._options import Options, options
from ._vllm_later import worries
from ._vllm_refusals import refusals
from ._vllm_view import VERSION, View


def _made(launch: Launch, installed: EngineFlags | None) -> Options:
    """The command's options. NotApplicable where no values of vLLM can be judged."""
    if launch.engine != "vllm":
        raise NotApplicable("launch-not-vllm")
    made = options(launch, installed)
    if not made.serves or made.help:
        raise NotApplicable("launch-vllm-no-server")
    if made.errors:
        raise NotApplicable("launch-vllm-parser-first")
    need_certain(made, numbers=True)
    return made


def _serves(launch: Launch) -> bool:
    """`vllm serve`, not the module behind `python -m`."""
    return (launch.entry or "").endswith(" serve")


def refused(launch: Launch, installed: EngineFlags | None, environment: Environment | None) -> Findings:
    made = _made(launch, installed)
    names = Names(launch, installed, made)
    every = refusals(made, around(launch, environment), _serves(launch))
    if made.table.wanted not in (None, VERSION):
        if every:
            about = ", ".join(names.of(d) for d in every[0].about)
            raise Undecided("launch-vllm-other-version", version=made.table.wanted, known=VERSION, flags=about)
        return
    if made.config is not None:
        raise Undecided("launch-vllm-config-file", path=made.config)
    words = table("vllm_refusals")["words"]
    for n, refusal in enumerate(every, 1):
        flags = [names.of(d) for d in refusal.about]
        yield found(
            "launch-vllm-refused",
            on=flags[0] if flags else None,
            flags=flags,
            words=_words(words[refusal.id], refusal),
            message=" / ".join(line.strip() for line in refusal.message.split("\n")),
            version=VERSION,
            n=n,
            of=len(every),
        )


_FIELD = ("field-range", "field-type", "json-key")  # what they mean, only the engine's own line tells


def _words(text: dict[str, str], refusal: Refusal) -> dict[str, str]:
    if refusal.id not in _FIELD:
        return text
    line = " ".join(refusal.message.split("\n", 1)[-1].split())
    return {lang: f"{words} ({line})" for lang, words in text.items()}


def failing(launch: Launch, installed: EngineFlags | None, environment: Environment | None) -> Findings:
    made = _made(launch, installed)
    view = View(made, around(launch, environment), _serves(launch))
    names = Names(launch, installed, made)
    words = table("vllm_refusals")["later"]
    for dest, value, what in worries(view):
        flag = names.of(dest)
        yield found("launch-vllm-fails-later", on=flag, flag=flag, value=value, words=words[what])
