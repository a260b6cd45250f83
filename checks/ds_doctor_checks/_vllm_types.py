"""What pydantic makes of one value for one type, in its own words; it knows no configuration class by name.

pydantic 2.14 as vllm 0.33.0 uses it (lax mode). The types are those of data/vllm_configs.toml.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

Wrong = tuple[str, str]  # where in the value (`pass_config.fuse_norm_quant`), and pydantic's words

_TRUTHS = frozenset(("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"))
_BOUNDS = (
    ("gt", "greater than"),
    ("ge", "greater than or equal to"),
    ("lt", "less than"),
    ("le", "less than or equal to"),
)


def wrongs(kind: Any, value: Any, classes: Mapping[str, Any], at: str = "") -> Iterator[Wrong]:
    """Each place where the value is not of the type. Nothing: it is taken."""
    if isinstance(kind, str):
        said = _plain(kind, value)
        if said:
            yield at, said
        return
    head, *rest = kind
    if head == "or":
        yield from _union(rest, value, classes, at)
    elif head == "in":
        if not any(value == r and isinstance(value, bool) == isinstance(r, bool) for r in rest):
            yield at, "Input should be " + _listed(rest)
    elif head == "name":
        yield from _name(rest, value, at)
    elif head == "list":
        if not isinstance(value, (list, tuple)):
            yield at, "Input should be a valid list"
            return
        for i, item in enumerate(value):
            yield from wrongs(rest[0], item, classes, _below(at, str(i)))
    elif head == "dict":
        if not isinstance(value, dict):
            yield at, "Input should be a valid dictionary"
            return
        for key, item in value.items():
            yield from wrongs(rest[1], item, classes, _below(at, str(key)))
    elif head == "class":
        yield from fields(rest[0], value, classes, at)


def fields(name: str, value: Any, classes: Mapping[str, Any], at: str = "") -> Iterator[Wrong]:
    """What is wrong with a JSON object that stands for a class."""
    if not isinstance(value, dict):
        yield at, "Input should be an object"
        return
    known = classes[name]
    for key, field in known.items():
        if key in value:
            yield from one(field, value[key], classes, _below(at, key))
        elif field.get("required"):
            yield _below(at, key), "Field required"
    for key in value:
        if key not in known:
            yield _below(at, key), "Unexpected keyword argument"


def one(field: Mapping[str, Any], value: Any, classes: Mapping[str, Any], at: str) -> Iterator[Wrong]:
    """A value for a field: its type, then its bounds."""
    found = list(wrongs(field["type"], value, classes, at))
    yield from found
    if found or value is None or isinstance(value, bool):
        return
    if "min" in field and isinstance(value, (list, dict)) and len(value) < field["min"]:
        noun = "List" if isinstance(value, list) else "Dictionary"
        yield at, f"{noun} should have at least {field['min']} item after validation, not {len(value)}"
    number = _number(value)
    if number is None:
        return
    for name, words in _BOUNDS:
        limit = field.get(name)
        if limit is not None and not _keeps(name, number, limit):
            yield at, f"Input should be {words} {limit}"
            return


def _keeps(name: str, number: float, limit: float) -> bool:
    if name == "gt":
        return number > limit
    if name == "ge":
        return number >= limit
    return number < limit if name == "lt" else number <= limit


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _union(kinds: list[Any], value: Any, classes: Mapping[str, Any], at: str) -> Iterator[Wrong]:
    answers = [list(wrongs(k, value, classes, at)) for k in kinds]
    if any(not a for a in answers):
        return
    deepest = [a for k, a in zip(kinds, answers, strict=True) if k != "none"]
    yield from (deepest[0] if deepest else answers[0])


def _name(names: list[str], value: Any, at: str) -> Iterator[Wrong]:
    if isinstance(value, str):
        if value.upper() not in names:
            yield at, f"Unknown name: '{value.upper()}'. Valid options are: {', '.join(names)}"
    elif isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(names):
        yield at, "Input should be " + _listed(names)


def _plain(kind: str, value: Any) -> str | None:
    if kind == "any":
        return None
    if kind == "none":
        return None if value is None else "Input should be None"
    if kind == "str":
        return None if isinstance(value, str) else "Input should be a valid string"
    if kind == "bool":
        return _bool(value)
    if kind == "int":
        return _int(value)
    if kind == "float":
        return _float(value)
    return "Input should be callable" if kind == "callable" else "Input should be a type"


def _bool(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return None if value in (0, 1) else "Input should be a valid boolean, unable to interpret input"
    if isinstance(value, str):
        return None if value.lower() in _TRUTHS else "Input should be a valid boolean, unable to interpret input"
    return "Input should be a valid boolean"


def _int(value: Any) -> str | None:
    if isinstance(value, int):
        return None
    if isinstance(value, float):
        if math.isfinite(value) and value == int(value):
            return None
        return "Input should be a valid integer, got a number with a fractional part"
    if isinstance(value, str):
        if re.fullmatch(r"\s*[+-]?\d+(_\d+)*(\.0+)?\s*", value):
            return None
        return "Input should be a valid integer, unable to parse string as an integer"
    return "Input should be a valid integer"


def _float(value: Any) -> str | None:
    if isinstance(value, (int, float)):
        return None
    if isinstance(value, str):
        return (
            None if _number(value) is not None else "Input should be a valid number, unable to parse string as a number"
        )
    return "Input should be a valid number"


def _listed(values: list[Any]) -> str:
    shown = [repr(v) for v in values]
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1]


def _below(at: str, key: str) -> str:
    return f"{at}.{key}" if at else key
