"""Environment variables as far as they matter to GPU serving, and what in a command is a secret; it holds no I/O.

Secrets never enter a fact, a report or a snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
    "KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "WSL_DISTRO_NAME", "LANG", "LC_ALL", "HOST_IP",
    "TOKENIZERS_PARALLELISM", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
HIDDEN = "<hidden>"
# Names that carry a secret. Tokens that are counted (SGLANG_MAX_NEW_TOKENS_LIMIT, VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD,
# SGLANG_USE_AITER_FP8_PER_TOKEN) and tokenizers are none. NCCL_PSK: the pre-shared key of NCCL 2.32.
_OTHERS = r"SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|PRIVATE_KEY|ACCESS_KEY|_PSK"
_SECRET_NAME = re.compile(rf"{_OTHERS}|AUTH|(?<!PER_)TOKEN\Z|\A(?!VLLM_|SGLANG_|SGL_).*TOKEN(?!S|IZ)", re.IGNORECASE)
_FLAG = (
    r"--?(?:[\w-]*(?:api[-_]?key|password|passwd|secret|credential|private[-_]key|access[-_]key|[-_]psk)[\w-]*"
    r"|(?:[\w-]*(?:hf|hub|auth|access|bearer|security|admin|huggingface)[-_])?token)"
)
_SECRET_FLAG = re.compile(_FLAG + r"\Z", re.IGNORECASE)
_URL_USER = re.compile(r"(?<=://)[^/@\s]+@")  # user:password@ in a URL
# A secret inside a longer text: a script, an option with a value. Values: a quoted one, or up to the next blank.
_VALUE = r"""(?:"(?:\\.|[^"\\])*"|'[^']*'|[^\s;&|"'\\]+)"""
_ASSIGNED = re.compile(rf"(?<![\w-])([A-Za-z_][A-Za-z0-9_]*)=({_VALUE})")
_FLAGGED = re.compile(rf"(?<!\S)({_FLAG})(=|\s+(?!-))({_VALUE})", re.IGNORECASE)
_COMMAND = re.compile(
    r"\s(?:\S*/)?(?:vllm|sglang|python[\d.]*|exec|nohup|env|torchrun|(?:ba)?sh|docker|podman|numactl)\s"
)
# What stands there is no secret but says where it comes from, or it is hidden already.
_ELSEWHERE = re.compile(r"""["']?(?:<hidden>|\$\{?[A-Za-z_]|\$\(|`)""")


def is_secret(name: str) -> bool:
    """Whether a variable of this name carries a secret."""
    return _SECRET_NAME.search(name) is not None


def is_secret_flag(name: str) -> bool:
    """Whether the value of this option is a secret; `--max-num-batched-tokens` and `--tokenizer` are none."""
    return _SECRET_FLAG.match(name) is not None


def parse(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter, without secrets."""
    return {n: without_secret(n, t) for n, t in sorted(env.items()) if n in NAMES or n.startswith(PREFIXES)}


def without_secret(name: str, text: str) -> str:
    """A variable's value as it may be shown."""
    if is_secret(name):
        return HIDDEN if text else ""
    return _URL_USER.sub(HIDDEN + "@", text)


def redact(words: Iterable[str]) -> tuple[str, ...]:
    """A command line without secrets: `NAME=value`, `--flag value` and `--flag=value` of a secret's name, users in URLs,
    also inside a script that is one of the words."""
    out: list[str] = []
    hide = False
    for word in words:
        if hide and not word.startswith("--"):
            out.append(word if _ELSEWHERE.match(word) or not word else HIDDEN)
            hide = False
            continue
        hide = is_secret_flag(word)
        out.append(_inside(word))
    return tuple(out)


def _inside(word: str) -> str:
    if "=" not in word and " " not in word and "://" not in word:
        return word
    name, equals, value = word.partition("=")
    one = " " not in name and not _COMMAND.search(value)  # else a script that begins with an assignment
    if equals and value and one and (is_secret_flag(name) or (name.isidentifier() and is_secret(name))):
        return word if _ELSEWHERE.match(value) else f"{name}={HIDDEN}"

    def assigned(m: re.Match[str]) -> str:
        return f"{m[1]}={HIDDEN}" if is_secret(m[1]) and not _ELSEWHERE.match(m[2]) else m[0]

    def flagged(m: re.Match[str]) -> str:
        return m[0] if _ELSEWHERE.match(m[3]) else f"{m[1]}{m[2]}{HIDDEN}"

    return _URL_USER.sub(HIDDEN + "@", _FLAGGED.sub(flagged, _ASSIGNED.sub(assigned, word)))
