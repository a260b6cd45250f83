"""The settings around an engine in a Kubernetes manifest, a Compose file or a systemd unit: do they let it start and live?"""

from __future__ import annotations

from collections.abc import Iterator

from ds_doctor.api import Finding, Findings, NotApplicable, Undecided, check, found
from ds_doctor.launch.structs import Compose, Pod, PodProbe, Unit
from ds_doctor.probes.kubernetes import Kubernetes
from ds_doctor.probes.launch import Deployment, Launch
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.system import System

FAMILY = "launch"

DEFAULT_START_S = 90.0  # DefaultTimeoutStartSec of man 5 systemd-system.conf


def _pod(deployment: Deployment, launch: Launch | None = None) -> Pod:
    if deployment.pod is None:
        raise NotApplicable("launch-not-by", by="Kubernetes")
    if launch is not None and launch.engine is None:
        raise NotApplicable("no-engine-started")
    return deployment.pod


def _unit(deployment: Deployment, launch: Launch | None = None) -> Unit:
    if deployment.unit is None:
        raise NotApplicable("launch-not-by", by="systemd")
    if launch is not None and (launch.engine is None or launch.container is not None):
        raise NotApplicable("no-engine-started")
    return deployment.unit


# -- Kubernetes ----------------------------------------------------------------------------------------------------


