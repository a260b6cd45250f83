"""The only door to the machine: read, list, stat, run, env - live, under another root, recorded or replayed; never interprets.

Every answer is bounded in size and, for commands, in time; every refusal is one of the narrow errors
Absent, Denied, TimedOut, Malformed, whose reason names the path or command.
"""

from __future__ import annotations

import errno
import os
import stat as st
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from . import kept
from .command import Output, run_command
from .launch.structs import Deployment, Gateway, Launch
from .model import Absent, Denied, Malformed, Trouble
from .profile import Profile

READ_LIMIT = 4 << 20  # bytes; a configuration file beyond this is not one
NAMES_LIMIT = 200_000  # entries of one folder
_ACLS = ("system.posix_acl_access", "system.nfs4_acl")  # acl(5); nfs4_acl(5)
T = TypeVar("T")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked to be judged: the launch command, the interpreter, the model folder, another root's files
    instead of this host, the profile of a model, a list of checksums for the model's files, the user that will read them (name, uid
    or uid:gid), the revision of a model in the hub cache (None: not given). Of a service in a file, `command` are its words,
    `launch` is what the file says they start and where, `deployment` the settings around them. `gateways`: the routes to
    servers in that file."""

    command: tuple[str, ...] = ()
    python: str | None = None
    model: str | None = None
    root: str | None = None
    profile: Profile | None = None
    manifest: str | None = None
    user: str | None = None
    revision: str | None = None
    launch: Launch | None = None
    deployment: Deployment | None = None
    gateways: tuple[Gateway, ...] = ()


_LOOKED = threading.local()


@contextmanager
def looked_at() -> Iterator[set[str]]:
    """What this thread asks a host for while it lasts: `asked`, `env`, or `loader` (only its LD_ variables matter).

    So that of several services only those facts are gathered again that can differ between them.
    """
    _LOOKED.at = set()
    try:
        yield _LOOKED.at
    finally:
        _LOOKED.at = None


def _note(what: str) -> None:
    at: set[str] | None = getattr(_LOOKED, "at", None)
    if at is not None:
        at.add(what)


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is file, directory, link, fifo, socket, character or block; sizes in bytes, times in seconds since 1970, where
    `_ns` says so in nanoseconds (0 in recordings from before they were noted)."""

    kind: str
    mode: int
    uid: int
    gid: int
    size: int
    blocks: int
    mtime: float
    dev: int
    ino: int
    rdev: int
    mtime_ns: int = 0
    ctime_ns: int = 0


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """Of the file system that holds a path: bytes, inodes and the mount flags that matter."""

    size: int
    free: int
    files: int
    files_free: int
    read_only: bool
    no_exec: bool


_KINDS = (
    (st.S_ISREG, "file"),
    (st.S_ISDIR, "directory"),
    (st.S_ISLNK, "link"),
    (st.S_ISFIFO, "fifo"),
    (st.S_ISSOCK, "socket"),
    (st.S_ISCHR, "character"),
    (st.S_ISBLK, "block"),
)


def _as_stat(s: os.stat_result) -> Stat:
    kind = next((name for test, name in _KINDS if test(s.st_mode)), "unknown")
    return Stat(
        kind=kind,
        mode=st.S_IMODE(s.st_mode),
        uid=s.st_uid,
        gid=s.st_gid,
        size=s.st_size,
        blocks=s.st_blocks,
        mtime=s.st_mtime,
        dev=s.st_dev,
        ino=s.st_ino,
        rdev=s.st_rdev,
        mtime_ns=s.st_mtime_ns,
        ctime_ns=s.st_ctime_ns,
    )


def _only_files(path: str, s: os.stat_result) -> None:
    kind = _as_stat(s).kind
    if kind != "file":
        raise Malformed("not-a-file", path=path, kind=kind)


def _refusal(e: OSError, path: str) -> Trouble:
    if e.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ENAMETOOLONG):
        return Absent("file-missing", path=path)
    if e.errno in (errno.EACCES, errno.EPERM):
        return Denied("file-denied", path=path)
    return Malformed("file-unreadable", path=path, error=e.strerror or type(e).__name__)


