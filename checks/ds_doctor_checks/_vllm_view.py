"""What vLLM's start-up checks see of one command: the options by name, and the table of its fields; it refuses nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._flag_types import expanded
from ._launch_refusal import Refusal
from ._options import Options

VERSION = "0.33.0"  # the version whose checks these modules repeat
Refusals = Iterator[Refusal]


def no(id: str, message: str, *about: str, kind: str = "ValueError") -> Refusal:
    """The exception as the engine ends with it; `about`: the options to blame, by their names in the parsed namespace."""
    return Refusal(id=id, message=f"{kind}: {message}", about=about)


def invalid(id: str, name: str, words: str, *about: str) -> Refusal:
    """pydantic's ValidationError for a configuration class; `words`: its lines behind the head."""
    return no(id, f"1 validation error for {name}\n{words}", *about, kind="ValidationError")


def value_error(id: str, name: str, words: str, *about: str) -> Refusal:
    """A ValueError inside a configuration class, which pydantic wraps."""
    return invalid(id, name, f"  Value error, {words}", *about)


class View:
    """The options by attribute (None: the engine has no such option), and what the process would see of the environment."""

    def __init__(self, made: Options, environment: Mapping[str, str], serve: bool) -> None:
        self.made = made
        self.environment = environment
        self.serve = serve

    def __getattr__(self, name: str) -> Any:
        return self.made.values.get(name)

    def given(self, dest: str) -> bool:
        return self.made.of(dest) is not None

    def config(self, dest: str) -> dict[str, Any]:
        """A JSON option as an object; {} where it was not given, or is none."""
        value = self.made.values.get(dest)
        return value if isinstance(value, dict) else {}

    def on(self, variable: str) -> bool | None:
        """A 0/1 variable of vLLM; None: not set."""
        text = self.environment.get(variable)
        return None if text is None else text.strip().lower() in ("1", "true")


def read(text: str) -> Any:
    """JSON as vLLM reads it from a command line; ValueError where it is none."""
    import json

    return json.loads(expanded(text))
