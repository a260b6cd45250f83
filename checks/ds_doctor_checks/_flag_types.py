"""What the engines' argument parsers make of one word: the value, or the words with which they refuse it. It reads nothing else.

Source of every conversion: vllm 0.33.0 vllm/utils/argparse_utils.py and vllm/engine/arg_utils.py; sglang 0.5.23
sglang/srt/utils/common.py and sglang/srt/arg_groups/argparse_actions.py.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ds_doctor.probes.engine_flags import Flag


class Refused(Exception):
    """The parser's own message about a value, and the kind of fault: type, json, keys or choice."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = message


# The names of the converters as argparse prints them ("invalid loads value: 'x'"): Flag.type -> __name__.
_NAMES = {
    "json": "loads",
    "json-or-str": "union_dict_and_str",
    "human-int": "human_readable_int",
    "human-int-or-auto": "human_readable_int_or_auto",
}
_CLASSES = {"int": "<class 'int'>", "float": "<class 'float'>", "str": "<class 'str'>"}


def value(flag: Flag, word: str, engine: str) -> Any:
    """What the parser stores for one word given to the flag. Raises Refused with the message behind `argument --x: `."""
    if flag.nullable and word in ("", "None"):
        return None
    try:
        return _CONVERT.get(flag.type, _plain)(flag, word, engine)
    except Refused:
        raise
    except (ValueError, RecursionError):
        kind = "json" if flag.type in ("json", "json-or-str") else "type"
        if flag.nullable or flag.made == "_parse_type":
            name = _CLASSES.get(flag.type) or f"<function {_NAMES.get(flag.type, flag.type)}>"
            raise Refused(kind, f"Value {word} cannot be converted to {name}.") from None
        raise Refused(kind, f"invalid {_NAMES.get(flag.type, flag.type)} value: {word!r}") from None


def check_choice(flag: Flag, stored: Any) -> None:
    """Refuses a value that is none of the flag's choices, as argparse of Python 3.11 says it."""
    if flag.choices is not None and stored not in flag.choices:
        choices = ", ".join(map(repr, flag.choices))
        raise Refused("choice", f"invalid choice: {stored!r} (choose from {choices})")


def _plain(flag: Flag, word: str, engine: str) -> Any:
    return word


def _int(flag: Flag, word: str, engine: str) -> int:
    return int(word)


def _float(flag: Flag, word: str, engine: str) -> float:
    return float(word)


def _json(flag: Flag, word: str, engine: str) -> Any:
    return json.loads(word)


def _json_or_str(flag: Flag, word: str, engine: str) -> Any:
    if not re.match(r"(?s)^\s*{.*}\s*$", word):
        return word
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        raise Refused("json", f"Value {word} cannot be converted to <function loads>.") from None


def human_int(word: str, engine: str) -> int:
    """32k, 32K, 25.6k: the suffixes differ between the engines. ValueError or Refused for what is none."""
    return _human_vllm(word) if engine == "vllm" else _human_sglang(word)


_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _human_vllm(word: str) -> int:
    word = word.strip()
    m = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", word)
    if not m:
        return int(word)
    number, suffix = m.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    try:
        return int(number) * _BINARY[suffix]
    except ValueError:
        raise Refused(
            "type",
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?",
        ) from None


_SI = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_IEC = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _human_sglang(word: str) -> int:
    word = word.strip()
    m = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", word)
    if m:
        from decimal import Decimal

        number, suffix = m.groups()
        if suffix in _SI:
            return int(Decimal(number) * _SI[suffix])
        if "." in number:
            raise Refused(
                "type",
                f"Decimals are not allowed with IEC suffixes like '{suffix}'. Use an integer IEC value such as "
                f"'{int(Decimal(number))}{suffix}', or an SI value such as '{number}{suffix[0]}'.",
            )
        return int(number) * _IEC[suffix]
    try:
        return int(word)
    except ValueError:
        raise Refused(
            "type",
            f"Invalid integer value: '{word}'. Use a plain integer, SI suffixes (1k, 1M), or IEC suffixes (1Ki, 1Mi). "
            "Suffixes are case-sensitive.",
        ) from None


def _human(flag: Flag, word: str, engine: str) -> int:
    return human_int(word, engine)


def _human_or_auto(flag: Flag, word: str, engine: str) -> int:
    word = word.strip()
    return -1 if word == "-1" or word.lower() == "auto" else human_int(word, engine)


