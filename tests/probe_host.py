"""What tests of probes share: a host over a folder that counts as the running machine, and one whose files are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ds_doctor.host import Asked, Host, Space
from ds_doctor.model import Trouble
from ds_doctor.rooted import RootedHost


class Tree(RootedHost):
    """A folder that is taken for the root of the running machine: `may` and `space` are asked for real."""

    live = True

    def __init__(self, root: Path, env: dict[str, str] | None = None, asked: Asked | None = None) -> None:
        super().__init__(str(root), asked)
        self.env = env or {}
        self.spaces: dict[str, Space] = {}

    def _may(self, path: str, what: str) -> bool:
        return Host._may(self, path, what)

    def _space(self, path: str) -> Space:
        return self.spaces[path] if path in self.spaces else Host._space(self, path)

    def put(self, path: str, content: str | bytes = "") -> None:
        where = Path(self.root + path)
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_bytes(content if isinstance(content, bytes) else content.encode())


def only_trouble(parse: Callable[..., Any], *args: Any) -> None:
    """Parse; a Trouble is an answer, anything else that is raised is not."""
    try:
        parse(*args)
    except Trouble:
        pass
