"""The model folder that was asked for: its files, shards, index and configuration, structure only; never judges, never hashes.

Reads names, sizes, the index and each shard's header, never a tensor: 48 shards of 475 GiB cost what their headers cost.
How it looks is in the modules that the probe imports when a model was given: most runs need none of them.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe


class WeightFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`kind`: safetensors, gguf, pytorch, pytorch-legacy (a bare pickle, as torch wrote before 1.6, whose end is not told); malformed (in its
    `format` safetensors, gguf or pytorch, with the `error` that its library gives, or a word like it, with its tensor and
    numbers; InvalidHeaderLength and NoCentralDirectory: the file ends before its description does); what it is instead (empty,
    lfs-pointer, html, xml, json, text, zeros, an archive, other), unrecognised (under a name that other programs use as well),
    header-not-parsed (too long for this); dangling (a link to nothing), missing, denied, unreadable, or a file type that is no
    file (fifo, directory, character ...). Sizes in bytes: `size` as it is, `expected_size` as the header or the directory says,
    `should_be` as the LFS pointer says. `tensors` are counted, of a pytorch file its storages. Of a GGUF file that was split:
    it is `part` (from 0) of `parts`, which have `tensors_of_all` tensors together."""

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
    format: str | None = None
    part: int | None = None
    parts: int | None = None
    tensors_of_all: int | None = None


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
    `total_size` is what it claims, `tensor_bytes` the sum of the headers' tensors. `of_torch`: it is of PyTorch's own files,
    whose tensors have no names outside a pickle: `files`, `missing` and `escapes` are all that is told."""

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
    of_torch: bool = False


class Numbering(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files `<stem>-00001-of-000NN.<ext>` of one total: how many there are, which are not; `beyond`: a number that is
    none of the total. `decided`: an index names some
    of them, and says which are due. Else `copies` are those all of whose tensors are in another one, `twice` these tensors, or
    where no file is such a copy those that are in several files."""

    stem: str
    ext: str
    total: int
    present: int
    missing: Names = Names()
    beyond: int | None = None
    decided: bool = False
    copies: Names = Names()
    twice: Names = Names()


class Hub(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A repository in the hub cache: its id, the revision asked for, the commit it means. `problem`: no-ref (no refs/<revision>
    and not exactly one snapshot), ref-dangling (the commit has no snapshot folder), ref-malformed."""

    repo: str
    revision: str = "main"
    commit: str | None = None
    snapshots: int = 0
    problem: str | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What config.json says of the model, as far as checks ask; None: it does not say. `vocabulary`: it should have one
    of its own, as a draft model (which uses its target's) and an encoder of pictures should not."""

    model_type: str | None = None
    architectures: tuple[str, ...] = ()
    tied: bool | None = None
    quantization: str | None = None
    vocabulary: bool = True


class ModelFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The model folder: its files, its index, what their headers say.

    `given` and `source` (option, command) are what was asked; `path` is what it led to (None: nothing is there); `layout`:
    missing, folder, file, or what it is instead (fifo, denied, unreadable ...). `weights` are the weight files that an engine loads,
    `weights_unseen` how many more there are beyond the limit or the time. `more_indexes` are of other sets of weights that it
    loads, or that make up the model with them (the parts of a pipeline, Mistral's own files). `spare` are weight files that no engine
    loads beside those: another format, a copy in a folder of its own, another precision, `spare_unseen` how many more of them there are; `spare_missing` are files that an
    index of theirs names and that are not there, while others of it are. `doubles` are files that an engine loads
    for want of an index, and all of whose tensors are in another file or numbered set as well (`doubles_of`). `small` are the configuration files (kind ok,
    not-json, or a kind as of weight files). `pipeline`: it is one of diffusers (model_index.json), whose parts with
    their weights lie in folders of their own; so may GGUF files. `adapter`: it is no model but a LoRA adapter, whose file is the weights. `config_elsewhere` and `tokenizer_elsewhere`: a launch option puts them somewhere
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
    more_indexes: tuple[ShardIndex, ...] = ()
    spare: tuple[WeightFile, ...] = ()
    spare_unseen: int = 0
    spare_missing: Names = Names()
    doubles: Names = Names()
    doubles_of: str | None = None
    numbering: tuple[Numbering, ...] = ()
    small: tuple[WeightFile, ...] = ()
    config: Config | None = None
    pipeline: bool = False
    adapter: bool = False
    config_elsewhere: bool = False
    tokenizer: bool = True
    tokenizer_elsewhere: bool = False
    leftovers: Names = Names()


@probe
def model_folder(host: Host) -> ModelFolder:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _folder_look

    return host.once(_folder_look.look_at).folder
