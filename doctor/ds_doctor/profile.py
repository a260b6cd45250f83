"""A profile: what serving one model takes, as data that a site can write too; it reads a profile's text, and judges nothing.

Schema 1. Every figure comes with its source, every text in English and Chinese.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Literal

import msgspec

SCHEMA = 1
LIMIT = 1 << 20  # bytes of a profile's file
SUFFIX = ".toml"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")


class ProfileError(Exception):
    """A profile that cannot be used: one line with the file and the place."""


class Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One text in both languages."""

    en: str
    zh: str


class Tested(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of GPUs on which the vendor or the engine's project names the model as tested: a word of NVML's name of the GPU
    (`H200`), how many, for which engine, where that is said."""

    gpu: str
    count: int
    engine: Literal["vllm", "sglang"]
    source: str


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known bad setting: one of `flags` with one of `values` (none given: whatever its value), or with anything but
    `good`; or the environment variable `variable`. `level`: fail only where the engine refuses it."""

    engine: Literal["vllm", "sglang"]
    level: Literal["note", "warn", "fail"]
    says: Words
    source: str
    flags: tuple[str, ...] = ()
    variable: str | None = None
    values: tuple[str, ...] = ()
    good: tuple[str, ...] = ()


class Needs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one engine needs for the model: its first version, images made for it, the major compute capabilities that its
    kernels for this model run on (none: not known), the tensor-parallel sizes that work, GiB of host memory besides what
    every start takes, GiB of /dev/shm that the recipe gives, and the recipe's own arguments and variables."""

    min_version: str | None = None
    min_version_source: str | None = None
    images: tuple[str, ...] = ()
    capabilities: tuple[int, ...] = ()
    capabilities_source: str | None = None
    tensor_parallel: tuple[int, ...] = ()
    host_memory_gib: float | None = None
    host_memory_source: str | None = None
    shm_gib: float | None = None
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    source: str | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What serving one model takes. `models`: hub ids; `model_types`: of config.json. GiB are 2^30 bytes. `gpu_memory_gib`:
    the least of one replica over all its GPUs as the recipe has it; `gpu_weights_gib`: what of the checkpoint lies in GPU
    memory in every configuration, below which nothing loads."""

    schema: int
    name: str
    models: tuple[str, ...]
    sources: tuple[str, ...]
    model_types: tuple[str, ...] = ()
    shards: int | None = None
    tensors: int | None = None
    checkpoint_gib: float | None = None
    gpu_weights_gib: float | None = None
    gpu_memory_gib: float | None = None
    gpu_memory_source: str | None = None
    disk_gib: float | None = None
    engine: dict[Literal["vllm", "sglang"], Needs] = {}
    tested: tuple[Tested, ...] = ()
    setting: tuple[Setting, ...] = ()


def read(data: bytes, where: str) -> Profile:
    """A profile's file. ProfileError with one line for anything that is not right in it."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise ProfileError(f"{where}: not UTF-8: byte {e.start}") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as e:
        raise ProfileError(f"{where}: not valid TOML: {' '.join(str(e).split())}") from None
    return of(table, where)


def of(table: dict[str, Any], where: str) -> Profile:
    """The same of a table that is decoded already."""
    if table.get("schema") != SCHEMA:
        raise ProfileError(f"{where}: schema {table.get('schema')!r}; this program reads profiles of schema {SCHEMA}")
    try:
        profile = msgspec.convert(table, Profile)
    except msgspec.ValidationError as e:
        raise ProfileError(f"{where}: {e}") from None
    for number, setting in enumerate(profile.setting):
        if bool(setting.flags) == bool(setting.variable):
            raise ProfileError(f"{where}: setting[{number}]: give either flags or variable")
    if not NAME.match(profile.name):
        raise ProfileError(f"{where}: name {profile.name!r}: small letters, digits, dots and dashes")
    return profile


def matches(profile: Profile, model: str | None, model_type: str | None) -> bool:
    """Whether the profile speaks of this model: a hub id, a folder of the repository's name, or config.json's model_type."""
    if model_type is not None:
        return model_type in profile.model_types
    if model is None:
        return False
    given = model.rstrip("/").lower()
    ids = [m.lower() for m in profile.models]
    return given in ids or ("/" in given and given.rpartition("/")[2] in {i.rpartition("/")[2] for i in ids})
