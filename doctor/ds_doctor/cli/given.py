"""The file of `-f` to the services that are judged: read once, within limits; what it says is the launch room's to know."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from ..host import Asked
from ..launch.file import LIMIT, services
from ..launch.problem import Problem
from ..launch.structs import Service
from ..launch.variables import redact
from ..model import Reason
from . import Usage, files
from .lang import t

_DOTENV_LIMIT = 1 << 20
Explain = Callable[[Reason], str]


def asked_services(path: str, one: str | None, base: Asked, explain: Explain) -> list[Asked]:
    """What is asked of each service of the file; only of the one named so where a name is given. A file that only
    describes a gateway is laid beside the command. Usage in one line for a file that cannot be read or starts nothing."""
    import msgspec

    from ..launch.gateway import read

    data = _stdin() if path == "-" else files.read("-f", path, LIMIT)
    folder = os.path.dirname(files.absolute("-f", path)) if path != "-" else files.absolute("-f", ".")
    name = os.path.basename(path) if path != "-" else "stdin"
    known = _known(folder) if name.rpartition(".")[2].lower() in ("yml", "yaml") else os.environ
    routes = read(data.decode("utf-8", "replace"), name)
    base = msgspec.structs.replace(base, gateways=routes)
    try:
        every = services(data, path, name, known)
    except Problem as p:
        if routes:  # a gateway's file starts no engine: the command stands behind --
            return [base]
        line = p.data.get("line")
        place = f"{path}:{line}" if line else path
        raise Usage(f"-f {place}: {explain(Reason(p.reason, p.data))}") from None
    except RecursionError:
        raise Usage(f"-f {path}: {explain(Reason('launch-file-too-deep', {'limit': 64}))}") from None
    if base.command:
        raise Usage(
            t(
                "-f takes the launch command from the file; give none after --",
                "-f 从文件中读取启动命令，-- 之后不能再给命令",
            )
        )
    return [_asked(s, base, folder) for s in (_named(every, one, path) if one is not None else every)]


def _named(every: tuple[Service, ...], name: str, path: str) -> list[Service]:
    found = [s for s in every if s.name == name] or [s for s in every if s.deployment.name == name]
    if not found:
        names = ", ".join(s.name for s in every[:12])
        raise Usage(
            t(
                f"--service {name}: no such service in {path} (there: {names})",
                f"--service {name}：{path} 中没有此服务（现有：{names}）",
            )
        )
    return found


def _asked(service: Service, base: Asked, folder: str) -> Asked:
    import msgspec

    deployment = msgspec.structs.replace(service.deployment, name=service.name, folder=folder)
    return msgspec.structs.replace(base, command=redact(service.command), launch=service.launch, deployment=deployment)


def _stdin() -> bytes:
    try:
        data = sys.stdin.buffer.read(LIMIT + 1)
    except (OSError, ValueError) as e:
        raise Usage(f"-f -: {getattr(e, 'strerror', None) or e}") from None
    if len(data) > LIMIT:
        raise Usage(t(f"-f -: larger than {LIMIT >> 20} MiB", f"-f -：超过 {LIMIT >> 20} MiB"))
    return data


def _known(folder: str) -> Mapping[str, str]:
    """The variables of Compose: the environment, over those of the .env beside the file."""
    path = os.path.join(folder, ".env")
    if not os.path.isfile(path):
        return os.environ
    try:
        text = files.read(".env", path, _DOTENV_LIMIT).decode("utf-8", "replace")
    except Usage:
        return os.environ
    return {**_dotenv(text), **os.environ}


def _dotenv(text: str) -> dict[str, str]:
    got: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().isidentifier():
            value = value.strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            got[name.strip()] = value[1:-1] if quoted else value.partition(" #")[0].rstrip()
    return got
