"""The NVIDIA Container Toolkit: its programs, its version and its config.toml as they lie on disk; never judges."""

from __future__ import annotations

import re
import sys
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Trouble, probe
from .docker import SNAP, packages, program, release_of, there, without_secret

CONFIG_LIMIT = 1 << 20
KEYS = 500  # of one config.toml; it has about thirty
PACKAGES = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "nvidia-docker2")
PROGRAMS = {
    "ctk": "nvidia-ctk",
    "runtime": "nvidia-container-runtime",
    "hook": "nvidia-container-runtime-hook",
    "cli": "nvidia-container-cli",
    "cdi_hook": "nvidia-cdi-hook",
}


class ToolkitConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One config.toml that exists. `kind` is root, user (XDG_CONFIG_HOME or NVIDIA_CTK_CONFIG_FILE_PATH) or snap.
    `error` is syntax, too-large, denied or unreadable. `values` by dotted key; of environment lists only the names."""

    path: str
    kind: str
    error: str | None = None
    line: int | None = None
    column: int | None = None
    detail: str = ""
    text: str = ""  # the line that cannot be read
    values: dict[str, bool | str | list[str]] = {}


class Toolkit(msgspec.Struct, frozen=True, kw_only=True):
    """The NVIDIA Container Toolkit: its programs and configuration files.

    `version` is that of the package, or what nvidia-ctk says of itself.
    """

    version: str | None = None
    ctk: str | None = None
    runtime: str | None = None
    hook: str | None = None
    cli: str | None = None
    cdi_hook: str | None = None
    configs: tuple[ToolkitConfig, ...] = ()


def parse_config(data: bytes, path: str, kind: str) -> ToolkitConfig:
    """What a config.toml says; a file that is not TOML gives the place of the fault."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        return ToolkitConfig(path=path, kind=kind, error="syntax", line=line, detail="not UTF-8")
    try:
        table = tomllib.loads(text)
    except RecursionError:
        return ToolkitConfig(path=path, kind=kind, error="unreadable", detail="nested too deeply")
    except ValueError as e:
        return _syntax(str(e), text, path, kind)
    values: dict[str, bool | str | list[str]] = {}
    _flatten(table, "", values)
    return ToolkitConfig(path=path, kind=kind, values=values)


def _syntax(message: str, text: str, path: str, kind: str) -> ToolkitConfig:
    m = re.search(r"\(at line ([0-9]+), column ([0-9]+)\)", message)
    line = int(m[1]) if m else None
    lines = text.splitlines()
    shown = lines[line - 1].strip()[:120] if line and line <= len(lines) else ""
    if "environment" in shown:  # the one place of this file where a secret may stand
        shown = ""
    return ToolkitConfig(
        path=path,
        kind=kind,
        error="syntax",
        line=line,
        column=int(m[2]) if m else None,
        detail=message.split(" (at ")[0][:200],
        text=without_secret(shown),
    )


def _flatten(table: dict[str, Any], before: str, values: dict[str, bool | str | list[str]]) -> None:
    for key, value in table.items():
        if len(values) >= KEYS:
            return
        name = (before + key)[:200]
        if isinstance(value, dict):
            _flatten(value, name + ".", values)
        elif isinstance(value, bool):
            values[name] = value
        elif isinstance(value, list):
            items = [str(v)[:200] for v in value[:50]]
            values[name] = [i.partition("=")[0] for i in items] if key == "environment" else items
        else:
            values[name] = str(value)[:200]


def parse_version(text: str) -> str | None:
    """Of the answer to `nvidia-ctk --version`."""
    m = re.search(r"version\s+v?([0-9]{1,4}(?:\.[0-9]{1,6}){1,3})", text)
    return m[1] if m else None


def _read(host: Host, path: str, kind: str) -> ToolkitConfig | None:
    try:
        return parse_config(host.read(path, CONFIG_LIMIT), path, kind)
    except Absent:
        return None
    except Denied:
        if kind == "user" and not there(host, path):
            return None  # a folder that this user may not search is no sign of the toolkit
        return ToolkitConfig(path=path, kind=kind, error="denied")
    except Trouble as t:
        error = "too-large" if t.reason.id == "file-too-large" else "unreadable"
        detail = str(t.reason.data.get("error") or t.reason.data.get("kind") or "")
        return ToolkitConfig(path=path, kind=kind, error=error, detail=detail)


def _places(host: Host) -> list[tuple[str, str]]:
    places = [("/etc/nvidia-container-runtime/config.toml", "root")]
    given = host.env.get("NVIDIA_CTK_CONFIG_FILE_PATH", "")
    config = host.env.get("XDG_CONFIG_HOME", "")
    if given.startswith("/"):
        places.append((given, "user"))
    if config.startswith("/"):
        places.append((config + "/nvidia-container-runtime/config.toml", "user"))
    places.append((SNAP + "/etc/nvidia-container-runtime/config.toml", "snap"))
    return places


def _version(host: Host, ctk: str | None) -> str | None:
    versions = packages(host, PACKAGES)
    for name in PACKAGES[:2]:
        if name in versions:
            return release_of(versions[name])
    if ctk is None or not host.live:
        return None
    try:
        said = host.run([ctk, "--version"], timeout_s=2.0)
    except Trouble:
        return None
    return parse_version(said.out) if said.status == 0 else None


@probe
def toolkit(host: Host) -> Toolkit:
    found = {field: program(host, name) for field, name in PROGRAMS.items()}
    configs = tuple(c for c in (_read(host, path, kind) for path, kind in _places(host)) if c is not None)
    if not configs and not any(found.values()):
        raise Absent("no-toolkit")
    return Toolkit(version=_version(host, found["ctk"]), configs=configs, **found)
