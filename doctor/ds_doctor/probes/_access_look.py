"""A look at who may read the model's files and enter the folders above them, by mode and owner; never judges."""

from __future__ import annotations

import posixpath

from ..api import Absent, Denied, Host, Malformed, Trouble
from ..host import Stat
from . import _folder_look, _serving_user
from . import _volumes as volumes
from ._folder_names import is_weights
from ._model_place import Place
from ._said import clean
from ._serving_user import User
from ._shard_index import names_of
from .model_access import Blocked, ModelAccess

KEPT = 20  # of the things in the user's way
FILES = 2000  # looked at
LINKS = 40  # followed for one path; the kernel's own limit
_READ = (".json", ".jinja", ".py", ".model", ".tiktoken", "vocab.txt", "merges.txt", ".spm")  # beside the weights
_BITS = {"read": 4, "list": 4, "search": 1}


class _Way:
    """The folders that a path leads through, links followed; each is asked for once."""

    def __init__(self, host: Host, free: str) -> None:
        self.host = host
        self.free = free  # what lies above it is not on the user's way: the source of a container's mount
        self.seen: dict[str, Stat] = {}

    def stat(self, path: str) -> Stat:
        if path not in self.seen:
            self.seen[path] = self.host.lstat(path)
        return self.seen[path]

    def to(self, path: str) -> tuple[str, list[str]]:
        """The real path, and the folders that must be searched to get there."""
        todo = path.split("/")[::-1]
        done: list[str] = []
        folders = ["/"]
        links = 0
        while todo:
            part = todo.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done[-1:] = []
                continue
            here = "/" + "/".join([*done, part])
            kind = self.stat(here).kind
            if kind == "link":
                links += 1
                if links > LINKS:
                    raise Malformed("file-unreadable", path=path, error="ELOOP")
                target = self.host.link(here)
                done = [] if target.startswith("/") else done
                todo += target.split("/")[::-1]
                continue
            done.append(part)
            if kind == "directory" and todo:
                folders.append(here)
        return "/" + "/".join(done), [f for f in dict.fromkeys(folders) if not self._above(f)]

    def _above(self, folder: str) -> bool:
        return self.free != "/" and self.free.startswith(folder.rstrip("/") + "/")


def look_at(host: Host) -> ModelAccess:
    """Who may read the model that was asked for."""
    looked = host.once(_folder_look.look_at)
    place = looked.place
    user = _serving_user.find(host, place.launch)
    told = ModelAccess(user=user.name and clean(user.name), source=user.source, uid=user.uid, problem=user.problem)
    if place.path is None or looked.folder.layout not in ("folder", "file"):
        return told
    way = _Way(host, _free(host, place))
    names = _names(host, place.path, {f.name for f in looked.folder.weights}, looked.folder.layout)
    blocked: dict[tuple[str, str], Blocked] = {}
    unsure: list[str] = []
    private: list[str] = []
    public = files = 0
    for shown, path in names[:FILES]:
        try:
            real, folders = way.to(path)
            stat = way.stat(real)
        except (Absent, Denied, Malformed):
            continue  # other facts say that it cannot be reached
        if stat.kind != "file":
            continue
        files += 1
        steps = [("search", f) for f in folders]
        if looked.folder.layout == "folder":
            steps.append(("list", way.to(place.path)[0]))
        steps.append(("read", real))
        open_way = all(way.stat(p).mode & _BITS[w] for w, p in steps[:-1])
        if open_way and stat.mode & 4:
            public += 1
        elif open_way:
            private.append(shown)
        if user.uid is None:
            continue
        for what, where in steps:
            may = allowed(host, where, way.stat(where), user, _BITS[what])
            if may is None:
                unsure.append(shown if what == "read" else where)
            elif not may:
                _block(blocked, what, shown if what == "read" else where, where, way.stat(where))
                break
    every = list(blocked.values())
    return ModelAccess(
        user=told.user,
        source=user.source,
        uid=user.uid,
        gids=user.gids,
        problem=user.problem,
        files=files,
        blocked=tuple(every[:KEPT]),
        blocked_count=len(every),
        unsure=names_of(set(unsure)),
        private=names_of(private),
        public=public,
    )


def _block(blocked: dict[tuple[str, str], Blocked], what: str, shown: str, path: str, stat: Stat) -> None:
    before = blocked.get((what, path))
    blocked[what, path] = Blocked(
        what=what,
        shown=clean(shown),
        path=clean(path),
        mode=f"{stat.mode:04o}",
        uid=stat.uid,
        gid=stat.gid,
        files=1 if before is None else before.files + 1,
    )


def allowed(host: Host, path: str, stat: Stat, user: User, bit: int) -> bool | None:
    """Whether the mode lets the user; None where an access control list or an unknown group may decide otherwise."""
    if user.uid == 0:
        return True
    if stat.uid == user.uid:
        return bool(stat.mode & bit << 6)
    in_group = stat.gid in user.gids
    yes = bool(stat.mode & (bit << 3 if in_group else bit))
    if yes and not in_group:
        return True
    if not yes and not in_group and not user.every_group and stat.mode & bit << 3:
        return None
    try:
        return None if host.has_acl(path) else yes
    except Trouble:
        return None


def _free(host: Host, place: Place) -> str:
    """The source of the mount that shows the model to the container; / without one."""
    container = place.launch.container
    sources = [m.source for m in container.mounts if m.kind == "bind" and m.source] if container is not None else []
    whole = [volumes.absolute(host, s) for s in sources]
    path = place.path or "/"
    fits = [s for s in whole if s is not None and (path + "/").startswith(s.rstrip("/") + "/")]
    return posixpath.normpath(max(fits, key=len)) if fits else "/"


def _names(host: Host, path: str, weights: set[str], layout: str) -> list[tuple[str, str]]:
    """(name, path) of the files that an engine reads."""
    if layout == "file":
        return [(clean(path.rpartition("/")[2]), path)]
    try:
        names = host.names(path)
    except Trouble:
        return []
    here = [n for n in names if clean(n) in weights or n.endswith(_READ) or is_weights(n)]
    deeper = sorted(n for n in weights if "/" in n)
    return [(clean(n), f"{path}/{n}") for n in here + deeper]
