"""What installed packages demand of each other, out of their Requires-Dist lines; it judges nothing.

Only what is certain: pins with == or ~= and markers that can be answered from the Python's version and the machine on Linux.
A line that is harder to read is left out. (packaging would read all of it, and costs 26 ms to import.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ds_doctor.probes.python_env import Package, Packages, normal

_LINE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?\Z", re.S)
_TERM = re.compile(
    r"""\s*(platform_system|sys_platform|platform_machine|python_version|os_name|implementation_name|platform_python_implementation)"""
    r"""\s*(==|!=|<=|>=|<|>)\s*(['"])([^'"]*)\3\s*\Z"""
)
# What the words of a marker are here; engines run on CPython alone.
_HERE = {
    "platform_system": "Linux",
    "sys_platform": "linux",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}


class Pin(msgspec.Struct, frozen=True):
    """`by` (an installed package) wants `name` to be `version` (with the operator == or ~=)."""

    by: Package
    name: str
    operator: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{self.version}"


def pins(packages: Packages, machine: str) -> Iterator[Pin]:
    """Every exact pin on a package that is installed. `machine` as `uname -m` gives it, empty when that is not known."""
    for package in packages.packages.values():
        for line in package.requires:
            m = _LINE.match(line)
            if m is None or not holds(m[3], packages.version, machine):
                continue
            name = normal(m[1])
            specs = [s.strip() for s in m[2].split(",") if s.strip()]
            if name in packages.packages and len(specs) == 1:
                s = re.fullmatch(r"(==|~=)\s*([A-Za-z0-9.+!_-]+)", specs[0])
                if s is not None:
                    yield Pin(package, name, s[1], s[2])


def holds(marker: str | None, python: str, machine: str) -> bool:
    """Whether a marker holds here for certain."""
    return marker is None or not marker.strip() or _value(marker, python, machine) is True


def _value(marker: str, python: str, machine: str) -> bool | None:
    """A marker's value, None where a part of it cannot be answered. `and` binds closer than `or`, as in Python."""
    while True:  # from the innermost pair of parentheses outwards; what is within becomes a word that is its value
        inner = re.search(r"\(([^()]*)\)", marker)
        if inner is None:
            break
        marker = f"{marker[: inner.start()]} {_value(inner[1], python, machine)} {marker[inner.end() :]}"
    every = [
        [_term(term, python, machine) for term in re.split(r"\band\b", part)] for part in re.split(r"\bor\b", marker)
    ]
    parts = [False if False in terms else None if None in terms else True for terms in every]
    return True if True in parts else None if None in parts else False


def _term(term: str, python: str, machine: str) -> bool | None:
    if term.strip() in ("True", "False"):
        return term.strip() == "True"
    m = _TERM.match(term)
    if m is None:
        return None
    name, operator, value = m[1], m[2], m[4]
    if name != "python_version":
        here = machine if name == "platform_machine" else _HERE[name]
        if not here or operator not in ("==", "!="):
            return None
        return (value == here) == (operator == "==")
    version, wanted = release(python), release(value)
    if version is None or wanted is None:
        return None
    return {
        "==": version[:2] == wanted,
        "!=": version[:2] != wanted,
        "<": version[:2] < wanted,
        "<=": version[:2] <= wanted,
        ">": version[:2] > wanted,
        ">=": version[:2] >= wanted,
    }[operator]


def release(version: str) -> tuple[int, ...] | None:
    """The numbers of a plain version (2.11.0, 2.11.0+cu130), without trailing zeros; None for a pre-release or another kind."""
    m = re.fullmatch(r"\d{1,9}(\.\d{1,9})*", version.partition("+")[0])
    if m is None:
        return None
    numbers = [int(p) for p in m[0].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def kept(pin: Pin, installed: str) -> bool | None:
    """Whether the installed version keeps the pin; None when a development build makes that unanswerable."""
    plain, wanted = installed.partition("+")[0], pin.version.partition("+")[0]
    have, want = release(plain), release(wanted)
    if have is None or want is None:
        if plain == wanted:
            return True
        # 0.7.2.post1 is a plain release with a suffix; 2.8.0a0, .dev and the like are somebody's own build.
        return False if all(re.fullmatch(r"[\d.]+(\.post\d+)?", v) for v in (plain, wanted)) else None
    if pin.operator == "==":
        return have == want and ("+" not in pin.version or installed == pin.version)
    prefix = [int(p) for p in wanted.split(".")][:-1]
    padded = [*have, *[0] * len(prefix)]
    return padded[: len(prefix)] == prefix and have >= want


def minor(version: str) -> str:
    """`2.11.0+cu130` -> `2.11`."""
    return ".".join(version.partition("+")[0].split(".")[:2])