def expanded(text: str) -> str:
    """JSON with its bare 80g and 32K written out, as vLLM does before it reads a configuration."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b", lambda m: str(_human_vllm(m.group())), parts[i])
    return "".join(parts)


def _config(flag: Flag, word: str, engine: str) -> Any:
    """A JSON object of one of vLLM's configuration classes, which pydantic validates."""
    try:
        made = json.loads(expanded(word))
    except (ValueError, RecursionError) as error:
        detail = f"Invalid JSON: {error}"
        raise Refused("json", f"1 validation error for {flag.made}\n  {detail}") from None
    if not isinstance(made, dict):
        raise Refused("json", f"1 validation error for {flag.made}\n  Input should be an object")
    from ._vllm_configs import faults

    wrong = faults(flag, made)
    if wrong:
        many = f"{len(wrong)} validation error{'s' if len(wrong) > 1 else ''} for {flag.made}"
        raise Refused("keys", "\n".join((many, *wrong)))
    return made


def _function(flag: Flag, word: str, engine: str) -> Any:
    made = _FUNCTIONS.get(flag.made or "")
    return made(word) if made else word


def _device_ids(word: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in (p.strip() for p in word.split(","))]


def _lower_name(word: str) -> str:
    return word.lower().replace("-", "_")


def _reasoning_parser(word: str) -> str:
    return "" if word.lower() == "none" else word


def _lora_module(word: str) -> Any:
    """vLLM's LoRAParserAction on one of its words: name=path, or a JSON object with these keys."""
    if word in ("", "None"):
        return None
    if "=" in word and "," not in word:
        name, _, path = word.partition("=")
        return {"name": name, "path": path}
    try:
        made = json.loads(word)
    except (ValueError, RecursionError):
        raise Refused("json", f"Invalid JSON format for --lora-modules: {word}") from None
    if not isinstance(made, dict):
        raise Refused("json", f"Invalid fields for --lora-modules: {word}")
    odd = [k for k in made if k not in ("name", "path", "base_model_name", "is_3d_lora_weight")]
    if odd or "name" not in made or "path" not in made:
        why = f"unexpected keyword argument '{odd[0]}'" if odd else "'name' and 'path' are needed"
        raise Refused("json", f"Invalid fields for --lora-modules: {word} - {why}")
    return made


def _lora_path(word: str) -> Any:
    """SGLang's LoRAPathAction on one of its words."""
    word = word.strip()
    if not (word.startswith("{") and word.endswith("}")):
        return word
    try:
        made = json.loads(word)
    except (ValueError, RecursionError) as error:
        raise Refused("json", f"{error}") from None
    if "lora_path" not in made or "lora_name" not in made:
        raise Refused(
            "json", f"{word!r} looks like a JSON str, but it does not contain 'lora_name' and 'lora_path' keys."
        )
    return made


def _json_list(word: str) -> Any:
    try:
        return json.loads(word)
    except (ValueError, RecursionError):
        raise Refused("json", f"Invalid JSON list: {word}. Please provide a valid JSON list.") from None


def _graph_backend(word: str) -> str:
    if word == "tc_piecewise":
        raise Refused("choice", "tc_piecewise was removed; select breakable, full, or disabled")
    return word


# Keys of each phase: sglang 0.5.23 sglang/srt/model_executor/cuda_graph_config.py ALLOWED_KEYS_PER_PHASE.
def _graph_config(word: str) -> Any:
    try:
        made = json.loads(word)
    except (ValueError, RecursionError) as error:
        raise Refused("json", f"--cuda-graph-config must be JSON: {error}") from None
    if not isinstance(made, dict):
        raise Refused("json", f"--cuda-graph-config must be a JSON object, got {type(made).__name__}")
    return made


_CONVERT = {
    "int": _int,
    "float": _float,
    "json": _json,
    "json-or-str": _json_or_str,
    "human-int": _human,
    "human-int-or-auto": _human_or_auto,
    "config": _config,
    "function": _function,
}
_FUNCTIONS = {
    "device_ids": _device_ids,
    "lower_name": _lower_name,
    "parse_reasoning_parser": _reasoning_parser,
    "lora_modules": _lora_module,
    "lora_paths": _lora_path,
    "json_list_type": _json_list,
    "parse_cuda_graph_backend_arg": _graph_backend,
    "parse_cuda_graph_config_arg": _graph_config,
}
