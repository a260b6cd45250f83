"""Parsers, tokenizer modes and chat templates against the model, where a wrong one is taken without a word; it looks at nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ds_doctor.probes.model_config import ModelConfig

from ._data import table
from ._model import Case, Shape
from ._model_split import Fault

PARSERS = {"tool": ("tool_call_parser", "--tool-call-parser"), "reasoning": ("reasoning_parser", "--reasoning-parser")}


def faults(case: Case, shape: Shape, model: ModelConfig) -> Iterator[Fault]:
    row = next((r for r in table("parsers")["model"] if shape.model_type in r["model_types"]), None)
    if row is not None:
        for what, (dest, flag) in PARSERS.items():
            named, fits = case.value(dest), row[what]
            if isinstance(named, str) and named not in ("", "auto", *fits):
                yield Fault(
                    "launch-parser-of-another-model",
                    flag,
                    {"named": named, "kind": shape.model_type, "fits": fits, "flag": flag},
                )
        mode, wants = case.value("tokenizer_mode"), row.get("tokenizer_mode")
        if case.engine == "vllm" and wants and isinstance(mode, str) and mode not in ("auto", wants):
            data = {"mode": mode, "kind": shape.model_type, "wants": wants}
            yield Fault("launch-tokenizer-mode", "--tokenizer-mode", data)
    yield from _template(case, shape, model, special=row is not None and bool(row.get("tokenizer_mode")))


def _template(case: Case, shape: Shape, model: ModelConfig, special: bool) -> Iterator[Fault]:
    """SGLang has templates of its own that it chooses by the model's path."""
    if case.engine != "vllm" or special or model.has_chat_template or not model.tokenizer:
        return
    if case.value("chat_template") or case.value("tokenizer") not in (None, case.options.model):
        return
    if case.value("tokenizer_mode") not in (None, "auto", "hf", "slow") or case.value("runner") == "pooling":
        return
    if not any(a.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) for a in shape.architectures):
        return
    if model.mistral:  # its own tokenizer brings its own template
        return
    yield Fault("launch-chat-template-missing", "--chat-template", {"path": model.path or "?"})
