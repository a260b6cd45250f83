"""What a text shows, best first: the specific before the general, the root before what follows from it; does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..catalogue import TIERS, Tier
from .index import Entry, Index
from .scan import Hit, Hits

# How sure a literal signature makes an answer, by its tier.
SURE: Mapping[Tier, float] = {"decisive": 0.99, "usual": 0.95, "general": 0.8, "consequence": 0.6, "wrapper": 0.5}


class Match(msgspec.Struct, frozen=True):
    """An entry that a text speaks of: how sure, the lines that show it, and whether a pattern or likeness alone does."""

    name: str
    kind: str
    score: float
    hits: tuple[Hit, ...] = ()
    sure: bool = True
    literal: bool = True


def rank(index: Index, hits: Hits) -> list[Match]:
    """The entries whose signatures are in the text, in the order to deal with them."""
    if not hits:
        return []
    there = [e for e in index.entries if _shown(e, hits)]
    literals = index.literals
    explained = _explained(there)
    rows = []
    for entry in there:
        lines = _lines(entry, hits)
        best = lines[0]
        literal = max((min(map(len, literals[p])) for p in entry.match if p in hits), default=0)
        key = (
            entry.name in explained,
            TIERS.index(entry.tier),
            best.mild,
            best.source,
            best.line,
            -literal,
        )
        rows.append((key, Match(entry.name, entry.kind, SURE[entry.tier], tuple(lines))))
    return [match for _, match in sorted(rows, key=lambda row: row[0])]


def _shown(entry: Entry, hits: Hits) -> bool:
    return (
        any(p in hits for p in entry.match)
        and all(p in hits for p in entry.also)
        and not any(p in hits for p in entry.unless)
    )


def touched(index: Index, hits: Hits) -> frozenset[str]:
    """The entries of which a pattern is in the text, whether they are shown or refused."""
    return frozenset(e.name for e in index.entries if any(p in hits for p in e.match))


def _lines(entry: Entry, hits: Hits) -> list[Hit]:
    """The lines that an entry rests on: its own first, the gravest and earliest of them first; each once."""
    own = _sorted(h for p in entry.match for h in hits.get(p, ()))
    beside = _sorted(h for p in entry.also for h in hits.get(p, ())[:1])
    seen: dict[tuple[int, int], Hit] = {}
    for hit in [*own[:3], *beside]:
        seen.setdefault((hit.source, hit.line), hit)
    return list(seen.values())


def _sorted(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda h: (h.mild, h.source, h.line, h.at))


def _explained(there: Iterable[Entry]) -> set[str]:
    """The names that another entry of the text explains. Two that explain each other explain nothing."""
    over = {e.name: set(e.over) for e in there}
    return {name for one, names in over.items() for name in names if name in over and one not in over.get(name, set())}
