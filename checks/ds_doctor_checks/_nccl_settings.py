"""How NCCL reads the values of its variables; pure, and it says nothing about whether they are wise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nccl_config import NcclConfig, Setting
from ds_doctor.probes.network import Interface

from ._data import table

_WHOLE = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)\s*\Z")
_START = re.compile(r"\s*([+-]?(?:0[xX][0-9a-fA-F]+|\d+))")


def whole(text: str) -> int | None:
    """The number that the text is, as C's strtoll with base 0 reads it; None when it is not one as a whole."""
    return leading(text) if _WHOLE.match(text) else None


def leading(text: str) -> int:
    """What strtoll makes of any text: the number that it begins with, else 0."""
    m = _START.match(text)
    if m is None:
        return 0
    digits = m[1].lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith("0x"):
        return sign * int(digits, 16)
    if len(digits) > 1 and digits.startswith("0"):  # octal, as far as the digits are
        octal = re.match("[0-7]*", digits)
        return sign * int((octal[0] if octal else "") or "0", 8)
    return sign * int(digits[:20])


# -- names ------------------------------------------------------------------------------------------------------------


def known(name: str) -> bool:
    """Whether NCCL or somebody else reads a variable of this name."""
    variables = table("nccl")["variables"]
    return name in variables["known"] or name in variables["others"] or name.startswith(tuple(variables["prefixes"]))


def meant(name: str) -> str | None:
    """The variable that a name nobody reads was likely meant to be: one slip away, the same words in another order, or
    what people take for its name."""
    usual = table("nccl")["variables"]["taken_for"].get(name)
    if usual is not None:
        return str(usual)
    words = sorted(name.split("_"))
    best: str | None = None
    for candidate in table("nccl")["variables"]["known"]:
        if sorted(candidate.split("_")) == words or name.replace("_", "") == candidate.replace("_", ""):
            return str(candidate)
        if best is None and one_slip(name, candidate):
            best = candidate
    return best


def one_slip(a: str, b: str) -> bool:
    """Whether one letter more, less, other, or two swapped neighbours turn one into the other."""
    if abs(len(a) - len(b)) > 1 or a == b:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    x, y = a[start:], b[start:]
    return x[1:] == y[1:] or x == y[1:] or x[1:] == y or (x[:2] == y[1::-1] and x[2:] == y[2:])


# -- values -----------------------------------------------------------------------------------------------------------


def wrong_value(name: str, value: str) -> str | None:
    """How NCCL takes a value that is not what the variable asks for; None when it is right or not ours to say."""
    values = table("nccl")["values"]
    if name in values["whole"]:
        return str(leading(value)) if whole(value) is None else None
    if name in values["exact"]:
        fits = value in values["exact"][name] or (name.endswith("_LEVEL") and value[:1].isdigit())
        return None if fits else "unset"
    if name in values["any_case"]:
        return None if value.upper() in values["any_case"][name] else "unset"
    return None


def rejected_words(name: str, value: str) -> list[str]:
    """The words of an NCCL_ALGO or NCCL_PROTO that NCCL 2.24 and later refuse."""
    good = table("nccl")["values"]["lists"][name]
    words = []
    for part in value.split(";"):
        listed = part.rpartition(":")[2].lstrip("^")
        # How NCCL takes blanks and empty words is not documented: only a word that it cannot know counts.
        words += [w.strip() for w in listed.split(",") if w.strip() and w.strip().lower() not in good]
    return words


# -- interfaces and devices -------------------------------------------------------------------------------------------


def matches(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a list such as `eth`, `=eth0,eth1`, `^docker` or `^=mlx5_1:1` lets through (src/misc/socket.cc)."""
    out, exact = pattern.startswith("^"), False
    rest = pattern[1:] if out else pattern
    if rest.startswith("="):
        exact, rest = True, rest[1:]
    tokens = [t.partition(":")[0] for t in rest.split(",")]
    tokens = [t for t in tokens if t]
    if not tokens:  # no list at all lets everything through, turned round nothing
        return [] if out else list(names)

    def fits(name: str) -> bool:
        return any(name == t if exact else name.startswith(t) for t in tokens)

    return [n for n in names if fits(n) != out]


def usable(interfaces: Sequence[Interface]) -> list[Interface]:
    """Those that NCCL looks at: not known to be down."""
    return [i for i in interfaces if i.running is not False]


# -- whose settings ----------------------------------------------------------------------------------------------------


def for_engine(config: NcclConfig, launch: Launch | None) -> NcclConfig:
    """The settings that the engine gets: in a container that is to be started those of its own command alone."""
    if launch is None or launch.container is None:
        return config
    by = f"{launch.container.program} -e"
    given = {n: Setting(value=v, source=by) for n, v in launch.environment.items() if n.startswith("NCCL_")}
    return NcclConfig(settings=given)


# -- together ---------------------------------------------------------------------------------------------------------


def number(config: NcclConfig, name: str) -> int | None:
    """What NCCL makes of the variable's value; None when it is not set."""
    setting = config.settings.get(name)
    return leading(setting.value) if setting and setting.value else None


def contradictions(config: NcclConfig) -> Iterator[tuple[str, str]]:
    """(the setting that wins, the one that it makes void)."""
    have = {n: s.value for n, s in config.settings.items() if s.value}
    if number(config, "NCCL_P2P_DISABLE") == 1 and have.get("NCCL_P2P_LEVEL", "LOC") not in ("LOC", "0"):
        yield "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"
    if number(config, "NCCL_IB_DISABLE") == 1:
        for name in ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX"):
            if name in have:
                yield "NCCL_IB_DISABLE", name
        if have.get("NCCL_NET", "").upper() == "IB":
            yield "NCCL_IB_DISABLE", "NCCL_NET"
    if have.get("NCCL_NET", "").lower() == "socket" and "NCCL_IB_HCA" in have:
        yield "NCCL_NET", "NCCL_IB_HCA"
    if number(config, "NCCL_CUMEM_ENABLE") == 0 and number(config, "NCCL_MNNVL_ENABLE") == 1:
        yield "NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE"
    if number(config, "NCCL_NVLS_ENABLE") == 0 and have.get("NCCL_ALGO", "").lower() in ("nvls", "nvlstree"):
        yield "NCCL_NVLS_ENABLE", "NCCL_ALGO"
    for low, high in (("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"), ("NCCL_MIN_CTAS", "NCCL_MAX_CTAS")):
        least, most = number(config, low), number(config, high)
        if least is not None and most is not None and least > most > 0:
            yield high, low


def p2p_off(config: NcclConfig) -> str | None:
    """The setting that turns P2P off: only the value 1 does, or the level LOC (src/graph/paths.cc)."""
    if number(config, "NCCL_P2P_DISABLE") == 1:
        return "NCCL_P2P_DISABLE"
    level = config.settings.get("NCCL_P2P_LEVEL")
    return "NCCL_P2P_LEVEL" if level is not None and level.value in ("LOC", "0") else None
