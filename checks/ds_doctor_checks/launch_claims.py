"""What the documents about DeepSeek-V4.1-Flash say of the parameters that a command for it gives; never drives a verdict."""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, check, found
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.launch import Launch

FAMILY = "launch"
# Their subject, by whatever name people call its folder.
_SUBJECT = re.compile(r"(?i)deepseek.*flash|v4\.?1?-?flash")
# What they speak of: parameters of both engines by name, and variables. The statements stand in rules.toml (claims_of).
SPOKEN_OF = frozenset(
    (
        *("gpu_memory_utilization", "mem_fraction_static", "max_num_batched_tokens", "max_num_seqs", "max_model_len"),
        *(
            "context_length",
            "block_size",
            "kv_cache_dtype",
            "dtype",
            "enforce_eager",
            "quantization",
            "disable_log_requests",
        ),
        *("disable_log_stats", "attention_backend", "disable_custom_all_reduce", "distributed_executor_backend"),
        *("pipeline_parallel_size", "pp_size", "tp_size", "host", "log_level", "max_running_requests"),
        *("NCCL_ASYNC_ERROR_HANDLING", "CUDA_VISIBLE_DEVICES", "TORCH_CUDA_ARCH_LIST", "RAY_ADDRESS", "CUDA_HOME"),
    )
)
# A parameter that the parser does not have is no parameter of the engine, but a document may demand it.
ABSENT = (
    "--max-parallel-workers",
    "--enable-flashinfer",
    "--redis-timeout",
    "--flash-attn",
    "--enable-tool-call",
    "--awq-ckpt-path",
)


@check("launch-parameter-claims")
def documents_say_nothing_of_these_parameters(launch: Launch, flags: EngineFlags | None) -> Findings:
    if launch.engine is None or launch.model is None or not _SUBJECT.search(launch.model):
        raise NotApplicable("claims-other-model")
    from ._options import options

    o = options(launch, flags)
    about: dict[str, str] = {}
    for given in o.given:
        if given.dest in SPOKEN_OF:
            about.setdefault(given.dest, given.name)
    for word in launch.arguments:
        name = "--" + word.partition("=")[0].lstrip("-").replace("_", "-")
        if word.startswith("--") and name in ABSENT:
            about.setdefault(name, name)
    for name in launch.environment:
        if name in SPOKEN_OF:
            about.setdefault(name, name)
    if about:
        yield found("launch-parameter-claims", about=sorted(about), names=", ".join(about.values()), count=len(about))
