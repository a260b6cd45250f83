"""Finds the profile that --profile names: a file, one of the user's own, or one that a plugin brings; the reading is in profile."""

from __future__ import annotations

import os
from collections.abc import Iterable

from .. import profile, tables
from ..registry import Plugin
from . import Usage, files
from .lang import t


def own_folder() -> str:
    """Where a user's own profiles lie."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "ds-doctor", "profiles")


def names(plugins: Iterable[Plugin]) -> dict[str, str]:
    """Name -> path without its ending, of every profile that a name can mean; the user's own come first."""
    found: dict[str, str] = {}
    for folder in (own_folder(), *(os.path.join(p.folder, "profiles") for p in plugins)):
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in entries:
            name, ending = os.path.splitext(entry)
            if ending == profile.SUFFIX:
                found.setdefault(name, os.path.join(folder, name))
    return found


def load(given: str, plugins: Iterable[Plugin]) -> profile.Profile:
    """The profile of that name or file. Usage in one line otherwise."""
    option = f"--profile {given}"
    try:
        if "/" in given or given.endswith(profile.SUFFIX):
            return profile.read(files.read("--profile", given, profile.LIMIT), option)
        known = names(plugins)
        if given not in known:
            there = ", ".join(sorted(known)) or t("none", "无")
            raise Usage(
                t(
                    f"{option}: no profile has this name (there are: {there}); a file is given with its ending {profile.SUFFIX}",
                    f"{option}：没有名为此的配置档（现有：{there}）；若为文件，请带上后缀 {profile.SUFFIX}",
                )
            )
        folder, name = os.path.split(known[given])
        if folder == own_folder():
            path = known[given] + profile.SUFFIX
            return profile.read(files.read("--profile", path, profile.LIMIT), f"{option} ({path})")
        return profile.of(tables.read(folder, name), option)
    except profile.ProfileError as e:
        raise Usage(str(e)) from None
