"""The environment that the engine would start with, as far as it matters to GPU serving; secrets never enter it."""

from __future__ import annotations

import msgspec

from ..api import probe
from ..host import Host
from ..launch.variables import HIDDEN, NAMES, PREFIXES, parse, redact
from ..model import Unseen

__all__ = ["HIDDEN", "NAMES", "PREFIXES", "Environment", "environment", "parse", "redact"]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment variables that the engine will see.

    `variables` by name; a secret's value is `<hidden>`. Variables given in front of the launch command are in it.
    """

    variables: dict[str, str]
    uid: int = 0


@probe
def environment(host: Host) -> Environment:
    if not host.live:
        raise Unseen("not-under-root")
    return Environment(variables=parse(dict(host.env)), uid=host.user_id())
