"""The environment that the engine would start with, as far as it matters to GPU serving; secrets never enter it."""

from __future__ import annotations

import msgspec

from ..api import probe
from ..host import Host
from ..launch.variables import HIDDEN, NAMES, PREFIXES, parse, redact
from ..model import Unseen

__all__ = ["HIDDEN", "NAMES", "PREFIXES", "Environment", "environment", "parse", "redact"]

# What the service manager gives a unit by itself, as far as it is like this process's
# (https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Environment%20Variables%20in%20Spawned%20Processes).
OF_UNIT = ("PATH", "LANG", "HOME", "USER", "LOGNAME")


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment variables that the engine will see.

    `variables` by name; a secret's value is `<hidden>`. A systemd unit does not get this process's environment.
    """

    variables: dict[str, str]
    uid: int = 0


@probe
def environment(host: Host) -> Environment:
    if not host.live:
        raise Unseen("not-under-root")
    given = dict(host.env)
    if host.asked.deployment is not None and host.asked.deployment.kind == "systemd":
        given = {n: v for n, v in given.items() if n in OF_UNIT}
    return Environment(variables=parse(given), uid=host.user_id())
