"""What the names in a model folder tell: weights, numbered sets, tokenizers, half downloads; asks nothing, judges nothing."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from ._said import clean
from ._shard_index import FIRST
from .model_folder import Names, Numbering

_NUMBERED = re.compile(
    r"(?P<stem>.*?)-?(?P<number>\d{1,6})-of-(?P<total>\d{1,6})\.(?P<ext>safetensors|bin|gguf|pt|pth)\Z", re.DOTALL
)
_PYTORCH = re.compile(r"(pytorch_model.*|consolidated.*|model.*|diffusion_pytorch_model.*)\.(bin|pt|pth)\Z", re.DOTALL)
LEFTOVER = re.compile(r".*\.(incomplete|part|partial|aria2|tmp|crdownload|download|temp|_____temp)\Z", re.DOTALL)
# Mistral's own files beside the hub's shards: a second copy, which SGLang leaves alone and vLLM prefers
# (model_loader/default_loader.py: load format "auto" takes consolidated*.safetensors where there are any).
_SECOND_COPY = re.compile(r"consolidated.*\.safetensors\Z", re.DOTALL)
# SGLang also loads this one where an index does not name it (sglang/srt/model_loader/weight_utils.py).
_BESIDE_INDEX = "mtp.safetensors"
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "params.json",
    "preprocessor_config.json",
)
_NOT_THE_MODEL = re.compile(
    r"(adapter_model|optimizer|scheduler|scaler|training_args|rng_state|openvino_).*\Z", re.DOTALL
)
ADAPTERS = (
    "adapter_model.safetensors",
    "adapter_model.bin",
)  # of a LoRA adapter, in the order in which engines look for them
_ENDING = re.compile(r".*\.[A-Za-z][A-Za-z0-9_]{0,11}\Z", re.DOTALL)
_TOKENIZERS = (
    "tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "tiktoken.model", "spiece.model",
    "sentencepiece.bpe.model", "spm.model", "tokenizer.tok.json",
)  # fmt: skip
# mistral_common's versions of SentencePiece (tokenizer.model.v3, tokenizer.model.v7m1), the only ones in some repositories.
_VERSIONED_TOKENIZER = re.compile(r"tokenizer\.model\.v\d+(m\d+)?\Z")


def is_weights(name: str) -> bool:
    """Whether an engine would take a file of this name for the model's weights."""
    if _NOT_THE_MODEL.match(name) or name.startswith(
        "."
    ):  # the engines' patterns leave hidden files out, as a Mac's `._x`
        return False
    return name.endswith((".safetensors", ".gguf")) or bool(_PYTORCH.match(name))


def is_model_file(name: str) -> bool:
    """Whether a file of this name belongs to a model, and to nothing else."""
    return is_weights(name) or is_tokenizer(name) or name.endswith(".index.json") or name in _SETTINGS


def numbered(name: str) -> tuple[str, str, int] | None:
    """Stem, ending and total of a numbered file's name."""
    m = _NUMBERED.match(name)
    return (m["stem"], m["ext"], int(m["total"])) if m and int(m["total"]) > 0 else None


def without_numbers(name: str) -> str:
    """What the names of several ranks' parts have in common: pytorch_model-00000-TP-001 and -002, rank0 and rank1."""
    return re.sub(r"\d+", "#", name)


def copies(files: dict[str, frozenset[str]]) -> tuple[list[str], list[str]]:
    """Of the shards of one set, those all of whose tensors are in another one as well, and these tensors."""
    home: dict[str, str] = {}
    doubled: list[str] = []
    tensors: set[str] = set()
    for name in sorted(files, key=lambda n: (-len(files[n]), n)):
        other = {home.get(t) for t in files[name]}
        if files[name] and len(other) == 1 and None not in other:
            doubled.append(name)
            tensors |= files[name]
        home.update(dict.fromkeys(files[name], name))
    return doubled, sorted(tensors)


