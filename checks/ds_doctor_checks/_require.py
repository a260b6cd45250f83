"""The language of NVIDIA_REQUIRE_*: blank is or, comma is and, `name operator value`; it judges nothing else.

As nvidia-container-cli reads it (libnvidia-container src/cli/dsl.c and configure.c), with a third answer for what is not
known here: None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

DISABLED = ("1", "t", "T", "TRUE", "true", "True")  # strconv.ParseBool, as the toolkit reads NVIDIA_DISABLE_REQUIRE
_ATOM = re.compile(r"([^<>=!]+)([<>=!]+)(.*)\Z", re.S)
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_VERSION = re.compile(r"[0-9.]*[0-9][0-9.]*\Z")


class Values(NamedTuple):
    """What the host offers; None: not known. `brands`: the brands that the GPU can be of."""

    cuda: str | None
    driver: str | None
    arch: str | None
    brands: frozenset[str] | None


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers without trailing zeros: `13.0` and `13` are the same."""
    parts = [int(p[:18]) for p in version.split(".") if p]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def compare(have: str, operator: str, want: str) -> bool:
    """ValueError for what is no version."""
    if not have.isascii() or not want.isascii() or not _VERSION.match(have) or not _VERSION.match(want):
        raise ValueError(want)
    a, b = numbers(have), numbers(want)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[operator]


def holds(expression: str, values: Values) -> bool | None:
    """Whether one of the alternatives holds. ValueError for an expression that the toolkit would refuse: it reads no
    further than it needs, so that nonsense behind an alternative that holds is never seen."""
    answer: bool | None = None
    alternatives = [a for a in expression.split(" ") if a.strip(",")]
    if not alternatives:
        return True
    for i, alternative in enumerate(alternatives):
        held = _all(alternative, values)
        if held is True:
            return True
        answer = held if i == 0 or held is None else answer
    return answer


def settled(expression: str, values: Values) -> bool | None:
    """`holds`, also where the GPU can be of several brands and the answer is the same for each of them."""
    if not values.brands:
        return holds(expression, values)
    answers = {holds(expression, values._replace(brands=frozenset({b}))) for b in values.brands}
    return answers.pop() if len(answers) == 1 else None


def _all(alternative: str, values: Values) -> bool | None:
    answer: bool | None = True
    for atom in alternative.split(","):
        held = _atom(atom, values) if atom else True
        if held is False:
            return False
        if held is None:
            answer = None
    return answer


def _atom(atom: str, values: Values) -> bool | None:
    m = _ATOM.match(atom)
    if m is None or not m[3]:
        raise ValueError(atom)
    # The C code compares as many characters as the operator has, so that `!` alone reads as `!=`.
    operator = next((o for o in _OPERATORS if o[: len(m[2])] == m[2]), None)
    if operator is None:
        raise ValueError(atom)
    name = m[1].lower()
    if name == "brand":
        if operator not in ("=", "!="):
            raise ValueError(atom)
        return _brand(m[3].lower(), operator, values.brands)
    if name not in ("cuda", "driver", "arch"):
        raise ValueError(atom)
    have: str | None = getattr(values, name)
    held = compare(have or "0", operator, m[3])
    return held if have is not None else None


def _brand(want: str, operator: str, brands: frozenset[str] | None) -> bool | None:
    if brands is None:
        return None
    if want not in brands:
        return operator == "!="
    return operator == "=" if len(brands) == 1 else None


def brands_of(names: tuple[str, ...]) -> frozenset[str] | None:
    """The brands that GPUs of these names can be of, as far as the names tell; None when they do not."""
    if names and all("geforce" in n.lower() for n in names):
        return frozenset({"geforce", "geforcertx"})
    return None


def required(variables: Mapping[str, str]) -> dict[str, str]:
    """The image's requirements by variable; nothing where NVIDIA_DISABLE_REQUIRE switches them off."""
    if variables.get("NVIDIA_DISABLE_REQUIRE") in DISABLED:
        return {}
    return {n: v for n, v in variables.items() if n.startswith("NVIDIA_REQUIRE_") and v.strip()}


def wanted_cuda(expression: str) -> str | None:
    """The CUDA version that the first alternative asks for at least."""
    first = next((a for a in expression.split(" ") if a.strip(",")), "")
    m = re.search(r"(?:\A|,)cuda>=([0-9]{1,3}(?:\.[0-9]{1,3})?)", first)
    return m[1] if m else None
