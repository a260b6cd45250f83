"""`docker run`, `create` and `exec` (podman, nerdctl) to a Container, and the command inside it; judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .structs import Container, Gpus, Mount, Port, Ulimit
from .variables import is_secret
from .words import OPEN, bytes_of

# Options of `docker run` without a value: https://docs.docker.com/reference/cli/docker/container/run/
_BARE = frozenset(
    (
        *("--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck"),
        *("--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--rm", "--sig-proxy"),
        *("--tty", "--replace", "--tls-verify", "--no-hosts", "--no-hostname", "--rootfs", "--use-api-socket"),
        *("--env-host", "--rmi", "--read-only-tmpfs"),
    )
)
_SHORT_BARE = "dhiPqt"
# Of the program itself, in front of the sub-command, with a value: docker --context gpu run ...
_GLOBAL = frozenset(
    (
        "-H",
        "--host",
        "-c",
        "--context",
        "--config",
        "-l",
        "--log-level",
        "-n",
        "--namespace",
        "--url",
        "--connection",
        "-a",
    )
)
RUNNERS = frozenset(("docker", "podman", "nerdctl"))
_VERBS = ("run", "create", "exec")
_TRUE = ("", "true", "1", "t", "T", "TRUE", "True")  # strconv.ParseBool
_SHM = "/dev/shm"


class Said:
    """The options of one container, however they were written, and what they come to."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.options: dict[str, list[str]] = {}
        self.environment: dict[str, str] = {}
        self.inherited: list[str] = []
        self.mounts: list[Mount] = []

    def add(self, name: str, value: str) -> None:
        if name in ("-e", "--env"):
            variable, has_value, text = value.partition("=")
            if has_value:
                self.environment[variable] = text
            elif variable:
                self.inherited.append(variable)
        self.options.setdefault(_LONG.get(name, name), []).append(value)
        if name in ("-v", "--volume"):
            self.mounts.append(volume(value))
        elif name == "--mount":
            self.mounts.append(mount(value))
        elif name == "--tmpfs":
            self.mounts.append(tmpfs(value))

    def last(self, name: str) -> str | None:
        return self.options[name][-1] if name in self.options else None

    def all(self, name: str) -> tuple[str, ...]:
        return tuple(self.options.get(name, ()))

    def flag(self, name: str) -> bool:
        return name in self.options and self.options[name][-1] in _TRUE


_LONG = {
    "-e": "--env",
    "-v": "--volume",
    "-p": "--publish",
    "-P": "--publish-all",
    "-m": "--memory",
    "-u": "--user",
    "-w": "--workdir",
    "--net": "--network",
    "-h": "--hostname",
}


def command(program: str, words: Sequence[str]) -> tuple[str, list[str]] | None:
    """(run, create or exec; the words behind it) of `docker [options] [container] run ...`; None for anything else."""
    i = 0
    while i < len(words) and words[i].startswith("-"):
        i += 2 if words[i] in _GLOBAL else 1
    if words[i : i + 1] == ["container"]:
        i += 1
    return (words[i], list(words[i + 1 :])) if i < len(words) and words[i] in _VERBS else None


def read(program: str, verb: str, argv: list[str]) -> tuple[Container, dict[str, str], list[str]]:
    """The container's settings, its environment, and the command inside it."""
    said = Said(program)
    i = 0
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "-":
        word = argv[i]
        i += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            bare = name in _BARE
        else:
            bare = all(c in _SHORT_BARE for c in word[1:])
            if bare:
                for letter in word[1:]:
                    said.add("-" + letter, "")
                continue
            # -eNAME=value; -itv SOURCE:TARGET: the first letter that is not bare takes the value.
            at = next(k for k, c in enumerate(word) if k and c not in _SHORT_BARE)
            for letter in word[1:at]:
                said.add("-" + letter, "")
            name, value = word[:1] + word[at], word[at + 1 :]
            equals = "=" if value else ""
            value = value.removeprefix("=")
        if not bare and not equals:
            value = argv[i] if i < len(argv) else ""
            i += 1
        said.add(name, value)
    image = argv[i] if i < len(argv) else None
    inside = argv[i + 1 :]
    entrypoint = said.last("--entrypoint")
    if entrypoint:
        inside = [entrypoint, *inside]
    return container(said, image, running=verb == "exec"), said.environment, inside


