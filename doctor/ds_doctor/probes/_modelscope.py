"""What ModelScope's downloader leaves beside a model: its id, revision, and the list of what it fetched; never judges.

modelscope up to 1.37 (hub/utils/caching.py): `.msc` is a pickled list of {Path, Revision}, `.mdl` a pickled {id}, `.mv` the text
`Revision:master,CreatedAt:1718000000`. The revision of a file is the commit that changed it last, no digest: nothing there vouches for content.
From 1.38 on (modelscope_hub/_download.py) there are only files, in `models/<org>--<name>/snapshots/<revision>/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ..api import Host, Trouble
from . import _plain_pickle

_LISTS = (".msc", "._msc")
_MARKS = (*_LISTS, ".mdl", ".mv", "._____temp")
_REVISION = re.compile(r"Revision:([^,\s]+)")
_SNAPSHOT = re.compile(r"/models/([\w.-]+?)--([\w.-]+)/snapshots/([^/]+)\Z")
_OLDER = re.compile(r"/modelscope/(?:hub/)?(?:models/)?([\w.-]+)/([\w.-]+)\Z")


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    """`repo` and `revision` where they are told; `fetched`: the names that `where` lists, if it could be read."""

    repo: str | None = None
    revision: str | None = None
    fetched: tuple[str, ...] = ()
    where: str | None = None


def notes(host: Host, root: str, names: list[str]) -> Notes | None:
    """What the folder with these names says; None where it is not one of ModelScope's."""
    new, old = _SNAPSHOT.search(root), _OLDER.search(root)
    if new is None and old is None and not set(names) & set(_MARKS):
        return None
    repo = revision = None
    if new is not None:
        repo, revision = f"{new[1]}/{new[2]}", new[3]
    elif old is not None:
        repo = f"{old[1]}/{old[2].replace('___', '.')}"
    told = _plain(host, f"{root}/.mdl") if ".mdl" in names else None
    if isinstance(told, dict) and isinstance(told.get("id"), str) and "/" in told["id"]:
        repo = told["id"].replace("___", ".")
    if ".mv" in names:
        try:
            found = _REVISION.search(host.text(f"{root}/.mv", limit=4096))
            revision = found[1] if found else revision
        except Trouble:
            pass
    for where in _LISTS:
        fetched = _plain(host, f"{root}/{where}") if where in names else None
        if isinstance(fetched, list):
            paths = [f["Path"] for f in fetched if isinstance(f, dict) and isinstance(f.get("Path"), str)]
            return Notes(repo=repo, revision=revision, fetched=tuple(paths), where=where)
    return Notes(repo=repo, revision=revision)


def snapshot(host: Host, folder: str, revision: str | None) -> str | None:
    """The snapshot of `models/<org>--<name>` that is meant: the revision, else master or main, else the only one."""
    try:
        names = host.names(folder + "/snapshots")
    except Trouble:
        return None
    wanted = [revision] if revision is not None else ["master", "main", *(names if len(names) == 1 else [])]
    return next((f"{folder}/snapshots/{n}" for n in wanted if n in names), None)


def cached(host: Host, env: Mapping[str, str], repo: str, revision: str | None) -> str | None:
    """Where ModelScope's cache has the model; None where it has not."""
    org, _, name = repo.partition("/")
    home = env.get("HOME", "")
    base = env.get("MODELSCOPE_CACHE", "") or f"{home}/.cache/modelscope"
    if base.startswith("~/"):
        base = home + base[1:]
    if not base.startswith("/") or not name:
        return None
    base = base.rstrip("/")
    new = snapshot(host, f"{base}/models/{org}--{name}", revision)
    if new is not None:
        return new
    older = name.replace(".", "___")
    for path in (f"models/{org}/{older}", f"hub/models/{org}/{older}", f"hub/{org}/{older}", f"{org}/{older}"):
        try:
            if host.names(f"{base}/{path}"):
                return f"{base}/{path}"
        except Trouble:
            continue
    return None


def _plain(host: Host, path: str) -> object:
    try:
        return _plain_pickle.read(host.read(path, limit=_plain_pickle.LIMIT))
    except (Trouble, _plain_pickle.NotPlain):
        return None
