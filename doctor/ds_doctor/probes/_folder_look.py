"""A look at a model folder or file: which files matter, what each of them is, what index and headers say; never judges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Malformed, Trouble
from . import _folder_parts, _hub_records, _index_look, _model_place, _safetensors, _shard_index
from ._folder_names import ADAPTERS, LEFTOVER, is_tokenizer
from ._index_look import kind_of
from ._model_place import Place, names_in
from ._said import SAID, clean
from ._shard_index import names_of
from ._sniff import HEAD, pointer_size, sniff
from ._weight_file import PARSED, Seen, format_of, leads_nowhere, look, lost
from .launch import has, option
from .model_folder import Config, ModelFolder, Names, WeightFile

FILES_LIMIT = 1000  # weight files looked into; the largest public checkpoints have about 200
SPARE_LIMIT = 200  # weight files that no engine loads
SMALL_LIMIT = 8 << 20  # bytes of a configuration file
# Bytes of all headers that are parsed: 96,085 tensors in 48 files take about 10 MB; a folder of made-up headers would
# take a minute and gigabytes of memory.
HEADERS = 40 << 20
# Speculative decoding's small models (vllm/config/speculative.py: EAGLE, Medusa, MLP speculators).
_DRAFT = re.compile(r"eagle|medusa|mlp_?speculator", re.IGNORECASE)
_SMALL = (
    "config.json",
    "params.json",
    "hf_quant_config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tekken.json",
    "vocab.json",
    "tokenizer.model",
)
_PARSED = (
    "config.json",
    "params.json",
    "hf_quant_config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "processor_config.json",
)
# What a file under a name that promises no weights may be without harm.
_NO_WEIGHTS = (
    "html", "xml", "json", "text", "zip", "gzip", "zstd", "xz", "bzip2", "7z", "rar", "png", "jpeg", "gif", "pdf", "hdf5", "elf",
    "ggml", "tar", "unrecognised", "lfs-pointer", "empty", "zeros",
)  # fmt: skip
# Vocabularies of up to 30 MB, whose end alone is looked at: a JSON object that was cut off does not end in a brace.
_ENDS = ("tokenizer.json", "tekken.json", "vocab.json")


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """The folder, and what of it the fact does not keep: the configuration files as objects, the kinds of the tensors of
    the weight files, of which `told` could be read; whether a chat template lies there as a file."""

    folder: ModelFolder
    place: Place
    objects: dict[str, dict[str, Any]] = {}
    kinds: Counter[_safetensors.Kind] = Counter()
    told: int = 0
    chat_template: bool = False


def as_object(text: bytes) -> dict[str, Any]:
    """A configuration file. Malformed when it is not a JSON object."""
    raw = _as_engines_read(text)
    if not isinstance(raw, dict):
        raise Malformed("not-json")
    return raw


def parse_config(text: bytes) -> Config:
    """config.json. Malformed when it is not a JSON object."""
    return _config(as_object(text))


def _config(raw: dict[str, Any], name: str = "", pictures: bool = False) -> Config:
    inner = raw.get("text_config")
    nested = inner if isinstance(inner, dict) else {}
    tied = raw.get("tie_word_embeddings", nested.get("tie_word_embeddings"))
    quantization = raw.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    names = raw.get("architectures")
    return Config(
        model_type=clean(raw["model_type"], SAID) if isinstance(raw.get("model_type"), str) else None,
        architectures=tuple(clean(n, SAID) for n in names[:5] if isinstance(n, str)) if isinstance(names, list) else (),
        tied=tied if isinstance(tied, bool) else None,
        quantization=clean(method, SAID) if isinstance(method, str) else None,
        vocabulary=not _is_draft(raw, name) and not (pictures and _is_wordless(raw)),
    )


def _words_of(raw: dict[str, Any]) -> str:
    names = raw.get("architectures")
    return " ".join(str(n) for n in (raw.get("model_type"), *(names if isinstance(names, list) else ())))


def _is_draft(raw: dict[str, Any], name: str) -> bool:
    """Whether it guesses tokens for another model, whose tokenizer is then used. The first ones say so in their name only."""
    says = not raw.keys().isdisjoint(("draft_vocab_size", "medusa_num_heads"))
    return says or bool(_DRAFT.search(_words_of(raw)) or _DRAFT.search(name))


def _is_wordless(raw: dict[str, Any]) -> bool:
    """Whether a model with a processor has no text: an encoder of pictures or sounds."""
    text = ("vocab_size", "text_config", "llm_config", "language_config", "decoder")
    ends = ("ForCausalLM", "ForConditionalGeneration")
    says = _words_of(raw)
    return " " in says and raw.keys().isdisjoint(text) and not any(end in says for end in ends)


def _as_engines_read(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        pass
    # Python's own JSON also takes Infinity and NaN, which stand in configurations of published models.
    import json

    try:
        return json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Malformed("not-json") from None


def look_at(host: Host) -> Looked:
    """The model that was asked for, looked into. Absent when none was."""
    place = host.once(_model_place.find)
    given = clean(place.given)
    if place.path is None:
        return Looked(folder=ModelFolder(given=given, source=place.source), place=place)
    path = clean(place.path)

    def only(layout: str, **more: Any) -> Looked:
        return Looked(
            folder=ModelFolder(given=given, source=place.source, path=path, layout=layout, **more), place=place
        )

    if place.hub is not None and place.hub.problem is not None:
        return only("folder", hub=place.hub, leftovers=_half_blobs(host, place))
    try:
        kind = host.stat(place.path).kind
        names = host.names(place.path) if kind == "directory" else []
    except Absent:
        return only("dangling")
    except Denied:
        return only("denied")
    except Trouble as t:
        if leads_nowhere(host, place.path):
            return only("dangling")
        return only("too-large" if t.reason.id == "folder-too-large" else "unreadable")
    if kind == "directory" and not names and format_of(place.path) is not None:
        return only(kind)  # a file was meant
    if kind == "directory":
        return _folder(host, place, place.path, names)
    if kind != "file":
        return only(kind)
    return _file(host, place, place.path, only)


def _file(host: Host, place: Place, path: str, only: Callable[..., Looked]) -> Looked:
    """A file alone; a configuration, or weights with the configuration beside them."""
    beside, _, name = path.rpartition("/")
    objects: dict[str, dict[str, Any]] = {}
    if name.endswith(".json"):
        if _index_look.is_index(name):
            return only("file", files=1, index=_index_look.read(host, beside, "", name).index)
        small, objects = _small_files(host, beside, {name}, (name,), whole=() if name in _ENDS else (name,))
        found = only("file", files=1, small=small)
        # Whatever its name is, it was given as the configuration.
        return msgspec.structs.replace(found, objects={"config.json": objects[name]} if objects else {})
    seen = look(host, path, name)
    kind = seen.file.kind
    if format_of(name) is None and kind in _NO_WEIGHTS:
        small, _ = _small_files(host, beside, {name}, (name,))
        return only("file", files=1, small=small)
    if kind == "safetensors":
        _, objects = _small_files(host, beside, set(_PARSED), _PARSED)
    index = None
    if seen.names:  # the index beside a shard tells which tensors are due in it
        indexes = _index_look.read_all(host, beside, "", names_in(host, beside))
        mine = next((r for r in indexes if name in r.files), None)
        if mine is not None:
            index = _index_look.beside_headers(mine, list(mine.files), {name: seen}, ())
    found = only("file", files=1, weights=(seen.file,), weights_bytes=seen.file.size, index=index)
    return msgspec.structs.replace(found, objects=objects, kinds=seen.kinds, told=int(kind == "safetensors"))


def _folder(host: Host, place: Place, path: str, names: list[str]) -> Looked:
    there = set(names)
    argv = place.launch.argv
    by_format = option(argv, ("--load-format",)) in (None, "auto", "mistral")
    prefers_mistral = by_format and place.launch.engine != "sglang"
    top = _folder_parts.look_into(host, path, "", names, prefers_mistral)
    parts = _folder_parts.below(host, path, names, prefers_mistral)
    pipeline = "model_index.json" in there
    weights, spare, more = _folder_parts.together(top, parts, pipeline)
    # A command that serves such a folder as its model fails; one who only asks about the folder asks about the adapter.
    adapter = not weights and place.source == "option" and "adapter_config.json" in there
    if adapter:
        weights = [n for n in ADAPTERS if n in there][:1]
    seen = _looked(host, path, weights[:FILES_LIMIT])
    beside = _looked(host, path, spare[:SPARE_LIMIT], sum(s.file.header_bytes or 0 for s in seen.values()))
    home = {id(r): p for p in (top, *parts) for r in (p.main, *p.more)}
    decided = {f for r in (top.main, *more) if r is not None for f in r.files}
    doubles = [] if pipeline else _folder_parts.doubles(weights, decided, seen)
    small, objects = _small_files(host, path, there)
    config = objects.get("config.json")
    named = place.hub.repo if place.hub is not None else path.rstrip("/").rpartition("/")[2]
    folder = ModelFolder(
        given=clean(place.given),
        source=place.source,
        path=clean(path),
        layout="folder",
        hub=place.hub,
        files=len(there),
        weights=tuple(s.file for s in seen.values()),
        weights_unseen=len(weights) - len(seen),
        weights_bytes=sum(s.file.size for s in seen.values()),
        index=None if top.main is None else _folder_parts.described(top.main, top, seen),
        more_indexes=tuple(_folder_parts.described(r, home[id(r)], seen) for r in more),
        spare=(*(s.file for s in beside.values()), *(w for p in (top, *parts) for w in p.wrong)),
        spare_unseen=len(spare) - len(beside),
        spare_missing=names_of(n for p in (top, *parts) for n in p.spare_missing),
        doubles=names_of(name for name, _ in doubles),
        doubles_of=clean(doubles[0][1]) if doubles else None,
        numbering=_folder_parts.numbered_sets(weights, decided, seen),
        small=small,
        config=None if config is None else _config(config, named, "preprocessor_config.json" in there),
        pipeline=pipeline,
        adapter=adapter,
        config_elsewhere=option(argv, ("--hf-config-path",)) is not None,
        tokenizer=any(map(is_tokenizer, names)),
        tokenizer_elsewhere=has(argv, ("--tokenizer", "--tokenizer-path", "--skip-tokenizer-init")),
        leftovers=_leftovers(host, place, path, names),
    )
    kinds: Counter[_safetensors.Kind] = Counter()
    for one in () if pipeline else seen.values():
        kinds.update(one.kinds)
    told = 0 if pipeline else sum(s.file.kind == "safetensors" for s in seen.values())
    template = bool(there & {"chat_template.jinja", "chat_template.json"})
    return Looked(folder=folder, place=place, objects=objects, kinds=kinds, told=told, chat_template=template)


def _looked(host: Host, path: str, names: list[str], parsed: int = 0) -> dict[str, Seen]:
    """The files of these names; headers beyond a bound, of which `parsed` bytes are used up, are not parsed."""
    seen: dict[str, Seen] = {}
    headers = HEADERS - parsed
    for name in names:
        if host.time_left_s() < 0.5:  # a slow file system: say how far it went rather than nothing
            break
        seen[name] = look(host, f"{path}/{name}", name, max(0, min(PARSED, headers)))
        headers -= seen[name].file.header_bytes or 0 if seen[name].names else 0
    return seen


def _small_files(
    host: Host, path: str, there: set[str], names: tuple[str, ...] = _SMALL, whole: tuple[str, ...] = _PARSED
) -> tuple[tuple[WeightFile, ...], dict[str, dict[str, Any]]]:
    """The configuration files of these names; those of `whole` are parsed, and given as objects as well."""
    objects: dict[str, dict[str, Any]] = {}
    files = []
    for name in names:
        if name not in there:
            continue
        where = f"{path}/{name}"
        try:
            size = host.stat(where).size
            head = host.read_at(where, 0, HEAD)
            kind = sniff(head)
            if kind in ("lfs-pointer", "html", "xml", "empty", "zeros"):
                should_be = pointer_size(head) if kind == "lfs-pointer" else None
                files.append(WeightFile(name=name, kind=kind, size=size, should_be=should_be))
                continue
            if name in whole:
                objects[name] = as_object(head if size <= len(head) else host.read(where, limit=SMALL_LIMIT))
            elif name in _ENDS and not _is_closed(head if size <= len(head) else _tail(host, where, size)):
                raise Malformed("not-json")
            files.append(WeightFile(name=name, kind="ok", size=size))
        except Trouble as t:
            files.append(
                lost(host, where, name) if leads_nowhere(host, where) else WeightFile(name=name, kind=kind_of(t))
            )
    return tuple(files), objects


def _tail(host: Host, path: str, size: int) -> bytes:
    return host.read_at(path, max(0, size - HEAD), HEAD)


def _is_closed(text: bytes) -> bool:
    """Whether the end of a JSON text can be that of an object, or of the list that some libraries write as a vocabulary."""
    return text.rstrip(b" \t\r\n").endswith((b"}", b"]"))


def _leftovers(host: Host, place: Place, path: str, names: list[str]) -> Names:
    halves = [n for n in names if LEFTOVER.match(n)]
    for home in _hub_records.HOMES:  # where `hf download --local-dir` keeps its half files
        if home.partition("/")[0] in names:
            halves += _hub_records.halves(host, path, home)
    if "._____temp" in names:  # ModelScope's
        halves += [f"._____temp/{n}" for n in names_in(host, f"{path}/._____temp")]
    own = names_of(halves)
    blobs = _half_blobs(host, place)
    return Names(own.count + blobs.count, (own.first + blobs.first)[: _shard_index.FIRST])


def _half_blobs(host: Host, place: Place) -> Names:
    if place.repo_folder is None:
        return Names()
    blobs = names_in(host, place.repo_folder + "/blobs")
    return names_of(f"blobs/{n}" for n in blobs if n.endswith(".incomplete"))
