"""What standard output is: its width, and whether it takes colours; knows nothing else."""

from __future__ import annotations

import os
import sys


def colorful() -> bool:
    """Whether colours may be used: a terminal that is not dumb, and nobody said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(default: int = 80) -> int:
    """Cells of the terminal that standard output is, between 60 and 110; `default` for files and pipes."""
    try:
        return min(110, max(60, os.get_terminal_size(1).columns))
    except OSError:
        return default
