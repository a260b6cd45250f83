"""Results to text, JSON and more: one writer a file; decides nothing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from ..model import Lang
from .document import Report

# Format -> the module that writes it; imported only when it is asked for.
FORMATS: Mapping[str, str] = {"text": "text", "json": "json"}


def render(
    form: str,
    report: Report,
    lang: Lang,
    *,
    verbose: bool = False,
    quiet: bool = False,
    color: bool = False,
    width: int = 80,
) -> str:
    """The report in one of FORMATS, ending in a line feed (nothing at all for a quiet text without faults)."""
    module = importlib.import_module(f"{__name__}.{FORMATS[form]}")
    text: str = module.render(report, lang, verbose=verbose, quiet=quiet, color=color, width=width)
    return text
