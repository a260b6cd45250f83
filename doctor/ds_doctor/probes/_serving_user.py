"""The user that will serve the model: of --user, of the unit, of the container; its numbers on this host; never judges."""

from __future__ import annotations

import msgspec

from ..api import Host, Trouble
from .launch import Launch

_LAST = (1 << 32) - 2  # the highest id; the one after it means "none"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """As in ModelAccess. `every_group`: whether `gids` are all its groups."""

    name: str | None = None
    source: str | None = None
    uid: int | None = None
    gids: tuple[int, ...] = ()
    every_group: bool = True
    problem: str | None = None


def find(host: Host, launch: Launch) -> User:
    """Who it will be; a User without name where nobody says."""
    if host.asked.user is not None:
        return named(host, host.asked.user, "option")
    deployment = host.asked.deployment
    if deployment is not None and deployment.unit is not None:
        # Group= and SupplementaryGroups= may add to the groups of the user.
        user = named(host, deployment.unit.user or "root", "unit")
        return msgspec.structs.replace(user, every_group=False)
    container = launch.container
    if container is None:
        return User()
    pod = deployment.pod if deployment is not None else None
    if pod is not None and pod.run_as_user is not None:
        return User(name=str(pod.run_as_user), source="pod", uid=pod.run_as_user, every_group=False)
    if container.user is None:
        return User()
    uid, _, gid = container.user.partition(":")
    if uid == "root":
        uid = "0"
    if not uid.isdecimal() or (gid and not gid.isdecimal()):
        return User(name=container.user, source="container", problem="image-user")
    if container.program in ("podman", "nerdctl") or "/run/user/" in host.env.get("DOCKER_HOST", ""):
        return User(name=container.user, source="container", problem="other-namespace")
    # Without a group Docker gives the image's own for that number, else 0; --group-add may add some.
    gids = (int(gid),) if gid else (0,)
    return User(name=container.user, source="container", uid=int(uid), gids=gids, every_group=False)


def named(host: Host, given: str, source: str) -> User:
    """NAME, UID, or either with :GROUP, by this host's own lists of users and groups."""
    name, _, group = given.partition(":")
    unknown = User(name=given, source=source, problem="user-unknown")
    entry = _entry(host, name)
    if entry is None and not name.isdecimal():
        entry = _asked_of_id(host, name)
        if entry is None:
            return unknown
    uid = int(name) if entry is None else entry[1]
    if uid > _LAST or (entry is None and not name.isascii()):
        return unknown
    if group:
        gid = int(group) if group.isdecimal() else _group(host, group)
        return unknown if gid is None else User(name=given, source=source, uid=uid, gids=(gid,))
    if entry is None:
        return User(name=given, source=source, uid=uid, every_group=uid == 0)
    return User(name=given, source=source, uid=uid, gids=tuple(sorted({*entry[2], *_groups_of(host, entry[0])})))


def _lines(host: Host, path: str) -> list[list[str]]:
    try:
        return [line.split(":") for line in host.text(path).splitlines()]
    except Trouble:
        return []


def _entry(host: Host, name: str) -> tuple[str, int, tuple[int, ...]] | None:
    """(name, uid, main group) out of passwd(5), by name, else by number."""
    found = None
    for words in _lines(host, "/etc/passwd"):
        if len(words) < 4 or not words[2].isdecimal() or not words[3].isdecimal():
            continue
        entry = words[0], int(words[2]), (int(words[3]),)
        if words[0] == name:
            return entry
        if found is None and name.isdecimal() and int(words[2]) == int(name):
            found = entry
    return found


def _asked_of_id(host: Host, name: str) -> tuple[str, int, tuple[int, ...]] | None:
    """The same of a user that only the name service knows (LDAP, SSSD)."""
    try:
        if name.startswith("-"):
            return None
        uid = host.run(["id", "-u", name], timeout_s=2.0)
        groups = host.run(["id", "-G", name], timeout_s=2.0)
    except Trouble:
        return None
    numbers = groups.out.split()
    if uid.status != 0 or not uid.out.strip().isdecimal() or not all(map(str.isdecimal, numbers)):
        return None
    return name, int(uid.out), tuple(map(int, numbers))


def _group(host: Host, name: str) -> int | None:
    for words in _lines(host, "/etc/group"):
        if len(words) > 2 and words[0] == name and words[2].isdecimal():
            return int(words[2])
    return None


def _groups_of(host: Host, name: str) -> list[int]:
    every = _lines(host, "/etc/group")
    return [int(w[2]) for w in every if len(w) > 3 and w[2].isdecimal() and name in w[3].strip().split(",")]
