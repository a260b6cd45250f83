"""What the checks on containers and files share: the container that would start an engine, its GPUs, its server's port.

It yields no findings itself, and looks at nothing of the host.
"""

from __future__ import annotations

import re

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.launch import OPEN, Container, Deployment, Launch, Mount, option

from ._model import Case, case
from ._options import Options, options

SHELLS = ("sh", "bash", "dash", "zsh", "ash", "ksh")
# Images whose content is known: what is not mounted there is not there. Both have no model of their own
# (vllm docker/Dockerfile, sglang docker/Dockerfile).
STOCK = re.compile(r"(?:docker\.io/)?(?:vllm/vllm-openai|lmsysorg/sglang)(?:[:@]|\Z)")
# Builds for something else than an NVIDIA GPU, as their images are named.
_OTHER = re.compile(r"rocm|[-_:/](?:cpu|xpu|hpu|npu|tpu|gaudi|ascend|cann|musa|neuron)(?:[-_:.]|\d|\Z)", re.IGNORECASE)
_OTHER_DEVICES = ("/dev/kfd", "/dev/davinci", "/dev/accel")
SERVER_PORTS = {"vllm": 8000, "sglang": 30000}
# nvidia-container-runtime's own words for none: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html
_NO_DEVICES = ("", "none", "void")
# Objects of Kubernetes' own, to whose pods no operator adds volumes; KServe adds one at /mnt/models.
PLAIN = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
# Objects whose pods are one engine together, over Ray or another launcher.
_TOGETHER = (
    "LeaderWorkerSet",
    "RayCluster",
    "RayService",
    "RayJob",
    "MPIJob",
    "PyTorchJob",
    "StatefulSet",
    "LLMInferenceService",
)


def container_of(launch: Launch) -> Container:
    """The container that the launch would create. NotApplicable without one, or where it exists already."""
    if launch.container is None:
        raise NotApplicable("launch-no-container")
    if launch.container.running:
        raise NotApplicable("launch-container-exists", name=launch.container.name or "?")
    return launch.container


def on_nvidia(launch: Launch) -> Container:
    """The same for a container whose engine needs NVIDIA GPUs."""
    container = container_of(launch)
    if launch.engine is None:
        raise NotApplicable("no-engine-started")
    devices = any(d.startswith(_OTHER_DEVICES) for d in container.devices)
    if devices or _OTHER.search((container.image or "").partition("@")[0]):
        raise NotApplicable("launch-other-accelerator", image=container.image or "?")
    return container


def in_shell(launch: Launch) -> bool:
    """Whether a shell stands in front of the engine, which may do more than start it."""
    return any(w.split(" ")[0].rpartition("/")[2] in SHELLS for w in launch.wrappers)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs that a container gets. `way`: how they are asked for, None: they are not; `count`: None where it is all of
    them, or where that way does not tell."""

    way: str | None
    count: int | None = None


def asked(launch: Launch, container: Container) -> Asked:
    """By --gpus, --device, a runtime, a resource's limit. Undecided where another way may give them."""
    given = container.asked_gpus
    if any(g.every for g in given):
        return Asked(way=next(g.by for g in given if g.every))
    if given:
        by = given[-1].by
        if container.program == "kubernetes":
            return Asked(way=by, count=given[-1].count if by == "nvidia.com/gpu" else None)
        named = {d for g in given for d in g.devices}
        counts = [g.count for g in given if g.count is not None and not g.devices]
        if named and not any(d.startswith("MIG") or "$" in d or "%" in d for d in named):
            return Asked(way=by, count=len(named) + sum(counts))
        if counts and not named:
            return Asked(way=by, count=None if 0 in counts else max(counts))
        return Asked(way=by)
    devices = launch.environment.get("NVIDIA_VISIBLE_DEVICES")
    if devices is not None and devices.strip() in _NO_DEVICES:
        return Asked(way=None)
    if (container.runtime or "").startswith("nvidia"):
        names = [d for d in (devices or "all").split(",") if d.strip()]
        plain = all(re.fullmatch(r"\d+|GPU-[0-9a-f-]+", d.strip()) for d in names)
        return Asked(way=f"runtime {container.runtime}", count=len(names) if plain else None)
    return Asked(way=None)


def case_of(launch: Launch) -> Case:
    """The command's flags, of the engine in the image: what is installed here is another one."""
    return case(launch, None, None)


def options_of(launch: Launch) -> Options:
    read = options(launch, None)
    if launch.engine is None or not read.serves or read.help:
        raise NotApplicable("no-engine-started")
    return read


def together(deployment: Deployment | None, launch: Launch) -> bool:
    """Whether several containers may be one engine, so that this one's GPUs are not all."""
    pod = deployment.pod if deployment is not None else None
    if pod is not None and (pod.resource in _TOGETHER or (pod.group_size or 1) > 1):
        return True
    return "RAY_ADDRESS" in launch.environment or any("ray" in w for w in (*launch.wrappers, *launch.argv[:1]))


def server_port(launch: Launch) -> int | None:
    """The port that the server listens on; None for a socket file. Undecided where it cannot be known."""
    read = options_of(launch)
    if read.get("uds"):
        return None
    if read.config is not None:
        raise Undecided("launch-flags-in-file", path=read.config)
    given = option(launch.arguments, ("--port",))
    if given is not None and OPEN.search(given):
        raise Undecided("launch-words-open", words=[given])
    port = read.get("port")
    return port if isinstance(port, int) and not isinstance(port, bool) else SERVER_PORTS[launch.engine or "vllm"]


def covering(container: Container, path: str) -> Mount | None:
    """The mount that a path of the container lies on."""
    found = [m for m in container.mounts if path == m.target or path.startswith(m.target.rstrip("/") + "/")]
    return max(found, key=lambda m: len(m.target), default=None)


def hub_cache(launch: Launch) -> str | None:
    """Where the engine in the container keeps what it downloads from the Hub; None: its home is not known."""
    from ds_doctor.probes._model_place import hub_cache as of
    from ds_doctor.probes._volumes import environment

    folder = options_of(launch).get("download_dir")
    return folder if isinstance(folder, str) and folder.startswith("/") else of(environment(launch))


def is_path(model: str) -> bool:
    return model.startswith("/")
