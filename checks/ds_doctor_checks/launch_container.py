"""The container that the launch would start: GPUs, ports, volumes and limits, as they were given to it."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.docker import Docker
from ds_doctor.probes.launch import Deployment, Launch
from ds_doctor.probes.mounts import Mounts
from ds_doctor.probes.system import System

FAMILY = "launch"

# vllm 0.33.0 utils/system_utils.py set_ulimit and sglang 0.5.23 srt/utils/common.py set_ulimit: what both raise themselves to.
OPEN_FILES = 65535
MACHINES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "arm64/v8": "aarch64"}


@check("launch-not-understood")
def the_launch_is_understood(launch: Launch) -> Findings:
    if launch.unread:
        yield found("launch-not-understood", count=len(launch.unread))


@check("launch-no-engine")
def the_launch_starts_an_engine(launch: Launch) -> Findings:
    if launch.engine is not None:
        return
    if launch.container is not None:
        raise Undecided("launch-image-start-unseen", image=launch.container.image or "?")
    yield found("launch-no-engine", program=launch.argv[0] if launch.argv else "?")


@check("launch-container-no-gpus", "launch-container-gpus-default")
def the_container_gets_gpus(launch: Launch, docker: Docker | None) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.on_nvidia(launch)
    if container.program == "kubernetes":
        raise NotApplicable("launch-pod-has-limits")
    way = inputs.asked(launch, container).way
    if way is not None:
        return
    if launch.environment.get("NVIDIA_VISIBLE_DEVICES") is None and container.privileged:
        raise Undecided("launch-gpus-privileged")
    default = next((f.default_runtime for f in docker.files if f.default_runtime), None) if docker else None
    seen = docker is not None and bool(docker.files or docker.dockerd) and not any(f.error for f in docker.files)
    if docker is not None and (docker.flag_runtimes or "desktop" in docker.kinds):
        seen = False  # the default may be given by a flag, too, or in a virtual machine
    emptied = launch.environment.get("NVIDIA_VISIBLE_DEVICES") is not None
    data = {"program": container.program, "image": container.image or "?"}
    if emptied or (seen and container.program == "docker" and not (default or "").startswith("nvidia")):
        yield found("launch-container-no-gpus", **data)
        yield not_applicable("launch-container-gpus-default", "launch-said-by", by="launch-container-no-gpus")
    elif not (default or "").startswith("nvidia"):
        yield undecided("launch-container-no-gpus", "launch-default-runtime-unseen")
        yield found("launch-container-gpus-default", **data)


@check("launch-container-gpus-few")
def the_container_gets_enough_gpus(launch: Launch, deployment: Deployment | None) -> Findings:
    from . import _launch_inputs as inputs
    from . import _model_gpus

    container = inputs.on_nvidia(launch)
    given = inputs.asked(launch, container)
    if given.way is None:
        raise NotApplicable("launch-gpus-not-asked")
    if given.count is None:
        return
    case = inputs.case_of(launch)
    need = _model_gpus.needed(case)
    if need is None or inputs.together(deployment, launch):
        raise Undecided("launch-workers-elsewhere")
    if given.count < need:
        sizes = " × ".join(f"{w} {case.size(w)}" for w in ("tensor", "pipeline", "data") if case.size(w) > 1)
        yield found("launch-container-gpus-few", way=given.way, have=given.count, need=need, sizes=sizes or "-")


@check("launch-gpus-count-and-devices", "launch-gpus-no-capabilities")
def the_request_for_gpus_is_valid(launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    if not container.asked_gpus or container.program == "kubernetes":
        raise NotApplicable("launch-gpus-not-asked")
    for one in container.asked_gpus:
        if one.devices and one.count is not None:
            yield found("launch-gpus-count-and-devices", on=one.by, count=one.count, devices=list(one.devices))
        if one.by.startswith("deploy.") and not one.capabilities:
            yield found("launch-gpus-no-capabilities", on=one.by)


@check("launch-docker-rm-restart")
def the_container_is_removed_or_restarted(launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    if container.remove and container.restart not in (None, "", "no"):
        yield found("launch-docker-rm-restart", program=container.program, restart=container.restart)


@check("launch-port-elsewhere", "launch-port-unpublished", "launch-port-discarded")
def the_port_is_published(launch: Launch, deployment: Deployment | None) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    if container.program == "kubernetes":
        raise NotApplicable("launch-pod-has-services")
    if container.network == "host":
        if container.ports:
            yield found("launch-port-discarded", ports=[_shown(p.published or p.inside) for p in container.ports])
        return
    own = container.network in (None, "", "default", "bridge", "nat") or container.program == "docker"
    if not own or container.publish_all or (container.network or "").startswith(("none", "container:", "service:")):
        raise NotApplicable("launch-network-elsewhere", network=container.network or "-P")
    port = inputs.server_port(launch)
    ports = [p for p in container.ports if p.protocol == "tcp"]
    if port is None or any(p.inside[0] <= port <= p.inside[1] for p in ports):
        return
    if container.ports_unread:
        raise Undecided("launch-words-open", words=list(container.ports_unread))
    if ports:
        pairs = [f"{_shown(p.published) if p.published else '*'}:{_shown(p.inside)}" for p in ports]
        first = ports[0].published
        yield found("launch-port-elsewhere", port=port, published=pairs, outside=first[0] if first else port)
    elif deployment is None or deployment.kind != "compose":  # in a Compose file a gateway may stand in front
        yield found("launch-port-unpublished", port=port, program=container.program)


def _shown(pair: tuple[int, int]) -> str:
    return f"{pair[0]}" if pair[0] == pair[1] else f"{pair[0]}-{pair[1]}"


@check("launch-model-not-mounted")
def the_model_is_in_the_container(launch: Launch, deployment: Deployment | None) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    model = launch.model
    if launch.engine is None or model is None or not inputs.is_path(model):
        raise NotApplicable("launch-model-no-path")
    if inputs.covering(container, model) is not None:
        return
    if not inputs.STOCK.match(container.image or ""):
        raise Undecided("launch-image-may-hold", path=model, image=container.image or "?")
    if inputs.in_shell(launch):
        raise Undecided("launch-script-may-fetch", path=model)
    if deployment is not None and deployment.pod is not None and deployment.pod.resource not in inputs.PLAIN:
        raise Undecided("launch-operator-may-mount", path=model, resource=deployment.pod.resource)
    yield found("launch-model-not-mounted", path=model, image=container.image)


@check("launch-volume-missing", "launch-volume-created")
def what_is_mounted_exists(launch: Launch, mounts: Mounts) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    model = launch.model or ""
    over = inputs.covering(container, model) if inputs.is_path(model) else None
    for source in mounts.sources:
        if source.state == "missing":
            # Of the model's own folder the rules on weights tell that it is not there.
            if not source.create or over is None or over.target != source.target:
                rule = "launch-volume-created" if source.create else "launch-volume-missing"
                yield found(rule, on=source.target, path=source.path, target=source.target, program=container.program)
        elif source.state == "denied":
            yield undecided("launch-volume-missing", "file-denied", path=source.path)
        elif source.path is None:
            yield undecided("launch-volume-missing", "launch-words-open", words=[source.given])


@check("launch-cache-not-kept")
def downloads_outlive_the_container(launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    model = launch.model
    if launch.engine is None or model is None or "/" not in model or inputs.is_path(model) or "://" in model:
        raise NotApplicable("launch-model-not-fetched")
    if any(
        launch.environment.get(n, "").lower() in ("1", "true") for n in ("VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")
    ):
        raise NotApplicable("launch-model-not-fetched")
    folder = inputs.hub_cache(launch)
    if folder is None:
        raise Undecided("launch-home-unknown", user=container.user or "?")
    over = inputs.covering(container, folder)
    if over is None or over.kind in ("tmpfs", "memory", "empty"):
        yield found("launch-cache-not-kept", model=model, folder=folder)


@check("launch-platform-other")
def the_image_is_for_this_machine(launch: Launch, system: System) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    if container.program == "kubernetes":
        raise NotApplicable("launch-pod-on-nodes")
    tag = (container.image or "").partition("@")[0].rpartition(":")[2].lower()
    named = next(
        (n for n in ("aarch64", "arm64", "x86_64", "amd64") if tag.endswith(("-" + n, "_" + n)) or tag == n), ""
    )
    given = (container.platform or "").lower().removeprefix("linux/") or named
    if not given:
        return
    wants = MACHINES.get(given, given)
    if wants in ("x86_64", "aarch64") and system.machine in ("x86_64", "aarch64") and wants != system.machine:
        yield found("launch-platform-other", platform=given, machine=system.machine, image=container.image or "?")


@check("launch-open-files")
def enough_files_may_be_open(launch: Launch, deployment: Deployment | None) -> Findings:
    unit = deployment.unit if deployment is not None else None
    if launch.container is not None and "nofile" in launch.container.ulimits:
        hard, by = launch.container.ulimits["nofile"].hard, "--ulimit nofile"
    elif unit is not None and "LimitNOFILE" in unit.limits:
        text = unit.limits["LimitNOFILE"].rpartition(":")[2]
        hard, by = int(text) if text.isdigit() and len(text) < 19 else -1, "LimitNOFILE"
    else:
        raise NotApplicable("launch-limit-not-set", limit="nofile")
    if 0 <= hard < OPEN_FILES:
        yield found("launch-open-files", by=by, have=hard, want=OPEN_FILES)


@check("launch-locked-memory")
def rdma_may_lock_memory(launch: Launch, deployment: Deployment | None) -> Findings:
    unit = deployment.unit if deployment is not None else None
    container = launch.container
    if (
        container is not None
        and not container.running
        and any(d.startswith("/dev/infiniband") for d in container.devices)
    ):
        limit = container.ulimits.get("memlock")
        if container.privileged or "IPC_LOCK" in container.cap_add or "ALL" in container.cap_add:
            return
        if limit is None or limit.hard >= 0:
            yield found("launch-locked-memory", by="--ulimit memlock", have="-" if limit is None else limit.hard)
    elif unit is not None and (launch.nodes or 1) > 1 and unit.user not in (None, "root", "0"):
        given = unit.limits.get("LimitMEMLOCK")
        if given != "infinity":
            yield found("launch-locked-memory", by="LimitMEMLOCK", have=given or "-")
    else:
        raise NotApplicable("launch-no-rdma")


@check("launch-read-only-root")
def what_must_be_written_can_be(launch: Launch) -> Findings:
    from . import _launch_inputs as inputs

    container = inputs.container_of(launch)
    if launch.engine is None or not container.read_only:
        raise NotApplicable("launch-root-writable")
    temporary = launch.environment.get("TMPDIR", "/tmp")
    cache = "/root/.cache" if container.user in (None, "0", "root") else launch.environment.get("HOME", "/") + "/.cache"
    places = [temporary, launch.environment.get("VLLM_CACHE_ROOT", cache)]
    if container.program == "podman":  # --read-only-tmpfs is its default
        places = places[1:]
    lacking = [p for p in places if (m := inputs.covering(container, p)) is None or m.read_only]
    if lacking:
        yield found("launch-read-only-root", folders=lacking)
