"""The options of `ds-doctor verify` as they were typed, and what is wrong with them; looks at no model."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any

import msgspec

from .. import manifest
from ..host import Asked
from ..model import Lang
from ..probes._folder_names import is_model_file
from ..report.verify_words import word
from . import Usage, files
from .lang import from_arguments, t
from .proving import of_part


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `verify`, as they were typed."""

    path: str
    quick: bool = False
    manifest: str | None = None
    write_manifest: str | None = None
    only_shards: str | None = None
    user: str | None = None
    revision: str | None = None
    no_cache: bool = False
    warm: bool = False
    threads: int | None = None
    strict: bool = False
    form: str = "text"
    output: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    lang: Lang | None = None
    verbose: bool = False
    quiet: bool = False


# Options that need no parser, whose import costs 20 ms.
_PLAIN = {
    "--quick": "quick",
    "--no-cache": "no_cache",
    "--warm": "warm",
    "--strict": "strict",
    "-q": "quiet",
    "--quiet": "quiet",
    "-v": "verbose",
    "--verbose": "verbose",
}


def plain(words: list[str]) -> Request | None:
    """The request, where the words are a path and such options; None: they need the parser."""
    if not words or words[0].startswith("-") or not set(words[1:]) <= _PLAIN.keys():
        return None
    switches: dict[str, Any] = {_PLAIN[w]: True for w in words[1:]}
    return Request(path=words[0], **switches)


def check(r: Request) -> None:
    """Usage for options that cannot work, before anything is looked at."""
    for name in ("path", "manifest", "write_manifest", "only_shards", "user", "revision"):
        if getattr(r, name) == "":
            shown = "PATH" if name == "path" else "--" + name.replace("_", "-")
            raise Usage(t(f"{shown}: the value is empty", f"{shown}：值为空"))
    if r.threads is not None and not 1 <= r.threads <= 1024:
        raise Usage(t(f"--threads {r.threads}: between 1 and 1024", f"--threads {r.threads}：应在 1 到 1024 之间"))
    if r.quick:
        for name in ("write_manifest", "only_shards", "warm", "no_cache"):
            if getattr(r, name):
                shown = "--" + name.replace("_", "-")
                raise Usage(t(f"--quick and {shown} exclude each other", f"--quick 与 {shown} 不能同时使用"))
    if r.only_shards is not None:
        part_of(r.only_shards, ())
    if r.manifest is not None:
        _manifest(r.manifest)
    written = [("--output", o.partition("=")[2]) for o in r.output]
    if r.write_manifest is not None:
        written.append(("--write-manifest", r.write_manifest))
    for option, path in written:
        read = option == "--output" and r.manifest is not None and os.path.exists(path)
        if os.path.isfile(path) and (
            is_model_file(os.path.basename(path)) or (read and os.path.samefile(path, r.manifest or path))
        ):
            raise Usage(
                t(f"{option} {path}: would overwrite what is verified", f"{option} {path}：会覆盖用于校验的文件")
            )


def part_of(part: str, names: tuple[str, ...]) -> frozenset[str]:
    """The names that --only-shards I/N leaves. Usage for what is no I/N."""
    try:
        return of_part(part, names)
    except ValueError:
        raise Usage(
            t(f"--only-shards {part}: I/N, for example 1/4", f"--only-shards {part}：应为 I/N，例如 1/4")
        ) from None


def _manifest(path: str) -> None:
    """Usage in one line for a manifest that cannot be used."""
    data = files.read("--manifest", path, manifest.LIMIT)
    try:
        listed = manifest.parse(data, os.path.basename(path), ["/"])  # what absolute names mean here, the look tells
        if not listed.entries:
            raise manifest.NotAManifest("no-entries", listed.problems[0].line if listed.problems else None)
    except manifest.NotAManifest as e:
        what = word("manifest." + e.why, from_arguments(sys.argv[1:]))
        raise Usage(
            f"--manifest {path}{t(': ', '：')}{what}"
            + (t(f" (line {e.line})", f"（第 {e.line} 行）") if e.line else "")
        ) from None


def asked(r: Request) -> Asked:
    """What is to be looked at. Usage for a path that no system takes."""
    try:
        os.lstat(r.path)
        path = files.absolute("PATH", r.path)
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            raise Usage(f"PATH {r.path[:60]}…: {e.strerror}") from None
        # Not there: it may be a model's id. In a folder that may not be searched: the look says so.
        path = r.path if e.errno in (errno.ENOENT, errno.ENOTDIR) else files.absolute("PATH", r.path)
    except ValueError as e:
        raise Usage(f"PATH {r.path!r}: {e}") from None
    manifest = None if r.manifest is None else files.absolute("--manifest", r.manifest)
    return Asked(model=path, manifest=manifest, user=r.user, revision=r.revision)
