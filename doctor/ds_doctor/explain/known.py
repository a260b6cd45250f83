"""The whole catalogue of a package with its index, compiled in the wheel or kept in the user's cache directory."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..catalogue import Catalogue, together
from ..compiled import KINDS, Compiled, Form, load_form
from .index import Entry, Index, build


class Known(Compiled, frozen=True):
    """A catalogue with its symptoms and causes, and the index that finds them."""

    catalogue: Catalogue
    index: Index


def _make(mark: str, catalogue: Catalogue) -> Known:
    return Known(mark, msgspec.structs.replace(catalogue, claim={}), build(catalogue))


KNOWN = Form("known.json", Known, (*KINDS, Entry, Index), _make)


def load(folders: list[str], env: Mapping[str, str]) -> Known:
    """What the packages in these folders know together; CatalogueError for one that is not right."""
    each = [load_form(folder, env, KNOWN) for folder in folders]
    if len(each) == 1:
        return each[0]
    return _make("", together(one.catalogue for one in each))
