"""Which profile holds for the model that is to be served, and what of it the command differs in; it judges nothing."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ds_doctor.api import NotApplicable
from ds_doctor.probes.launch import Launch, has, option
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.profile import AskedProfile
from ds_doctor.probes.python_env import Packages
from ds_doctor.profile import Needs, Profile, Setting, matches, of

from . import _data

BUILT_IN = ("deepseek-v4.1-flash",)


@functools.cache
def built_in(name: str) -> Profile:
    return of(_data.profile(name), name)


def profile_for(asked: AskedProfile | None, launch: Launch | None, folder: ModelFolder | None) -> Profile:
    """The profile of --profile; else the built-in one of the model in question. NotApplicable where there is none."""
    if asked is not None:
        return asked.profile
    model = launch.model if launch is not None else folder.given if folder is not None else None
    model_type = folder.config.model_type if folder is not None and folder.config is not None else None
    if model is not None or model_type is not None:
        for name in BUILT_IN:
            profile = built_in(name)
            if matches(profile, model, model_type):
                return profile
    raise NotApplicable("no-profile")


def aim(
    asked: AskedProfile | None, launch: Launch | None, folder: ModelFolder | None, packages: Packages | None
) -> tuple[Profile, str, Needs]:
    """(profile, engine, what it needs): the engine of the command, else the installed one. NotApplicable where the
    profile says nothing of it, or no engine is in question."""
    profile = profile_for(asked, launch, folder)
    engine = launch.engine if launch is not None else None
    if engine is None and launch is None and packages is not None:
        engine = next((e for e in ("vllm", "sglang") if e in packages.packages), None)
    if engine not in ("vllm", "sglang"):
        raise NotApplicable("profile-no-engine")
    if engine not in profile.engine:
        raise NotApplicable("profile-not-for-engine", profile=profile.name, engine=engine)
    return profile, engine, profile.engine[engine]


def version_of(engine: str, launch: Launch | None, packages: Packages | None) -> tuple[str | None, str]:
    """(version, where it is read): of the image's tag where a container is started, else of the installed package."""
    if launch is not None and launch.container is not None:
        m = re.search(r":v?(\d+\.\d+(?:\.\d+)?(?:\.?post\d+|rc\d+)?)(?:$|-)", launch.container.image or "")
        return (m[1] if m else None), launch.container.image or ""
    package = packages.packages.get(engine) if packages is not None else None
    return (package.version, packages.python) if package is not None and packages is not None else (None, "")


def said(setting: Setting, launch: Launch) -> Iterator[str]:
    """The setting as the command gives it, where it is the bad one."""
    if setting.variable is not None:
        value = launch.environment.get(setting.variable)
        name: str | None = setting.variable
    elif not has(launch.arguments, setting.flags):
        return
    else:
        value = option(launch.arguments, setting.flags)
        name = next((w.partition("=")[0] for w in launch.arguments if has((w,), setting.flags)), setting.flags[0])
    if setting.variable is not None and value is None:
        return
    if setting.values and value not in setting.values:
        return
    if setting.good and value in setting.good:
        return
    yield f"{name}={value}" if setting.variable is not None else f"{name} {value}" if value is not None else f"{name}"


def differences(needs: Needs, launch: Launch) -> list[str]:
    """The recipe's arguments and variables that the command does not give."""
    missing: list[str] = []
    words = list(needs.arguments)
    for i, word in enumerate(words):
        if word.startswith("--"):
            value = words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else None
            if not has(launch.arguments, (word,)):
                missing.append(f"{word} {value}" if value is not None else word)
    return missing + [f"{n}={v}" for n, v in needs.environment.items() if n not in launch.environment]
