"""Docker on this machine: which daemons, their daemon.json, and what the host offers them; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Trouble, probe
from .launch import bytes_of

CONFIG_LIMIT = 1 << 20  # bytes; a daemon.json has a few hundred
ENTRIES = 200  # of one list or table of a daemon.json; more than that is no configuration
DPKG_STATUS = "/var/lib/dpkg/status"
DPKG_LIMIT = 64 << 20
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")  # PATH of systemd services
PACKAGES = ("docker-ce", "docker.io", "moby-engine")
SNAP = "/var/snap/docker/current"


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `runtimes`. `found`: its program is there (a bare name: in a folder of the services' PATH); None
    when that cannot be told or the entry names no program."""

    path: str | None = None
    type: str | None = None
    found: bool | None = None


class DaemonFile(msgspec.Struct, frozen=True, kw_only=True):
    """One daemon.json that exists. `kind` is root, rootless or snap. `error` is syntax, shape (valid JSON of another
    form than dockerd takes), too-large, denied or unreadable; `line` and `column` (from 1) and `detail` say where."""

    path: str
    kind: str
    error: str | None = None
    line: int | None = None
    column: int | None = None
    detail: str = ""
    runtimes: dict[str, Runtime] = {}
    default_runtime: str | None = None
    mirrors: tuple[str, ...] = ()  # without user names and passwords
    cdi: bool | None = None
    cgroup_driver: str | None = None  # of exec-opts native.cgroupdriver
    shm_size: int | None = None  # default-shm-size in bytes
    data_root: str | None = None
    data_root_there: bool | None = None


class Docker(msgspec.Struct, frozen=True, kw_only=True):
    """The Docker daemons of this machine and their configuration files.

    `kinds`: root, rootless, snap, desktop - the daemons that this machine seems to have. `version` is that of the
    package, or what dockerd says of itself. `flag_runtimes`: the names that --add-runtime declares in the service's files.
    `nvidia_char_links`: /dev/char has links to the NVIDIA devices (major 195).
    """

    kinds: tuple[str, ...]
    dockerd: str | None = None
    version: str | None = None
    sockets: tuple[str, ...] = ()
    files: tuple[DaemonFile, ...] = ()
    flag_runtimes: tuple[str, ...] = ()
    cgroup_v2: bool | None = None
    systemd: bool | None = None
    nvidia_char_links: bool | None = None


# -- parsing -------------------------------------------------------------------------------------------------------


def parse_daemon(data: bytes, path: str, kind: str) -> DaemonFile:
    """What a daemon.json says, read as dockerd reads it: a byte order mark is fine, an empty file is an empty table."""
    import json

    try:
        text = _decode(data)
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        column = e.start - data.rfind(b"\n", 0, e.start)
        return DaemonFile(path=path, kind=kind, error="syntax", line=line, column=column, detail="not UTF-8")
    if not text.strip():
        return DaemonFile(path=path, kind=kind)
    try:
        table = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as e:
        detail = e.msg if text[e.pos : e.pos + 1] not in ("/", "#") else "JSON knows no comments"
        return DaemonFile(path=path, kind=kind, error="syntax", line=e.lineno, column=e.colno, detail=detail)
    except RecursionError:
        return DaemonFile(path=path, kind=kind, error="unreadable", detail="nested too deeply")
    except ValueError as e:
        return DaemonFile(path=path, kind=kind, error="syntax", detail=str(e)[:200])
    try:
        return _daemon_of(table, path, kind)
    except TypeError as e:
        return DaemonFile(path=path, kind=kind, error="shape", detail=str(e))


