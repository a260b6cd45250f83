"""What vouches for the content of the model's files: blob names, download records, checksum lists, a given manifest; never judges, never hashes.

The whole list (`Vouching`, up to 200,000 files) is looked at once and shared; the fact keeps counts and the first few names.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .model_folder import Names


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """What a file's content should be. `algorithm`: sha256, git-sha1, ...; `source`: manifest (given by the user), hub-blob (the blob's name),
    hub-metadata (`.cache/huggingface/download`), modelscope, sums (a checksum file in the folder); `where`: that file's name."""

    algorithm: str
    digest: str
    source: str
    where: str


class ModelFile(msgspec.Struct, frozen=True, kw_only=True):
    """One regular file of the model. `name`: relative to the model's folder, as it can be shown; `path`: as the system takes it (not for JSON);
    `role`: weights, config (the engine reads it: configuration, tokenizer, template), code (*.py), other. `size` in bytes as it is, `size_due` as a source says."""

    name: str
    path: str
    size: int
    role: str
    expected: tuple[Expected, ...] = ()
    size_due: int | None = None


class Vouching(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was found out about which content is due. `layout`: plain, file, hub-cache, local-dir, modelscope. `revision`: the commit.
    `given`: whether a manifest was given; `unseen`: files beyond the limit or the time."""

    root: str
    layout: str
    repo: str | None = None
    revision: str | None = None
    files: tuple[ModelFile, ...] = ()
    unseen: int = 0
    given: bool = False


class Checksums(msgspec.Struct, frozen=True, kw_only=True):
    """What vouches for the model's files, counted: `files` regular files, `vouched` of them with a digest that is due, `bytes` of all. More fields
    belong to the rules of the layout."""

    of_command: ClassVar[bool] = True

    layout: str
    repo: str | None = None
    revision: str | None = None
    files: int = 0
    bytes: int = 0
    vouched: int = 0
    unseen: int = 0
    unvouched_weights: Names = Names()


@probe
def checksums(host: Host) -> Checksums:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _checksum_look

    return _checksum_look.counted(host.once(_checksum_look.look_at))
