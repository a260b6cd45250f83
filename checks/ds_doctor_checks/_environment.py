"""Which variables the engine would get, and how vLLM and SGLang read them; pure, and it says nothing about whether they are wise."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ds_doctor.probes.environment import HIDDEN, Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.python_env import Packages

from ._data import table
from ._nccl_settings import one_slip

ENGINES = {"vllm": "vLLM", "sglang": "SGLang"}
RAISING = ("flag", "integer", "number", "choice", "choices", "json")
ON = {"word": ("1", "true"), "one": ("1",), "true": ("true",)}
OFF = ("", "0", "false", "no", "off", "n", "none", "f", "disable", "disabled")
# What Kubernetes and old docker links set for a Service of that name; nobody means them as settings.
_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)\Z")
_TAG = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)(?:\.post\d+)?(?=[-+]|\Z)")


class Variable(msgspec.Struct, frozen=True):
    """`source`: environment, command, or the program that would start the container with -e."""

    name: str
    value: str
    source: str


def variables(environment: Environment | None, launch: Launch | None) -> dict[str, Variable]:
    """What the engine gets: in a container that is to be started, what its own command gives alone."""
    given = dict(launch.environment) if launch else {}
    if launch is not None and launch.container is not None:
        by = f"{launch.container.program} -e"
        return {n: Variable(n, v, by) for n, v in given.items()}
    found = {n: Variable(n, v, "environment") for n, v in (environment.variables if environment else {}).items()}
    found.update({n: Variable(n, v, "command") for n, v in given.items()})
    return found


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of a release: 0.10.1.1, 0.5.12.post1 -> (0, 5, 12, 1)."""
    return tuple(int(n) for n in re.findall(r"\d{1,6}", text.partition("+")[0])[:5])


def engine_version(launch: Launch | None, packages: Packages | None, engine: str) -> str | None:
    """The release that would start: the image's tag, or the package of the engine's Python; None where neither says."""
    if launch is not None and launch.container is not None:
        m = _TAG.search(launch.container.image or "")
        return m[1] if m else None
    package = packages.packages.get(engine) if packages else None
    return package.version if package else None


# -- the tables --------------------------------------------------------------------------------------------------------


class Known(msgspec.Struct, frozen=True):
    """One engine's variables: how the newest release reads each (`kinds`), and since and until when each was there."""

    engine: str
    version: str
    oldest: str
    kinds: dict[str, str]
    others: frozenset[str]
    plugins: tuple[str, ...]
    strict: dict[str, str]
    since: dict[str, str]
    gone: dict[str, str]


def _by_name(versions: dict[str, str]) -> dict[str, str]:
    return {name: version for version, names in versions.items() for name in names.split()}


@functools.cache
def known(engine: str) -> Known:
    t = table(f"env_{engine}")
    return Known(
        engine=engine,
        version=t["version"],
        oldest=t["oldest"],
        kinds={name: kind for kind, names in t["kinds"].items() for name in names.split()},
        others=frozenset(t["other"].split()),
        plugins=tuple(t["plugins"]),
        strict=_by_name(t.get("strict", {})),
        since=_by_name(t["since"]),
        gone=_by_name(t["gone"]),
    )


def engine_of(name: str) -> str | None:
    """Whose variable it is, by its name."""
    return "vllm" if name.startswith("VLLM_") else "sglang" if name.startswith(("SGLANG_", "SGL_")) else None


def is_service(name: str) -> bool:
    """Whether it is one of those that Kubernetes sets for a Service called vllm or sglang."""
    return _SERVICE.search(name) is not None


def is_read(name: str) -> bool:
    """Whether some release of the engine, or a plugin of it, reads a variable of this name."""
    engine = engine_of(name)
    if engine is None:
        return True
    t = known(engine)
    return (
        name in t.kinds
        or name in t.others
        or name in t.gone
        or name in table(f"env_{engine}")["instead"]
        or name.startswith(t.plugins)
    )


def meant(name: str) -> str | None:
    """The variable that a name nobody reads was likely meant to be: what people take for it, one slip away, the same words
    in another order."""
    usual = table("env_common")["taken_for"].get(name)
    if usual is not None:
        return str(usual)
    engine = engine_of(name)
    candidates = known(engine).kinds if engine else table("env_common")["known"].split()
    if name in candidates:
        return None
    words, bare = sorted(name.split("_")), name.replace("_", "")
    best: str | None = None
    for candidate in candidates:
        if bare == candidate.replace("_", "") or (len(words) > 2 and sorted(candidate.split("_")) == words):
            return str(candidate)
        if best is None and len(name) > 7 and one_slip(name, candidate):
            best = candidate
    return best


# -- values ------------------------------------------------------------------------------------------------------------


def refusal(engine: str, name: str, value: str) -> str | None:
    """What the engine's getter raises over a value; None when it takes it. The words are Python's."""
    kind = known(engine).kinds.get(name)
    if kind in ("flag", "integer") and not _is_int(value):
        return f"invalid literal for int() with base 10: {value!r}"
    if kind == "number" and not _is_float(value):
        return f"could not convert string to float: {value!r}"
    if kind == "json" and engine == "vllm" and not value.startswith(("/", ".", "~")) and not _is_json(value):
        return "JSONDecodeError"
    if kind in ("choice", "choices"):
        t = table(f"env_{engine}")
        options: list[str] = t["choices"][name]
        fold = str.lower if name in t["any_case"]["names"] else str
        words = [value] if kind == "choice" else [w.strip() for w in value.split(",") if w.strip()]
        if any(fold(w) not in [fold(o) for o in options] for w in words):
            return f"Valid options: {options}"
    return None


def misread(engine: str, name: str, value: str) -> str | None:
    """How a value is taken that does not mean what it looks like: `off`, or `default`; None when it is read as it looks."""
    kind = known(engine).kinds.get(name)
    if engine == "vllm":
        if kind in ON and value.strip().lower() not in OFF:
            seen = value if kind == "one" else value.lower()
            return None if seen in ON[kind] or (kind == "word" and seen.strip() in ON[kind]) else "off"
        return None
    if kind == "flag":
        good = ("true", "1", "yes", "y", "false", "0", "no", "n")
        return None if value.lower() in good else "default"
    if kind == "integer":
        return None if _is_int(value) else "default"
    return "default" if kind == "number" and not _is_float(value) else None


def _is_int(text: str) -> bool:
    # Python's int(): blanks around, a sign, underscores between digits.
    return re.fullmatch(r"\s*[+-]?\d+(_\d+)*\s*", text) is not None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def listed(topic: str, given: dict[str, Variable]) -> Iterator[Variable]:
    """The variables of a topic of env_common (debugging, wrong_answers, opens, long_context) that are on."""
    topics: dict[str, Any] = table("env_common")[topic]
    for name, values in topics.items():
        variable = given.get(name)
        if variable is None or variable.value in ("", HIDDEN):
            continue
        if variable.value in values or ("*" in values and variable.value.lower() not in (*OFF, "-1", "-1.0")):
            yield variable
