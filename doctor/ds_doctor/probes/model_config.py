"""The model that was asked for as its configuration and tensor headers describe it: the files' own words; never judges.

What the engine would work out from them (layers, memory) is not done here. How it looks is in the modules that the probe
imports when a model was given: most runs need none of them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ..api import Absent, Host, probe


class TensorKind(msgspec.Struct, frozen=True, kw_only=True):
    """Tensors that are alike: `name` with its numbers as `*` (model.layers.*.mlp.experts.*.down_proj.weight), the number of a
    layer beyond those that config.json counts as `+`; dtype as safetensors writes it, shape; how many there are and the
    bytes that they take together."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    count: int
    bytes: int


class Tensors(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the headers of the weight files say. `kinds`, the heaviest first; beyond the limit the rest is only counted in
    `rest_count` and `rest_bytes`. `files_unread` weight files have no header that could be read, or are not there though
    the index names them: then the sums are a part."""

    kinds: tuple[TensorKind, ...]
    count: int
    bytes: int
    files: int
    files_unread: int = 0
    rest_count: int = 0
    rest_bytes: int = 0


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model: its config.json, the other configurations that engines read, its tensors.

    `given` and `source` (option, command), `path` as in ModelFolder; `repo`: its id on the Hub, where it lies in the hub
    cache. `config` is config.json whole; None: there is none that can be read, and `problem` says why: path-missing,
    missing, not-json, too-large, elsewhere (--hf-config-path), or a kind of file as in ModelFolder. `generation`
    (generation_config.json), `tokenizer` (tokenizer_config.json without its vocabulary and templates), `quantisation`
    (hf_quant_config.json), `mistral` (params.json) likewise; empty where there is none. `has_chat_template`: in the
    tokenizer's configuration or as a file. `tensors`: None without a readable safetensors header. `total_size` is the
    index's word, `weights_bytes` the size of the weight files, `weights_kind` their kind (safetensors, gguf, pytorch;
    empty without files).
    """

    of_command: ClassVar[bool] = True

    given: str
    source: str
    path: str | None = None
    repo: str | None = None
    config: dict[str, Any] | None = None
    problem: str | None = None
    generation: dict[str, Any] = {}
    tokenizer: dict[str, Any] = {}
    quantisation: dict[str, Any] = {}
    mistral: dict[str, Any] = {}
    has_chat_template: bool = False
    tensors: Tensors | None = None
    total_size: int | None = None
    weights_bytes: int = 0
    weights_kind: str = ""


@probe
def model_config(host: Host) -> ModelConfig:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _config_look, _folder_look

    return _config_look.parse(host.once(_folder_look.look_at))
