"""NCCL's settings as NCCL itself reads them: the environment, ~/.nccl.conf or NCCL_CONF_FILE, /etc/nccl.conf; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe
from . import _elf, _ldso
from ._interpreter import interpreter

SYSTEM = "/etc/nccl.conf"
CONF_LIMIT = 1 << 20
VALUE_LIMIT = 1023  # bytes; src/misc/param.cc keeps that much of a line's value
SECRET = ("NCCL_PSK",)  # the pre-shared key of NCCL's sockets (since 2.32)
HIDDEN = "<hidden>"
# NCCL's own names, and what a slip in the prefix makes of them.
PREFIX = re.compile(r"(NCCL|NCLL|NCL|NCC|NNCL|NNCCL|NCCCL|NCCLL|NLCC|CNCL|NCLC)_")
# Variables that hold the path of a file which NCCL reads.
FILES = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")
# Variables that name plugins, and how NCCL completes a bare suffix (user guide, Environment Variables).
PLUGINS = {
    "NCCL_NET_PLUGIN": ("libnccl-net-{}.so",),
    "NCCL_TUNER_PLUGIN": ("libnccl-tuner-{}.so", "libnccl-net-{}.so"),
    "NCCL_PROFILER_PLUGIN": ("libnccl-profiler-{}.so",),
    "NCCL_ENV_PLUGIN": ("libnccl-env-{}.so",),
}
NO_FILE = ("none", "static_plugin")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The value in force and where it comes from (`environment` or a file). `hides`: sources that say otherwise and lose."""

    value: str
    source: str
    hides: tuple[str, ...] = ()


class ConfLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file that does not say what it seems to say. `problem`: spaces (around the name), export, carriage-return,
    no-equals; the name as NCCL reads it."""

    path: str
    line: int
    problem: str
    name: str


class NcclConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of NCCL, from variables and from its configuration files.

    `settings`: NCCL_* variables as NCCL sees them, and such whose prefix has a slip. `files`: those that were read. `unreadable`: that are there and could
    not be. `odd`: lines that NCCL takes otherwise than they look. `missing`: variable -> the path it names, when nothing
    is there. `plugins`: variable -> whether a library of that name is found.
    """

    settings: dict[str, Setting] = {}
    files: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    odd: tuple[ConfLine, ...] = ()
    missing: dict[str, str] = {}
    plugins: dict[str, bool] = {}


def parse_conf(text: str, path: str) -> tuple[dict[str, str], list[ConfLine]]:
    """(variables, odd lines) as setEnvFile in src/misc/param.cc reads them: nothing is trimmed, the first setting stays."""
    values: dict[str, str] = {}
    odd: list[ConfLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            if name.strip().startswith("NCCL_"):
                odd.append(ConfLine(path=path, line=number, problem="no-equals", name=name.strip()[:100]))
            continue
        problem = None
        if name.strip() != name:
            problem = "spaces"
        elif name.startswith("export "):
            problem = "export"
        elif value.endswith("\r"):
            problem = "carriage-return"
        if problem and "NCCL_" in name:
            odd.append(ConfLine(path=path, line=number, problem=problem, name=name.strip()[:100]))
        values.setdefault(name[:1023], value[:VALUE_LIMIT])
    return values, odd


def parse_home(passwd: str, uid: int) -> str | None:
    """The home folder of a user in /etc/passwd: NCCL asks getpwuid, not HOME."""
    for line in passwd.splitlines():
        fields = line.split(":")
        if len(fields) >= 7 and fields[2] == str(uid):
            return fields[5].rstrip("/") or None
    return None


def parse_nsswitch(text: str) -> bool:
    """Whether users come from somewhere beside /etc/passwd: LDAP, a domain, homectl."""
    m = re.search(r"^\s*passwd:(.*)$", text, re.M)
    return m is not None and re.search(r"\b(sss|ldap|winbind|nis|nisplus|systemd|extrausers)\b", m[1]) is not None


def _home(host: Host) -> str | None:
    try:
        home = parse_home(host.text("/etc/passwd", 4 << 20), host.user_id())
        if home is None and parse_nsswitch(host.text("/etc/nsswitch.conf", 1 << 16)):
            home = host.env.get("HOME", "").rstrip("/") or None  # as good as what the directory would say
        return home
    except Trouble:
        return None


def _conf_files(host: Host) -> list[str]:
    """In NCCL's order; the first that names a variable wins, and the environment before all."""
    named = host.env.get("NCCL_CONF_FILE", "")
    if named:
        return [named, SYSTEM]
    home = _home(host) if host.live else None
    return [f"{home}/.nccl.conf", SYSTEM] if home and home.startswith("/") else [SYSTEM]


def _shown(name: str, value: str) -> str:
    return HIDDEN if name in SECRET and value else value


@probe
def nccl_config(host: Host) -> NcclConfig:
    settings = {
        n: Setting(value=_shown(n, v), source="environment") for n, v in sorted(host.env.items()) if PREFIX.match(n)
    }
    files: list[str] = []
    unreadable: list[str] = []
    odd: list[ConfLine] = []
    for path in _conf_files(host):
        try:
            values, lines = parse_conf(host.text(path, CONF_LIMIT), path)
        except Absent:
            continue
        except Trouble:
            unreadable.append(path)
            continue
        files.append(path)
        odd.extend(lines)
        for name, value in values.items():
            if not PREFIX.match(name):
                continue
            before = settings.get(name)
            if before is None:
                settings[name] = Setting(value=_shown(name, value), source=path)
            elif before.value != _shown(name, value):
                settings[name] = msgspec.structs.replace(before, hides=(*before.hides, path))
    if not host.live and not files:
        raise Unseen("not-under-root")  # the environment is the running engine's
    return NcclConfig(
        settings=settings,
        files=tuple(files),
        unreadable=tuple(unreadable),
        odd=tuple(odd),
        missing={n: settings[n].value for n in FILES if n in settings and _is_missing(host, settings[n].value)},
        plugins=_plugins(host, settings),
    )


def _is_missing(host: Host, path: str) -> bool:
    """Whether an absolute path leads nowhere; a relative one depends on where the engine starts. NCCL expands no `~`."""
    if not path.startswith("/"):
        return path.startswith("~")
    try:
        return not host.exists(path)
    except Trouble:
        return False


def _plugins(host: Host, settings: dict[str, Setting]) -> dict[str, bool]:
    wanted = {n: settings[n].value for n in PLUGINS if n in settings and settings[n].value}
    if not wanted:
        return {}
    chain: tuple[_elf.Elf, ...] = ()
    try:
        chain = (_elf.read(host, host.real(interpreter(host).path)),)
    except Trouble:
        pass
    setup = _ldso.setup(host, chain[0].path if chain else None)
    found: dict[str, bool] = {}
    for variable, text in wanted.items():
        # Several plugins may stand in a list; one that is found is enough.
        parts = [p.strip() for p in text.split(",") if p.strip()]
        if not parts or any(p.lower() in NO_FILE for p in parts):
            continue
        names = [n for p in parts for n in (p, *(form.format(p) for form in PLUGINS[variable] if "/" not in p))]
        files = [_ldso.first(host, setup, name, chain) for name in names]
        found[variable] = any(file is not None and file.fault is None for file in files)
    return found
