"""What the containers of a launch would mount from this host: is each path there? Never judges, looks into none."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Denied, Host, Trouble, probe
from ._volumes import absolute
from .launch import OPEN, Mount, asked_launch

MOST = 64  # mounts of one container


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One mounted path of the host. `path`: from the root, None where it holds what is filled in later; `state`: there,
    missing, denied, unknown; `kind`: as in Stat, of what is there."""

    target: str
    state: str
    path: str | None = None
    kind: str | None = None
    create: bool = False
    given: str = ""


class Mounts(msgspec.Struct, frozen=True):
    """The bind mounts of the container that would be started here, in their order."""

    of_command: ClassVar[bool] = True

    sources: tuple[Source, ...]


def look(host: Host, mount: Mount) -> Source:
    given = mount.source or ""
    path = None if OPEN.search(given) else absolute(host, given)
    state, kind = "unknown", None
    if path is not None:
        try:
            kind = host.stat(path).kind
            state = "there"
        except Absent:
            state = "missing"
        except Denied:
            state = "denied"
        except Trouble:
            pass
    return Source(target=mount.target, path=path, state=state, kind=kind, create=mount.create, given=given)


@probe
def mounts(host: Host) -> Mounts:
    container = asked_launch(host.asked).container
    # A pod's node need not be this host.
    if container is None or container.running or container.program == "kubernetes":
        raise Absent("launch-no-container")
    # Another daemon than this machine's: its files are not these.
    if not host.env.get("DOCKER_HOST", "unix://").startswith("unix://"):
        raise Absent("launch-docker-elsewhere", host=host.env["DOCKER_HOST"].rpartition("@")[2])
    return Mounts(tuple(look(host, m) for m in container.mounts if m.kind == "bind" and m.source)[:MOST])
