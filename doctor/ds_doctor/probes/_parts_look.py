"""A look at a model's small files: vocabularies to their end, templates, settings, and the code that configurations name; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..api import Absent, Denied, Host, Malformed, Trouble
from . import _folder_look
from ._folder_look import Looked
from ._folder_names import is_tokenizer
from ._index_look import kind_of
from ._model_place import names_in
from ._said import clean
from ._shard_index import names_of
from ._sniff import HEAD, sniff
from ._vocabulary import is_tiktoken, merges_problem, sentencepiece_problem, tiktoken_problem, unclosed
from ._weight_file import leads_nowhere
from .model_parts import ModelParts, Part

LIMIT = 36 << 20  # bytes of a vocabulary that is read whole; the largest published ones have about 34 MB
AGAIN = 8 << 20  # bytes of JSON that Python's own, slower and larger, reader may be asked about, too
SMALL = 8 << 20  # bytes of a file of code
TEMPLATE = 1 << 20  # bytes of a template; the longest published ones have about 30,000
CODE = 40  # files of code that are followed
_JSON = ("tokenizer.json", "vocab.json", "added_tokens.json", "tekken.json")
_LISTS = ("vocab.json", "added_tokens.json")  # which some libraries write as a list
_SETTINGS = ("chat_template.json", "video_preprocessor_config.json", "adapter_config.json")
_PIECES = re.compile(
    r"(tokenizer|spiece|spm|sentencepiece\.bpe|tiktoken)\.model(\.v\d+(m\d+)?)?\Z|.*\.tiktoken\Z", re.DOTALL
)
# A vocabulary under a name of the model's own (vocab-src.json, rwkv_vocab_v20230424.txt, prophetnet.tokenizer), or its code.
_MAY_BE = re.compile(r"vocab|bpe|merges|spm|piece|tiktoken|\.tokenizer\Z|tokeni[sz].*\.py\Z|byte_maps", re.IGNORECASE)
_BAD = ("lfs-pointer", "html", "xml", "zeros", "empty")
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
# As transformers/dynamic_module_utils.py looks for them: whatever the code around it says.
_IMPORT = re.compile(r"^\s*(?:import\s+\.(\w+)\s*$|from\s+\.(\w+)\s+import)", re.MULTILINE)
# What engines load by the configuration's word even where they have a model class of their own.
_OF_PARTS = ("AutoTokenizer", "AutoProcessor", "AutoImageProcessor", "AutoFeatureExtractor", "AutoVideoProcessor")


def look_at(host: Host) -> ModelParts:
    """The small files of the model that was asked for."""
    looked = host.once(_folder_look.look_at)
    folder, path = looked.folder, looked.place.path
    name = clean(_name(looked))
    if path is None or folder.layout != "folder" or (folder.hub is not None and folder.hub.problem is not None):
        return ModelParts(name=name)
    names = names_in(host, path)
    there = set(names)
    settings = looked.objects.get("tokenizer_config.json")
    files = 0
    parts: list[Part] = []
    told = {f.name for f in folder.small if f.kind != "ok"}  # of which another fact says it
    for file, what, look in _due(host, path, names):
        files += 1
        if file not in told:
            problem, detail = _looked(host, f"{path}/{file}", look)
            if problem is not None:
                parts.append(Part(name=clean(file), what=what, problem=problem, detail=detail))
    of_parts, of_config, of_model = _code(host, path, there, looked.objects)
    vocabularies = [n for n in names if is_tokenizer(n)]
    said = (settings or {}).get("tokenizer_class")
    template = looked.chat_template or bool((settings or {}).get("chat_template"))
    return ModelParts(
        name=name,
        files=files,
        parts=tuple(parts[:50]),
        vocabulary=bool(vocabularies),
        tokenizer_class=None if settings is None else clean(said) if isinstance(said, str) else "",
        own_tokenizer=bool((settings or {}).get("auto_map")) or any(map(_MAY_BE.search, names)),
        merges_missing=vocabularies == ["vocab.json"] and "merges.txt" not in there,
        template=template or "chat_templates" in there,
        mistral=bool(there & {"tekken.json", "params.json"}),
        processor=bool(there & {"preprocessor_config.json", "processor_config.json"}),
        code_missing=names_of(of_parts),
        config_code_missing=names_of(of_config - of_parts),
        model_code_missing=names_of(of_model - of_parts - of_config),
    )


def _name(looked: Looked) -> str:
    folder = looked.folder
    if folder.hub is not None:
        return folder.hub.repo
    return (folder.path or folder.given).rstrip("/").rpartition("/")[2]


def _due(host: Host, path: str, names: list[str]) -> Iterator[tuple[str, str, str]]:
    """(name, what it is, how it is looked at) of each small file that an engine reads."""
    for name in names:
        if name in _JSON:
            yield name, "vocabulary", "json"
        elif _PIECES.match(name):
            yield name, "vocabulary", "pieces"
        elif name == "merges.txt":
            yield name, "vocabulary", "merges"
        elif name in _SETTINGS:
            yield name, "template" if name == "chat_template.json" else "settings", "json"
        elif name == "chat_template.jinja":
            yield name, "template", "jinja"
    if "chat_templates" in names:
        for name in names_in(host, f"{path}/chat_templates")[:20]:
            if name.endswith(".jinja"):
                yield f"chat_templates/{name}", "template", "jinja"


def _looked(host: Host, path: str, look: str) -> tuple[str | None, str | None]:
    """(problem, detail) of one file."""
    try:
        data = _whole(host, path, TEMPLATE if look == "jinja" else LIMIT)
    except Absent:
        return "dangling", None
    except Denied:
        return "denied", None
    except Trouble as t:
        return "dangling" if leads_nowhere(host, path) else kind_of(t), None
    head = bytes(data[:HEAD])
    kind = sniff(head)
    if kind in _BAD and not (look == "jinja" and kind in ("html", "xml") and b"{%" in head):
        return kind, None
    if look == "jinja":
        open_ = unclosed(data.decode("utf-8", "replace"))
        return (None, None) if open_ is None else ("unclosed", open_)
    if look == "json":
        return _json_problem(data, path.rpartition("/")[2]), None
    if look == "merges":
        return merges_problem(data), None
    if is_tiktoken(head):
        return tiktoken_problem(data), None
    return (sentencepiece_problem(data) if head.startswith(b"\n") else None), None


def _whole(host: Host, path: str, limit: int) -> bytearray:
    """The file, in memory once: a vocabulary of 34 MB must not take twice that."""
    size = host.stat(path).size
    if size > limit:
        raise Malformed("file-too-large", path=path, limit_kib=limit >> 10)
    data = bytearray()
    while part := host.read_at(path, len(data), 1 << 20):
        data += part
        if len(data) > limit:
            raise Malformed("file-too-large", path=path, limit_kib=limit >> 10)
    return data


def _json_problem(data: bytearray, name: str) -> str | None:
    """Whether it is JSON, and an object where it must be one: without building the values, of which a vocabulary has 300,000."""
    try:
        _RAW_OBJECT.decode(data)
        return None
    except msgspec.ValidationError:
        return None if name in _LISTS else "not-object"
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        if len(data) > AGAIN:
            return "not-json"
    import json

    try:  # also Infinity and NaN, as Python's own JSON reads them
        raw = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return "not-json"
    return None if isinstance(raw, dict) or name in _LISTS else "not-object"


# -- code ------------------------------------------------------------------------------------------------------------


def _code(host: Host, path: str, there: set[str], objects: dict[str, dict[str, Any]]) -> list[set[str]]:
    """The files of code that are named and not there: for tokenizer and processor, for the configuration, for anything else."""
    named: list[set[str]] = [set(), set(), set()]
    for raw in objects.values():
        for key, module in _modules(raw.get("auto_map")):
            named[0 if key in _OF_PARTS else 1 if key == "AutoConfig" else 2].add(module + ".py")
    imports: dict[str, set[str]] = {}
    return [_lost(host, path, there, files, imports) for files in named]


def _modules(auto_map: Any) -> Iterator[tuple[str, str]]:
    """(class, module) of what an auto_map names in this folder; `repository--module.Class` lies elsewhere."""
    for key, value in auto_map.items() if isinstance(auto_map, dict) else ():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, str) and "--" not in one and re.fullmatch(r"\w+\.\w+", one):
                yield str(key), one.partition(".")[0]


def _lost(host: Host, path: str, there: set[str], named: set[str], imports: dict[str, set[str]]) -> set[str]:
    """Those of the files, and of what they import from beside them, that are not there."""
    todo, done = sorted(named), set(named)
    lost: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in there:
            lost.add(name)
            continue
        if name not in imports and len(imports) < CODE:
            imports[name] = _imported(host, f"{path}/{name}")
        new = imports.get(name, set()) - done
        done |= new
        todo += sorted(new)
    return lost


def _imported(host: Host, path: str) -> set[str]:
    try:
        text = host.text(path, limit=SMALL)
    except Trouble:
        return set()
    return {f"{a or b}.py" for a, b in _IMPORT.findall(text)}
