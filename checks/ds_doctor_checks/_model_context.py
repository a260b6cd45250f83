"""The longest context that an engine takes from a config.json, against the one that the command asks for; it looks at nothing.

vllm 0.33.0: vllm/config/model.py `_get_and_verify_max_len`, transformers_utils/model_arch_config_convertor.py
`derive_max_model_len_and_key`; sglang 0.5.23: sglang/srt/utils/hf_transformers/common.py `get_context_length`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._model import POSITIONS, Case, Shape, whole
from ._model_split import Fault

# Rotary scalings whose factor vLLM does not apply, for max_position_embeddings has it already; yarn joined them in 0.30.0.
SCALED = ("su", "longrope", "llama3")
SCALED_SINCE_030 = (*SCALED, "yarn", "deepseek_yarn", "deepseek_llama_scaling")
SGLANG_KEYS = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
YES = ("1", "true", "True", "TRUE")


def faults(case: Case, shape: Shape) -> Iterator[Fault]:
    asked = whole(case.value("context"))
    if asked is None:
        return
    found = vllm(case, shape) if case.engine == "vllm" else sglang(shape)
    if found is None:
        return
    most, key = found
    if asked <= most:
        return
    flag = "--max-model-len" if case.engine == "vllm" else "--context-length"
    if case.engine == "vllm":
        variable = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
        allowed = case.variables.get(variable, "0").strip().lower() in ("1", "true")
        longest = shape.text.get("model_max_length")
        message = (
            f"User-specified max_model_len ({asked}) is greater than the derived max_model_len ({key}={most} or "
            f"model_max_length={longest} in model's config.json)."
        )
    else:
        variable = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"
        allowed = case.variables.get(variable, "0").strip().lower() in ("1", "true", "yes", "y")
        message = (
            f"Warning: User-specified context_length ({asked}) is greater than the derived context_length ({most})."
        )
    rule = "launch-context-beyond-model" if allowed else "launch-context-too-long"
    data = {"asked": asked, "most": most, "key": key, "flag": flag, "variable": variable, "message": message}
    yield Fault(rule, flag, data)


def vllm(case: Case, shape: Shape) -> tuple[int, str] | None:
    """(tokens, the key they come from); None where the configuration does not tell, or tells more than is followed here."""
    text = shape.text
    most: float = float("inf")
    key = ""
    for name in POSITIONS:
        value = whole(text.get(name))
        if value is not None and value < most:
            most, key = value, name
    longest = whole(text.get("model_max_length"))
    if longest is not None:
        most, key = longest, "model_max_length"
    if most == float("inf") or not shape.model_type:
        return None
    if text is not shape.config and any(name in text for name in ("encoder_config", "audio_config")):
        return None
    scaling = _scaling(text)
    if scaling is None:
        return None
    if scaling and "gemma3" not in shape.model_type:
        most = _scaled(most, scaling, case.before("0.30.0"))
    if case.options.get("disable_sliding_window"):
        return None
    return int(most), key


def _scaling(text: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The rotary scaling; empty without one, None where each kind of layer has its own."""
    for name in ("rope_parameters", "rope_scaling"):
        found = text.get(name)
        if isinstance(found, dict):
            return None if any(isinstance(v, dict) for v in found.values()) else found
    return {}


def _scaled(most: float, scaling: Mapping[str, Any], older: bool | None) -> float:
    kind = scaling.get("rope_type", scaling.get("type"))
    factor = scaling.get("factor")
    if (
        not isinstance(factor, (int, float))
        or isinstance(factor, bool)
        or not 0 < factor < 1e6
        or kind in SCALED
        or kind == "default"
    ):
        return most
    now = most if kind in SCALED_SINCE_030 else most * factor
    original = whole(scaling.get("original_max_position_embeddings"))
    then = (original if kind == "yarn" and original else most) * factor
    # Where the release is not known, the longer of the two is not refused.
    return then if older is True else now if older is False else max(now, then)


def sglang(shape: Shape) -> tuple[int, str] | None:
    scaling = shape.text.get("rope_scaling") or shape.text.get("rope_parameters")
    factor: float = 1
    if isinstance(scaling, dict):
        if any(isinstance(v, dict) for v in scaling.values()):
            return None
        if "original_max_position_embeddings" not in scaling and scaling.get("rope_type") != "llama3":
            said = scaling.get("factor", 1)
            factor = said if isinstance(said, (int, float)) and 0 < said < 1e6 else 1
    for key in SGLANG_KEYS:
        value = whole(shape.text.get(key))
        if value is not None:
            return int(factor * value), key
    return None
