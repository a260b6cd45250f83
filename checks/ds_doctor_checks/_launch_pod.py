"""How long a pod's probes let an engine start, and how long it may take; pure arithmetic, it yields no findings.

Seconds and bytes.
"""

from __future__ import annotations

import re

import msgspec

from ds_doctor.launch.structs import Pod, PodProbe
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_config import ModelConfig

GB = 10**9
# What a disk of a server reads at best, what one over the network may: a range, not a promise. A fast NVMe drive reads
# 7 GB/s, its file system to GPUs about half of it; a network volume 0.2 GB/s.
FASTEST_GB_S = 3.5
SLOWEST_GB_S = 0.2
# What both engines do beside loading: imports, CUDA context, memory profiling, graph capture, compilation. vllm's own
# Kubernetes example waits 90 s for a model of 15 GB; below 45 s nothing starts even with its files in memory.
LEAST_S = 30
SMALLEST_S = 45


class Chance(msgspec.Struct, frozen=True, kw_only=True):
    """`probe`: which one ends the container, `budget_s`: after how long; `formula`: how it is counted."""

    probe: str
    budget_s: int
    formula: str


def budget(probe: PodProbe, name: str) -> Chance:
    """When the kubelet gives up on a container that never answers
    (https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/)."""
    whole = probe.initial_delay_s + probe.failures * probe.period_s
    return Chance(probe=name, budget_s=whole, formula=f"{probe.initial_delay_s} + {probe.failures} × {probe.period_s}")


def first_to_kill(pod: Pod) -> Chance | None:
    """The probe that ends a container which is still loading: startup holds the others back."""
    if pod.startup is not None:
        return budget(pod.startup, "startupProbe")
    return budget(pod.liveness, "livenessProbe") if pod.liveness is not None else None


def weights_bytes(model: ModelConfig | None) -> int | None:
    """Of the model's files, where they were seen."""
    if model is None:
        return None
    return model.weights_bytes or model.total_size or (model.tensors.bytes if model.tensors else 0) or None


def takes_s(size: int | None) -> tuple[int, int]:
    """(at the least, with slow storage): what starting takes, seconds."""
    if size is None:
        return SMALLEST_S, SMALLEST_S * 4
    return LEAST_S + round(size / GB / FASTEST_GB_S), LEAST_S * 4 + round(size / GB / SLOWEST_GB_S)


# Paths under which an engine answers nothing: vllm 0.33.0 entrypoints/serve (it has no "/"), sglang 0.5.23
# srt/entrypoints/http_server.py. Those of NIM and of other servers end in manifests that were taken over from them.
_NOT_SERVED = frozenset(
    (
        "/healthz",
        "/readyz",
        "/livez",
        "/live",
        "/liveness",
        "/readiness",
        "/v1/health",
        "/v1/health/ready",
        "/v1/health/live",
    )
)


def not_served(path: str | None, engine: str | None) -> bool:
    """Whether the engine answers 404 there."""
    asked = (path or "/").partition("?")[0]
    return asked in _NOT_SERVED or (asked == "/" and engine == "vllm")


def locked(probe: PodProbe, launch: Launch, key: bool) -> bool:
    """Whether the path asks for a key that the probe does not send (vllm: what begins with /v1; sglang 0.5.23
    srt/utils/auth.py: all but /health, /ready and /metrics)."""
    if not (key or "VLLM_API_KEY" in launch.environment) or "authorization" in probe.headers:
        return False
    path = probe.path or "/"
    if launch.engine == "sglang":
        return not path.startswith(("/health", "/ready", "/metrics"))
    return path.startswith("/v1")


def product(name: str) -> str:
    """A GPU's name as gpu-feature-discovery labels it: NVIDIA-H200, NVIDIA-A100-SXM4-80GB."""
    return re.sub(r"-(?:SHARED|MIG-.*)\Z", "", re.sub(r"[^A-Za-z0-9.-]+", "-", name))
