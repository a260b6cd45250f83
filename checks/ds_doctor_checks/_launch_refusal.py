"""One check of an engine's start-up that a command does not pass; it knows no engine."""

from __future__ import annotations

import msgspec


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One check of the engine that the command does not pass: the exception as the engine ends with it, and the options
    (names in the parsed namespace) that are to blame."""

    id: str
    message: str
    about: tuple[str, ...] = ()


def no(id: str, message: str, *about: str, kind: str = "ValueError") -> Refusal:
    """A ValueError of the engine."""
    return Refusal(id=id, message=f"{kind}: {message}" if message else kind, about=about)


def bad(id: str, message: str, *about: str) -> Refusal:
    """A failed assertion of the engine."""
    return no(id, message, *about, kind="AssertionError")
