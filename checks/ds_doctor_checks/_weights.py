"""What the checks of the weights family share: which files may be judged, and what is said where none may."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ds_doctor.api import Findings, NotApplicable, Undecided, undecided
from ds_doctor.probes.model_folder import ModelFolder, WeightFile

NOT_WEIGHTS = {
    "html": "HTML",
    "xml": "XML",
    "json": "JSON",
    "text": "text",
    "zip": "ZIP",
    "zeros": "zero bytes",
    "gguf": "GGUF",
    "ggml": "GGML",
    "other": "?",
} | {
    kind: kind
    for kind in ("gzip", "zstd", "xz", "bzip2", "7z", "rar", "tar", "png", "jpeg", "gif", "pdf", "hdf5", "elf")
}
# What vouches for a file, in words.
SOURCES = {
    "manifest": {"en": "the manifest", "zh": "清单"},
    "hub-blob": {"en": "its blob's name in the Hub cache", "zh": "它在 Hub 缓存中的 blob 文件名"},
    "hub-metadata": {"en": "the record of its download", "zh": "其下载记录"},
    "hub-tree": {"en": "the Hub's list of the revision's files", "zh": "Hub 上该版本的文件列表"},
    "modelscope": {"en": "ModelScope's record of its download", "zh": "ModelScope 的下载记录"},
    "sums": {"en": "the checksum file", "zh": "校验和文件"},
}
FILE_TYPES = ("fifo", "socket", "character", "block", "directory", "unknown")
# The file ends before what describes it does: it was cut off, wherever its description would go on.
CUT_OFF = ("InvalidHeaderLength", "NoCentralDirectory")
# What keeps a description from being read at all; every other error is of one tensor or member.
HEADER_ERRORS = (
    "HeaderTooSmall", "HeaderTooLarge", "InvalidHeaderDeserialization",
    "UnsupportedVersion", "BigEndian", "BadCount", "BadKey", "DuplicateKey", "BadType", "StringTooLong", "ArrayTooLong",
    "BadAlignment", "BadName", "BadZipDirectory", "NoDataPkl", "InvalidMagicNumber", "EndIsZeros",
)  # fmt: skip
_STRUCTURED = ("safetensors", "gguf", "pytorch", "malformed")


def shown(names: tuple[str, ...], count: int) -> str:
    return ", ".join(names) + (" …" if count > len(names) else "")


def listed(model: ModelFolder) -> None:
    """NotApplicable or Undecided unless there is a listed folder or a file to look at."""
    if model.layout in ("missing", "dangling") or (model.hub is not None and model.hub.problem is not None):
        raise NotApplicable("model-path-not-there", path=model.given)
    if model.layout not in ("folder", "file"):
        raise Undecided("model-path-unreadable", path=model.path or model.given, kind=model.layout)


def weight_files(model: ModelFolder) -> tuple[WeightFile, ...]:
    """The weight files; NotApplicable where there are none, which is another rule's fault."""
    listed(model)
    if not model.weights and not model.weights_unseen:
        raise NotApplicable("model-has-no-weights", path=model.path or model.given)
    return model.weights


def quoted_path(model: ModelFolder) -> str:
    return shlex.quote(model.path or model.given)


def all_seen(model: ModelFolder, *rules: str) -> Findings:
    """`unknown` for the rules where some weight files were not looked into."""
    if model.weights_unseen:
        for rule in rules:
            yield undecided(rule, "weights-not-all-seen", unseen=model.weights_unseen, seen=len(model.weights))


def of_kind(model: ModelFolder, *kinds: str) -> Iterator[WeightFile]:
    """The weight, configuration and index files that turned out to be one of these."""
    listed(model)
    for file in (*model.weights, *model.small):
        if file.kind in kinds:
            yield file
    if model.index is not None and model.index.problem in kinds:
        yield WeightFile(name=model.index.name, kind=model.index.problem or "")


def structured(model: ModelFolder) -> list[WeightFile]:
    """The files whose structure was read."""
    return [f for f in weight_files(model) if f.kind in _STRUCTURED]


def unjudged(model: ModelFolder, *rules: str) -> Findings:
    """`unknown` for the rules where some file's structure was not read: nobody looked, so nobody may say it is right."""
    yield from all_seen(model, *rules)
    blind = [f for f in model.weights if f.kind not in _STRUCTURED]
    if blind:
        for rule in rules:
            yield undecided(rule, "weights-file-not-judged", file=blind[0].name, kind=blind[0].kind, files=len(blind))


def only_gguf(model: ModelFolder) -> bool:
    """A GGUF file carries its own configuration and vocabulary."""
    return bool(model.weights) and all(f.name.endswith(".gguf") for f in model.weights)
