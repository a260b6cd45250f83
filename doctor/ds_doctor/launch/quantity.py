"""Amounts and durations as Kubernetes, Compose and systemd write them, in bytes and seconds."""

from __future__ import annotations

import re

_BINARY = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_UNITS_S = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0,
    "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0,
    "days": 86400.0, "w": 604800.0, "week": 604800.0, "weeks": 604800.0, "": 1.0,
}  # fmt: skip


def quantity(text: str | None) -> float | None:
    """A quantity of Kubernetes: `16Gi`, `500m`, `1e3`, `2`. None for what is none."""
    m = re.fullmatch(
        r"\+?(\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})(?:([eE][+-]?\d{1,2})|([KMGTPE]i|[numkMGTPE]))?", text or ""
    )
    if m is None:
        return None
    number = float(m[1]) * (10 ** int(m[2][1:]) if m[2] else 1)
    return number * (_BINARY[m[3]] if m[3] in _BINARY else _DECIMAL[m[3] or ""])


def amount(text: str | None) -> int | None:
    """The same as whole bytes."""
    value = quantity(text)
    return int(value) if value is not None and value < 1e18 else None


def seconds(text: str | None) -> float | None:
    """`90`, `5min 20s`, `1m30s`, `infinity`. None for what is none."""
    said = (text or "").strip()
    if said == "infinity":
        return float("inf")
    parts = re.findall(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]*)\s*", said)
    if not parts or re.sub(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]*)\s*", "", said):
        return None
    if any(unit not in _UNITS_S for _, unit in parts):
        return None
    return sum(float(n) * _UNITS_S[unit] for n, unit in parts)
