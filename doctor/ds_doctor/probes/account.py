"""The user that runs this and the temporary folders that it would use; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe

PASSWD_LIMIT = 4 << 20
# Where Python's tempfile looks, in this order, before the working directory (Lib/tempfile.py, _candidate_tempdir_list).
TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")
TEMP_FOLDERS = ("/tmp", "/var/tmp", "/usr/tmp")


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """The user that this process runs as.

    `name` is that of /etc/passwd, None when it has no entry for `uid`. `services`: what nsswitch.conf asks for users.
    `from_environment`: one of LOGNAME, USER, LNAME, USERNAME is set, which getpass.getuser() takes first.
    """

    uid: int
    name: str | None = None
    services: tuple[str, ...] = ("files",)
    from_environment: bool = False


class TempFolder(msgspec.Struct, frozen=True, kw_only=True):
    """`source` is the variable that names it, or `default`. None: could not be told."""

    path: str
    source: str
    there: bool
    writable: bool | None = None
    read_only: bool | None = None
    no_exec: bool | None = None


class Temp(msgspec.Struct, frozen=True, kw_only=True):
    """The folders for temporary files, in the order in which Python tries them."""

    folders: tuple[TempFolder, ...]


def parse_passwd(text: str, uid: int) -> str | None:
    """The name that /etc/passwd gives to the user id."""
    for line in text.splitlines():
        fields = line.split(":")
        if (
            len(fields) > 3
            and fields[2].isascii()
            and fields[2].isdigit()
            and len(fields[2]) < 12
            and int(fields[2]) == uid
        ):
            return fields[0][:80]
    return None


def parse_services(text: str) -> tuple[str, ...]:
    """The sources of users in nsswitch.conf; files where it says nothing."""
    m = re.search(r"^[ \t]*passwd[ \t]*:(.*)$", text, re.M)
    names = re.findall(r"[a-z0-9_]+", re.sub(r"\[[^\]]*\]", " ", m[1].partition("#")[0])) if m else []
    return tuple(names[:20]) or ("files",)


@probe
def account(host: Host) -> Account:
    if not host.live:
        raise Unseen("not-under-root")
    uid = host.user_id()
    try:
        text = host.text("/etc/passwd", PASSWD_LIMIT)
    except Absent:
        text = ""
    try:
        services = parse_services(host.text("/etc/nsswitch.conf"))
    except Trouble:
        services = ("files",)
    named = any(host.env.get(n) for n in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    return Account(uid=uid, name=parse_passwd(text, uid), services=services, from_environment=named)


def _folder(host: Host, path: str, source: str) -> TempFolder:
    try:
        if host.stat(path).kind != "directory":
            return TempFolder(path=path, source=source, there=False)
    except Absent:
        return TempFolder(path=path, source=source, there=False)
    except Trouble:
        return TempFolder(path=path, source=source, there=True, writable=False)
    try:
        writable: bool | None = host.may(path, "wx")
    except Trouble:
        writable = None
    try:
        space = host.space(path)
    except Trouble:
        return TempFolder(path=path, source=source, there=True, writable=writable)
    # access() says no to `x` only for files of a noexec mount, so the mount is asked itself.
    return TempFolder(
        path=path, source=source, there=True, writable=writable, read_only=space.read_only, no_exec=space.no_exec
    )


@probe
def temp(host: Host) -> Temp:
    if not host.live:
        raise Unseen("not-under-root")
    given = [(host.env[v], v) for v in TEMP_VARIABLES if host.env.get(v, "").startswith("/")]
    places = [*given, *((p, "default") for p in TEMP_FOLDERS)]
    return Temp(folders=tuple(_folder(host, path, source) for path, source in places))