def container(said: Said, image: str | None, running: bool = False) -> Container:
    """What all the options come to."""
    over = [m for m in said.mounts if m.target == _SHM]
    size = said.last("--shm-size") or ""
    shm_size, shm_mount = bytes_of(size) or None, None  # docker takes 0 for its default
    if over:
        last = over[-1]
        shm_size, shm_mount = last.size, "tmpfs" if last.kind == "tmpfs" else last.source or "?"
    elif size and bytes_of(size) is None:
        shm_mount = "?"
    gpus = asked_gpus(said)
    named = named_gpus(gpus)
    return Container(
        program=said.program,
        image=None if running else image,
        name=image if running else said.last("--name"),
        shm_size=shm_size,
        shm_mount=shm_mount,
        ipc=said.last("--ipc"),
        memory=bytes_of(said.last("--memory") or "") or None,
        gpus=named,
        entrypoint=said.last("--entrypoint"),
        asked_gpus=gpus,
        runtime=said.last("--runtime"),
        privileged=said.flag("--privileged"),
        network=said.last("--network"),
        pid=said.last("--pid"),
        user=said.last("--user"),
        platform=said.last("--platform"),
        workdir=said.last("--workdir"),
        restart=said.last("--restart"),
        read_only=said.flag("--read-only"),
        remove=said.flag("--rm"),
        running=running,
        publish_all=said.flag("--publish-all"),
        ports=tuple(p for v in said.all("--publish") if (p := port(v)) is not None),
        ports_unread=tuple(v for v in said.all("--publish") if port(v) is None),
        mounts=tuple(said.mounts),
        ulimits=ulimits(said.all("--ulimit")),
        cap_add=_caps(said.all("--cap-add")),
        cap_drop=_caps(said.all("--cap-drop")),
        security_opt=said.all("--security-opt"),
        devices=said.all("--device"),
        env_files=said.all("--env-file"),
        env_inherited=tuple(dict.fromkeys(said.inherited)),
        secrets_given=secrets(said.environment),
    )


def named_gpus(asked: Sequence[Gpus]) -> tuple[str, ...] | None:
    """The devices that are named, where their names are not filled in later ($X, systemd's %i)."""
    last = next((g.devices for g in reversed(asked) if g.devices), None)
    return None if last is None or any(c in d for d in last for c in "$%") else last


# What documentation writes where a secret belongs.
_PLACEHOLDER = re.compile(
    r"<.*>|\*+|x{3,}.*|hf_x{3,}.*|\.{3,}|(?:my|your|insert|replace|change|put|add|enter)[-_ ].*|(?:changeme|todo|none|null|dummy|empty|token|secret)",
    re.IGNORECASE,
)


def secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The variables whose secret is given in plain text."""
    return tuple(n for n, v in environment.items() if is_secret(n) and is_given(v))


def is_given(value: str) -> bool:
    """Whether a secret's value is one, and not where it comes from or what stands for it."""
    return len(value) > 3 and not OPEN.search(value) and not _PLACEHOLDER.fullmatch(value.strip())