def _decode(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    return data.decode("utf-8-sig")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


# Options that GPU set-ups write. dockerd refuses a file with a key that it does not know, capitals and underscores
# included (daemon/config/config.go, findConfigurationConflicts: "don't match any configuration option").
_OPTIONS = {
    re.sub(r"[-_]", "", name): name
    for name in (
        *(
            "runtimes",
            "default-runtime",
            "registry-mirrors",
            "insecure-registries",
            "exec-opts",
            "data-root",
            "features",
        ),
        *("default-shm-size", "default-ipc-mode", "default-ulimits", "log-driver", "log-opts", "storage-driver"),
        *("live-restore", "node-generic-resources", "max-concurrent-downloads", "cgroup-parent", "cdi-spec-dirs"),
    )
}


# Of the options that this file reads no further: what Go's decoder takes for them (daemon/config/config.go: bool, []string,
# map[string]string, string, int); a value of another kind keeps dockerd from starting.
_KINDS: dict[str, type] = {
    **dict.fromkeys(
        ("debug", "live-restore", "experimental", "iptables", "ip6tables", "ip-forward", "ip-masq", "ipv6", "icc"), bool
    ),
    **dict.fromkeys(("no-new-privileges", "selinux-enabled", "userland-proxy", "tls", "tlsverify", "raw-logs"), bool),
    **dict.fromkeys(("insecure-registries", "dns", "storage-opts", "labels", "cdi-spec-dirs"), list),
    **dict.fromkeys(("log-opts", "default-ulimits"), dict),
    **dict.fromkeys(("log-driver", "storage-driver", "log-level", "bridge", "bip", "cgroup-parent"), str),
}


def _misspelt(key: str) -> str | None:
    """The option that a key means and misses by capitals, underscores or missing dashes, or by an `s` at its end."""
    plain = re.sub(r"[-_]", "", key).lower()
    meant = _OPTIONS.get(plain)
    if meant is None and plain in (
        "runtime",
        "defaultruntimes",
    ):  # the other singulars are flags, which dockerd lets pass
        meant = "runtimes" if plain == "runtime" else "default-runtime"
    return meant if meant != key else None


def _daemon_of(table: Any, path: str, kind: str) -> DaemonFile:
    top = _as(dict, table, "the file")
    for key in top:
        meant = _misspelt(key)
        if meant is not None:
            raise TypeError(f'dockerd knows no "{clean(key)[:40]}"; the option is called "{meant}"')
    for key, kind_of in _KINDS.items():
        value = _as(kind_of, top.get(key), key)
        if key == "log-opts" and not all(isinstance(v, str) for v in value.values()):
            raise TypeError("the values of log-opts are not all texts")
    runtimes: dict[str, Runtime] = {}
    for name, entry in list(_as(dict, top.get("runtimes"), "runtimes").items())[:ENTRIES]:
        values = _as(dict, entry, f"runtimes.{clean(name)[:40]}")
        runtimes[clean(name)[:80]] = Runtime(
            path=_as(str, values.get("path"), "path") or None,
            type=_as(str, values.get("runtimeType"), "runtimeType") or None,
        )
    options = [clean(str(o)) for o in _as(list, top.get("exec-opts"), "exec-opts")[:ENTRIES]]
    driver = [
        o.partition("=")[2].strip() for o in options if o.partition("=")[0].strip().lower() == "native.cgroupdriver"
    ]
    mirrors = [
        _as(str, m, "registry-mirrors") for m in _as(list, top.get("registry-mirrors"), "registry-mirrors")[:ENTRIES]
    ]
    cdi = _as(dict, top.get("features"), "features").get("cdi")
    return DaemonFile(
        path=path,
        kind=kind,
        runtimes=runtimes,
        default_runtime=_as(str, top.get("default-runtime"), "default-runtime")[:80] or None,
        mirrors=tuple(without_secret(m)[:300] for m in mirrors),
        cdi=cdi if isinstance(cdi, bool) else None,
        cgroup_driver=driver[-1][:40] if driver else None,
        shm_size=_bytes(top.get("default-shm-size")),
        data_root=_as(str, top.get("data-root"), "data-root")[:1000] or None,
    )


def _bytes(value: Any) -> int | None:
    """A size as dockerd reads it: `16G`, or a number of bytes."""
    return bytes_of(str(value)) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


_NAMES: dict[type, str] = {bool: "true or false", dict: "a table", list: "a list", str: "a text"}


def _as(kind: type, value: Any, name: str) -> Any:
    """The value, or an empty one for null; TypeError when it is of another kind."""
    if value is None:
        if name == "the file":
            raise TypeError("the file holds null, not a table")
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{name} is not {_NAMES[kind]}")
    return clean(value) if isinstance(value, str) else value


def clean(text: str) -> str:
    """Without the lone surrogates that a JSON escape can make: no report could be written with them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def without_secret(url: str) -> str:
    """The URL with `<hidden>@` in place of user name and password, also where those hold a slash."""
    scheme, marks, rest = url.partition("://")
    return f"{scheme}{marks}<hidden>@{rest.rpartition('@')[2]}" if marks and "@" in rest else url


def parse_dpkg(blocks: Iterable[bytes], names: Iterable[str]) -> dict[str, str]:
    """Versions of the installed packages among `names`, out of the pieces of a dpkg status file."""
    wanted = {n.encode() for n in names}
    versions: dict[str, str] = {}
    rest = b""
    for block in _with_end(blocks):
        *whole, rest = (rest + block).split(b"\n\n")
        rest = rest[-(1 << 20) :]  # a paragraph without end is no package
        for paragraph in whole:
            head, _, tail = paragraph.lstrip(b"\n").partition(b"\n")
            if not head.startswith(b"Package: ") or head[9:].strip() not in wanted:
                continue
            if b"\nStatus: install ok installed" not in b"\n" + tail:
                continue
            m = re.search(rb"^Version: (?:[0-9]+:)?([0-9A-Za-z.+~-]{1,80})", tail, re.M)
            if m:
                versions[head[9:].strip().decode("ascii", "replace")] = m[1].decode("ascii")
    return versions


def _with_end(blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield from blocks
    yield b"\n\n"


def release_of(version: str) -> str | None:
    """`28.3.2` of `28.3.2-1~ubuntu.24.04~noble`; None when it does not begin with numbers."""
    m = re.match(r"[0-9]{1,4}(?:\.[0-9]{1,6}){1,3}", version)
    return m[0] if m else None


# -- asking --------------------------------------------------------------------------------------------------------


def there(host: Host, path: str) -> bool:
    """Whether the path is there, as far as this user may look."""
    try:
        return host.exists(path)
    except Trouble:
        return False


def program(host: Host, name: str) -> str | None:
    """Where a program lies: on this user's PATH, or in the folders that services search."""
    if host.live:
        found = host.which(name)
        if found:
            return found
    return next((f"{folder}/{name}" for folder in FOLDERS if there(host, f"{folder}/{name}")), None)


def packages(host: Host, names: Iterable[str]) -> dict[str, str]:
    """Installed versions by dpkg's own list; nothing where there is no dpkg."""

    def blocks() -> Iterator[bytes]:
        for offset in range(0, DPKG_LIMIT, 1 << 20):
            block = host.read_at(DPKG_STATUS, offset, 1 << 20)
            yield block
            if len(block) < 1 << 20:
                return

    try:
        return parse_dpkg(blocks(), names)
    except Trouble:
        return {}


def read_daemon(host: Host, path: str, kind: str) -> DaemonFile | None:
    """One daemon.json; None where there is none."""
    try:
        file = parse_daemon(host.read(path, CONFIG_LIMIT), path, kind)
    except Absent:
        return None
    except Denied:
        if kind == "rootless" and not there(host, path):
            return None  # a home that this user may not search is no sign of Docker
        return DaemonFile(path=path, kind=kind, error="denied")
    except Trouble as t:
        error = "too-large" if t.reason.id == "file-too-large" else "unreadable"
        return DaemonFile(
            path=path, kind=kind, error=error, detail=str(t.reason.data.get("error") or t.reason.data.get("kind") or "")
        )
    runtimes = {n: msgspec.structs.replace(r, found=_found(host, r.path)) for n, r in file.runtimes.items()}
    root_there = None
    if file.data_root and file.data_root.startswith("/"):
        try:
            root_there = host.exists(file.data_root)
        except Trouble:
            root_there = None
    return msgspec.structs.replace(file, runtimes=runtimes, data_root_there=root_there)


def _found(host: Host, path: str | None) -> bool | None:
    if not path:
        return None
    if "/" not in path:
        return program(host, path) is not None
    try:
        return host.exists(path) if path.startswith("/") else None
    except Trouble:
        return None


def _char_links(host: Host) -> bool | None:
    try:
        return any(n.startswith("195:") for n in host.names("/dev/char"))
    except Absent:
        return False if host.live else None
    except Trouble:
        return None


def _ask(host: Host, dockerd: str | None) -> str | None:
    """What dockerd says of itself, where no package database tells (rpm's is no text)."""
    if dockerd is None or not host.live:
        return None
    try:
        said = host.run([dockerd, "--version"], timeout_s=2.0)
    except Trouble:
        return None
    m = re.search(r"version\s+([0-9]{1,4}(?:\.[0-9]{1,6}){1,3})", said.out[:500])
    return m[1] if m and said.status == 0 else None


# Where the flags of dockerd stand: systemd's unit and what is laid over it, Debian's and Red Hat's variables.
_SERVICE = ("/etc/systemd/system/docker.service", "/etc/default/docker", "/etc/sysconfig/docker")
_SERVICE_PARTS = "/etc/systemd/system/docker.service.d"
_ADD_RUNTIME = re.compile(r"--add-runtime[= ]+[\"']?([A-Za-z0-9_.-]{1,80})=")


def parse_flags(text: str) -> list[str]:
    """The runtimes that the flags in a unit or variable file declare; comments do not count."""
    return [
        n for line in text.splitlines() if not line.lstrip().startswith(("#", ";")) for n in _ADD_RUNTIME.findall(line)
    ]


def _flag_runtimes(host: Host) -> tuple[str, ...]:
    try:
        parts = [f"{_SERVICE_PARTS}/{n}" for n in host.names(_SERVICE_PARTS)[:50] if n.endswith(".conf")]
    except Trouble:
        parts = []
    names: list[str] = []
    for path in (*_SERVICE, *parts):
        try:
            names += parse_flags(host.text(path, CONFIG_LIMIT))
        except Trouble:
            continue
    return tuple(dict.fromkeys(names))[:ENTRIES]


def _homes(env: Mapping[str, str]) -> tuple[str, str]:
    home = env.get("HOME", "")
    config = env.get("XDG_CONFIG_HOME", "") or (home + "/.config" if home.startswith("/") else "")
    return home, config if config.startswith("/") else ""


@probe
def docker(host: Host) -> Docker:
    _, config = _homes(host.env)
    runtime_dir = host.env.get("XDG_RUNTIME_DIR", "")
    places = [("/etc/docker/daemon.json", "root"), (SNAP + "/config/daemon.json", "snap")]
    if config:
        places.append((config + "/docker/daemon.json", "rootless"))
    files = tuple(f for f in (read_daemon(host, path, kind) for path, kind in places) if f is not None)
    dockerd = program(host, "dockerd")
    sockets = [s for s in ("/run/docker.sock", "/var/run/docker.sock") if there(host, s)][:1]
    rootless_socket = f"{runtime_dir}/docker.sock"
    snap = there(host, SNAP) or there(host, "/snap/docker/current")
    rootless = (runtime_dir.startswith("/") and there(host, rootless_socket)) or (
        bool(config) and there(host, config + "/systemd/user/docker.service")
    )
    if rootless:
        sockets.append(rootless_socket)
    desktop = there(host, "/opt/docker-desktop") or there(host, "/mnt/wsl/docker-desktop")
    root = not snap and (dockerd is not None or any(f.kind == "root" for f in files))
    signs = {"root": root, "rootless": rootless, "snap": snap, "desktop": desktop}
    kinds = tuple(kind for kind, sign in signs.items() if sign)
    if not kinds and not sockets and not files:
        raise Absent("no-docker")
    versions = packages(host, PACKAGES)
    version = next((release_of(versions[p]) for p in PACKAGES if p in versions), None) or _ask(host, dockerd)
    return Docker(
        kinds=kinds,
        dockerd=dockerd,
        version=version,
        sockets=tuple(sockets),
        files=files,
        flag_runtimes=_flag_runtimes(host),
        cgroup_v2=there(host, "/sys/fs/cgroup/cgroup.controllers") if there(host, "/sys/fs/cgroup") else None,
        systemd=there(host, "/run/systemd/system") if host.live else None,
        nvidia_char_links=_char_links(host),
    )