@check("launch-pod-no-gpus", "launch-pod-gpus-unequal")
def the_pod_asks_for_gpus(deployment: Deployment, launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    pod = _pod(deployment)
    container = inputs.on_nvidia(launch)
    if pod.gpu_resource is None:
        if pod.claims or container.privileged:
            raise Undecided("launch-gpus-other-way", claims=list(pod.claims) or ["privileged"])
        yield found("launch-pod-no-gpus", container=pod.container or "?", resource=pod.resource)
    # pkg/apis/core/validation: extended resources cannot be overcommitted.
    elif pod.gpu_request is not None and pod.gpu_request != pod.gpu_limit:
        limit = "-" if pod.gpu_limit is None else pod.gpu_limit
        yield found("launch-pod-gpus-unequal", name=pod.gpu_resource, request=pod.gpu_request, limit=limit)


@check("launch-manifest-not-text")
def texts_of_the_manifest_are_texts(deployment: Deployment) -> Findings:
    pod = _pod(deployment)
    if pod.not_text:
        yield found("launch-manifest-not-text", container=pod.container or "?", words=list(pod.not_text))


@check("launch-pod-shm-on-disk", "launch-pod-shm-unlimited")
def the_pods_shared_memory_is_memory(deployment: Deployment) -> Findings:
    shm = _pod(deployment).shm
    if shm is None:
        raise NotApplicable("launch-pod-no-shm-volume")
    if shm.kind == "empty":
        yield found("launch-pod-shm-on-disk", volume=shm.source or "?")
    elif shm.kind == "memory" and shm.size is None:
        yield found("launch-pod-shm-unlimited", volume=shm.source or "?")


@check("launch-probe-too-short", "launch-probe-no-startup")
def the_probes_wait_for_the_model(deployment: Deployment, launch: Launch, model: ModelConfig | None) -> Findings:
    from . import _launch_pod as of

    pod = _pod(deployment, launch)
    chance = of.first_to_kill(pod)
    if chance is None:
        raise NotApplicable("launch-pod-no-probe")
    size = of.weights_bytes(model)
    least, slow = of.takes_s(size)
    data = {
        "probe": chance.probe,
        "budget_s": chance.budget_s,
        "formula": chance.formula,
        "least_s": least,
        "slow_s": slow,
        "size": "?" if size is None else f"{size / of.GB:.1f} GB",
        "failures": -(-max(600, slow) // 10),
    }
    if chance.budget_s < least:
        yield found("launch-probe-too-short", on=chance.probe, **data)
    elif chance.probe == "livenessProbe":
        yield found("launch-probe-no-startup", on=chance.probe, **data)


@check("launch-probe-elsewhere", "launch-probe-unanswered")
def the_probes_ask_the_server(deployment: Deployment, launch: Launch) -> Findings:
    from . import _launch_inputs as inputs
    from . import _launch_pod as of

    pod = _pod(deployment, launch)
    port = inputs.server_port(launch)
    key = bool(inputs.options_of(launch).get("api_key"))
    for name, probe in (
        ("startupProbe", pod.startup),
        ("livenessProbe", pod.liveness),
        ("readinessProbe", pod.readiness),
    ):
        if probe is None or probe.how not in ("httpGet", "tcpSocket"):
            continue
        asks = _asked_port(probe)
        if asks is None:
            continue
        if asks != port:
            yield found("launch-probe-elsewhere", on=name, probe=name, asks=asks, port="-" if port is None else port)
        elif probe.how == "httpGet" and (of.not_served(probe.path, launch.engine) or of.locked(probe, launch, key)):
            status = 404 if of.not_served(probe.path, launch.engine) else 401
            yield found("launch-probe-unanswered", on=name, probe=name, path=probe.path or "/", status=status)


def _asked_port(probe: PodProbe) -> int | None:
    """None for a named port: names are not kept with the ports."""
    return int(probe.port) if probe.port is not None and probe.port.isdigit() and len(probe.port) < 6 else None


@check("launch-pod-host-ipc")
def the_pod_keeps_its_own_memory(deployment: Deployment) -> Findings:
    pod = _pod(deployment)
    if pod.host_ipc:
        yield found("launch-pod-host-ipc", container=pod.container or "?")


@check("launch-runtime-class")
def the_runtime_class_is_known_here(deployment: Deployment, node: Kubernetes | None) -> Findings:
    pod = _pod(deployment)
    if pod.runtime_class is None:
        raise NotApplicable("launch-pod-no-runtime-class")
    handlers = {h for c in node.configs for h in c.handlers} if node is not None and node.kubelet else set()
    if not handlers or (node is not None and any(c.error for c in node.configs)):
        raise Undecided("launch-no-node", name=pod.runtime_class)
    if pod.runtime_class not in handlers:
        yield found("launch-runtime-class", name=pod.runtime_class, handlers=sorted(handlers))


@check("launch-node-other")
def the_pod_would_run_on_this_host(deployment: Deployment, nvml: Nvml | None, system: System) -> Findings:
    pod = _pod(deployment)
    if not pod.node_selector and pod.node_name is None:
        raise NotApplicable("launch-pod-any-node")
    yield from _elsewhere(pod, nvml, system)


def _elsewhere(pod: Pod, nvml: Nvml | None, system: System) -> Iterator[Finding]:
    from . import _launch_pod as of

    for label, wanted in pod.node_selector.items():
        have: str | None = None
        if label == "nvidia.com/gpu.product":
            if nvml is None or not nvml.gpus:
                raise Undecided("launch-gpus-unseen")
            names = sorted({of.product(g.name) for g in nvml.gpus})
            have = None if of.product(wanted) in names else ", ".join(names)
        elif label in ("kubernetes.io/arch", "beta.kubernetes.io/arch"):
            machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(system.machine, system.machine)
            have = machine if wanted != machine else None
        elif label == "kubernetes.io/hostname":
            have = system.hostname if wanted not in (system.hostname, system.hostname.partition(".")[0]) else None
        if have is not None:
            yield found("launch-node-other", on=label, label=label, wanted=wanted, have=have)
    if pod.node_name is not None and pod.node_name not in (system.hostname, system.hostname.partition(".")[0]):
        yield found("launch-node-other", on="nodeName", label="nodeName", wanted=pod.node_name, have=system.hostname)


# -- secrets -------------------------------------------------------------------------------------------------------


@check("launch-secret-in-file")
def no_secret_stands_in_the_file(deployment: Deployment, launch: Launch) -> Findings:
    if deployment.kind == "script":
        raise NotApplicable("launch-not-by", by="Kubernetes, Compose, systemd")
    names = launch.container.secrets_given if launch.container is not None else ()
    if deployment.unit is not None:
        names += tuple(s.text for s in deployment.unit.slips if s.kind == "secret")
    if names:
        yield found("launch-secret-in-file", names=list(names), file=deployment.source, kind=deployment.kind)


# -- Compose -------------------------------------------------------------------------------------------------------


@check("launch-compose-deploy-ignored")
def the_reservation_is_read(deployment: Deployment) -> Findings:
    compose: Compose | None = deployment.compose
    if compose is None:
        raise NotApplicable("launch-not-by", by="Docker Compose")
    if compose.reservations and (compose.version or "").startswith("2"):
        yield found("launch-compose-deploy-ignored", version=compose.version)


# -- systemd -------------------------------------------------------------------------------------------------------


@check("launch-unit-shell")
def the_unit_needs_no_shell(deployment: Deployment, launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    unit = _unit(deployment, launch)
    if unit.shell and not inputs.in_shell(launch):
        yield found("launch-unit-shell", words=list(unit.shell))


@check("launch-unit-path-relative", "launch-unit-path-bare")
def the_units_program_is_found(deployment: Deployment) -> Findings:
    unit = _unit(deployment)
    program = (unit.program or "").lstrip("@-:+!|")
    if not program or program.startswith(("/", "%")):
        return
    if "/" in program or program.startswith("$"):
        yield found("launch-unit-path-relative", program=program)
    elif program in ("vllm", "sglang", "python", "python3", "uv"):  # a shell or docker is where systemd looks
        yield found("launch-unit-path-bare", program=program)


@check("launch-unit-never-ready")
def the_unit_becomes_ready(deployment: Deployment, launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    unit = _unit(deployment, launch)
    if unit.type not in ("notify", "notify-reload", "forking"):
        return
    if inputs.in_shell(launch):
        raise Undecided("launch-script-may-notify", type=unit.type)
    limit = DEFAULT_START_S if unit.timeout_start_s is None else unit.timeout_start_s
    if limit in (0, float("inf")):  # it serves, and stays "activating" for ever
        raise Undecided("launch-unit-waits", type=unit.type)
    yield found("launch-unit-never-ready", type=unit.type, limit_s=limit)


@check("launch-unit-no-devices")
def the_unit_sees_the_gpus(deployment: Deployment, launch: Launch) -> Findings:
    unit = _unit(deployment, launch)
    if unit.private_devices:
        yield found("launch-unit-no-devices", setting="PrivateDevices=yes")
    elif unit.device_policy in ("closed", "strict") and not any("nvidia" in d for d in unit.device_allow):
        yield found("launch-unit-no-devices", setting=f"DevicePolicy={unit.device_policy}")


@check("launch-unit-environment", "launch-unit-variable-literal")
def the_units_variables_are_as_written(deployment: Deployment) -> Findings:
    for slip in _unit(deployment).slips:
        if slip.kind == "secret":
            continue
        rule = "launch-unit-variable-literal" if slip.kind == "literal" else "launch-unit-environment"
        yield found(rule, on=slip.text.partition(" ")[0], text=slip.text)


@check("launch-unit-home-hidden")
def the_unit_reaches_its_home(deployment: Deployment, launch: Launch) -> Findings:
    unit = _unit(deployment, launch)
    hidden = unit.protect_home in ("yes", "true", "1", "on", "tmpfs", "read-only")
    moved = any(n in launch.environment for n in ("HOME", "XDG_CACHE_HOME"))
    if hidden and not moved:
        yield found("launch-unit-home-hidden", setting=f"ProtectHome={unit.protect_home}")
