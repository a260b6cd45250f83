"""LoRA adapters and speculative decoding as the engines take them at the start; it looks at nothing.

vllm 0.33.0: vllm/lora/peft_helper.py, lora/utils.py get_adapter_absolute_path, entrypoints/openai/models/serving.py
init_static_loras, config/speculative.py; sglang 0.5.23: sglang/srt/lora/lora_config.py, lora_manager.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ds_doctor.probes.companions import Companion, Companions

from ._model import Case, Shape, whole
from ._model_split import Fault

NEEDED = ("r", "lora_alpha", "target_modules")
# Earlier releases loaded the adapters that the command names at the first request (init_static_loras came with 0.7.3).
VLLM_LOADS_AT_START = "0.8.0"
# sglang/srt/lora/lora_manager.py validate_new_adapter, as 0.5.23 has it; what older ones do with DoRA was not looked into.
SGLANG_REFUSES_DORA = "0.5.23"
# Methods of --speculative-config that need no model of their own: SpeculativeConfig.__post_init__ of 0.33.0.
ALONE = ("ngram", "[ngram]", "ngram_gpu", "suffix", "extract_hidden_states", "dspark", "custom_class")
# Model types that hf_config_override of 0.33.0 makes no MTP drafter of; what a newer release adds is not known here.
NO_MTP = frozenset(
    ("llama", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mistral", "mixtral", "gemma2", "gemma3", "gemma3_text", "phi3", "gpt_oss",
     "deepseek_v2", "opt", "gpt2", "falcon")
)  # fmt: skip
KNOWN_VLLM = "0.33.1"  # the first release that is not known here


def unseen(companions: Companions, kind: str) -> str | None:
    """The first that may or may not be there: in an image, a volume, on the Hub."""
    return next((one.given for one in companions.items if one.kind == kind and one.there is None), None)


def adapters(case: Case, companions: Companions) -> Iterator[Fault]:
    if case.engine == "vllm" and case.before(VLLM_LOADS_AT_START):
        return
    loras = [one for one in companions.items if one.kind == "lora"]
    # SGLang turns LoRA on by itself where adapters are named, unless it is turned off.
    if case.engine == "vllm" and loras and not case.value("enable_lora"):
        data = {"count": len(loras), "message": "LoRA is not enabled. Use --enable-lora to enable LoRA."}
        yield Fault("launch-lora-off", "--lora-modules", data)
    for one in loras:
        said = {"name": one.name, "path": one.path or one.given, "given": one.given}
        if one.there is False:
            yield Fault("launch-lora-missing", one.name, said)
        elif one.problem in ("missing", "not-json"):
            yield Fault("launch-lora-broken", one.name, {**said, "what": "adapter_config.json"})
        elif one.config is not None:
            yield from _adapter(case, one, one.config, said)


def _adapter(case: Case, one: Companion, config: Mapping[str, Any], said: dict[str, Any]) -> Iterator[Fault]:
    lacks = next((n for n in NEEDED if config.get(n) is None), None)
    if lacks is not None:
        yield Fault("launch-lora-broken", one.name, {**said, "what": f"adapter_config.json: {lacks}"})
        return
    rank, most = whole(config["r"]), whole(case.value("max_lora_rank"))
    if rank is not None and most is not None and rank > most:
        message = (
            f"LoRA rank {rank} is greater than max_lora_rank {most}."
            if case.engine == "vllm"
            else f"LoRA adapter {one.name} with rank {rank} is incompatible with the current LoRA memory pool configuration."
        )
        yield Fault("launch-lora-rank", one.name, {**said, "rank": rank, "most": most, "message": message})
    if config.get("use_dora") is True and (case.engine == "vllm" or not case.before(SGLANG_REFUSES_DORA)):
        message = (
            "vLLM does not yet support DoRA."
            if case.engine == "vllm"
            else f"Failed to load {one.name} because LoRA serving currently doesn't support DoRA adapters"
        )
        yield Fault("launch-lora-unsupported", one.name, {**said, "message": message})
    base, model = _last(config.get("base_model_name_or_path")), _last(case.options.model)
    if base and model and not _alike(base, model):
        data = {**said, "base": config["base_model_name_or_path"], "model": case.options.model}
        yield Fault("launch-lora-other-base", one.name, data)


def _last(path: Any) -> str:
    """The last part of a path or an id, where it names a model: not a snapshot of the Hub's cache, not a generic folder."""
    name = path.rstrip("/").rpartition("/")[2].lower() if isinstance(path, str) else ""
    return name if any(c.isdigit() for c in name) and any(c in name for c in "-_") and len(name) < 40 else ""


def _alike(one: str, other: str) -> bool:
    """Quantised and fine-tuned forms of a model carry its name and more."""
    return one.startswith(other) or other.startswith(one) or one in other or other in one


def asks_mtp(config: Mapping[str, Any]) -> bool:
    method = config.get("method")
    return isinstance(method, str) and (method == "mtp" or method.endswith("_mtp")) and not config.get("model")


def without_drafter(case: Case, config: Mapping[str, Any]) -> Fault | None:
    """A method that needs a drafter, and none is named. The method of a release that is not known here may need none."""
    method = config.get("method")
    if config.get("model") or whole(config.get("num_speculative_tokens")) is None or asks_mtp(config):
        return None
    if (
        method in ALONE
        or case.before(KNOWN_VLLM) is False
        or method not in (None, "eagle", "eagle3", "medusa", "draft_model")
    ):
        return None
    data = {
        "method": method or "draft_model",
        "message": "num_speculative_tokens was provided but without speculative model.",
        "want": '"model": "PATH OR ID OF THE DRAFTER"',
    }
    return Fault("launch-speculation-refused", "--speculative-config", data)


def mtp(case: Case, shape: Shape, config: Mapping[str, Any]) -> Fault | None:
    """Multi-token prediction out of the model's own layers, where it has none that the engine would use."""
    if case.before(KNOWN_VLLM) is False or whole(config.get("num_speculative_tokens")) is None:
        return None
    if shape.model_type == "deepseek_v41" and not case.before("0.33.0"):
        message = "DeepSeek V4.1 has no classic-MTP draft [...]. Use speculative method 'dspark' instead of 'mtp'."
        data = {"method": config["method"], "message": message, "want": '"method": "dspark"'}
    elif shape.model_type in NO_MTP:
        data = {
            "method": config["method"],
            "message": "Unsupported speculative method: 'mtp'",
            "want": '"method": "ngram"',
        }
    else:
        return None
    return Fault("launch-speculation-refused", "--speculative-config", data)
