"""The profile that was asked for with --profile; never judges."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from ..profile import Profile


class AskedProfile(msgspec.Struct, frozen=True):
    """The profile of --profile."""

    of_asked_alone: ClassVar[bool] = True  # a replay works it out anew

    profile: Profile


@probe
def asked_profile(host: Host) -> AskedProfile:
    if host.asked.profile is None:
        raise Absent("no-profile-asked")
    return AskedProfile(host.asked.profile)
