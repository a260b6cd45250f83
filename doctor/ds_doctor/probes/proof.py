"""What is proven of the content of the model's files: hashed now, or hashed before and unchanged since; never hashes itself, never judges.

`verify` and `run --verify-weights` put what their hashing came to in the place of what this probe recalls.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .model_folder import Names


class WrongFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file whose digest is not the one that is due. `role` as of ModelFile, `source` and `where` as of Expected; size in bytes."""

    name: str
    role: str
    algorithm: str
    expected: str
    actual: str
    source: str
    where: str
    size: int = 0


class UnreadFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that could not be read whole. `problem` as of hashing's Done; `offset`: the byte where it failed (None: at opening)."""

    name: str
    role: str
    problem: str
    error: str = ""
    offset: int | None = None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What is proven. `hashed`: whether the files were read for this report (else it is recalled from earlier). `files` were looked at, `proven` of them have the digest that
    is due; `weights` and `weights_proven` are those that hold weights. `unvouched`: weight files for which nothing says what is due; `unhashed`: weight files that could be proven and
    were not read. `wrong` and `unread` hold the first hundred, the counts are whole. `since`: when the oldest proof was made (UTC)."""

    of_command: ClassVar[bool] = True

    hashed: bool = False
    files: int = 0
    proven: int = 0
    weights: int = 0
    weights_proven: int = 0
    unvouched: Names = Names()
    unhashed: Names = Names()
    wrong: tuple[WrongFile, ...] = ()
    wrong_count: int = 0
    unread: tuple[UnreadFile, ...] = ()
    unread_count: int = 0
    since: str | None = None


@probe
def proof(host: Host) -> Proof:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _checksum_look

    vouching = host.once(_checksum_look.look_at)
    due = [f for f in vouching.files if f.role == "weights"]
    return Proof(
        files=len(vouching.files),
        weights=len(due),
        unvouched=Names(sum(not f.expected for f in due), tuple(f.name for f in due if not f.expected)[:5]),
        unhashed=Names(sum(bool(f.expected) for f in due), tuple(f.name for f in due if f.expected)[:5]),
    )