def in_several(files: dict[str, frozenset[str]]) -> list[str]:
    """The tensors that are in more than one file, each with the files."""
    home: dict[str, list[str]] = {}
    for name, tensors in sorted(files.items()):
        for tensor in tensors:
            home.setdefault(tensor, []).append(name)
    return [f"{tensor} ({', '.join(names[:3])})" for tensor, names in home.items() if len(names) > 1]


def numbering(names: list[str]) -> tuple[Numbering, ...]:
    """The numbered sets among the names."""
    sets: dict[tuple[str, str, int], set[int]] = {}
    digits: dict[tuple[str, str, int], tuple[int, int]] = {}
    for name in names:
        m = _NUMBERED.match(name)
        if m and int(m["total"]) > 0:
            sets.setdefault((m["stem"], m["ext"], int(m["total"])), set()).add(int(m["number"]))
            # `model-1-of-62` and `model-00001-of-000062` are both in use; the shortest number tells.
            wide = min(len(m["number"]), digits.get((m["stem"], m["ext"], int(m["total"])), (9, 0))[0])
            digits[m["stem"], m["ext"], int(m["total"])] = wide, len(m["total"])
    found = []
    for (stem, ext, total), numbers in sorted(sets.items()):
        first = 0 if 0 in numbers and total not in numbers else 1
        due = range(first, first + total)
        present = sum(n in due for n in numbers)
        wide, width = digits[stem, ext, total]
        lost = itertools.islice((n for n in due if n not in numbers), FIRST)
        missing = Names(total - present, tuple(clean(f"{stem}-{n:0{wide}}-of-{total:0{width}}.{ext}") for n in lost))
        beyond = max((n for n in numbers if n not in due), default=None)
        found.append(Numbering(stem=clean(stem), ext=ext, total=total, present=present, missing=missing, beyond=beyond))
    return tuple(found[:20])


def loaded(names: list[str], index: Iterable[str] | None, second_copy: bool = True) -> list[str]:
    """Those of the names that an engine loads as weights: what the index names where one was read, and what engines
    load beside it; otherwise all safetensors files, or where there are none the PyTorch ones, or the GGUF ones (vLLM's
    --load-format auto, whose patterns *.bin and *.pt also take one under any other name). A clone may hold the rest as mere pointers without harm. `second_copy`: the engine may take
    Mistral's own files beside an index. An index of PyTorch's files decides nothing: the engines load all of those."""
    if index is not None:
        of_index = set(index)
        return [n for n in names if n in of_index or n == _BESIDE_INDEX or (second_copy and _SECOND_COPY.match(n))]
    known = [n for n in names if is_weights(n)]
    for ends in (".safetensors", (".bin", ".pt", ".pth"), ".gguf"):
        some = [n for n in known if n.endswith(ends)]
        if some:
            return some
    # Of several, or beside others, they are pieces of a model whose own file is not there (bge-m3's colbert_linear.pt).
    other = [n for n in names if n.endswith((".bin", ".pt", ".pth")) and not _NOT_THE_MODEL.match(n)]
    return other if len(other) == 1 and not other[0].startswith(".") else []


def is_pytorch(name: str) -> bool:
    """Whether a file of this name holds weights as PyTorch's own files."""
    return is_weights(name) and name.endswith((".bin", ".pt", ".pth"))


def is_second_copy(name: str) -> bool:
    """Whether it is one of Mistral's own files, or their index."""
    return bool(_SECOND_COPY.match(name.removesuffix(".index.json")))


def may_be_folder(name: str) -> bool:
    """Whether a name in the model's folder can be that of a folder with weights, as far as names tell."""
    return not name.startswith(".") and not _ENDING.match(name)


def is_stray(name: str) -> bool:
    """Whether a file of this name, which the index does not name, is one too many."""
    return name.endswith(".safetensors") and is_weights(name) and name != _BESIDE_INDEX and not _SECOND_COPY.match(name)


def is_tokenizer(name: str) -> bool:
    """Whether a file of this name holds a vocabulary, or the code of a tokenizer of the model's own."""
    if name in _TOKENIZERS or _VERSIONED_TOKENIZER.match(name):
        return True
    return name.endswith(".tiktoken") or name.startswith("tokenization_")
