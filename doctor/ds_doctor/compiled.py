"""The catalogue of a package, fast: compiled to JSON in the wheel, or kept by digest in the user's cache directory.

Reading TOML costs a hundred times more than reading JSON. A compiled form is used only when the TOML beside it is the one
that it was made from.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping

import msgspec

from .catalogue import Catalogue, CatalogueError, Claim, Rule, Step, Text, parse

RULES_LIMIT = 16 << 20


class _Compiled(msgspec.Struct, frozen=True):
    digest: str
    catalogue: Catalogue


def digest(data: bytes) -> str:
    """Of the TOML text and of the shape that this version compiles it to."""
    shape = repr([(c.__name__, c.__struct_fields__) for c in (Text, Step, Claim, Rule, Catalogue)])
    # Tells two states of our own file apart, which needs no cryptography: importing hashlib costs 3 ms.
    return f"{len(data):08x}{zlib.crc32(data):08x}{zlib.adler32(data):08x}{zlib.crc32(shape.encode()):08x}"


def compile_(data: bytes, where: str) -> bytes:
    """What `load` reads instead of the TOML."""
    return msgspec.json.encode(_Compiled(digest(data), parse(data, where)))


def cache_folder(env: Mapping[str, str]) -> str | None:
    """The user's cache directory of this program; None where there is no usable HOME."""
    base = env.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = env.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = home + "/.cache"
    return base + "/ds-doctor"


def load(folder: str, env: Mapping[str, str]) -> Catalogue:
    """The catalogue of the package in `folder`. CatalogueError when there is none or it is not right."""
    path = os.path.join(folder, "rules.toml")
    try:
        with open(path, "rb") as f:
            data = f.read(RULES_LIMIT + 1)
    except OSError as e:
        raise CatalogueError(f"{path}: {e.strerror}") from None
    if len(data) > RULES_LIMIT:
        raise CatalogueError(f"{path}: larger than {RULES_LIMIT >> 20} MiB")
    want = digest(data)
    cache = cache_folder(env)
    kept = os.path.join(cache, f"catalogue-{want[:32]}.json") if cache else None
    for candidate in (os.path.join(folder, "rules.json"), kept):
        catalogue = _from_compiled(candidate, want)
        if catalogue is not None:
            return catalogue
    catalogue = parse(data, path)
    if kept is not None and cache is not None:
        _keep(cache, kept, msgspec.json.encode(_Compiled(want, catalogue)))
    return catalogue


def _from_compiled(path: str | None, want: str) -> Catalogue | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as f:
            # Another user's file in a shared cache directory could put words into our mouth.
            if os.fstat(f.fileno()).st_uid not in (0, os.geteuid()):
                return None
            one = msgspec.json.decode(f.read(RULES_LIMIT), type=_Compiled)
    except (OSError, msgspec.MsgspecError):
        return None
    return one.catalogue if one.digest == want else None


def _keep(cache: str, path: str, data: bytes) -> None:
    """Best effort: a cache that cannot be written costs a few milliseconds and nothing else."""
    import tempfile

    try:
        os.makedirs(cache, mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=cache, prefix=".new-")
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(name, path)
    except OSError:
        return
