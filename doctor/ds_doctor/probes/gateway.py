"""The gateways that were given beside the launch, as a fact; how they are read stands in the launch room."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from ..launch.structs import Gateway

__all__ = ["Gateway", "Gateways", "gateways"]


class Gateways(msgspec.Struct, frozen=True, kw_only=True):
    """Every route of the files that were given, and the file it stands in."""

    of_asked_alone: ClassVar[bool] = True  # a replay works it out anew

    routes: tuple[Gateway, ...]


@probe
def gateways(host: Host) -> Gateways:
    if not host.asked.gateways:
        raise Absent("no-gateway-file")
    return Gateways(routes=host.asked.gateways)
