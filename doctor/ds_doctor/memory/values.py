"""Takes numbers out of a config.json that anybody may have written: bounded, typed, or told as what is wrong; no model is known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What no model exceeds by far; beyond it the file is damaged or hostile, and products of such numbers mean nothing.
LAYERS = 1024
WIDTH = 1 << 22  # hidden, intermediate, heads x head_dim
COUNT = 1 << 17  # heads, experts
WORDS = 1 << 26  # vocabulary
TOKENS = 1 << 40  # positions


class Unreadable(Exception):
    """The configuration cannot be a model's; the argument says which field and why, in one line."""


class Values:
    """The fields of one level of a config.json. Missing and null are the same, but that a null is not filled from `defaults`: what
    the model type's own class says where the file says nothing."""

    def __init__(self, fields: Mapping[str, Any], where: str = "", defaults: Mapping[str, Any] | None = None) -> None:
        self.fields = fields
        self.where = where
        self.defaults = defaults or {}

    def __contains__(self, name: str) -> bool:
        return self.raw(name) is not None

    def raw(self, *names: str) -> Any:
        """The first of these fields that is there."""
        for name in names:
            value = self.fields.get(name)
            if value is not None:
                return value
        if any(name in self.fields for name in names):  # a null was written: that is what it says
            return None
        for name in names:
            if name in self.defaults:
                return self.defaults[name]
        return None

    def _wrong(self, name: str, why: str) -> Unreadable:
        return Unreadable(f"{self.where}{name} {why}")

    def whole(self, *names: str, default: int | None = None, low: int = 1, high: int = WIDTH) -> int:
        """A whole number between `low` and `high`. A list (one number a layer) counts as its largest."""
        name = next((n for n in names if self.fields.get(n) is not None), names[0])
        value = self.raw(*names)
        if isinstance(value, list):
            value = max((self._whole(name, v) for v in value[:LAYERS] if v is not None), default=None)
        if value is None:
            if default is None:
                raise self._wrong(name, "is missing")
            return default
        number = self._whole(name, value)
        if not low <= number <= high:
            raise self._wrong(name, f"is {_short(number)}, outside {low} to {high}")
        return number

    def _whole(self, name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, f"is no number but {_short(value)}")
        if isinstance(value, float):
            if value != value or value in (float("inf"), float("-inf")) or value != int(value):
                raise self._wrong(name, f"is no whole number but {_short(value)}")
        return int(value)

    def number(self, *names: str, default: float) -> float:
        """A finite number; `default` where there is none, or where it is none."""
        value = self.raw(*names)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return default
        return float(value) if value == value and abs(value) < 1e18 else default

    def between(self, *names: str, default: float, low: float, high: float) -> float:
        """A number between `low` and `high`. Unreadable for one outside, or for what is no number."""
        name = next((n for n in names if self.fields.get(n) is not None), names[0])
        value = self.raw(*names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self._wrong(name, f"is no number but {_short(value)}")
        if not low <= value <= high:
            raise self._wrong(name, f"is {_short(value)}, outside {low:g} to {high:g}")
        return float(value)

    def each(self, name: str, layers: int) -> list[int] | None:
        """One whole number a layer, when the field is a list that has them."""
        value = self.fields.get(name)
        if not isinstance(value, list) or len(value) < layers:
            return None
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in value[:layers]):
            return None
        numbers = [self._whole(name, v) for v in value[:layers]]
        if min(numbers, default=0) < 0 or max(numbers, default=0) > WIDTH:
            raise self._wrong(name, f"has a number outside 0 to {WIDTH}")
        return numbers

    def words(self, name: str) -> list[str] | None:
        """A list of words, or None."""
        value = self.raw(name)
        if isinstance(value, list) and value and len(value) <= LAYERS and all(isinstance(v, str) for v in value):
            return value
        return None

    def flag(self, *names: str, default: bool = False) -> bool:
        value = self.raw(*names)
        return value if isinstance(value, bool) else default

    def word(self, *names: str) -> str:
        value = self.raw(*names)
        return value if isinstance(value, str) else ""

    def inner(self, *names: str) -> Values | None:
        """A configuration inside this one."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, Mapping):
                return Values(value, f"{self.where}{name}.")
        return None


def _short(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**300:
            return "a number of more than 300 digits"
        return f"{value:.3g}" if abs(value) >= 10**15 else str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return repr(value[:20])
    return {"bool": "a truth value", "list": "a list", "dict": "an object"}.get(
        type(value).__name__, type(value).__name__
    )
