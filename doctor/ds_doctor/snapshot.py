"""Facts to JSON and back (--record, --replay, the tests' recorded hosts); asks nothing, judges nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .host import Asked
from .model import Outcome, Reason
from .registry import fact_name

SCHEMA = "ds-doctor.snapshot/1"
LIMIT = 256 << 20


class SnapshotError(Exception):
    """A snapshot that cannot be used: one line with the file and the place."""


class Kept(msgspec.Struct, omit_defaults=True):
    """One fact as it is kept: its value, or the kind of trouble and the reason."""

    value: Any = None
    trouble: str | None = None
    reason: Reason | None = None


class KeptService(msgspec.Struct, kw_only=True):
    """One more service of the file that was judged: what was asked, and the facts that differ from the first one's."""

    asked: Asked
    facts: dict[str, Kept]


class Snapshot(msgspec.Struct, kw_only=True):
    """The file: who recorded it and when, what was asked, and the facts by name; `services`: those behind the first."""

    schema: str
    tool: dict[str, str]
    recorded_at: str
    asked: Asked
    facts: dict[str, Kept]
    services: list[KeptService] = []


def key(fact: type) -> str:
    """A fact's name in a snapshot; a plugin's own facts carry their module."""
    own = fact.__module__.startswith("ds_doctor.")
    return fact_name(fact) if own else f"{fact.__module__}:{fact_name(fact)}"


def write(
    outcomes: Mapping[type, Outcome],
    asked: Asked,
    version: str,
    now: str,
    services: Iterable[tuple[Asked, Mapping[type, Outcome]]] = (),
) -> bytes:
    """The snapshot of what was gathered, as indented JSON; `services`: those behind the first, with their own facts."""
    snapshot = Snapshot(
        schema=SCHEMA,
        tool={"name": "ds-doctor", "version": version},
        recorded_at=now,
        asked=asked,
        facts=_kept(outcomes),
        services=[KeptService(asked=a, facts=_kept(o)) for a, o in services],
    )
    try:
        data = msgspec.json.encode(snapshot)
    except UnicodeEncodeError:  # a file name or variable that is not UTF-8
        data = msgspec.json.encode(_in_unicode(msgspec.to_builtins(snapshot)))
    return msgspec.json.format(data, indent=1) + b"\n"


def _kept(outcomes: Mapping[type, Outcome]) -> dict[str, Kept]:
    return {
        key(fact): Kept(msgspec.to_builtins(o.fact), o.trouble, o.reason)
        for fact, o in sorted(outcomes.items(), key=lambda p: key(p[0]))
    }


def _in_unicode(value: Any) -> Any:
    """The same with every lone surrogate as U+FFFD."""
    if isinstance(value, str):
        return "".join("\N{REPLACEMENT CHARACTER}" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {_in_unicode(k): _in_unicode(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_unicode(v) for v in value]
    return value


def read(data: bytes, where: str) -> Snapshot:
    """A snapshot file. SnapshotError with one line for anything else."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as e:
        raise SnapshotError(f"{where}: not valid JSON: {e}") from None
    schema = head.get("schema") if isinstance(head, dict) else None
    if schema != SCHEMA:
        said = f"schema {schema!r}" if schema else "no snapshot of ds-doctor (no schema)"
        raise SnapshotError(f"{where}: {said}; this program reads {SCHEMA}")
    try:
        return msgspec.convert(head, Snapshot)
    except msgspec.ValidationError as e:
        raise SnapshotError(f"{where}: {e}") from None


def outcomes(snapshot: Snapshot, facts: Iterable[type], where: str, service: int = 0) -> dict[type, Outcome]:
    """The wanted facts out of a snapshot; one that it lacks is unknown. SnapshotError for one of another shape."""
    every = {**snapshot.facts, **snapshot.services[service - 1].facts} if service else snapshot.facts
    got: dict[type, Outcome] = {}
    for fact in facts:
        kept = every.get(key(fact))
        if kept is None:
            got[fact] = Outcome(None, "not-recorded", Reason("fact-not-recorded", {"fact": fact_name(fact)}))
        elif kept.trouble is not None:
            got[fact] = Outcome(None, kept.trouble, kept.reason)
        else:
            try:
                got[fact] = Outcome(msgspec.convert(kept.value, fact))
            except msgspec.ValidationError as e:
                raise SnapshotError(f"{where}: facts.{key(fact)}: {e}") from None
    return got
