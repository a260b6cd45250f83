"""What is kept of files that were hashed: digests by path and identity, sealed so that an altered record counts for nothing; reads no file, judges nothing.

A record holds as long as size, inode, modification and change time stay what they were: the change time cannot be set back by a user, so that
a file whose modification time was restored after a change is hashed again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import msgspec

SCHEMA = "ds-doctor.proofs/1"
KEY = "proofs.key"  # the file with the key of the seals, in the same directory
KEY_BYTES = 32
MOST = 20_000  # records of one model; 250 bytes each, and what is kept of one may have 16 MiB


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """What tells that a file is still the one that was read: bytes, inode, times in nanoseconds since 1970. The device's number is not
    among them: it changes when a network file system is mounted anew."""

    size: int
    ino: int
    mtime_ns: int
    ctime_ns: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The digests of a file by algorithm, and when they were made (seconds since 1970)."""

    identity: Identity
    digests: dict[str, str]
    at: int


class _File(msgspec.Struct):
    schema: str
    seal: str
    records: msgspec.Raw


def name_of(folder: str) -> str:
    """The name under which the records of a model's folder (its real path) are kept."""
    return f"proofs-{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _as_key(path: str) -> str:
    """A path as JSON can carry it: bytes that are not UTF-8 stand as \\xNN, and no two paths become one."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") if not path.isascii() else path


def _seal(key: bytes, folder: str, records: bytes) -> str:
    about = f"{SCHEMA}\n{_as_key(folder)}\n".encode()
    return hmac.new(key, about + records, hashlib.sha256).hexdigest()


def encode(key: bytes, folder: str, records: Mapping[str, Record]) -> bytes:
    """The records of a folder as a file's content; the newest MOST of them."""
    kept = sorted(records.items(), key=lambda item: -item[1].at)[:MOST]
    body = msgspec.json.encode({_as_key(path): record for path, record in kept})
    return msgspec.json.encode(_File(SCHEMA, _seal(key, folder, body), msgspec.Raw(body)))


class Proofs:
    """The records of one model's folder."""

    def __init__(self, records: dict[str, Record] | None = None) -> None:
        self._records = records or {}

    def find(self, path: str, identity: Identity) -> Record | None:
        """What is known of the file at `path` (its real path), if it is still the same."""
        record = self._records.get(_as_key(path))
        return record if record is not None and record.identity == identity else None

    def add(self, path: str, record: Record) -> None:
        """Digests that are known beside these of the same file stay."""
        old = self.find(path, record.identity)
        if old is not None:
            record = Record(record.identity, {**old.digests, **record.digests}, record.at)
        self._records[_as_key(path)] = record

    def all(self) -> Mapping[str, Record]:
        return self._records


def decode(key: bytes | None, folder: str, data: bytes | None) -> Proofs:
    """What was kept; nothing where there is no key, no file, or the seal is not right."""
    if key is None or len(key) != KEY_BYTES or data is None:
        return Proofs()
    try:
        file = msgspec.json.decode(data, type=_File)
        right = file.schema == SCHEMA and hmac.compare_digest(file.seal, _seal(key, folder, bytes(file.records)))
        return Proofs(msgspec.json.decode(file.records, type=dict[str, Record]) if right else None)
    except (msgspec.MsgspecError, ValueError, TypeError):  # TypeError: a seal that is not ASCII
        return Proofs()
