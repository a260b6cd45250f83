"""The model folder that was asked for: its files, shards, index and configuration, structure only; never judges, never hashes.

Reads names, sizes, the index and each shard's header, never a tensor: 48 shards of 475 GiB cost what their headers cost.
How it looks is in the modules that the probe imports when a model was given: most runs need none of them.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe


class WeightFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`kind`: safetensors, gguf, pytorch, lfs-pointer, html, xml, text, zeros, zip, empty, malformed (the `error` of the
    safetensors library with its tensor and numbers; NoCentralDirectory for a pytorch file that ends too early), other, header-not-parsed (too
    long for this); dangling (a link to nothing), missing, denied, unreadable, or a
    file type that is no file (fifo, directory, character ...). Sizes in bytes: `size` as it is, `expected_size` as the
    header says, `should_be` as the LFS pointer says."""

    name: str
    kind: str
    size: int = 0
    header_bytes: int | None = None
    expected_size: int | None = None
    tensors: int = 0
    unknown_dtypes: tuple[str, ...] = ()
    error: str | None = None
    tensor: str | None = None
    want: int | None = None
    got: int | None = None
    should_be: int | None = None
    version: int | None = None
    target: str | None = None


class Names(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many there are, and the first few."""

    count: int = 0
    first: tuple[str, ...] = ()


class ShardIndex(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`problem`: not-json, no-weight-map, too-large, or the kind of a file that is no index; None: it was read. `files` and
    `tensors` are counts of what it names. `missing`: files that are not there; `escapes`: file names that lead out of the
    folder; `not_indexed_files`: numbered or plain weight files that it does not name. Against the headers that could be
    read: `absent` tensors (in no header; an output head, which tied models leave out, apart in `absent_heads`),
    `misplaced` ones (in another file), `twice` (in several files of the index), `not_indexed` (in a header only).
    `total_size` is what it claims, `tensor_bytes` the sum of the headers' tensors."""

    name: str
    problem: str | None = None
    files: int = 0
    tensors: int = 0
    missing: Names = Names()
    escapes: Names = Names()
    not_indexed_files: Names = Names()
    absent: Names = Names()
    absent_heads: Names = Names()
    misplaced: Names = Names()
    twice: Names = Names()
    not_indexed: Names = Names()
    total_size: int | None = None
    tensor_bytes: int | None = None


class Numbering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files `<stem>-00001-of-000NN.<ext>` of one total: how many there are, which are not."""

    stem: str
    ext: str
    total: int
    present: int
    missing: Names = Names()


class Hub(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A repository in the hub cache: its id, the revision asked for, the commit it means. `problem`: no-ref (no refs/<revision>
    and not exactly one snapshot), ref-dangling (the commit has no snapshot folder), ref-malformed."""

    repo: str
    revision: str = "main"
    commit: str | None = None
    snapshots: int = 0
    problem: str | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What config.json says of the model, as far as checks ask; None: it does not say."""

    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    tied: bool | None = None
    quantization: str | None = None


class ModelFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The model folder: its files, its index, what their headers say.

    `given` and `source` (option, command) are what was asked; `path` is what it led to (None: nothing is there); `layout`:
    missing, folder, file, or what it is instead (fifo, denied, unreadable ...). `weights` are the weight files that an engine loads,
    `weights_unseen` how many more there are beyond the limit or the time. `small` are the configuration files (kind ok,
    not-json, or a kind as of weight files). `pipeline`: it is one of diffusers (model_index.json), whose parts with their
    weights and configurations lie in folders of their own, which are not looked into. `config_elsewhere` and `tokenizer_elsewhere`: a launch option puts them somewhere
    else. `leftovers` are half downloads. `weights_bytes` is the size of the weight files looked into.
    """

    of_command: ClassVar[bool] = True  # it was looked at for the command that was asked

    given: str
    source: str
    path: str | None = None
    layout: str = "missing"
    hub: Hub | None = None
    files: int = 0
    weights: tuple[WeightFile, ...] = ()
    weights_unseen: int = 0
    weights_bytes: int = 0
    index: ShardIndex | None = None
    numbering: tuple[Numbering, ...] = ()
    small: tuple[WeightFile, ...] = ()
    config: Config | None = None
    pipeline: bool = False
    config_elsewhere: bool = False
    tokenizer: bool = True
    tokenizer_elsewhere: bool = False
    leftovers: Names = Names()


@probe
def model_folder(host: Host) -> ModelFolder:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _folder_look

    return host.once(_folder_look.look_at).folder
