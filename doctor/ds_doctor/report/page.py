"""A page for people being written: lines of labelled blocks, fixes and commands, in a language, a width and maybe colour; knows no report."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Lang
from .document import StepDoc
from .layout import cells, pad, printable, wrap
from .words import word

COLOR = {
    "fail": "1;31",
    "warn": "1;33",
    "note": "1;36",
    "error": "1;35",
    "unknown": "1;35",
    "pass": "1;32",
    "dim": "2",
}
LABEL = 8  # cells of the label column


class Page:
    """Lines being written: the language, the width, and whether colour may be used."""

    def __init__(self, lang: Lang, width: int, color: bool) -> None:
        self.lang = lang
        self.width = max(40, width)
        self.color = color
        self.lines: list[str] = []

    def word(self, key: str, **blanks: object) -> str:
        return word(key, self.lang, **blanks)

    def paint(self, text: str, color: str) -> str:
        return f"\x1b[{COLOR[color]}m{text}\x1b[0m" if self.color else text

    def add(self, line: str = "") -> None:
        self.lines.append(line)

    def block(self, label: str, text: str, indent: int = 2, color: str | None = None, lead: int = LABEL) -> None:
        """`label` and the text beside it, wrapped under itself, at least `lead` cells from the label's beginning."""
        lead = max(lead, cells(label) + 2) if lead == LABEL else lead
        margin = " " * indent
        for i, line in enumerate(wrap(text, self.width - indent - lead)):
            head = pad(label if i == 0 else "", lead)
            if color and i == 0:
                head = self.paint(head, color)
            self.add((margin + head + line).rstrip())


def source(text: str) -> str:
    """A source beside its basis: "measured on a real host: measured: 2x H200" says it twice."""
    return text.removeprefix("measured: ")


def fix(page: Page, steps: Sequence[StepDoc], most: int | None = None) -> None:
    """The steps of a fix, numbered; of more than `most` the first ones."""
    label = page.word("fix")
    for n, step in enumerate(steps[:most], 1):
        number = f"{n}. " if len(steps) > 1 else ""
        if step.say is not None:
            page.block(label, number + step.say)
        elif step.run is not None:
            command(page, label, step.run, number)
            effects = [
                page.word("where." + step.where) if step.where else "",
                page.word("effect." + step.effect) if step.effect else "",
            ]
            page.block(
                "", " " * len(number) + page.word("aside", what=page.word("semicolon").join(e for e in effects if e))
            )
        label = ""
    if most is not None and len(steps) > most:
        page.block("", f"… (+{len(steps) - most}, -v)")


def command(page: Page, label: str, command: str, number: str = "") -> None:
    """Commands are never wrapped: they are there to be copied."""
    for i, line in enumerate(command.splitlines() or [""]):
        lead = number + "$ " if i == 0 else " " * (len(number) + 2)
        page.add("  " + pad(label if i == 0 else "", LABEL) + lead + printable(line))
