"""What a person at a terminal sees on standard error while probes are slow; nothing anywhere else."""

from __future__ import annotations

import sys
from typing import Any

from ..model import Lang
from ..report.words import word

PATIENCE_S = 2.0


class Progress:
    """A spinner that appears when probes have been out for more than two seconds, and leaves nothing behind."""

    def __init__(self, lang: Lang) -> None:
        self.lang = lang
        self.status: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is not None:
            self.status.stop()

    def waiting(self, names: list[str], seconds: float) -> None:
        if seconds < PATIENCE_S or not sys.stderr.isatty():
            return
        text = word("waiting", self.lang, what=", ".join(sorted(names)), s=int(seconds))
        if self.status is None:
            from rich.console import Console

            self.status = Console(stderr=True).status(text)
            try:
                self.status.start()
            except RuntimeError:  # no thread to be had for it
                pass
        self.status.update(text)
