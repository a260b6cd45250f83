"""The command that fetches one file of a model anew, as far as its layout tells where it came from."""

from __future__ import annotations

import re
import shlex

from ds_doctor.probes.checksums import Checksums
from ds_doctor.probes.model_folder import ModelFolder

from ._weights import quoted_path

_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
# In a name or path that could not be shown as it is, or was cut: no command is better than a wrong one.
_UNSAYABLE = ("\N{REPLACEMENT CHARACTER}", "…")
# huggingface_hub does not write down which repository a folder was filled from.
_REPOSITORY = "ORG/NAME"


def repair(model: ModelFolder, file: str, sums: Checksums | None = None, astray: bool = False) -> str | tuple[()]:
    """The command; empty where the layout does not tell it. `astray`: a link in the snapshot that leads elsewhere.

    Tried with huggingface_hub 0.23.0, 0.34.4 and 2.4.0: a damaged blob is fetched again with --force-download only, and what stands in a snapshot
    in the place of the link to it, a file or another link, is left as it is. ModelScope up to 1.37 takes a file that is there for the right one.
    """
    fetch = _words(model, file, sums)
    remove: list[str] = []
    if model.hub is not None and (astray or (sums is not None and sums.copied)):
        remove = ["rm", "-f", f"{model.path}/{file}"]
    elif model.hub is None and sums is not None and sums.layout == "modelscope":
        remove = ["rm", "-f", f"{sums.root}/{file}"]
    if not fetch or file.startswith("-") or not _can_be_said(remove + fetch):
        return ()
    return " && ".join(shlex.join(words) for words in (remove, fetch) if words)


def _can_be_said(words: list[str]) -> bool:
    return all(w.isprintable() and not any(u in w for u in _UNSAYABLE) for w in words)


def anew(model: ModelFolder, file: str, sums: Checksums | None) -> dict[str, str | tuple[()]]:
    """The blanks of the two ways to say it: the command (`repair`), or where the layout does not tell it, in words (`again`)."""
    command = repair(model, file, sums)
    return {"repair": command, "again": () if command else file}


def pulled(model: ModelFolder, file: str, sums: Checksums | None) -> dict[str, str | tuple[()]]:
    """The same for a Git LFS pointer: with Git where the folder is a clone, otherwise as any other file. `pull`: the folder."""
    known = anew(model, file, sums)
    clone = model.hub is None and not known["repair"]
    return {**known, "pull": quoted_path(model) if clone else ()}


def resumed(model: ModelFolder, sums: Checksums | None) -> dict[str, str | tuple[()]]:
    """The same for the whole download, which fetches only what is missing."""
    words: list[str] = []
    if model.hub is not None and model.hub.commit is not None:
        words = ["hf", "download", model.hub.repo, "--revision", model.hub.commit, *_cache_of(model)]
    elif sums is not None and sums.layout == "modelscope" and sums.repo is not None:
        words = ["modelscope", "download", "--model", sums.repo, "--local_dir", sums.root]
    elif sums is not None and sums.revision is not None and _COMMIT.match(sums.revision) and sums.layout == "local-dir":
        words = ["hf", "download", sums.repo or _REPOSITORY, "--revision", sums.revision, "--local-dir", sums.root]
    if not words or not _can_be_said(words):
        return {"repair": (), "again": "ORG/NAME"}
    return {"repair": shlex.join(words), "again": ()}


def _words(model: ModelFolder, file: str, sums: Checksums | None) -> list[str]:
    if model.hub is not None:
        commit = model.hub.commit
        return [] if commit is None else [*_fetch(model.hub.repo, file, commit), *_cache_of(model)]
    if sums is None:
        return []
    root = sums.root
    if sums.layout == "modelscope" and sums.repo is not None:
        revision = [] if sums.revision in (None, "master") else ["--revision", str(sums.revision)]
        return ["modelscope", "download", "--model", sums.repo, file, *revision, "--local_dir", root]
    if sums.revision is None or not _COMMIT.match(sums.revision):
        return []
    if sums.repo is None and sums.layout != "local-dir":
        return []
    return [*_fetch(sums.repo or _REPOSITORY, file, sums.revision), "--local-dir", root]


def _fetch(repo: str, file: str, commit: str) -> list[str]:
    return ["hf", "download", repo, file, "--revision", commit, "--force-download"]


def _cache_of(model: ModelFolder) -> list[str]:
    """The option for a cache that was given as a path, which need not be the one that `hf` takes of itself."""
    folder, found, _ = (model.path or "").partition("/models--")
    by_path = model.source == "option" and model.hub is not None and model.given.partition(":")[0] != model.hub.repo
    return ["--cache-dir", folder or "/"] if by_path and found else []
