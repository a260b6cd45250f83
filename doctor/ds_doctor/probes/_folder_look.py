"""A look at a model folder or file: which files matter, what each of them is, what index and headers say; never judges."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Malformed, Trouble
from . import _model_place, _safetensors, _shard_index
from ._folder_names import LEFTOVER, is_pytorch, is_stray, is_tokenizer, loaded, numbering
from ._model_place import Place, is_there, names_in
from ._shard_index import names_of
from ._weight_file import HEAD, PARSED, Seen, clean, look, pointer_size, sniff
from .launch import has, option
from .model_folder import Config, ModelFolder, Names, ShardIndex, WeightFile

FILES_LIMIT = 1000  # weight files looked into; the largest public checkpoints have about 200
SMALL_LIMIT = 8 << 20  # bytes of a configuration file
# Bytes of all headers that are parsed: 96,085 tensors in 48 files take about 10 MB; a folder of made-up headers would
# take a minute and gigabytes of memory.
HEADERS = 40 << 20
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


def _config(raw: dict[str, Any]) -> Config:
    inner = raw.get("text_config")
    nested = inner if isinstance(inner, dict) else {}
    tied = raw.get("tie_word_embeddings", nested.get("tie_word_embeddings"))
    quantization = raw.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, dict) else None
    names = raw.get("architectures")
    return Config(
        model_type=clean(raw["model_type"]) if isinstance(raw.get("model_type"), str) else None,
        architectures=tuple(clean(n) for n in names[:5] if isinstance(n, str)) if isinstance(names, list) else (),
        tied=tied if isinstance(tied, bool) else None,
        quantization=clean(method) if isinstance(method, str) else None,
    )


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
    place = _model_place.find(host)
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
        return only("too-large" if t.reason.id == "folder-too-large" else "unreadable")
    if kind == "directory":
        return _folder(host, place, place.path, names)
    if kind != "file":
        return only(kind)
    return _file(host, place, place.path, only)


def _file(host: Host, place: Place, path: str, only: Callable[..., Looked]) -> Looked:
    """A file alone; a configuration, or weights with the configuration beside them."""
    beside, _, name = path.rpartition("/")
    seen = look(host, path, name)
    objects: dict[str, dict[str, Any]] = {}
    if name.endswith(".json") or seen.file.kind == "safetensors":
        small = (name,) if name.endswith(".json") else tuple(_PARSED)
        for one in small:
            try:
                text = host.read(f"{beside}/{one}", limit=SMALL_LIMIT)
                objects["config.json" if len(small) == 1 else one] = as_object(text)
            except Trouble:
                continue
    found = only("file", files=1, weights=(seen.file,), weights_bytes=seen.file.size)
    return msgspec.structs.replace(found, objects=objects, kinds=seen.kinds, told=int(seen.file.kind == "safetensors"))


def _folder(host: Host, place: Place, path: str, names: list[str]) -> Looked:
    there = set(names)
    parsed, index = _index(host, path, there)
    if parsed is not None and not there & parsed.tensors_of.keys() and any(map(is_pytorch, names)):
        # A repository fetched without its safetensors files: the engines then load the PyTorch ones and no index.
        parsed = index = None
    if parsed is not None:
        deeper = (n for n in sorted(parsed.tensors_of) if "/" in n and not _shard_index.escapes(n))
        names = names + [n for n in itertools.islice(deeper, FILES_LIMIT) if is_there(host, f"{path}/{n}")]
    argv = place.launch.argv
    by_format = option(argv, ("--load-format",)) in (None, "auto", "mistral")
    prefers_mistral = by_format and place.launch.engine != "sglang"
    weights = loaded(names, None if parsed is None else parsed.tensors_of, prefers_mistral)
    seen: dict[str, Seen] = {}
    headers = HEADERS
    for name in weights[:FILES_LIMIT]:
        if host.time_left_s() < 0.5:  # a slow file system: say how far it went rather than nothing
            break
        seen[name] = look(host, f"{path}/{name}", name, min(PARSED, headers))
        headers -= seen[name].file.header_bytes or 0 if seen[name].names else 0
    if parsed is not None and index is not None:
        index = _beside_headers(parsed, index, names, seen)
    small, objects = _small_files(host, path, there)
    config = objects.get("config.json")
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
        index=index,
        numbering=numbering(weights),
        small=small,
        config=None if config is None else _config(config),
        pipeline="model_index.json" in there,
        config_elsewhere=option(argv, ("--hf-config-path",)) is not None,
        tokenizer=any(map(is_tokenizer, names)),
        tokenizer_elsewhere=has(argv, ("--tokenizer", "--tokenizer-path", "--skip-tokenizer-init")),
        leftovers=_leftovers(host, place, path, names),
    )
    kinds: Counter[_safetensors.Kind] = Counter()
    for one in seen.values():
        kinds.update(one.kinds)
    told = sum(s.file.kind == "safetensors" for s in seen.values())
    template = bool(there & {"chat_template.jinja", "chat_template.json"})
    return Looked(folder=folder, place=place, objects=objects, kinds=kinds, told=told, chat_template=template)


def _index(host: Host, path: str, there: set[str]) -> tuple[_shard_index.Parsed | None, ShardIndex | None]:
    found = sorted(n for n in there if n.endswith(".safetensors.index.json"))
    name = "model.safetensors.index.json" if "model.safetensors.index.json" in found else next(iter(found), None)
    if name is None:
        return None, None
    try:
        text = host.read(f"{path}/{name}", limit=_shard_index.LIMIT)
        kind = sniff(text[:HEAD])
        if kind in ("lfs-pointer", "html", "xml", "empty", "zeros"):
            return None, ShardIndex(name=clean(name), problem=kind)
        parsed = _shard_index.parse(text)
    except _shard_index.NotAnIndex as e:
        return None, ShardIndex(name=clean(name), problem=str(e))
    except Trouble as t:
        return None, ShardIndex(name=clean(name), problem=_kind_of(host, t, f"{path}/{name}"))
    return parsed, ShardIndex(
        name=clean(name),
        files=len(parsed.tensors_of),
        tensors=sum(map(len, parsed.tensors_of.values())),
        total_size=parsed.total_size,
    )


def _beside_headers(
    parsed: _shard_index.Parsed, index: ShardIndex, names: list[str], seen: dict[str, Seen]
) -> ShardIndex:
    there = set(names)
    outside = {n for n in parsed.tensors_of if _shard_index.escapes(n)}
    readable = {n: s for n, s in seen.items() if n in parsed.tensors_of and s.file.kind == "safetensors"}
    differ = _shard_index.compare(parsed, {n: s.names for n, s in readable.items()})
    every = len(readable) == len(parsed.tensors_of)
    extra = (n for n in names if n not in parsed.tensors_of and is_stray(n))
    return msgspec.structs.replace(
        index,
        missing=names_of(n for n in parsed.tensors_of if n not in there and n not in outside),
        escapes=names_of(outside),
        not_indexed_files=names_of(extra),
        absent=names_of(differ.absent),
        absent_heads=names_of(differ.absent_heads),
        misplaced=names_of(differ.misplaced),
        twice=names_of(differ.twice),
        not_indexed=names_of(differ.not_indexed),
        tensor_bytes=sum(_data_bytes(s.file) for s in readable.values()) if every else None,
    )


def _data_bytes(file: WeightFile) -> int:
    return (file.expected_size or 0) - (file.header_bytes or 0) - 8


def _small_files(host: Host, path: str, there: set[str]) -> tuple[tuple[WeightFile, ...], dict[str, dict[str, Any]]]:
    objects: dict[str, dict[str, Any]] = {}
    files = []
    for name in _SMALL:
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
            if name in _PARSED:
                objects[name] = as_object(head if size <= len(head) else host.read(where, limit=SMALL_LIMIT))
            elif name in _ENDS and not _is_closed(head if size <= len(head) else _tail(host, where, size)):
                raise Malformed("not-json")
            files.append(WeightFile(name=name, kind="ok", size=size))
        except Trouble as t:
            files.append(WeightFile(name=name, kind=_kind_of(host, t, where)))
    return tuple(files), objects


def _tail(host: Host, path: str, size: int) -> bytes:
    return host.read_at(path, max(0, size - HEAD), HEAD)


def _is_closed(text: bytes) -> bool:
    """Whether the end of a JSON text can be that of an object."""
    return text.rstrip(b" \t\r\n").endswith(b"}")


def _kind_of(host: Host, trouble: Trouble, path: str) -> str:
    """The word for why a file that has a name in the folder could not be read."""
    if isinstance(trouble, Absent):
        return "dangling"
    if isinstance(trouble, Denied):
        return "denied"
    known = {"not-json": "not-json", "file-too-large": "too-large", "not-a-file": str(trouble.reason.data.get("kind"))}
    return known.get(trouble.reason.id, "unreadable")


def _leftovers(host: Host, place: Place, path: str, names: list[str]) -> Names:
    halves = [n for n in names if LEFTOVER.match(n)]
    cache = ".cache/huggingface/download"  # where `hf download --local-dir` keeps its half files
    if ".cache" in names:
        halves += [f"{cache}/{n}" for n in names_in(host, f"{path}/{cache}") if n.endswith(".incomplete")]
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
