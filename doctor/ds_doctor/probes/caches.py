"""The folders that engines write compiled kernels and scratch files to: there, writable, how much room; nothing is written, never judges."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..api import Absent, Host, Trouble, Unseen, probe

PSEUDO = ("/proc", "/sys")  # access() says yes to root there, and nothing can be made in them


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """One folder. `what`: home, tmp, triton, inductor, torch-extensions, vllm, flashinfer, deep-gemm; `variable`: what set it, None for
    the default. `nearest` is the folder itself or the first one above it that is there: what is made is made in it.
    `writable` None: could not be seen. `blocked`: a path on the way that is not a folder."""

    what: str
    path: str
    variable: str | None = None
    exists: bool = False
    nearest: str = "/"
    writable: bool | None = None
    blocked: str | None = None
    no_exec: bool = False
    read_only: bool = False
    free_mib: int | None = None
    files_free: int | None = None


class Caches(msgspec.Struct, frozen=True, kw_only=True):
    """The home folder and the folders that take compiled kernels.

    `home` as Python finds it: HOME, else the user's line in /etc/passwd (`home_from`), None when neither gives one.
    """

    home: str | None = None
    home_from: str | None = None
    folders: tuple[Folder, ...] = ()
    user: str | None = None  # the name in /etc/passwd


def parse_passwd(text: str, uid: int) -> tuple[str, str] | None:
    """(name, home) of the user with that id."""
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) >= 6 and parts[2] == str(uid):
            return parts[0], parts[5]
    return None


@probe
def caches(host: Host) -> Caches:
    if not host.live:
        raise Unseen("not-under-root")
    try:
        entry = parse_passwd(host.text("/etc/passwd"), host.user_id())
    except Trouble:
        entry = None
    home, home_from = host.env.get("HOME") or None, "HOME"
    if home is None:
        home, home_from = (entry[1] or None, "passwd") if entry else (None, "")
    user = host.env.get("LOGNAME") or host.env.get("USER") or (entry[0] if entry else str(host.user_id()))
    return Caches(
        home=home,
        home_from=home_from or None,
        user=entry[0] if entry else None,
        folders=tuple(_look(host, *w) for w in _wanted(host, home, user)),
    )


def _wanted(host: Host, home: str | None, user: str) -> list[tuple[str, str, str | None]]:
    """(what, path, variable) of every folder whose place is known."""
    env = host.env
    tmp = next((n for n in ("TMPDIR", "TEMP", "TMP") if env.get(n)), None)  # the order of Python's tempfile
    temp = env[tmp] if tmp else "/tmp"
    xdg = env.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    every = [
        ("home", home, "HOME" if env.get("HOME") else None),
        ("tmp", temp, tmp),
        # triton/knobs.py (3.6): TRITON_CACHE_DIR, else TRITON_HOME or ~ and .triton/cache
        ("triton", *_of(env, "TRITON_CACHE_DIR", _under(env.get("TRITON_HOME") or home, ".triton/cache"))),
        # torch/_inductor/runtime/cache_dir_utils.py (2.11)
        ("inductor", *_of(env, "TORCHINDUCTOR_CACHE_DIR", f"{temp}/torchinductor_{user}")),
        # torch/utils/cpp_extension.py get_default_build_root (2.11)
        ("torch-extensions", *_of(env, "TORCH_EXTENSIONS_DIR", _under(xdg, "torch_extensions"))),
        # vllm/envs.py (0.33)
        ("vllm", *_of(env, "VLLM_CACHE_ROOT", _under(xdg, "vllm"))),
        # flashinfer/jit/env.py (0.7): the base is not the cache itself, and XDG_CACHE_HOME is not asked
        (
            "flashinfer",
            _under(env.get("FLASHINFER_WORKSPACE_BASE", home), ".cache/flashinfer"),
            "FLASHINFER_WORKSPACE_BASE" if "FLASHINFER_WORKSPACE_BASE" in env else None,
        ),
        ("deep-gemm", env.get("DG_JIT_CACHE_DIR"), "DG_JIT_CACHE_DIR"),
    ]
    return [(what, path, variable) for what, path, variable in every if path and path.startswith("/")]


def _of(env: Mapping[str, str], name: str, default: str | None) -> tuple[str | None, str | None]:
    value = env.get(name)
    return (value, name) if value else (default, None)


def _under(folder: str | None, name: str) -> str | None:
    return f"{folder.rstrip('/')}/{name}" if folder else None


def _look(host: Host, what: str, path: str, variable: str | None) -> Folder:
    nearest, blocked = path.rstrip("/") or "/", None
    writable: bool | None = None
    exists = False
    while True:
        try:
            kind = host.stat(nearest).kind
        except Absent:
            above = nearest.rpartition("/")[0] or "/"
            if above == nearest:
                break
            nearest = above
            continue
        except Trouble:
            break
        exists = kind == "directory" and nearest == (path.rstrip("/") or "/")
        if kind != "directory":
            blocked, writable = nearest, False
        else:
            real = host.real(nearest)
            pseudo = any(real == p or real.startswith(p + "/") for p in PSEUDO)
            writable = not pseudo and host.may(nearest, "wx")
        break
    try:
        space = host.space(nearest)
    except Trouble:
        return Folder(
            what=what, path=path, variable=variable, exists=exists, nearest=nearest, writable=writable, blocked=blocked
        )
    return Folder(
        what=what,
        path=path,
        variable=variable,
        exists=exists,
        nearest=nearest,
        writable=writable and not space.read_only,
        blocked=blocked,
        no_exec=space.no_exec,
        read_only=space.read_only,
        free_mib=space.free >> 20,
        files_free=space.files_free,
    )
