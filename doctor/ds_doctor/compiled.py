"""The catalogue of a package, fast: compiled to JSON in the wheel, or kept by digest in the user's cache directory.

Reading TOML costs a hundred times more than reading JSON. A compiled form is used only when the TOML beside it is the one
that it was made from.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from . import kept
from .catalogue import (
    Catalogue,
    CatalogueError,
    Cause,
    Claim,
    Documented,
    Phrases,
    Rule,
    Signs,
    Step,
    Symptom,
    Text,
    parse,
)

RULES_LIMIT = 16 << 20
KINDS: tuple[type[msgspec.Struct], ...] = (
    Text,
    Step,
    Claim,
    Phrases,
    Signs,
    Rule,
    Cause,
    Symptom,
    Documented,
    Catalogue,
)
_SIGNS = ("match", "also", "unless", "seen", "phrases", "tier", "over")
_NO_SIGNS = Signs()


class Compiled(msgspec.Struct, frozen=True):
    """What a file of ours holds beside the digest of what it was made from."""

    digest: str


class Rules(Compiled, frozen=True):
    """What `run` needs of a catalogue: it shows no symptom, and starts faster without them."""

    catalogue: Catalogue


C = TypeVar("C", bound=Compiled)


class Form(msgspec.Struct, Generic[C], frozen=True):
    """One thing that is made of a rules.toml: its file's name, its type, the types it is made of, and how it is made."""

    name: str
    kind: type[C]
    of: tuple[type[msgspec.Struct], ...]
    make: Callable[[str, Catalogue], C]


def digest(data: bytes, kinds: tuple[type[msgspec.Struct], ...] = KINDS) -> str:
    """Of the TOML text and of the shape that this version compiles it to."""
    shape = repr([(c.__name__, c.__struct_fields__) for c in kinds])
    # Tells two states of our own file apart, which needs no cryptography: importing hashlib costs 3 ms.
    return f"{len(data):08x}{zlib.crc32(data):08x}{zlib.adler32(data):08x}{zlib.crc32(shape.encode()):08x}"


def _rules(mark: str, catalogue: Catalogue) -> Rules:
    none = {f: getattr(_NO_SIGNS, f) for f in _SIGNS}
    bare = {
        name: msgspec.structs.replace(rule, claims=(*rule.claims, *_gathered(rule, catalogue)), claims_of={}, **none)
        for name, rule in catalogue.rule.items()
    }
    return Rules(mark, Catalogue(catalogue.schema, catalogue.date, bare, catalogue.reason))


def _gathered(rule: Rule, catalogue: Catalogue) -> Iterator[Claim]:
    """The claims that the rule takes from those that stand on their own, each once with all that it is about."""
    about: dict[str, list[str]] = {}
    for topic, names in rule.claims_of.items():
        for name in names:
            about.setdefault(name, []).append(topic)
    for name, topics in about.items():
        one = catalogue.claim[name]
        yield Claim(one.says, one.standing, one.truth, one.sources, tuple(topics))


RULES = Form("rules.json", Rules, KINDS, _rules)


def compile_(data: bytes, where: str, form: Form[Any] = RULES) -> bytes:
    """What `load` reads instead of the TOML."""
    return msgspec.json.encode(form.make(digest(data, form.of), parse(data, where)))


def load(folder: str, env: Mapping[str, str]) -> Catalogue:
    """The rules of the package in `folder`. CatalogueError when there are none or they are not right."""
    return load_form(folder, env, RULES).catalogue


def load_whole(folder: str) -> Catalogue:
    """The catalogue with everything in it, read from the TOML: for lists and pages, which nobody waits for."""
    path, data = _toml(folder)
    return parse(data, path)


def load_form(folder: str, env: Mapping[str, str], form: Form[C]) -> C:
    """A form of the catalogue of the package in `folder`; CatalogueError as for `load`."""
    path, data = _toml(folder)
    want = digest(data, form.of)
    cache = kept.folder(env)
    stem, dot, ending = form.name.partition(".")
    name = f"{stem}-{want[:32]}{dot}{ending}"
    for candidate in (os.path.join(folder, form.name), os.path.join(cache, name) if cache else None):
        found = _from_compiled(candidate, want, form.kind)
        if found is not None:
            return found
    made = form.make(want, parse(data, path))
    if cache is not None:
        kept.write(cache, name, msgspec.json.encode(made))
    return made


def _toml(folder: str) -> tuple[str, bytes]:
    path = os.path.join(folder, "rules.toml")
    try:
        with open(path, "rb") as f:
            data = f.read(RULES_LIMIT + 1)
    except OSError as e:
        raise CatalogueError(f"{path}: {e.strerror}") from None
    if len(data) > RULES_LIMIT:
        raise CatalogueError(f"{path}: larger than {RULES_LIMIT >> 20} MiB")
    return path, data


def _from_compiled(path: str | None, want: str, kind: type[C]) -> C | None:
    data = kept.read(path) if path is not None else None
    if data is None:
        return None
    try:
        one = msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError:
        return None
    return one if one.digest == want else None
