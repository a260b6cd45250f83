"""The file systems under the caches, the temporary folder and the model; never judges."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe
from . import _volumes as volumes
from .launch import asked_launch


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One folder that an engine uses. `role`: hf-home, hf-hub, vllm-cache, triton-cache, tmp, model. `at`: the folder itself
    or its nearest parent that exists. Bytes; None: not readable. `writable` None: could not be asked."""

    role: str
    path: str
    at: str
    exists: bool
    size: int | None = None
    free: int | None = None
    files_free: int | None = None
    read_only: bool = False
    no_exec: bool = False
    writable: bool | None = None
    fs_type: str | None = None


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The file systems of caches, temporary files and the model, in the order of their roles.

    A variable that could not be expanded leaves its place out.
    """

    places: tuple[Place, ...]


def roles(env: Mapping[str, str], model: str | None = None) -> dict[str, str]:
    """Role -> absolute path, from the variables in the order in which each library reads them.

    huggingface_hub constants.py (HF_HOME, HF_HUB_CACHE), vllm 0.33.0 envs.py (VLLM_CACHE_ROOT), triton knobs.py
    (TRITON_HOME, TRITON_CACHE_DIR), Python tempfile (TMPDIR, TEMP, TMP).
    """
    home = env.get("HOME", "")
    cache = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    hf_home = env.get("HF_HOME") or (f"{cache}/huggingface" if cache else "")
    wanted = {
        "hf-home": hf_home,
        "hf-hub": env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or (f"{hf_home}/hub" if hf_home else ""),
        "vllm-cache": env.get("VLLM_CACHE_ROOT") or (f"{cache}/vllm" if cache else ""),
        "triton-cache": env.get("TRITON_CACHE_DIR")
        or (f"{env.get('TRITON_HOME') or home}/.triton/cache" if env.get("TRITON_HOME") or home else ""),
        "tmp": env.get("TMPDIR") or env.get("TEMP") or env.get("TMP") or "/tmp",
        "model": model or "",
    }
    if home:
        wanted = {r: home + p[1:] if p == "~" or p.startswith("~/") else p for r, p in wanted.items()}
    return {r: p.rstrip("/") or "/" for r, p in wanted.items() if p.startswith("/")}


def parse_types(mountinfo: str) -> dict[str, str]:
    """Mount point -> file system type, later mounts over earlier ones."""
    types: dict[str, str] = {}
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        if len(fields) >= 10 and "-" in fields[6:]:
            after = fields[fields.index("-", 6) + 1 :]
            if after:
                # The kernel writes blanks in paths as \040.
                types[fields[4].replace("\\040", " ")] = after[0]
    return types


def type_of(path: str, types: Mapping[str, str]) -> str | None:
    """The type of the file system that a real path lies on: the longest mount point that holds it."""
    while True:
        if path in types:
            return types[path]
        if path in ("/", ""):
            return None
        path = path.rpartition("/")[0] or "/"


def _nearest(host: Host, path: str) -> str | None:
    """The path or its nearest parent that is there; None when a folder on the way may not be searched."""
    for _ in range(64):
        try:
            host.stat(path)
            return path
        except Absent:
            if path == "/":
                return None
            path = path.rpartition("/")[0] or "/"
        except Trouble:
            return None
    return None


@probe
def disk(host: Host) -> Disk:
    if not host.live:
        raise Unseen("not-under-root")
    env = dict(host.env)
    model = host.asked.model
    mapped: dict[str, str] = {}
    if host.asked.command:
        launch = asked_launch(host.asked)
        if launch.container is None:
            env.update(launch.environment)
            model = model or launch.model
        else:  # a container has other folders: of them those are seen that are mounted from here
            inside = roles(volumes.environment(launch), launch.model)
            at_home = {r: volumes.outside(host, launch, p).path for r, p in inside.items()}
            mapped = {r: p for r, p in at_home.items() if p is not None}
    try:
        types = parse_types(host.text("/proc/self/mountinfo"))
    except Trouble:
        types = {}
    places = []
    for role, path in {**roles(env, model), **mapped}.items():
        at = _nearest(host, path)
        if at is None:
            continue
        try:
            space = host.space(at)
        except Trouble:
            continue
        try:
            writable: bool | None = host.may(at, "wx")
        except Trouble:
            writable = None
        places.append(
            Place(
                role=role,
                path=path,
                at=at,
                exists=at == path,
                size=space.size,
                free=space.free,
                # btrfs and some network file systems count no inodes and say 0 of 0.
                files_free=space.files_free if space.files else None,
                read_only=space.read_only,
                no_exec=space.no_exec,
                writable=writable,
                fs_type=type_of(host.real(at), types),
            )
        )
    return Disk(places=tuple(places))
