"""Whether an engine knows a model: its architecture, its configuration's type, the release that first had it; it looks at nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ds_doctor.api import Undecided
from ds_doctor.probes.engine_models import EngineModels

from ._data import table
from ._model import Case, Shape
from ._model_split import Fault
from ._pins import release

# vllm/config/model.py `_SUFFIX_TO_DEFAULTS`: a class of one ending is served by that of another.
SUFFIXES = (
    *("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel", "ForTextEncoding", "EmbeddingModel"),
    *("ForSequenceClassification", "ForTokenClassification", "ForAudioClassification", "ForImageClassification"),
    *("ForVideoClassification", "ClassificationModel", "ForRewardModeling", "RewardModel", "Model"),
)
# Types that transformers turns into others before it looks them up, or that name no class of its own there.
REWRITTEN = frozenset(("vlm", "mistral", "longcat_flash"))
# What is published under which class, for a model whose files are not here: name pattern, class, what people call it.
# Each: https://huggingface.co/<id>/blob/main/config.json, "architectures".
KNOWN = (
    (r"deepseek-ai/DeepSeek-V4\.1", "DeepseekV41ForCausalLM"),
    (r"deepseek-ai/DeepSeek-V4-", "DeepseekV4ForCausalLM"),
    (r"deepseek-ai/DeepSeek-V3\.2", "DeepseekV32ForCausalLM"),
    (r"deepseek-ai/DeepSeek-(V3|V3\.1|R1)(-|$)(?!.*Distill)", "DeepseekV3ForCausalLM"),
    (r"Qwen/Qwen3-Next-", "Qwen3NextForCausalLM"),
    (r"Qwen/Qwen3-VL-\d+B-A", "Qwen3VLMoeForConditionalGeneration"),
    (r"Qwen/Qwen3-VL-\d+B(?!-A)", "Qwen3VLForConditionalGeneration"),
    (r"Qwen/Qwen3\.5-\d+B-A", "Qwen3_5MoeForConditionalGeneration"),
    (r"Qwen/Qwen3-\d+B-A", "Qwen3MoeForCausalLM"),
    (r"Qwen/Qwen3-[\d.]+B(-(FP8|AWQ|Base))?$", "Qwen3ForCausalLM"),
    (r"zai-org/GLM-4\.[56]($|-FP8|-Air)", "Glm4MoeForCausalLM"),
    (r"zai-org/GLM-4\.[56]V", "Glm4vMoeForConditionalGeneration"),
    (r"zai-org/GLM-5(-|$)", "GlmMoeDsaForCausalLM"),
    (r"moonshotai/Kimi-K2\.5", "KimiK25ForConditionalGeneration"),
    (r"moonshotai/Kimi-K3", "KimiK3ForConditionalGeneration"),
    (r"moonshotai/Kimi-Linear", "KimiLinearForCausalLM"),
    (r"openai/gpt-oss-", "GptOssForCausalLM"),
    (r"MiniMaxAI/MiniMax-M2", "MiniMaxM2ForCausalLM"),
    (r"google/gemma-3-1b", "Gemma3ForCausalLM"),
    (r"google/gemma-3-(4|12|27)b", "Gemma3ForConditionalGeneration"),
    (r"google/gemma-4-", "Gemma4ForConditionalGeneration"),
    (r"meta-llama/Llama-4-", "Llama4ForConditionalGeneration"),
    (r"XiaomiMiMo/MiMo-V2-Flash", "MiMoV2FlashForCausalLM"),
    (r"ByteDance-Seed/Seed-OSS", "SeedOssForCausalLM"),
)


def faults(case: Case, shape: Shape, engine: EngineModels) -> Iterator[Fault]:
    """What the installed engine and the transformers beside it do not know of the model."""
    kind = shape.model_type
    code = shape.config.get("auto_map")
    code = code if isinstance(code, dict) else {}
    known_type = kind is None or kind in engine.configs or kind in engine.model_types or kind in REWRITTEN
    if not known_type and "transformers" not in engine.missed and "configs" not in engine.missed and not engine.plugins:
        yield from _type(case, shape, engine, bool(code.get("AutoConfig")))
        return
    yield from _architecture(case, shape, engine, bool(code))


def _type(case: Case, shape: Shape, engine: EngineModels, own_code: bool) -> Iterator[Fault]:
    data: dict[str, Any] = {
        "kind": shape.model_type,
        "engine": engine.engine,
        "version": engine.version or "?",
        "transformers": engine.transformers or "?",
    }
    if not own_code:
        message = (
            f"The checkpoint you are trying to load has model type `{shape.model_type}` but Transformers does not recognize "
            "this architecture."
        )
        need = next((n for a in shape.architectures if (n := since(engine.engine, a))), None)
        yield Fault(
            "launch-model-type-unknown", str(shape.model_type), {**data, "need": need or "?", "message": message}
        )
    elif not case.value("trust_remote_code"):
        message = (
            "Failed to load the model config. If the model is a custom model not yet available in the HuggingFace transformers "
            "library, consider setting `trust_remote_code=True` in LLM or using the `--trust-remote-code` flag in the CLI."
            if engine.engine == "vllm"
            else f"The repository {case.options.model} contains custom code which must be executed to correctly load the model."
        )
        yield Fault("launch-remote-code-needed", "--trust-remote-code", {**data, "message": message})


def _architecture(case: Case, shape: Shape, engine: EngineModels, own_code: bool) -> Iterator[Fault]:
    names = shape.architectures
    if not names or shape.model_type in engine.configs or any(knows(engine, n) for n in names):
        return
    if case.value("model_impl") not in (None, "auto", engine.engine) or any(n in engine.mentioned for n in names):
        return
    if "registry" in engine.missed:
        raise Undecided("launch-registry-unread", engine=engine.engine, folder=engine.folder)
    if engine.plugins:
        raise Undecided("launch-model-plugins", plugins=", ".join(engine.plugins))
    if engine.engine == "sglang" and case.variables.get("SGLANG_EXTERNAL_MODEL_PACKAGE"):
        raise Undecided("launch-model-plugins", plugins="SGLANG_EXTERNAL_MODEL_PACKAGE")
    name = names[0]
    data = {
        "architecture": ", ".join(names),
        "engine": engine.engine,
        "version": engine.version or "?",
        "until": engine.previous.get(name) or until(engine.engine, name) or "-",
        "need": since(engine.engine, name) or "-",
        "plugin": engine.outside.get(name, "-"),
    }
    # Both fall back to the implementation of transformers, or to the code beside the weights, where these can be used.
    if shape.model_type in engine.model_types or (own_code and case.value("trust_remote_code")):
        yield Fault("launch-architecture-fallback", name, {**data, "transformers": engine.transformers or "?"})
        return
    if name in engine.previous:
        message = f"Model architecture {name} was supported in vLLM until v{engine.previous[name]}, and is not supported anymore."
    elif name in engine.outside:
        message = f"Model architecture {name} is not supported in-tree anymore. Please install the plugin at {engine.outside[name]}"
    else:
        message = f"Model architectures {list(names)} are not supported for now."
    yield Fault("launch-architecture-unknown", name, {**data, "message": message})


def knows(engine: EngineModels, name: str) -> bool:
    """Whether the registry has the class, or one of another ending that stands for it."""
    if name in engine.architectures:
        return True
    if engine.engine != "vllm":
        return False
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            stem = name[: -len(suffix)]
            return any(stem + other in engine.architectures for other in SUFFIXES)
    return False


def row(engine: str, architecture: str) -> dict[str, str]:
    """What data/architectures.toml says of a class in an engine; empty where it has always been there, or was never seen."""
    found: dict[str, str] = table("architectures")["architecture"].get(architecture, {}).get(engine, {})
    return found


def since(engine: str, architecture: str) -> str | None:
    """The oldest release looked into that has it."""
    return row(engine, architecture).get("since")


def until(engine: str, architecture: str) -> str | None:
    """The newest release looked into that has it, where newer ones have not."""
    return row(engine, architecture).get("until")


def published(model: str) -> str | None:
    """The class of a well-known model by its id on the Hub."""
    return next((name for pattern, name in KNOWN if re.match(pattern, model)), None)


def too_old(case: Case, architecture: str) -> Fault | None:
    """The engine's release, as far as it is known, is one of those that do not have the class yet."""
    lacks, have = release(row(case.engine, architecture).get("lacks", "")), release(case.version or "")
    if lacks is None or have is None or have > lacks:
        return None
    data = {
        "model": case.options.model or "?",
        "architecture": architecture,
        "engine": case.engine,
        "version": case.version,
        "need": since(case.engine, architecture),
    }
    return Fault("launch-engine-too-old", case.engine, data)