def _caps(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(v.upper().removeprefix("CAP_") for v in values)


# -- GPUs ----------------------------------------------------------------------------------------------------------


def asked_gpus(said: Said) -> tuple[Gpus, ...]:
    """Each way in which the container asks for GPUs."""
    asked = [g for v in said.all("--gpus") if (g := gpus_option(v)) is not None]
    for value in said.all("--device"):
        m = re.fullmatch(r"nvidia\.com/gpu=(.+)", value)
        if m:
            cdi = m[1] == "all"
            asked.append(Gpus(by="--device", every=cdi, devices=() if cdi else (m[1],)))
        elif re.fullmatch(r"/dev/nvidia\d+(:.*)?", value):
            asked.append(Gpus(by="--device", devices=(value.partition(":")[0].removeprefix("/dev/nvidia"),)))
    return tuple(asked)


def gpus_option(value: str) -> Gpus | None:
    """The value of --gpus: `all`, `2`, `device=0,1` in quotes or not, `"all,capabilities=utility"`
    (docker/cli opts/gpus.go: fields as of a CSV line)."""
    # The quotes that docker wants around a comma came through a shell, or through a file, where one pair may be left.
    fields = _csv(value.strip().strip("'"))
    every, count, devices, capabilities = False, None, [], []
    for i, field in enumerate(fields):
        key, equals, text = field.partition("=")
        if not equals:
            if i:
                devices.append(key)  # device=0,1 without the quotes: docker takes the 1 for a count beside the device
                count = int(key) if re.fullmatch(r"\d{1,4}", key) else count
                continue
            key, text = "count", key
        if key == "count":
            if text == "all":
                every = True
            elif re.fullmatch(r"-?\d{1,4}", text):
                every, count = int(text) == -1, int(text) if int(text) >= 0 else None
        elif key in ("device", "deviceId", "device_ids"):
            devices += [d for d in (p.strip() for p in text.split(",")) if d]
        elif key == "capabilities":
            capabilities += [c for c in (p.strip() for p in text.split(",")) if c]
    if devices == ["all"]:
        every, devices = True, []
    if not (every or count is not None or devices):
        return None
    return Gpus(
        by="--gpus",
        every=every,
        count=count,
        devices=tuple(devices),
        capabilities=tuple(capabilities) if capabilities else None,
    )


def _csv(line: str) -> list[str]:
    import csv

    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return line.split(",")


# -- what is mounted -----------------------------------------------------------------------------------------------


def clean_target(path: str) -> str:
    return path.rstrip("/") or "/" if path.startswith("/") else path


def volume(value: str) -> Mount:
    """`SOURCE:TARGET[:OPTIONS]`, `NAME:TARGET`, `TARGET` of -v and of Compose."""
    # A colon inside ${X:-default} parts nothing.
    parts = re.split(r":(?![^${}]*\})", value)
    if len(parts) == 1:
        return Mount(target=clean_target(value), kind="volume")
    source, target = parts[0], parts[1]
    options = parts[2].split(",") if len(parts) > 2 else []
    kind = "bind" if source.startswith(("/", ".", "~", "$", "`")) else "volume"
    return Mount(
        target=clean_target(target),
        kind=kind,
        source=source,
        read_only="ro" in options or "readonly" in options,
        create=kind == "bind",
    )


def mount(value: str) -> Mount:
    """`type=bind,source=...,target=...` of --mount."""
    given = dict(o.strip().partition("=")[::2] for o in _csv(value))
    kind = given.get("type", "volume")
    source = next((given[n] for n in ("source", "src") if n in given), None)
    target = next((given[n] for n in ("target", "destination", "dst") if n in given), "")
    read_only = any(given.get(n, "false") in _TRUE for n in ("readonly", "ro") if n in given)
    size = bytes_of(given.get("tmpfs-size", "")) if kind == "tmpfs" else None
    return Mount(target=clean_target(target), kind=kind, source=source, read_only=read_only, size=size)


def tmpfs(value: str) -> Mount:
    """`/run:rw,size=64m` of --tmpfs and of Compose."""
    target, _, options = value.partition(":")
    given = dict(o.partition("=")[::2] for o in options.split(","))
    return Mount(
        target=clean_target(target), kind="tmpfs", size=bytes_of(given.get("size", "")), read_only="ro" in given
    )


# -- ports and limits ----------------------------------------------------------------------------------------------

_PORT = re.compile(
    r"(?:(?:(?P<address>\[[^\]]*\]|[0-9.]+|localhost):)?(?P<outside>\d{1,5}(?:-\d{1,5})?)?:)?"
    r"(?P<inside>\d{1,5}(?:-\d{1,5})?)(?:/(?P<protocol>tcp|udp|sctp))?"
)


def port(value: str) -> Port | None:
    """`[ADDRESS:][OUTSIDE:]INSIDE[/PROTOCOL]`, also ranges; None for what is none."""
    m = _PORT.fullmatch(value.strip())
    if m is None:
        return None
    return Port(
        inside=_range(m["inside"]),
        published=_range(m["outside"]) if m["outside"] else None,
        address=m["address"],
        protocol=m["protocol"] or "tcp",
    )


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def ulimits(values: Sequence[str]) -> dict[str, Ulimit]:
    """`memlock=-1`, `nofile=1024:2048`, `stack=67108864`."""
    limits: dict[str, Ulimit] = {}
    for value in values:
        name, _, text = value.partition("=")
        m = re.fullmatch(r"(-1|unlimited|\d{1,19})(?::(-1|unlimited|\d{1,19}))?", text.strip())
        if m:
            soft, hard = (-1 if n == "unlimited" else int(n) for n in (m[1], m[2] or m[1]))
            limits[name.strip()] = Ulimit(soft=soft, hard=hard)
    return limits
