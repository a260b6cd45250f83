"""The report as one JSON object (`ds-doctor schema report` describes it); decides nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model import Lang
from .document import Report


def render(report: Report, lang: Lang, **_: Any) -> str:
    """Indented, in the order of the schema; `lang` has done its work already."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
