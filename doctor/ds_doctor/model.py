"""The values that pass between the rooms; this room holds no I/O and takes no decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

Lang = Literal["en", "zh"]
LANGS: tuple[Lang, ...] = ("en", "zh")

Level = Literal["note", "warn", "fail"]
Standing = Literal["measured", "vendor", "reported", "documented", "disputed", "refuted"]
Status = Literal["pass", "note", "warn", "fail", "skip", "unknown", "error"]
STATUSES: tuple[Status, ...] = ("pass", "note", "warn", "fail", "skip", "unknown", "error")

# The most that a run may say on a claim of each standing. None: a run may not use it at all.
MOST: Mapping[str, Level | None] = {
    "measured": "fail",
    "vendor": "fail",
    "reported": "fail",
    "documented": "warn",
    "disputed": "note",
    "refuted": None,
}
WEIGHT: Mapping[str, int] = {"note": 1, "warn": 2, "fail": 3}


class Reason(msgspec.Struct, frozen=True):
    """Why something could not be seen or judged: an id of a `[reason.<id>]` text in rules.toml, and its blanks.

    An id that no catalogue knows is shown as it stands, so that a plugin may give plain words.
    """

    id: str
    data: dict[str, Any] = {}

    def __str__(self) -> str:
        blanks = ", ".join(f"{k}={v}" for k, v in self.data.items())
        return f"{self.id} ({blanks})" if blanks else self.id


class Trouble(Exception):
    """A probe or the door could not give a fact; `reason` says why in one line."""

    kind = "trouble"

    def __init__(self, reason: str, **data: Any) -> None:
        super().__init__(reason, data)
        self.reason = Reason(reason, data)


class Absent(Trouble):
    """The thing is not there. A check that asks for `Fact | None` gets None; one that asks for `Fact` is skipped."""

    kind = "absent"


class Unseen(Trouble):
    """It needs the running machine, and only files are read (--root): nobody knows whether it is there.

    A check that asks for `Fact | None` gets None, and what it finds stands; what it does not find is no pass.
    """

    kind = "unseen"


class Denied(Trouble):
    """It is there, and this user may not look."""

    kind = "denied"


class TimedOut(Trouble):
    """It gave no answer in time."""

    kind = "timed-out"


class Malformed(Trouble):
    """It is there and cannot be understood; the reason says what was missed."""

    kind = "malformed"


TROUBLES: Mapping[str, type[Trouble]] = {t.kind: t for t in (Absent, Unseen, Denied, TimedOut, Malformed)}


class NotApplicable(Exception):
    """Raised by a check: its rules do not apply here (status `skip`)."""

    def __init__(self, reason: str, **data: Any) -> None:
        super().__init__(reason, data)
        self.reason = Reason(reason, data)


class Undecided(Exception):
    """Raised by a check: its rules apply and cannot be judged (status `unknown`)."""

    def __init__(self, reason: str, **data: Any) -> None:
        super().__init__(reason, data)
        self.reason = Reason(reason, data)


class Finding(msgspec.Struct, frozen=True):
    """One fault that a check found: the rule, what it is on (a GPU, a file, a package; None: the host), the numbers."""

    rule: str
    on: str | None = None
    data: dict[str, Any] = {}


class Verdict(msgspec.Struct, frozen=True):
    """A check's word on one of its rules where that differs from the others: `skip` or `unknown`, with the reason; or `pass`, with what
    it rests on where that is more than a reader would think."""

    rule: str
    status: Literal["skip", "unknown", "pass"]
    reason: Reason


Findings = Iterator[Finding | Verdict]


def found(rule: str, on: str | None = None, **data: Any) -> Finding:
    """A fault of `rule`; `data` fills the blanks of its texts."""
    return Finding(rule, on, data)


def not_applicable(rule: str, reason: str, **data: Any) -> Verdict:
    """This one rule of the check does not apply here."""
    return Verdict(rule, "skip", Reason(reason, data))


def passed(rule: str, reason: str, **data: Any) -> Verdict:
    """This one rule of the check is kept, and `reason` says what that rests on."""
    return Verdict(rule, "pass", Reason(reason, data))


def undecided(rule: str, reason: str, **data: Any) -> Verdict:
    """This one rule of the check applies and cannot be judged."""
    return Verdict(rule, "unknown", Reason(reason, data))


class Outcome(msgspec.Struct, frozen=True):
    """What gathering one fact gave: the fact, or the kind of trouble and its reason (kind `broken`: the probe raised)."""

    fact: Any = None
    trouble: str | None = None
    reason: Reason | None = None
    duration_ms: float = 0.0


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What one rule came to in one run."""

    rule: str
    check: str
    family: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: Reason | None = None
    duration_ms: float = 0.0


class PluginError(msgspec.Struct, frozen=True):
    """A plugin that could not be used, and why; it costs its own checks only."""

    plugin: str
    reason: Reason
