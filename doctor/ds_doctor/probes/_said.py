"""Names and words of files as a report can carry them; asks nothing, judges nothing."""

from __future__ import annotations

import re

LONGEST = 4096  # characters of a path; PATH_MAX
SAID = 200  # characters of a name that stands within a file
_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(name: str, most: int = LONGEST) -> str:
    """A file's name or path as it can stand in JSON: bytes that are not UTF-8 become U+FFFD; one that is longer than any path is cut, what else
    files say (names of tensors) after `most` characters."""
    name = _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", name)
    return name if len(name) <= most else name[: most - 1] + "…"
