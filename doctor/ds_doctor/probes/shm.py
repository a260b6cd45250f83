"""/dev/shm: its mount, its space, and what lies in it; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe

PATH = "/dev/shm"
FILES_MAX = 4000  # entries that are looked at; a /dev/shm with more is counted, not listed


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """Files of one family of names (psm_, nccl-, vllm, sglang, torch_, sem., other), the bytes that they really take,
    the owners' user ids, and the largest as an example."""

    family: str
    files: int
    bytes: int
    owners: tuple[int, ...] = ()
    example: str = ""


class Shm(msgspec.Struct, frozen=True, kw_only=True):
    """/dev/shm: its file system, its sizes, its files.

    `present`: there is such a folder; all else is empty where not. `fs_type` and `options` are those of the mount that
    it lies on, None and empty when that could not be told; `own_mount`: it is a mount of its own. Sizes in bytes; `size` None: not
    readable; 0 on a tmpfs means without limit. `writable` None: could not be asked. `listed`: the files could be seen.
    """

    present: bool = True
    fs_type: str | None = None
    own_mount: bool = False
    options: tuple[str, ...] = ()
    size: int | None = None
    free: int | None = None
    files_free: int | None = None
    read_only: bool = False
    writable: bool | None = None
    listed: bool = False
    left: tuple[Left, ...] = ()


# Who makes such names: Python's multiprocessing (psm_, sem.), NCCL, torch (torch_<pid>_...), CUDA IPC,
# vllm 0.33.0 (vllm_offload_, vllm_ec_, vllm_engram_, VLLM_OBJECT_STORAGE_SHM_BUFFER),
# sglang 0.5.23 (srt/utils/stale_shm_cleanup.py: sgl_shm_, sglang_loads_, multi_tokenizer_args_).
_FAMILIES = (
    ("nccl-", re.compile(r"nccl-")),
    ("psm_", re.compile(r"psm_|wnsm_")),
    ("sem.", re.compile(r"sem\.")),
    ("torch_", re.compile(r"torch_")),
    ("cuda.shm", re.compile(r"cuda\.shm\.")),
    ("vllm", re.compile(r"vllm", re.IGNORECASE)),
    ("sglang", re.compile(r"sglang|sgl_shm|multi_tokenizer_args_")),
    ("nvshmem", re.compile(r"nvshmem")),
)


def parse_mount(mountinfo: str, path: str = PATH) -> tuple[str, tuple[str, ...]] | None:
    """(type, options) of the mount at `path`, the topmost when there are several; None when it is no mount of its own.

    The options are those of the mount and those of the file system (size=...). Format: man 5 proc_pid_mountinfo.
    """
    found: tuple[str, tuple[str, ...]] | None = None
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) < 10 or fields[4] != path or "-" not in fields[6:]:
            continue
        dash = fields.index("-", 6)
        after = fields[dash + 1 :]
        if not after:
            continue
        options = [*fields[5].split(","), *(after[2].split(",") if len(after) > 2 else [])]
        found = (after[0], tuple(dict.fromkeys(o for o in options if o)))
    return found


def mount_of(mountinfo: str, path: str) -> tuple[str, tuple[str, ...]] | None:
    """(type, options) of the mount that a real path lies on: that of itself or of its nearest parent."""
    while True:
        mount = parse_mount(mountinfo, path)
        if mount is not None or path in ("/", ""):
            return mount
        path = path.rpartition("/")[0] or "/"


def family_of(name: str) -> str:
    """The family that a file name belongs to."""
    return next((family for family, pattern in _FAMILIES if pattern.match(name)), "other")


def _left(host: Host, names: list[str]) -> tuple[Left, ...]:
    files: dict[str, int] = {}
    taken: dict[str, int] = {}
    owners: dict[str, set[int]] = {}
    example: dict[str, tuple[int, str]] = {}
    for name in names[:FILES_MAX]:
        try:
            s = host.lstat(f"{PATH}/{name}")
        except Trouble:
            continue  # gone in the meantime
        if s.kind != "file":
            continue
        family = family_of(name)
        files[family] = files.get(family, 0) + 1
        taken[family] = taken.get(family, 0) + s.blocks * 512  # st_blocks: what is really taken, segments are sparse
        owners.setdefault(family, set()).add(s.uid)
        example[family] = max(example.get(family, (-1, "")), (s.blocks, name))
    return tuple(
        Left(
            family=f,
            files=files[f],
            bytes=taken[f],
            owners=tuple(sorted(owners[f])[:8]),
            example=example[f][1][:80],
        )
        for f in sorted(files, key=lambda f: (-taken[f], f))
    )


@probe
def shm(host: Host) -> Shm:
    if not host.live:
        raise Unseen("not-under-root")
    try:
        # A fact of its own, not an absent one: what was not recorded or not looked at is absent, too.
        if host.stat(PATH).kind != "directory":
            return Shm(present=False)
    except Absent:
        return Shm(present=False)
    try:
        real = host.real(PATH)  # old systems keep it in /run/shm and make /dev/shm a link
    except Trouble:
        real = PATH
    mount, own = None, False
    try:
        mounts = host.text("/proc/self/mountinfo")
        mount, own = mount_of(mounts, real), parse_mount(mounts, real) is not None
    except Trouble:
        pass
    space = None
    try:
        space = host.space(PATH)
    except Trouble:
        pass
    try:
        writable: bool | None = host.may(PATH, "wx")
    except Trouble:
        writable = None
    try:
        names: list[str] | None = host.names(PATH)
    except Trouble:
        names = None
    return Shm(
        fs_type=mount[0] if mount else None,
        own_mount=own,
        options=mount[1] if mount else (),
        size=space.size if space else None,
        free=space.free if space else None,
        files_free=space.files_free if space and space.files else None,
        read_only=bool(space and space.read_only),
        writable=writable,
        listed=names is not None,
        left=_left(host, names) if names else (),
    )
