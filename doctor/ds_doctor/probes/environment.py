"""The environment that the engine would start with, as far as it matters to GPU serving; secrets never enter it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from ..api import probe
from ..host import Host
from ..model import Unseen

# Whose names matter. Everything else of the environment stays outside the report.
PREFIXES = (
    "CUDA", "NVIDIA_", "NCCL_", "NVSHMEM_", "TORCH", "PYTORCH_", "TRITON_", "VLLM_", "SGLANG_", "SGL_", "FLASHINFER_",
    "HF_", "HUGGINGFACE_", "TRANSFORMERS_", "UCX_", "GLOO_", "RAY_", "OMP_", "MKL_", "DG_", "XLA_", "NV_", "LD_",
    "MODELSCOPE_", "DEEP_GEMM_", "MASTER_",
)  # fmt: skip
NAMES = (
    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TMP", "TEMP", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "PYTHONPATH", "PYTHONHOME",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LIBRARY_PATH", "CPATH", "CC", "CXX", "CUDAHOSTCXX", "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS", "NVCC_CCBIN", "MAX_JOBS", "CUDAARCHS", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
    "KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "WSL_DISTRO_NAME", "LANG", "LC_ALL",
)  # fmt: skip
SECRET = (
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "API_KEY",
    "APIKEY",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "_PSK",  # NCCL_PSK: the pre-shared key of NCCL 2.32
    "ACCESS_KEY",
    "AUTH",
)
HIDDEN = "<hidden>"
_URL_USER = re.compile(r"(?<=://)[^/@\s]+@")  # user:password@ in a URL


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment variables that the engine will see.

    `variables` by name; a secret's value is `<hidden>`. Variables given in front of the launch command are in it.
    """

    variables: dict[str, str]
    uid: int = 0


def parse(env: dict[str, str]) -> dict[str, str]:
    """The variables that matter, without secrets."""
    return {n: _value(n, t) for n, t in sorted(env.items()) if n in NAMES or n.startswith(PREFIXES)}


def _secret(name: str) -> bool:
    """Whether the value of a variable or flag is a secret. Of a flag only the end tells: --max-num-batched-tokens is none."""
    upper = name.upper().replace("-", "_")
    return upper.endswith(SECRET) if name.startswith("-") else any(word in upper for word in SECRET)


def _value(name: str, text: str) -> str:
    if _secret(name):
        return HIDDEN if text else ""
    return _URL_USER.sub(HIDDEN + "@", text)


def redact(words: Iterable[str]) -> tuple[str, ...]:
    """A command line without secrets: `NAME=value`, `--flag value` and `--flag=value` of a secret's name, users in URLs."""
    out: list[str] = []
    hide = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide and not word.startswith("--"):
            out.append(HIDDEN)
            hide = False
            continue
        hide = word.startswith("-") and not equals and _secret(name)
        out.append(f"{name}={HIDDEN}" if equals and value and _secret(name) else _URL_USER.sub(HIDDEN + "@", word))
    return tuple(out)


@probe
def environment(host: Host) -> Environment:
    if not host.live:
        raise Unseen("not-under-root")
    return Environment(variables=parse(dict(host.env)), uid=host.user_id())
