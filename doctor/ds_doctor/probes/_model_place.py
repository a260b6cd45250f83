"""Where the model lies: the option or the command's model argument, a folder, a file, the Hugging Face hub cache or ModelScope's; never judges."""

from __future__ import annotations

import re

import msgspec

from ..api import Absent, Host, Trouble
from . import _modelscope
from . import _volumes as volumes
from ._said import clean
from .launch import Launch, asked_launch, option
from .model_folder import Hub

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?\Z")
_REMOTE = re.compile(r"[a-z][a-z0-9+]*://", re.IGNORECASE)
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_TRUE = ("1", "ON", "YES", "TRUE")  # huggingface_hub/constants.py ENV_VARS_TRUE_VALUES


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """`path` None: nothing is there."""

    given: str
    source: str
    path: str | None
    hub: Hub | None = None
    repo_folder: str | None = None
    launch: Launch


def hub_cache(env: dict[str, str]) -> str | None:
    """The hub cache's folder (huggingface_hub/constants.py); None without HOME."""
    home = env.get("HOME", "")
    for name, below in (("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "/hub")):
        value = env.get(name, "")
        if value.startswith("~/") and home:
            value = home + value[1:]
        if value.startswith("/"):
            return value.rstrip("/") + below
    base = env.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        if not home.startswith("/"):
            return None
        base = home + "/.cache"
    return base.rstrip("/") + "/huggingface/hub"


def find(host: Host) -> Place:
    """The model that was asked for. Absent when none was, or when the engine would fetch it from elsewhere."""
    launch = asked_launch(host.asked)
    source = "option" if host.asked.model is not None else "command"
    given = host.asked.model
    given = launch.model if given is None else given
    if given is None:
        raise Absent("no-model-given")
    if option(launch.argv, ("--load-format",)) == "dummy":
        raise Absent("weights-dummy")
    if _REMOTE.match(given):
        raise Absent("model-is-remote", model=clean(given.partition("?")[0].rpartition("@")[2]))
    if source == "command" and launch.container is not None:
        return _in_container(host, given, launch)
    path = _absolute(host, given, source)
    if is_there(host, path):
        return _local(host, given, source, path, launch)
    return _cached(host, given, source, launch)


def _absolute(host: Host, given: str, source: str) -> str:
    if given.startswith("/"):
        return given
    home = host.env.get("HOME", "")
    if given.startswith("~/") and source == "option" and home.startswith("/"):
        return home + given[1:]
    return host.real(".").rstrip("/") + "/" + given


def _in_container(host: Host, given: str, launch: Launch) -> Place:
    """The model of a container: what its mounts show of it. Absent where it lies in the image, in a volume, elsewhere."""
    there = volumes.outside(host, launch, given)
    on_node = launch.container is not None and launch.container.program == "kubernetes"  # which need not be this host
    if there.path is not None and is_there(host, there.path):
        return _local(host, there.path, "command", there.path, launch)
    if given.startswith("/"):
        if there.path is None or on_node:
            raise Absent("model-in-container")
        return Place(given=there.path, source="command", path=None, launch=launch)
    cache = option(launch.argv, ("--download-dir",)) or hub_cache(volumes.environment(launch))
    folder = volumes.outside(host, launch, cache).path if cache is not None else None
    if folder is None:
        raise Absent("model-in-container")
    place = _cached(host, given, "command", launch, folder)
    if place.path is None and on_node:
        raise Absent("model-in-container")
    return place


def is_there(host: Host, path: str) -> bool:
    """Whether something stands at the path, also a link to nothing or a thing that may not be looked at."""
    try:
        host.lstat(path)
    except Absent:
        return False
    except Trouble:
        return True
    return True


def _local(host: Host, given: str, source: str, path: str, launch: Launch) -> Place:
    path = path.rstrip("/") or "/"
    parts = _meant(host, path).split("/")
    # The engines take a folder as it is; only a person who gives the repository's folder, or a cache with one, means its snapshot.
    if source == "option":
        above = "/".join(parts[: -1 if parts[-1] == "snapshots" else None])
        folder = above if above.rpartition("/")[2].startswith("models--") else _only_repository(host, path)
        if folder is not None and is_there(host, folder + "/snapshots"):
            return _repository(host, given, source, folder, launch)
        if len(parts) > 1 and parts[-2] == "models" and "--" in parts[-1]:
            path = _modelscope.snapshot(host, path, host.asked.revision) or path
    up = 3 if len(parts) > 4 and parts[-3] == "snapshots" and not _is_folder(host, path) else 2  # a file of a snapshot
    if len(parts) > up + 1 and parts[-up] == "snapshots" and parts[-up - 1].startswith("models--"):
        repo_folder = "/".join(parts[:-up])
        hub = Hub(
            repo=_repo_id(parts[-up - 1]),
            commit=clean(parts[1 - up]),
            snapshots=len(names_in(host, repo_folder + "/snapshots")),
        )
        return Place(given=given, source=source, path=path, hub=hub, repo_folder=repo_folder, launch=launch)
    return Place(given=given, source=source, path=path, launch=launch)


def _meant(host: Host, path: str) -> str:
    """The path, without `.` and `..`; of a link to a folder that has not the name of a cache's folder, where it leads: people link a
    snapshot to a shorter name, and a repository's folder to another disk."""
    parts = path.split("/")
    plain = "/".join(p for i, p in enumerate(parts) if p != "." and (p or not i)) or "/"
    named = "/models--" in plain and "/.." not in plain
    try:
        if ".." in parts or (not named and host.lstat(path).kind == "link" and host.stat(path).kind == "directory"):
            return host.real(path)
    except Trouble:
        pass
    return plain


def _is_folder(host: Host, path: str) -> bool:
    try:
        return host.stat(path).kind == "directory"
    except Trouble:
        return False


def _only_repository(host: Host, path: str) -> str | None:
    """The repository's folder in a cache (or in the folder above it, HF_HOME) that holds just one."""
    names = names_in(host, path)
    if "hub" in names and "config.json" not in names and not any(n.startswith("models--") for n in names):
        path, names = f"{path}/hub", names_in(host, f"{path}/hub")
    found = [n for n in names if n.startswith("models--") and is_there(host, f"{path}/{n}/snapshots")]
    return f"{path}/{found[0]}" if len(found) == 1 else None


def _cached(host: Host, given: str, source: str, launch: Launch, cache: str | None = None) -> Place:
    missing = Place(given=given, source=source, path=None, launch=launch)
    repo = given.partition(":")[0]  # vLLM takes ORG/NAME:QUANTISATION for a GGUF repository
    if not _HUB_ID.match(repo):
        return missing
    env = {**({} if launch.container else host.env), **launch.environment}
    cache = cache or option(launch.argv, ("--download-dir",)) or hub_cache(env)
    if cache is not None:
        folder = f"{cache}/models--{repo.replace('/', '--')}"
        if is_there(host, folder + "/snapshots"):
            return _repository(host, given, source, folder, launch)
    offline = any(env.get(n, "").upper() in _TRUE for n in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    elsewhere = any(env.get(n, "").upper() in _TRUE for n in ("VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE"))
    if (source == "option" or elsewhere) and launch.container is None:
        path = _modelscope.cached(host, env, repo, host.asked.revision)
        if path is not None:
            return Place(given=given, source=source, path=path, launch=launch)
    if source == "command" and (elsewhere or not offline):
        raise Absent("model-not-downloaded", model=clean(given))
    return missing


def _repository(host: Host, given: str, source: str, folder: str, launch: Launch) -> Place:
    revision = host.asked.revision or option(launch.argv, ("--revision",)) or "main"
    repo = _repo_id(folder.rpartition("/")[2])
    snapshots = names_in(host, folder + "/snapshots")
    commit, problem = _commit(host, folder, revision, snapshots)
    hub = Hub(
        repo=repo, revision=clean(revision), commit=commit and clean(commit), snapshots=len(snapshots), problem=problem
    )
    path = f"{folder}/snapshots/{commit}" if commit is not None and problem is None else folder
    return Place(given=given, source=source, path=path, hub=hub, repo_folder=folder, launch=launch)


def _commit(host: Host, folder: str, revision: str, snapshots: list[str]) -> tuple[str | None, str | None]:
    if revision in snapshots:
        return revision, None
    short = [s for s in snapshots if s.startswith(revision)] if _COMMIT.match(revision) else []
    if len(short) == 1:
        return short[0], None
    if ".." in revision.split("/"):
        return None, "no-ref"
    try:
        commit = host.text(f"{folder}/refs/{revision}", limit=4096).strip()
    except Absent:
        only = snapshots[0] if len(snapshots) == 1 and revision == "main" else None
        return only, None if only else "no-ref"
    except Trouble:
        return None, "ref-malformed"
    if not _COMMIT.match(commit):
        return None, "ref-malformed"
    return commit, None if commit in snapshots else "ref-dangling"


def _repo_id(folder: str) -> str:
    return clean(folder.removeprefix("models--").replace("--", "/", 1))


def names_in(host: Host, path: str) -> list[str]:
    """The names in a folder; none where it cannot be listed."""
    try:
        return host.names(path)
    except Trouble:
        return []
