"""Which language the user reads: --lang, else the locale; holds no other logic."""

from __future__ import annotations

import os
import sys

from ..model import Lang


def from_locale() -> Lang:
    """zh for a Chinese locale, English otherwise (LC_ALL, LC_MESSAGES, LANG in the order of the C library)."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name)
        if value:
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def from_arguments(argv: list[str]) -> Lang:
    """The same before the arguments are parsed: the help texts are chosen with it."""
    for i, word in enumerate(argv):
        if word == "--":
            break
        value = (
            word.partition("=")[2]
            if word.startswith("--lang=")
            else argv[i + 1]
            if word == "--lang" and i + 1 < len(argv)
            else ""
        )
        if value in ("en", "zh"):
            return "zh" if value == "zh" else "en"
    return from_locale()


_LANG = from_arguments(sys.argv[1:])


def t(en: str, zh: str) -> str:
    """One of the two texts."""
    return en if _LANG == "en" else zh
