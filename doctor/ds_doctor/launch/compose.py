"""A Compose file to the services in it: what each would start, and in which container. Reads no other file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from . import docker
from .command import Found, launch_of
from .documents import Map, Plain, items, mapping, maps, text, texts, whole, yes
from .interpolation import compose as interpolated
from .problem import Problem
from .quantity import amount, seconds
from .structs import Compose, Container, Deployment, Gpus, Mount, Port, Service, Ulimit
from .words import OPEN, bytes_of
from .wrappers import unwrap

DEEP = 8  # services that extend services
# Lists of which a service that extends another adds to the other's; of the rest its own stands.
_ADDS = frozenset(
    (
        *("ports", "volumes", "devices", "cap_add", "cap_drop", "env_file", "security_opt", "tmpfs"),
        *("dns", "expose", "secrets", "configs", "extra_hosts"),
    )
)


class _File:
    def __init__(self, document: dict[str, Any], known: Mapping[str, str]) -> None:
        self.known = known
        self.version = text(document.get("version"))
        self.services = mapping(document.get("services", document))
        self.volumes = mapping(document.get("volumes")) if "services" in document else {}
        self.includes = "include" in document

    # Every scalar is filled in when it is read: what nobody reads costs nothing.

    def text(self, value: Any) -> str | None:
        said = text(value)
        return None if said is None else interpolated(said, self.known)

    def texts(self, value: Any) -> list[str]:
        return [interpolated(t, self.known) for t in texts(value)]

    def whole(self, value: Any) -> int | None:
        said = self.text(value)
        return whole(said) if said is not None else None


def is_compose(document: Any) -> bool:
    """Whether a document is a Compose file; the first version had the services at the top."""
    if not isinstance(document, dict) or ("kind" in document and "apiVersion" in document):
        return False
    if isinstance(document.get("services"), dict):
        return True
    values = list(document.values())
    return bool(values) and all(isinstance(v, dict) and ("image" in v or "build" in v) for v in values)


def services(document: dict[str, Any], source: str, known: Mapping[str, str]) -> list[Service]:
    """Every service of the file, in its order."""
    file = _File(document, known)
    got = []
    for name, given in file.services.items():
        if isinstance(given, dict):
            merged, missed = _extended(file, name, given)
            got.append(_service(file, str(name), merged, source, missed))
    return got


def _extended(file: _File, name: str, given: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    """The service with what it extends laid under it, and what could not be read of that."""
    chain, seen, missed = [given], {name}, []
    while "extends" in chain[-1]:
        other = chain[-1]["extends"]
        target = text(other) or text(mapping(other).get("service"))
        path = text(mapping(other).get("file"))
        if path is not None or target not in file.services:
            missed.append(("launch-compose-extends", {"service": target or "?", "path": path or "?"}))
            break
        if target in seen or len(chain) > DEEP:
            raise Problem("launch-file-cyclic", line=getattr(chain[-1], "line", 1), anchor=f"extends: {target}")
        seen.add(target)
        chain.append(mapping(file.services[target]))
    merged: dict[str, Any] = {}
    for layer in reversed(chain):
        merged = _over(merged, layer)
    if isinstance(given, Map):
        placed = Map(given.line)
        placed.update(merged)
        return placed, missed
    return merged, missed


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if key == "environment":
            merged[key] = {**_variables(old), **_variables(value)}
        elif key in _ADDS and isinstance(old, list) and isinstance(value, list):
            merged[key] = old + value
        elif isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _over(old, value)
        else:
            merged[key] = value
    return merged


def _variables(value: Any) -> dict[str, Any]:
    """Of a map or of `NAME=value` lines; None: the value comes from outside."""
    if isinstance(value, dict):
        return dict(value)
    pairs = (t.partition("=") for t in texts(value))
    return {n: (v if eq else None) for n, eq, v in pairs}


def _service(
    file: _File, name: str, given: dict[str, Any], source: str, missed: list[tuple[str, dict[str, Any]]]
) -> Service:
    found = Found({})
    for reason, data in missed:
        found.miss(reason, **data)
    said = _said(file, given)
    image = file.text(given.get("image"))
    entry = _words(file, given.get("entrypoint"), found)
    command = _words(file, given.get("command"), found)
    container = docker.container(said, image)
    container = _changed(container, file, name, given, entry)
    found.container = container
    found.environment = dict(said.environment)
    found.known = dict(said.environment)
    found.folder = container.workdir
    words = [*(entry or ()), *(command or ())]
    found.argv = list(words)
    unwrap(found)
    for path in container.env_files:
        found.miss("launch-env-file", path=path)
    if "build" in given and image is None:
        found.miss("launch-image-built", service=name)
    line = getattr(given, "line", 0)
    shown = words if words else [image or name]
    return Service(
        name=name,
        command=tuple(shown),
        launch=launch_of(found),
        deployment=Deployment(
            kind="compose",
            name=name,
            source=source,
            where=f"services.{name}" + (f", line {line}" if line else ""),
            compose=_compose(file, given),
        ),
    )


def _words(file: _File, value: Any, found: Found) -> list[str] | None:
    """A command as Compose parts it: a list as it stands, a text as a shell would part it. None: not given."""
    if isinstance(value, list):
        return file.texts(value)
    said = file.text(value)
    if said is None:
        return None
    try:
        return shlex.split(said)
    except ValueError:
        found.miss("launch-quotes-open", at=said[:80])
        return []


def _said(file: _File, given: dict[str, Any]) -> docker.Said:
    """The service's fields as the options of docker run that they stand for."""
    said = docker.Said("docker")
    for variable, value in _variables(given.get("environment")).items():
        shown = file.text(value)
        if value is None or shown is None:
            said.inherited.append(str(variable))
        else:
            said.environment[str(variable)] = shown
    for field, option in _OPTIONS.items():
        value = file.text(given.get(field))
        if value is not None:
            said.options[option] = [value]
    for field, option in _LISTS.items():
        values = [_device(file, v) for v in items(given.get(field))]
        said.options[option] = [v for v in values if v] or file.texts(given.get(field))
    for field in ("privileged", "read_only"):
        if yes(file.text(given.get(field))):
            said.options["--" + field.replace("_", "-")] = ["true"]
    limits = mapping(mapping(mapping(given.get("deploy")).get("resources")).get("limits"))
    memory = file.text(limits.get("memory"))
    if memory is not None:
        said.options["--memory"] = [memory]
    for value in items(given.get("volumes")):
        mount = _volume(file, value)
        if mount is not None:
            said.mounts.append(mount)
    said.mounts += [docker.tmpfs(t) for t in file.texts(given.get("tmpfs"))]
    return said


