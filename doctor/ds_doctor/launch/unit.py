"""A systemd service unit to the command that it starts, its environment and limits. Reads no drop-in and no other file."""

from __future__ import annotations

import re
import shlex

from .command import Found, launch_of
from .docker import is_given
from .problem import Problem
from .quantity import seconds
from .structs import Deployment, Service, Slip, Unit
from .variables import is_secret
from .words import bytes_of, without_redirections
from .wrappers import unwrap

# What systemd gives a system service when nothing else is said (man 5 systemd.exec, Environment variables).
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SPECIFIER = re.compile(r"%(?:%|[a-zA-Z])")
# Words that a shell keeps for itself; systemd hands them to the program (man 5 systemd.service, Command lines).
_SHELL = re.compile(r"\d*>>?(?:&\d)?\S*|&>>?\S*|<|\|[|&]?|&&?")
_VARIABLE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_unit(text: str) -> bool:
    return re.search(r"^\[Service\]\s*$", text, re.MULTILINE) is not None


def settings(text: str) -> dict[str, list[tuple[str, int]]]:
    """The keys of [Service] with every value and its line, continuation lines joined; an empty value forgets the earlier."""
    got: dict[str, list[tuple[str, int]]] = {}
    section, number = "", 0
    lines = text.replace("\r\n", "\n").split("\n")
    while number < len(lines):
        first = number
        line = lines[number].strip()
        number += 1
        if not line or line[0] in "#;":
            continue
        while line.endswith("\\") and number < len(lines):
            following = lines[number].strip()
            number += 1
            if following[:1] in ("#", ";") and following:  # comments between are left out
                continue
            line = line[:-1].rstrip() + " " + following
        m = re.fullmatch(r"\[(\w+)\]", line)
        if m:
            section = m[1]
            continue
        key, equals, value = line.partition("=")
        if section == "Service" and equals:
            key, value = key.strip(), value.strip()
            if value:
                got.setdefault(key, []).append((value, first + 1))
            else:
                got[key] = []
    return got


def services(text: str, source: str, name: str) -> list[Service]:
    """The service that the unit describes; one for each ExecStart."""
    said = settings(text)
    if not said.get("ExecStart"):
        raise Problem("launch-unit-no-command")
    return [_service(said, command, line, source, name) for command, line in said["ExecStart"]]


def _service(said: dict[str, list[tuple[str, int]]], command: str, line: int, source: str, name: str) -> Service:
    def last(key: str) -> str | None:
        values = said.get(key)
        return values[-1][0] if values else None

    found = Found({})
    slips: list[Slip] = []
    for value, _ in said.get("Environment", ()):
        slips += _assigned(_parted(value, found), found)
    files = tuple(v.lstrip("-") for v, _ in said.get("EnvironmentFile", ()))
    for path in files:
        found.miss("launch-env-file", path=path)
    words = _words(command, found)
    found.known = dict(found.environment)
    found.folder = last("WorkingDirectory")
    found.argv = without_redirections(words)
    unwrap(found)
    for names, _ in said.get("UnsetEnvironment", ()):
        for unset in names.split():
            found.environment.pop(unset, None)
    return Service(
        name=name,
        command=tuple(words),
        launch=launch_of(found),
        deployment=Deployment(
            kind="systemd",
            name=name,
            source=source,
            where=f"ExecStart, line {line}",
            unit=Unit(
                type=last("Type"),
                program=words[0] if words else None,
                shell=tuple(w for w in words if _SHELL.fullmatch(w)),
                slips=tuple(slips),
                user=last("User"),
                working_directory=last("WorkingDirectory"),
                limits={k: v[-1][0] for k, v in said.items() if k.startswith("Limit") and v},
                timeout_start_s=seconds(last("TimeoutStartSec") or last("TimeoutSec")),
                restart=last("Restart"),
                memory_max=bytes_of(last("MemoryMax") or ""),
                device_policy=last("DevicePolicy"),
                device_allow=tuple(w for v, _ in said.get("DeviceAllow", ()) for w in v.split()[:1]),
                private_devices=last("PrivateDevices") in ("yes", "true", "1", "on"),
                private_tmp=last("PrivateTmp") in ("yes", "true", "1", "on"),
                protect_home=last("ProtectHome"),
                read_only_paths=tuple(w for v, _ in said.get("ReadOnlyPaths", ()) for w in v.split()),
                environment_files=files,
                pass_environment=tuple(w for v, _ in said.get("PassEnvironment", ()) for w in v.split()),
            ),
        ),
    )


def _assigned(words: list[str], found: Found) -> list[Slip]:
    """Put in what Environment= assigns; what its words do not say as they seem to."""
    slips, secret = [], False
    for word in words:
        variable, equals, setting = word.partition("=")
        if not equals or not variable.isidentifier():
            slips.append(Slip(kind="ignored", text="…" if secret else variable[:60]))
            continue
        secret = is_secret(variable)
        if re.search(r"\$[A-Za-z_{]", setting):  # nobody fills it in, and nothing here may take it for filled in
            slips.append(Slip(kind="literal", text=variable))
            continue
        found.environment[variable] = setting
        if secret and is_given(setting):
            slips.append(Slip(kind="secret", text=variable))
        second = re.search(r"\s([A-Z][A-Z0-9_]{2,})=", setting)
        if second:
            slips.append(Slip(kind="swallowed", text=f"{variable} {second[1]}"))
    return slips


def _parted(value: str, found: Found) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        found.miss("launch-quotes-open", at=value[:80])
        return []


def _words(command: str, found: Found) -> list[str]:
    """The words of ExecStart: its prefixes off, `${X}` filled in, a lone `$X` parted (man 5 systemd.service)."""
    got: list[str] = []
    for word in _parted(command.lstrip("@-:+!|"), found):
        if any(s != "%%" for s in _SPECIFIER.findall(word)):
            found.miss("launch-unit-specifier", word=word)
        word = word.replace("%%", "%")
        m = re.fullmatch(r"\$([A-Za-z_][A-Za-z0-9_]*)", word)
        if m and m[1] in found.environment:
            got += found.environment[m[1]].split()
            continue
        got.append(_VARIABLE.sub(lambda m: "$" if m[0] == "$$" else found.environment.get(m[1], m[0]), word))
    return got
