"""Reads the model registries of vLLM, SGLang and transformers out of their source text; never imports them, never judges.

Tried against vllm 0.6.6, 0.11.0, 0.33.0, sglang 0.5.5, 0.5.23 and the transformers beside them. Text is matched, not parsed: the
registries are plain dictionaries, and 70 KB of them cost 1 ms this way and 10 ms with `ast`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..api import Absent, Host, Trouble
from . import launch
from ._interpreter import interpreter
from .engine_models import EngineModels
from .python_env import parse_dist_name

SOURCE_LIMIT = 4 << 20  # bytes of one source file
FILES = 600  # of one folder of models; sglang 0.5.23 has 260
TAIL = 3000  # bytes: `EntryClass` stands at the end of a model's file
FEW = 40  # a registry with fewer entries was not read whole
DISTRIBUTIONS = 2000
# What a distribution registers models by: vllm/plugins/__init__.py and sglang/srt/plugins of the versions above.
PLUGIN_GROUPS = re.compile(r"^\[(vllm\.general_plugins|sglang\.srt\.plugins|sglang\.plugins)\]", re.M)

_TABLE = re.compile(r"^_[A-Z_]*MODELS\b[^=\n]*= ?\{\n(.*?)^\}", re.M | re.S)
_STRINGS = re.compile(r'^    "([\w.-]+)":\s*"([^"\n]+)"', re.M)
_ENTRY = re.compile(r"^EntryClass\s*(?::[^=\n]*)?=\s*(\[[^\]]*\]|\w+)", re.M)
_MODEL_TYPE = re.compile(r"""^ +model_type\s*(?::\s*[\w\[\]"' |.]+)?=\s*["']([\w.-]+)["']""", re.M)


def parse_vllm(text: str) -> tuple[frozenset[str], dict[str, str], dict[str, str]]:
    """(architectures, those of the past with the last version, those of plugins) of vllm/model_executor/models/registry.py."""
    known: set[str] = set()
    past: dict[str, str] = {}
    outside: dict[str, str] = {}
    for m in _TABLE.finditer(text):
        known.update(re.findall(r'^    "([\w.]+)":\s*\(', m[1], re.M))
        if m[0].startswith("_PREVIOUSLY_SUPPORTED"):
            past.update(_STRINGS.findall(m[1]))
        elif m[0].startswith("_OOT"):
            outside.update(_STRINGS.findall(m[1]))
    return frozenset(known), past, outside


def parse_entry_class(text: str) -> frozenset[str] | None:
    """The classes that `EntryClass` of one of SGLang's model files names; None where it has none."""
    m = _ENTRY.search(text)
    return frozenset(re.findall(r"\w+", re.sub(r"#[^\n]*", "", m[1]))) if m else None


def parse_config_registry(text: str) -> frozenset[str]:
    """The model types that an engine's `_CONFIG_REGISTRY` names, in vLLM's form (keywords) or SGLang's (assignments)."""
    m = re.search(r"^_CONFIG_REGISTRY\b[^=\n]*= ?(?:\w+\(|\{)\n(.*?)^[)}]", text, re.M | re.S)
    types = set(re.findall(r'^    (\w+)=["\w]', m[1], re.M)) if m else set()
    if m:
        types.update(re.findall(r'"([\w.-]+)":\s*["\w]', m[1]))
    types.update(re.findall(r'_CONFIG_REGISTRY\["([\w.-]+)"\]', text))
    return frozenset(types)


def parse_mentioned(text: str) -> frozenset[str]:
    """The model classes that a module of configurations speaks of as text: it may put one in the place of another."""
    return frozenset(re.findall(r"""["'](\w+(?:ForCausalLM|ForConditionalGeneration|Model|CausalLM))["']""", text))


def parse_model_types(text: str) -> frozenset[str]:
    """The model types of a module of configuration classes, and those that it registers by name."""
    return frozenset(_MODEL_TYPE.findall(text)) | frozenset(re.findall(r"""\.register\(\s*["']([\w.-]+)["']""", text))


def parse_config_mapping(text: str) -> frozenset[str]:
    """The model types of transformers' CONFIG_MAPPING_NAMES, and of what is added to it."""
    return frozenset(re.findall(r"""\(\s*"([\w.-]+)",\s*"\w+Config"\s*,?\s*\)""", text)) | frozenset(
        re.findall(r""""([\w.-]+)":\s*"\w+Config\"""", text)
    )


def parse_refused_float16(text: str) -> tuple[str, ...]:
    """The model types of `_FLOAT16_NOT_SUPPORTED_MODELS` in vllm/config/model.py."""
    m = re.search(r"^_FLOAT16_NOT_SUPPORTED_MODELS\b[^=\n]*= ?\{\n(.*?)^\}", text, re.M | re.S)
    return tuple(re.findall(r'^    "([\w.-]+)":', m[1], re.M)) if m else ()


def models(host: Host) -> EngineModels:
    """As the probe of engine_models says it."""
    asked = launch.launch(host)
    if asked.engine is None:
        raise Absent("no-engine-command")
    if asked.container is not None:
        raise Absent("engine-in-container")
    python = interpreter(host)
    folder = _package(host, python.site, asked.engine)
    if folder is None:
        raise Absent("engine-not-installed", engine=asked.engine, python=python.path)
    versions, plugins = _distributions(host, python.site, (asked.engine, "transformers"))
    read = _vllm if asked.engine == "vllm" else _sglang
    known, past, outside, configs, mentioned, refused, missed = read(host, folder)
    types = _transformers(host, python.site)
    return EngineModels(
        engine=asked.engine,
        version=versions.get(asked.engine),
        folder=folder,
        architectures=known,
        previous=past,
        outside=outside,
        configs=configs,
        mentioned=mentioned - known,
        float16_refused=refused,
        transformers=versions.get("transformers"),
        model_types=types,
        plugins=plugins,
        missed=(*missed, *(("transformers",) if len(types) < FEW else ())),
    )


_Names = frozenset[str]
_Read = tuple[_Names, dict[str, str], dict[str, str], _Names, _Names, tuple[str, ...], tuple[str, ...]]


def _vllm(host: Host, folder: str) -> _Read:
    known, past, outside = parse_vllm(_text(host, f"{folder}/model_executor/models/registry.py"))
    utils = f"{folder}/transformers_utils"
    text = _text(host, f"{utils}/config.py")
    configs, mentioned = parse_config_registry(text), parse_mentioned(text)
    missed = [] if len(known) >= FEW else ["registry"]
    if not configs:
        missed.append("configs")
    for text in _sources(host, f"{utils}/configs"):
        configs |= parse_model_types(text)
        mentioned |= parse_mentioned(text)
    mentioned |= parse_mentioned(_text(host, f"{utils}/model_arch_config_convertor.py"))
    refused = parse_refused_float16(_text(host, f"{folder}/config/model.py"))
    return known, past, outside, configs, mentioned, refused, tuple(missed)


def _sglang(host: Host, folder: str) -> _Read:
    known: frozenset[str] = frozenset()
    names = _modules(host, f"{folder}/srt/models")
    for name in names[:FILES]:
        known |= _entry_class(host, f"{folder}/srt/models/{name}") or frozenset()
    configs: frozenset[str] = frozenset()
    mentioned: frozenset[str] = frozenset()
    for text in _sources(host, f"{folder}/srt/configs"):
        configs |= parse_model_types(text)
        mentioned |= parse_mentioned(text)
    # One module up to 0.5.9, a package after it.
    for file in ("hf_transformers_utils.py", "hf_transformers/common.py"):
        text = _text(host, f"{folder}/srt/utils/{file}")
        configs |= parse_config_registry(text)
        mentioned |= parse_mentioned(text)
    missed = [] if len(known) >= FEW and len(names) <= FILES else ["registry"]
    if not configs:
        missed.append("configs")
    return known, {}, {}, configs, mentioned, (), tuple(missed)


def _entry_class(host: Host, path: str) -> frozenset[str] | None:
    try:
        size = host.stat(path).size
        tail = host.read_at(path, max(0, size - TAIL), TAIL).decode("utf-8", "replace")
    except Trouble:
        return None
    return parse_entry_class(tail) or (parse_entry_class(_text(host, path)) if size > TAIL else None)


def _transformers(host: Host, site: tuple[str, ...]) -> frozenset[str]:
    folder = _package(host, site, "transformers")
    types: frozenset[str] = frozenset()
    if folder is not None:
        # All in the first up to 5.3; the second is written by a script of theirs from then on.
        for file in ("configuration_auto.py", "auto_mappings.py"):
            types |= parse_config_mapping(_text(host, f"{folder}/models/auto/{file}"))
    return types


def _distributions(
    host: Host, site: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(versions of the wanted distributions, the distributions that say they register something with an engine)."""
    versions: dict[str, str] = {}
    plugins: list[str] = []
    for folder in site:
        dists = [n for n in _names(host, folder) if n.endswith((".dist-info", ".egg-info"))]
        for name in dists[:DISTRIBUTIONS]:
            parsed = parse_dist_name(name)
            if parsed is None:
                continue
            if parsed[0] in wanted:
                versions.setdefault(*parsed)
            try:
                points = host.read_at(f"{folder}/{name}/entry_points.txt", 0, 1 << 15).decode("utf-8", "replace")
            except Trouble:
                continue
            if PLUGIN_GROUPS.search(points) and parsed[0] not in ("vllm", "sglang"):
                plugins.append(parsed[0])
    return versions, tuple(dict.fromkeys(plugins))


def _package(host: Host, site: tuple[str, ...], name: str) -> str | None:
    for folder in site:
        try:
            if host.stat(f"{folder}/{name}").kind == "directory":
                return f"{folder}/{name}"
        except Trouble:
            continue
    return None


def _sources(host: Host, folder: str) -> Iterator[str]:
    for name in _modules(host, folder)[:FILES]:
        yield _text(host, f"{folder}/{name}")


def _modules(host: Host, folder: str) -> list[str]:
    return [n for n in _names(host, folder) if n.endswith(".py")]


def _names(host: Host, folder: str) -> list[str]:
    try:
        return host.names(folder)
    except Trouble:
        return []


def _text(host: Host, path: str) -> str:
    """The file; empty where it cannot be read, which leaves the list short and so not whole."""
    try:
        return host.text(path, SOURCE_LIMIT)
    except Trouble:
        return ""
