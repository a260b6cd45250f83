"""Which host a log speaks of: its GPUs and driver, to be held against the host that is looked at; does no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from .scan import Hits

# Patterns that are read along with those of the catalogue, and what of their lines tells the host.
PATTERNS = (
    r"NVIDIA [ABHLT]\d+",
    r"NVIDIA RTX",
    r"GeForce [RG]TX",
    r"Tesla [KMPTV]\d+",
    r"NVIDIA G[BH]\d+",
    r"Driver Version: *\d+\.\d+",
)
_GPU = re.compile(
    r"(?:NVIDIA|Tesla|GeForce)[ _](?:GeForce |Tesla )?((?:[ABHLTVKMP]\d{1,3}[A-Z]?|GB?H?\d{2,3})\b|(?:RTX|GTX) (?:PRO )?[A-Z]?\d{3,4}(?: Ti)?)",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"Driver Version: *(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)


class Told(msgspec.Struct, frozen=True):
    """What a log says of its host; empty where it says nothing."""

    gpus: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()


def told(hits: Hits, first: int) -> Told:
    """What the lines say that hold one of PATTERNS, which are numbered from `first`."""
    lines = [h.text for p in range(first, first + len(PATTERNS)) for h in hits.get(p, ())]
    return Told(
        tuple(sorted({_name(g) for line in lines for g in _GPU.findall(line)})),
        tuple(sorted({d for line in lines for d in _DRIVER.findall(line)})),
    )


def _name(text: str) -> str:
    return " ".join(text.upper().split())


def strange_gpus(log: Told, names: Iterable[str]) -> tuple[str, ...]:
    """The GPUs of the log, when this host (whose GPUs have these names) has none of them."""
    here = [re.split(r"[\s-]+", n.upper()) for n in names]
    for gpu in log.gpus:
        words = gpu.split()
        if any(all(w in one for w in words) for one in here):
            return ()
    return log.gpus


def strange_drivers(log: Told, driver: str | None) -> tuple[str, ...]:
    """The drivers of the log, when this host runs none of them."""
    return () if driver is None or driver in log.drivers else log.drivers
