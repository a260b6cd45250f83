"""Why a file cannot be read as something that starts an engine: one reason, with its numbers."""

from __future__ import annotations

from typing import Any


class Problem(Exception):
    """An id of a `[reason.<id>]` text, and its blanks."""

    def __init__(self, reason: str, **data: Any) -> None:
        super().__init__(reason, data)
        self.reason = reason
        self.data = data