class Host:
    """The live machine, seen as this process sees it. Paths are absolute; `~` and variables are not expanded."""

    live = True
    remembers = True  # whether what a probe worked out of files may be kept for the next run

    def __init__(self, asked: Asked | None = None, env: Mapping[str, str] | None = None) -> None:
        self._asked = asked or Asked()
        self._env: Mapping[str, str] = dict(os.environ) if env is None else dict(env)
        self.deadline = time.monotonic() + 20.0  # when an answer is of no use any more; the engine sets it
        self._looks: dict[Callable[[Any], Any], tuple[Any, Trouble | None]] = {}
        self._looking = threading.RLock()

    @property
    def asked(self) -> Asked:
        """What the user asked to be judged."""
        _note("asked")
        return self._asked

    @asked.setter
    def asked(self, asked: Asked) -> None:
        self._asked = asked

    @property
    def env(self) -> Mapping[str, str]:
        """The variables that the engine would see."""
        _note("env")
        return self._env

    @env.setter
    def env(self, env: Mapping[str, str]) -> None:
        self._env = env

    def time_left_s(self) -> float:
        """Seconds in which an answer is still of use."""
        return max(0.1, self.deadline - time.monotonic())

    def _command_s(self) -> float:
        """Seconds for one command: it is given up a little early, so that its probe can say which one it was."""
        left = self.time_left_s()
        return max(0.1, left - min(0.3, left / 4))

    # -- what a probe may ask -------------------------------------------------------------------------------

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """The whole of a regular file. Malformed when it is longer than `limit` bytes or not a regular file."""
        data: bytes = self._call("read", path, limit)
        return data

    def text(self, path: str, limit: int = READ_LIMIT) -> str:
        """The same as text; bytes that are not UTF-8 become U+FFFD."""
        return self.read(path, limit).decode("utf-8", "replace")

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset` of a regular file; fewer at its end."""
        data: bytes = self._call("read_at", path, offset, size)
        return data

    def holes(self, path: str, limit: int = 64) -> list[list[int]]:
        """The first `limit` ranges [begin, end) of a regular file for which no data is stored: they read as zeros.

        Empty where there are none, or where the file system does not say (lseek(2), SEEK_HOLE).
        """
        ranges: list[list[int]] = self._call("holes", path, limit)
        return ranges

    def has_acl(self, path: str) -> bool:
        """Whether an access control list beside the mode decides who may do what (POSIX or NFSv4, in an extended attribute)."""
        answer: bool = self._call("has_acl", path)
        return answer

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder."""
        names: list[str] = self._call("names", path)
        return names

    def stat(self, path: str) -> Stat:
        """Of what the path leads to."""
        s: Stat = self._call("stat", path)
        return s

    def lstat(self, path: str) -> Stat:
        """Of the path itself, also when it is a link."""
        s: Stat = self._call("lstat", path)
        return s

    def link(self, path: str) -> str:
        """Where a symbolic link points, as it is written there."""
        target: str = self._call("link", path)
        return target

    def real(self, path: str) -> str:
        """The path with all links followed; what is not there stays as it is."""
        target: str = self._call("real", path)
        return target

    def may(self, path: str, what: str) -> bool:
        """Whether this process may `what` (letters of r, w, x) the path; False also where the mount forbids it."""
        answer: bool = self._call("may", path, what)
        return answer

    def space(self, path: str) -> Space:
        """Of the file system that holds the path."""
        space: Space = self._call("space", path)
        return space

    def run(self, argv: list[str], timeout_s: float = 5.0) -> Output:
        """Run a command without shell or input; its whole process group is killed when the time is up."""
        output: Output = self._call("run", argv, min(timeout_s, self._command_s()))
        return output

    def run_own(self, script: str, timeout_s: float) -> Output:
        """Run a script of this package's probes/ in a Python of its own, given the folders of this Python's packages.

        It starts isolated: neither PYTHONPATH nor site-packages' start-up files take part.
        """
        output: Output = self._call("run_own", script, min(timeout_s, self._command_s()))
        return output

    def user_id(self) -> int:
        """The effective user id of this process."""
        uid: int = self._call("user_id", "self")
        return uid

    def exists(self, path: str) -> bool:
        """Whether the path leads to something; Denied where a folder on the way may not be searched."""
        try:
            self.stat(path)
        except Absent:
            return False
        return True

    def which(self, name: str) -> str | None:
        """The first executable file of that name on PATH."""
        for folder in self.env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
            path = f"{folder or '.'}/{name}"
            try:
                if path.startswith("/") and self.stat(path).kind == "file" and self.stat(path).mode & 0o111:
                    return path
            except Trouble:
                continue
        return None

    def once(self, look: Callable[[Host], T]) -> T:
        """What `look` gives for this host, or its Trouble: looked once, however many probes ask for it."""
        _note("asked")  # a second probe looks at nothing itself, and depends on the same
        _note("env")
        with self._looking:
            if look not in self._looks:
                try:
                    self._looks[look] = look(self), None
                except Trouble as t:
                    self._looks[look] = None, t
            made, trouble = self._looks[look]
        if trouble is not None:
            raise trouble
        seen: T = made
        return seen

    def recall(self, name: str) -> bytes | None:
        """What an earlier run kept under that name; None: nothing, or this host's answers are recorded or replayed."""
        cache = self._cache()
        return None if cache is None else kept.read(f"{cache}/{name}")

    def keep(self, name: str, data: bytes) -> None:
        """Keep KIND-….json in the user's cache directory for the next run, where that can be."""
        cache = self._cache()
        if cache is not None:
            kept.write(cache, name, data)

    def _cache(self) -> str | None:
        return kept.folder(self.env) if self.live and self.remembers else None

    # -- how it is answered ---------------------------------------------------------------------------------

    def _call(self, op: str, *args: Any) -> Any:
        answer: Callable[..., Any] = getattr(self, "_" + op)
        try:
            return answer(*args)
        except OSError as e:
            raise _refusal(e, str(args[0])) from None
        except ValueError:  # an embedded NUL
            raise Malformed("path-impossible", path=repr(args[0])) from None

    def _inside(self, path: str, last: bool = True) -> str:
        return path

    def _open(self, path: str) -> int:
        where = self._inside(path)
        # Looked at before it is opened: opening a FIFO can hang and opening a device can act.
        _only_files(path, os.stat(where))
        fd = os.open(where, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            _only_files(path, os.fstat(fd))
        except Malformed:
            os.close(fd)
            raise
        return fd

    def _read(self, path: str, limit: int) -> bytes:
        fd = self._open(path)
        try:
            parts = []
            left = limit + 1
            while left > 0:
                part = os.read(fd, min(left, 1 << 20))
                if not part:
                    break
                parts.append(part)
                left -= len(part)
        finally:
            os.close(fd)
        if left <= 0:
            raise Malformed("file-too-large", path=path, limit_kib=limit >> 10)
        return b"".join(parts)

    def _read_at(self, path: str, offset: int, size: int) -> bytes:
        fd = self._open(path)
        try:
            parts = []
            while size > 0:
                part = os.pread(fd, min(size, 1 << 20), offset)
                if not part:
                    break
                parts.append(part)
                offset += len(part)
                size -= len(part)
        finally:
            os.close(fd)
        return b"".join(parts)

    def _holes(self, path: str, limit: int) -> list[list[int]]:
        fd = self._open(path)
        try:
            size = os.fstat(fd).st_size
            found: list[list[int]] = []
            at = 0
            while at < size and len(found) < limit:
                begin = os.lseek(fd, at, os.SEEK_HOLE)
                if begin >= size:  # the hole behind the end, which every file has
                    break
                try:
                    at = os.lseek(fd, begin, os.SEEK_DATA)
                except OSError as e:
                    if e.errno != errno.ENXIO:
                        raise
                    at = size  # nothing but a hole up to the end
                found.append([begin, min(at, size)])
            return found
        except OSError as e:
            if e.errno in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENXIO):
                return []
            raise
        finally:
            os.close(fd)

    def _has_acl(self, path: str) -> bool:
        where = self._inside(path)
        for name in _ACLS:
            try:
                os.getxattr(where, name)
            except OSError as e:
                if e.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
                    raise
            else:
                return True
        return False

    def _names(self, path: str) -> list[str]:
        names: list[str] = []
        with os.scandir(self._inside(path)) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > NAMES_LIMIT:
                    raise Malformed("folder-too-large", path=path, limit=NAMES_LIMIT)
        return sorted(names)

    def _stat(self, path: str) -> Stat:
        return _as_stat(os.stat(self._inside(path)))

    def _lstat(self, path: str) -> Stat:
        return _as_stat(os.lstat(self._inside(path, last=False)))

    def _link(self, path: str) -> str:
        return os.readlink(self._inside(path, last=False))

    def _real(self, path: str) -> str:
        return os.path.realpath(path)

    def _may(self, path: str, what: str) -> bool:
        bits = {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}
        return os.access(self._inside(path), sum(bits[c] for c in what), effective_ids=True)

    def _space(self, path: str) -> Space:
        s = os.statvfs(self._inside(path))
        return Space(
            size=s.f_blocks * s.f_frsize,
            free=s.f_bavail * s.f_frsize,
            files=s.f_files,
            files_free=s.f_favail,
            read_only=bool(s.f_flag & os.ST_RDONLY),
            no_exec=bool(s.f_flag & os.ST_NOEXEC),
        )

    def _user_id(self, _: str) -> int:
        return os.geteuid()

    def _run(self, argv: list[str], timeout_s: float) -> Output:
        _note("env")
        return self._started(argv, timeout_s)

    def _started(self, argv: list[str], timeout_s: float) -> Output:
        return run_command(argv, timeout_s, {**self._env, "LC_ALL": "C"})

    def _run_own(self, script: str, timeout_s: float) -> Output:
        path = os.path.join(os.path.dirname(__file__), "probes", script)
        folders = [os.path.abspath(p) for p in sys.path if p and os.path.isdir(p)]
        _note("loader")  # isolated, it takes no notice of other variables
        return self._started([sys.executable or "python3", "-I", "-S", path, *folders], timeout_s)
