"""CDI specifications on disk: their devices, the driver version in their paths, the paths that are gone; never judges."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Trouble, probe
from .docker import clean, program

# Where container engines look, later folders taking precedence (CDI specification, DefaultSpecDirs).
FOLDERS = ("/etc/cdi", "/var/run/cdi")
SPEC_LIMIT = 2 << 20
SPECS = 50
PATHS = 2000  # host paths of one specification that are looked up
SHOWN = 8  # of the missing paths


class CdiSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `error` is denied, too-large, unreadable or syntax. `drivers`: the driver versions in the names of its
    libraries. `missing`: the first host paths that are not there, `missing_count` of them in all."""

    path: str
    error: str | None = None
    detail: str = ""
    kind: str | None = None
    devices: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    paths: int = 0
    missing: tuple[str, ...] = ()
    missing_count: int = 0


class Cdi(msgspec.Struct, frozen=True, kw_only=True):
    """The CDI specification files, in the order of their folders.

    `denied`: folders that this user may not list. `podman`:
    where that engine lies, which knows GPUs by these files only.
    """

    specs: tuple[CdiSpec, ...] = ()
    denied: tuple[str, ...] = ()
    podman: str | None = None


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """What a specification names: its kind, its devices, and the paths of the host that it needs."""

    kind: str | None = None
    devices: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


_KEY = re.compile(r"(\s*)(-\s+)?([A-Za-z]+)\s*:(?:\s+(.*))?\Z")
_LIBRARY = re.compile(r"/lib(?:cuda|nvidia-[a-z-]+)\.so\.([0-9]{3}\.[0-9]{1,4}(?:\.[0-9]{1,4})?)\Z")


def parse_yaml(text: str) -> Parsed:
    """The lines of a specification as nvidia-ctk writes it. Not a YAML parser: it knows `key: value` in list items."""
    kind: str | None = None
    devices: list[str] = []
    paths: list[str] = []
    item: dict[str, str] = {}
    section: list[tuple[int, str]] = []

    def close() -> None:
        path = item.get("hostPath") or item.get("path")
        if path:
            paths.append(path)
        item.clear()

    for line in text.splitlines():
        m = _KEY.match(line.rstrip())
        if m is None or line.lstrip().startswith("#"):
            continue
        indent, dash, key, value = len(m[1]), bool(m[2]), m[3], _plain(m[4] or "")
        if dash or (section and indent <= section[-1][0]):
            close()
        while section and (section[-1][0] > indent or (section[-1][0] == indent and not dash)):
            section.pop()
        inside = section[-1][1] if section else ""
        if key in ("devices", "deviceNodes", "mounts", "hooks", "env", "containerEdits", "annotations") and not value:
            section.append((indent + (2 if dash else 0), key))
        elif key == "kind" and indent == 0 and not dash:
            kind = value
        elif key == "name" and inside == "devices":
            devices.append(value)
        elif key in ("hostPath", "path") and inside in ("deviceNodes", "mounts", "hooks"):
            item[key] = value
    close()
    return Parsed(kind=kind, devices=tuple(dict.fromkeys(devices)), paths=tuple(dict.fromkeys(paths)))


def _plain(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value.split(" #")[0].strip()


def parse_json(data: bytes) -> Parsed | None:
    """The same for a specification in JSON; None when it is not JSON or not a specification."""
    import json

    try:
        top = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(top, dict):
        return None
    devices = [d for d in _list(top.get("devices")) if isinstance(d, dict)]
    paths: list[str] = []
    for edits in [top.get("containerEdits"), *(d.get("containerEdits") for d in devices)]:
        if isinstance(edits, dict):
            paths.extend(_paths(edits))
    kind = top.get("kind")
    return Parsed(
        kind=clean(kind) if isinstance(kind, str) else None,
        devices=tuple(dict.fromkeys(clean(str(d.get("name", ""))) for d in devices)),
        paths=tuple(dict.fromkeys(map(clean, paths))),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _paths(edits: dict[str, Any]) -> list[str]:
    entries = [e for part in ("deviceNodes", "mounts", "hooks") for e in _list(edits.get(part)) if isinstance(e, dict)]
    paths = (e.get("hostPath") or e.get("path") for e in entries)
    return [p for p in paths if isinstance(p, str)]


def drivers_in(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The driver versions that the names of NVIDIA's libraries carry."""
    return tuple(sorted({m[1] for p in paths if (m := _LIBRARY.search(p))}))


def _spec(host: Host, path: str) -> CdiSpec:
    try:
        data = host.read(path, SPEC_LIMIT)
    except Denied:
        return CdiSpec(path=path, error="denied")
    except Trouble as t:
        error = "too-large" if t.reason.id == "file-too-large" else "unreadable"
        return CdiSpec(
            path=path, error=error, detail=str(t.reason.data.get("error") or t.reason.data.get("kind") or "")
        )
    is_json = path.endswith(".json") or data.lstrip()[:1] == b"{"
    parsed = parse_json(data) if is_json else parse_yaml(data.decode("utf-8", "replace"))
    if parsed is None or not parsed.kind:
        return CdiSpec(path=path, error="syntax")
    missing = [p for p in parsed.paths[:PATHS] if p.startswith("/") and _gone(host, p)]
    return CdiSpec(
        path=path,
        kind=parsed.kind[:200],
        devices=tuple(d[:200] for d in parsed.devices[:500]),
        drivers=drivers_in(parsed.paths),
        paths=len(parsed.paths),
        missing=tuple(p[:300] for p in missing[:SHOWN]),
        missing_count=len(missing),
    )


def _gone(host: Host, path: str) -> bool:
    try:
        return not host.exists(path)
    except Trouble:
        return False  # what this user may not look at may well be there


@probe
def cdi(host: Host) -> Cdi:
    specs: list[CdiSpec] = []
    denied: list[str] = []
    for folder in FOLDERS:
        try:
            names = host.names(folder)
        except Absent:
            continue
        except Trouble:
            denied.append(folder)
            continue
        chosen = [n for n in names if n.endswith((".yaml", ".json"))][:SPECS]
        specs.extend(_spec(host, f"{folder}/{n}") for n in chosen)
    return Cdi(specs=tuple(specs), denied=tuple(denied), podman=program(host, "podman"))
