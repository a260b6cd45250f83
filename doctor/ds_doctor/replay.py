"""The door to the machine recorded and played again: a parser runs without the machine; interprets nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .command import Output
from .host import Asked, Host, Space, Stat
from .model import TROUBLES, Absent, Reason, Trouble

_ANSWERS: dict[str, Any] = {"stat": Stat, "lstat": Stat, "space": Space, "run": Output, "run_own": Output}


def _key(op: str, args: tuple[Any, ...]) -> str:
    # A limit or time-out is how it was asked, not what was asked.
    if op in ("read", "run", "run_own"):
        args = args[:1]
    try:
        return op + " " + msgspec.json.encode(args).decode()
    except UnicodeEncodeError:  # a file's name that is not UTF-8
        return f"{op} {args!r}"


def record(host: Host, calls: dict[str, Any]) -> Host:
    """The same host; every answer it gives is also written to `calls` (JSON values)."""
    ask = host._call

    def _call(op: str, *args: Any) -> Any:
        try:
            answer = ask(op, *args)
        except Trouble as t:
            calls[_key(op, args)] = {"trouble": t.kind, "reason": msgspec.to_builtins(t.reason)}
            raise
        if isinstance(answer, bytes):
            try:
                calls[_key(op, args)] = {"text": answer.decode("utf-8")}
            except UnicodeDecodeError:
                import base64

                calls[_key(op, args)] = {"base64": base64.b64encode(answer).decode()}
        else:
            calls[_key(op, args)] = {"value": msgspec.to_builtins(answer)}
        return answer

    host._call = _call  # type: ignore[method-assign]
    host.remembers = False  # the recording must hold the files themselves
    return host


class ReplayedHost(Host):
    """Answers from recorded calls; what was not recorded is Absent."""

    remembers = False

    def __init__(self, calls: Mapping[str, Any], env: Mapping[str, str], asked: Asked | None = None) -> None:
        super().__init__(asked, env)
        self.calls = calls

    def _call(self, op: str, *args: Any) -> Any:
        said = self.calls.get(_key(op, args))
        if said is None:
            raise Absent("not-recorded", path=str(args[0]))
        if "trouble" in said:
            reason = msgspec.convert(said["reason"], Reason)
            raise TROUBLES[said["trouble"]](reason.id, **reason.data)
        if "text" in said:
            return said["text"].encode()
        if "base64" in said:
            import base64

            return base64.b64decode(said["base64"])
        return msgspec.convert(said["value"], _ANSWERS[op]) if op in _ANSWERS else said["value"]
