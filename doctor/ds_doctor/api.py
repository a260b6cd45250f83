"""All that a check, a probe or a plugin imports from the framework; it holds nothing of its own."""

from __future__ import annotations

from .command import Output
from .host import Host, Space, Stat
from .model import (
    Absent,
    Denied,
    Finding,
    Findings,
    Malformed,
    NotApplicable,
    TimedOut,
    Trouble,
    Undecided,
    Unseen,
    found,
    not_applicable,
    passed,
    undecided,
)
from .registry import check, probe
from .tables import read as read_table

__all__ = [
    "Absent",
    "Denied",
    "Finding",
    "Findings",
    "Host",
    "Malformed",
    "NotApplicable",
    "Output",
    "Space",
    "Stat",
    "TimedOut",
    "Trouble",
    "Undecided",
    "Unseen",
    "check",
    "found",
    "not_applicable",
    "passed",
    "probe",
    "read_table",
    "undecided",
]
