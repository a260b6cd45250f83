"""The engine's commands in a shell script or behind `-c`, with the variables and folder that the script sets before them."""

from __future__ import annotations

from collections.abc import Mapping

from .command import Found, engine_of
from .shell import Command, QuotesOpen, Reader, State

DEEP = 6  # scripts within scripts
SERVICES = 64  # commands of one script


def commands(
    text: str, known: Mapping[str, str] | None, arguments: list[str] | None = None
) -> tuple[list[Command], State, list[str]]:
    """(the simple commands, what is known at the end, the files it sources). QuotesOpen for what a shell would refuse."""
    state = State(known, arguments)
    reader = Reader(text.replace("\r\n", "\n"), state)
    return reader.read(), state, reader.sourced


def found_in(text: str, found: Found, arguments: list[str] | None = None) -> list[tuple[Command, Found]]:
    """The commands of a script that start an engine or a container, each with what stands around it."""
    try:
        every, state, sourced = commands(text, found.known, arguments)
    except QuotesOpen as e:
        found.miss("launch-quotes-open", at=f"line {e.line}")
        return []
    got: list[tuple[Command, Found]] = []
    for one in every:
        if len(got) >= SERVICES:
            found.miss("launch-too-many", limit=SERVICES)
            break
        inner = below(found, one, state)
        if engine_of(inner.argv, inner.container)[0] is None and (inner.container is None or not inner.argv):
            if (
                inner.container is None
                or inner.container.running
                or not (inner.container.asked_gpus or inner.container.runtime)
            ):
                continue
        for path in sourced:
            inner.miss("launch-script-sources", path=path)
        got.append((one, inner))
    return got


def below(found: Found, one: Command, state: State) -> Found:
    """A command of a script with its wrappers taken off."""
    from .wrappers import unwrap

    inner = Found({**(found.known or {}), **{n: v for n, v in state.values.items() if v is not None}})
    inner.deep = found.deep + 1
    inner.environment = {**found.environment, **one.environment}
    inner.container = found.container
    inner.folder = state.folder or found.folder
    inner.unread = list(found.unread)
    inner.argv = list(one.words)
    if not one.sure:
        inner.miss("launch-conditional", line=one.line)
    if inner.deep < DEEP:
        unwrap(inner)
    return inner


def choose(found: Found, text: str, arguments: list[str]) -> None:
    """Go on with the engine's command in the text behind `-c`. With none, or with several, that is said."""
    given = arguments if arguments else ["sh"]
    got = [(c, f) for c, f in found_in(text, found, given) if engine_of(f.argv, f.container)[0] is not None]
    if not got:
        if not found.unread:
            _only(found, text, given)
        return
    _, inner = got[0]
    if len(got) > 1:
        inner.miss("launch-several-commands", count=len(got))
    found.argv, found.environment, found.container = inner.argv, inner.environment, inner.container
    found.folder, found.unread, found.nodes = inner.folder, inner.unread, inner.nodes
    found.wrappers += inner.wrappers


def _only(found: Found, text: str, given: list[str]) -> None:
    """The one command of the text, which is no engine's; several stay as they stand."""
    every, _, _ = commands(text, found.known, given)
    if len(every) == 1 and every[0].sure and every[0].words:
        found.argv = list(every[0].words)
        found.environment = {**found.environment, **every[0].environment}
