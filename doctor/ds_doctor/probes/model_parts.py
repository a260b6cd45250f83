"""The model's small files beyond its configuration: vocabulary, chat template, code, processor - whole or not; never judges.

How it looks is in the module that the probe imports when a model was given.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .model_folder import Names


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that is not what its name says. `what`: vocabulary, template, settings. `problem`: not-json, not-object, cut (it
    ends too early), unclosed (a template whose `detail` is never ended), lfs-pointer, html, xml, zeros, empty, or why it
    cannot be read (denied, unreadable, too-large, dangling, or a file type that is no regular file)."""

    name: str
    what: str
    problem: str
    detail: str | None = None


class ModelParts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The small files that the model needs: of `files` that were looked at, `parts` are not what they should be.

    `vocabulary`: a file of it, or code of a tokenizer, is there; `tokenizer_class` as tokenizer_config.json names it (None:
    there is no such file), `own_tokenizer`: its code is the model's own, or a vocabulary may be there under a name of its own;
    `merges_missing`: vocab.json is the only vocabulary and merges.txt is not there. `template`: a
    chat template is there, as a file or in the configuration. `processor`: preprocessor_config.json or
    processor_config.json is there, in any state. `code_missing`: python files that the configurations name for tokenizer or
    processor and that are not there, `config_code_missing` those for the configuration itself, `model_code_missing` those for
    the model; also by import from such a file. `name`: what the model is called, as far as its folder or repository tells."""

    of_command: ClassVar[bool] = True

    name: str = ""
    files: int = 0
    parts: tuple[Part, ...] = ()
    vocabulary: bool = False
    tokenizer_class: str | None = None
    own_tokenizer: bool = False
    merges_missing: bool = False
    template: bool = False
    mistral: bool = False
    processor: bool = False
    code_missing: Names = Names()
    config_code_missing: Names = Names()
    model_code_missing: Names = Names()


@probe
def model_parts(host: Host) -> ModelParts:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _parts_look

    return _parts_look.look_at(host)
