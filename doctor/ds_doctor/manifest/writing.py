"""Our own list of checksums, for the next time and the other nodes; writes no file, knows no host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ._gather import DIGITS
from .structs import SCHEMA, Entry


def write(
    entries: Iterable[Entry],
    *,
    repo: str | None = None,
    revision: str | None = None,
    version: str = "",
    created_at: str | None = None,
) -> bytes:
    """A manifest in JSON, one file a line, sorted by name: the same entries give the same bytes. A name that is not UTF-8 is shown
    with U+FFFD in `name` and stands whole, as hexadecimal bytes, in `raw`."""
    head: dict[str, Any] = {"schema": SCHEMA, "created_by": {"name": "ds-doctor", "version": version}}
    if created_at is not None:
        head["created_at"] = created_at
    head |= {"repo": repo, "revision": revision}
    lines = [f" {_json(key)}: {_json(value)}," for key, value in head.items()]
    files = [_json(_file(e)) for e in sorted(entries, key=_bytes)]
    body = ",\n".join("  " + f for f in files)
    return ("{\n" + "\n".join(lines) + '\n "files": [\n' + body + ("\n" if files else "") + " ]\n}\n").encode()


def write_sums(entries: Iterable[Entry], algorithm: str = "sha256") -> bytes:
    """The entries as GNU coreutils writes and checks them (`sha256sum -c`); those without that digest are left out."""
    lines = []
    for entry in sorted(entries, key=_bytes):
        digest = entry.digests.get(algorithm)
        if digest is None:
            continue
        name = _bytes(entry)
        escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
        lines.append((b"\\" if escaped != name else b"") + digest.encode() + b"  " + escaped + b"\n")
    return b"".join(lines)


def _bytes(entry: Entry) -> bytes:
    return entry.name.encode("utf-8", "surrogateescape")


def _file(entry: Entry) -> dict[str, Any]:
    raw = _bytes(entry)
    name = raw.decode("utf-8", "replace")
    file: dict[str, Any] = {"name": name}
    if name != entry.name:
        file["raw"] = raw.hex()
    if entry.size is not None:
        file["size"] = entry.size
    return file | {a: entry.digests[a] for a in DIGITS if a in entry.digests}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