_OPTIONS = {
    "shm_size": "--shm-size", "ipc": "--ipc", "mem_limit": "--memory", "runtime": "--runtime", "network_mode": "--network",
    "pid": "--pid", "user": "--user", "platform": "--platform", "working_dir": "--workdir", "restart": "--restart",
    "container_name": "--name",
}  # fmt: skip
_LISTS = {"cap_add": "--cap-add", "cap_drop": "--cap-drop", "security_opt": "--security-opt", "devices": "--device"}


def _device(file: _File, value: Any) -> str | None:
    if isinstance(value, dict):
        return file.text(value.get("source"))
    return file.text(value)


def _changed(container: Container, file: _File, name: str, given: dict[str, Any], entry: list[str] | None) -> Container:
    """What Compose writes otherwise than docker run."""
    import msgspec

    asked = [*container.asked_gpus, *_gpus(file, given)]
    ports, unread = _ports(file, given)
    files = [file.text(v.get("path")) if isinstance(v, dict) else file.text(v) for v in _list(given.get("env_file"))]
    size = given.get("shm_size")
    shm = container.shm_size
    if shm is None and container.shm_mount == "?" and isinstance(size, Plain) and amount(file.text(size)):
        shm = None  # 16Gi is no size of Compose's
    return msgspec.structs.replace(
        container,
        entrypoint=None if entry is None else shlex.join(entry),
        name=container.name or name,
        shm_size=shm,
        asked_gpus=tuple(asked),
        gpus=docker.named_gpus(asked),
        ports=tuple(ports),
        ports_unread=tuple(unread),
        ulimits=_ulimits(file, given),
        env_files=tuple(f for f in files if f),
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _gpus(file: _File, given: dict[str, Any]) -> list[Gpus]:
    """`gpus: all`, `gpus: [{...}]`, and deploy.resources.reservations.devices."""
    got = []
    short = given.get("gpus")
    if text(short) is not None:
        said = docker.gpus_option(file.text(short) or "")
        if said is not None:
            got.append(Gpus(by="gpus", every=said.every, count=said.count, devices=said.devices))
    got += [_reserved(file, d, "gpus") for d in maps(short)]
    return got + _reservations(file, given)


def _reservations(file: _File, given: dict[str, Any]) -> list[Gpus]:
    resources = mapping(mapping(given.get("deploy")).get("resources"))
    devices = maps(mapping(resources.get("reservations")).get("devices"))
    got = []
    for device in devices:
        driver = file.text(device.get("driver"))
        capabilities = file.texts(device.get("capabilities"))
        if driver in (None, "nvidia", "cdi") or "gpu" in capabilities:
            got.append(_reserved(file, device, "deploy.resources.reservations.devices"))
    return got


def _reserved(file: _File, device: dict[str, Any], by: str) -> Gpus:
    count = file.text(device.get("count"))
    # One text with commas does what a list does: it is handed on joined by commas.
    devices = tuple(d.strip() for t in file.texts(device.get("device_ids")) for d in t.split(",") if d.strip())
    number = whole(count) if count is not None else None
    every = count in ("all", "-1") or (count is None and not devices)  # neither: all of them
    capabilities = tuple(file.texts(device.get("capabilities"))) if "capabilities" in device else ()
    return Gpus(
        by=by,
        every=every,
        count=number if number is not None and number >= 0 else None,
        devices=devices,
        capabilities=None if by == "gpus" and "capabilities" not in device else capabilities,
    )


def _volume(file: _File, value: Any) -> Mount | None:
    if not isinstance(value, dict):
        said = file.text(value)
        if said is None:
            return None
        mount = docker.volume(said)
        return _named(file, mount) if mount.kind == "volume" else mount
    target = file.text(value.get("target"))
    if target is None:
        return None
    size = file.text(mapping(value.get("tmpfs")).get("size"))
    mount = Mount(
        target=docker.clean_target(target),
        kind=file.text(value.get("type")) or "volume",
        source=file.text(value.get("source")),
        read_only=yes(file.text(value.get("read_only"))),
        size=bytes_of(size) if size else None,
        create=file.text(mapping(value.get("bind")).get("create_host_path")) != "false",
    )
    return _named(file, mount) if mount.kind == "volume" else mount


def _named(file: _File, mount: Mount) -> Mount:
    """A volume that the file declares as a folder of the host (driver_opts: o: bind, device: PATH)."""
    options = mapping(mapping(file.volumes.get(mount.source or "")).get("driver_opts"))
    device = file.text(options.get("device"))
    if device is not None and "bind" in (file.text(options.get("o")) or "").split(","):
        return Mount(target=mount.target, kind="bind", source=device, read_only=mount.read_only)
    return mount


def _ports(file: _File, given: dict[str, Any]) -> tuple[list[Port], list[str]]:
    """(the ports, those that are not understood)."""
    got: list[Port] = []
    unread: list[str] = []
    for value in items(given.get("ports")):
        if isinstance(value, dict):
            inside, outside = file.whole(value.get("target")), file.text(value.get("published"))
            m = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", outside or "")
            if inside is not None:
                published = (int(m[1]), int(m[2] or m[1])) if m else None
                address = file.text(value.get("host_ip"))
                protocol = file.text(value.get("protocol")) or "tcp"
                got.append(Port(inside=(inside, inside), published=published, address=address, protocol=protocol))
            else:
                unread.append(file.text(value.get("target")) or "?")
        else:
            said = file.text(value) or ""
            port = docker.port(said)
            if port is not None:
                got.append(port)
            else:
                unread.append(said)
    return got, unread


def _ulimits(file: _File, given: dict[str, Any]) -> dict[str, Ulimit]:
    limits: dict[str, Ulimit] = {}
    for name, value in mapping(given.get("ulimits")).items():
        if isinstance(value, dict):
            soft, hard = file.whole(value.get("soft")), file.whole(value.get("hard"))
            if soft is not None or hard is not None:
                limits[name] = Ulimit(
                    soft=soft if soft is not None else hard or 0, hard=hard if hard is not None else soft or 0
                )
        elif (number := file.whole(value)) is not None:
            limits[name] = Ulimit(soft=number, hard=number)
    return limits


def _compose(file: _File, given: dict[str, Any]) -> Compose:
    health = mapping(given.get("healthcheck"))
    on = given.get("depends_on")
    return Compose(
        version=file.version,
        reservations=tuple(_reservations(file, given)),
        depends_on=tuple(on if isinstance(on, dict) else texts(on)),
        profiles=tuple(file.texts(given.get("profiles"))),
        build="build" in given,
        healthcheck=bool(health) and not yes(file.text(health.get("disable"))),
        health_start_s=seconds(file.text(health.get("start_period"))),
        health_interval_s=seconds(file.text(health.get("interval"))),
        health_retries=file.whole(health.get("retries")),
        replicas=file.whole(mapping(given.get("deploy")).get("replicas")),
    )


__all__ = ["OPEN", "is_compose", "services"]
