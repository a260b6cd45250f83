"""What the files of a model are to an engine, told by their names: weights, configuration, code, other; asks nothing, judges nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from ._folder_names import is_tokenizer, is_weights

_HOLDS_WEIGHTS = (".safetensors", ".gguf", ".pt", ".pth", ".ckpt", ".onnx", ".onnx_data", ".h5", ".msgpack")
_TRAINING = re.compile(r"(optimizer|scheduler|training_args|rng_state|random_states).*\.(pt|pth|bin|pkl)\Z")
_CONFIG_ENDS = (".json", ".jinja", ".tiktoken", ".yaml", ".yml")
_CONFIG = ("merges.txt", "vocab.txt", "chat_template.txt", "added_tokens.json", "tokenizer.model")
# Written beside a model by trainers, ModelScope and data sets; no engine reads them.
_NOT_READ = re.compile(
    r"(configuration|trainer_state|(all|eval|train|test|predict)_results|dataset_infos?|README|LICENSE|.*manifest)\.(json|ya?ml)\Z"
)
# What changes how the engine answers or whether it starts when it is not there; the rest of a repository's small files
# repeat these in older forms (vocab.json and merges.txt beside tokenizer.json).
_WANTED = (
    "generation_config.json", "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
    "video_preprocessor_config.json", "hf_quant_config.json", "modules.json", "1_Pooling/config.json",
)  # fmt: skip
_CONFIGURATIONS = ("config.json", "params.json")  # Transformers' and Mistral's own
_VOCABULARIES = ("tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model", "vocab.txt")
_INDEX = "model.safetensors.index.json"
_IN_PARTS = (
    "model_index.json",
    "modules.json",
)  # of diffusers and sentence-transformers: parts in folders of their own
_NUMBERED = re.compile(r"(?P<stem>.*?)-?\d{1,6}-of-(?P<total>\d{1,6})\.(?P<ext>\w+)\Z", re.DOTALL)


def has_parts(names: Iterable[str]) -> bool:
    """Whether the model's parts lie in folders of their own, so that what is in them is read."""
    return any(n in _IN_PARTS for n in names)


def role(name: str, parts: bool = False) -> str:
    """weights, config (the engine reads it), code (*.py) or other."""
    folder, _, base = name.rpartition("/")
    if _TRAINING.match(base):
        return "other"
    if base.endswith(_HOLDS_WEIGHTS) or is_weights(base):
        return "weights"
    if folder and not parts and folder != "additional_chat_templates":
        return "other"
    if base.endswith(".py"):
        return "code"
    if base.startswith(".") or _NOT_READ.match(base):
        return "other"
    if base.endswith(_CONFIG_ENDS) or base in _CONFIG or is_tokenizer(base):
        return "config"
    return "other"


def is_wanted(name: str, there: Set[str]) -> bool:
    """Whether a configuration file that the repository has changes what the engine does by not being there."""
    if name in _VOCABULARIES:
        return not there & set(_VOCABULARIES)
    if name in _CONFIGURATIONS:
        return not there & set(_CONFIGURATIONS)
    if name.startswith("chat_template."):
        return not any(n.startswith("chat_template.") for n in there)
    if name.endswith(_INDEX):
        return any(n.endswith(".safetensors") and numbered_set(n) is not None for n in there)
    return name in _WANTED


def numbered_set(name: str) -> tuple[str, str, str] | None:
    """Stem, total and ending of `<stem>-00001-of-00048.<ending>`."""
    m = _NUMBERED.match(name)
    return (m["stem"], m["total"], m["ext"]) if m else None
