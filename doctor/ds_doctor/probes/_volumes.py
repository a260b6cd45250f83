"""Where a path of the container that would be started lies on this host, as far as its mounts tell; never judges."""

from __future__ import annotations

import posixpath

import msgspec

from ..api import Host
from .launch import OPEN, Launch, Mount

ROOT_HOME = "/root"  # both engines' images run as root: vllm docker/Dockerfile, sglang docker/Dockerfile have no USER


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """`path`: on this host; None where nobody can tell. `why`: mounted, not-mounted (it is the image's own), volume (a
    named one, a claim, an emptyDir), open (the source is filled in later), running (the container exists already)."""

    path: str | None
    why: str
    mount: Mount | None = None


def outside(host: Host, launch: Launch, path: str) -> Outside:
    """The path of the container as this host has it."""
    container = launch.container
    if container is None:
        return Outside(path=path, why="mounted")
    if container.running:
        return Outside(path=None, why="running")
    whole = path if path.startswith("/") else posixpath.join(launch.folder or container.workdir or "/", path)
    whole = posixpath.normpath(whole)
    covering = [m for m in container.mounts if whole == m.target or whole.startswith(m.target.rstrip("/") + "/")]
    if not covering:
        return Outside(path=None, why="not-mounted")
    mount = max(covering, key=lambda m: len(m.target))
    if mount.kind != "bind" or mount.source is None:
        return Outside(path=None, why="volume", mount=mount)
    if OPEN.search(mount.source):
        return Outside(path=None, why="open", mount=mount)
    source = absolute(host, mount.source)
    if source is None:
        return Outside(path=None, why="open", mount=mount)
    below = whole[len(mount.target.rstrip("/")) :].lstrip("/")
    return Outside(path=posixpath.join(source, below).rstrip("/") or "/", why="mounted", mount=mount)


def absolute(host: Host, source: str) -> str | None:
    """A mount's source from the root: relative ones stand beside the file, `~` is the user's home."""
    if source.startswith("/"):
        return posixpath.normpath(source)
    if source == "~" or source.startswith("~/"):
        home = host.env.get("HOME", "")
        return posixpath.normpath(home + source[1:]) if home.startswith("/") else None
    deployment = host.asked.deployment
    folder = deployment.folder if deployment is not None and deployment.kind == "compose" else None
    if folder is None:
        folder = host.real(".")
    return posixpath.normpath(posixpath.join(folder, source)) if folder.startswith("/") else None


def environment(launch: Launch) -> dict[str, str]:
    """The variables inside the container, as far as they are known; HOME where the image's user is not changed."""
    container = launch.container
    root = container is None or container.user in (None, "0", "root", "0:0")
    return {**({"HOME": ROOT_HOME} if root else {}), **launch.environment}
