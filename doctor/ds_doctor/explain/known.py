"""The whole catalogue of a package with its index, compiled in the wheel or kept in the user's cache directory.

An answer needs the texts of a few entries: the others are not taken apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ..catalogue import Catalogue, CatalogueError, Cause, Rule, Symptom, Text
from ..compiled import KINDS, Compiled, Form, load_form
from .index import Entry, Index, Packed, build, joined

Raws = dict[str, msgspec.Raw]


class Known(Compiled, frozen=True):
    """The texts of every rule, cause and symptom, and the index that finds them."""

    rule: Raws
    cause: Raws
    symptom: Raws
    reason: dict[str, Text]
    packed: Packed

    @property
    def index(self) -> Index:
        return Index(self.packed)

    def __contains__(self, name: object) -> bool:
        return name in self.rule or name in self.cause or name in self.symptom

    def some(self, names: Iterable[str]) -> Catalogue:
        """The catalogue of these entries, of their causes, and of the rules that show those on a host."""
        made = Catalogue(1, reason=self.reason)
        for name in names:
            self._take(name, made)
        return made

    def _take(self, name: str, made: Catalogue) -> None:
        if name in self.symptom and name not in made.symptom:
            made.symptom[name] = symptom = msgspec.json.decode(self.symptom[name], type=Symptom)
            for cause in symptom.causes:
                self._take(cause, made)
        elif name in self.cause and name not in made.cause:
            made.cause[name] = cause_ = msgspec.json.decode(self.cause[name], type=Cause)
            for rule in cause_.here:
                self._take(rule, made)
        elif name in self.rule and name not in made.rule:
            made.rule[name] = msgspec.json.decode(self.rule[name], type=Rule)


def _raw(entries: Mapping[str, Any]) -> Raws:
    return {name: msgspec.Raw(msgspec.json.encode(entry)) for name, entry in entries.items()}


def _make(mark: str, catalogue: Catalogue) -> Known:
    return Known(
        mark,
        _raw(catalogue.rule),
        _raw(catalogue.cause),
        _raw(catalogue.symptom),
        catalogue.reason,
        build(catalogue),
    )


NOTHING = Known("", {}, {}, {}, {}, Packed("", "", (), {}, b"", b"", b""))
KNOWN = Form("known.json", Known, (*KINDS, Entry, Packed), _make)


def load(folders: list[str], env: Mapping[str, str]) -> tuple[Known, list[str]]:
    """What the packages in these folders know together, and why one of them is left out (its catalogue is not right, or it
    takes a name that another has)."""
    known = NOTHING
    wrong: list[str] = []
    for folder in folders:
        try:
            one = load_form(folder, env, KNOWN)
        except CatalogueError as e:
            wrong.append(str(e))
            continue
        twice = next((n for n in (*one.rule, *one.cause, *one.symptom) if n in known), None)
        if twice is not None:
            wrong.append(f"{folder}: {twice} belongs to another package")
        elif known is NOTHING:
            known = one
        else:
            known = Known(
                "",
                {**known.rule, **one.rule},
                {**known.cause, **one.cause},
                {**known.symptom, **one.symptom},
                {**one.reason, **known.reason},
                joined(known.packed, one.packed),
            )
    return known, wrong
