"""Kubernetes manifests to the containers in them: what each would start, and what its pod gives it. Knows no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .command import Found, launch_of
from .docker import clean_target, secrets
from .documents import Plain, mapping, maps, text, texts, whole, yes
from .interpolation import pod as interpolated
from .quantity import amount, quantity
from .structs import Container, Deployment, Gpus, Mount, Pod, PodProbe, Port, Service
from .variables import HIDDEN, is_secret
from .wrappers import unwrap

DEEP = 12  # from a resource down to its pod's spec
_SHM = "/dev/shm"
# A volume's field -> its kind here. https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#volume-v1-core
_KINDS = {
    "hostPath": "bind", "emptyDir": "empty", "persistentVolumeClaim": "claim", "configMap": "config", "secret": "secret",
    "image": "image", "ephemeral": "ephemeral", "nfs": "nfs", "csi": "csi", "projected": "config", "downwardAPI": "config",
}  # fmt: skip


def is_manifest(document: Any) -> bool:
    """Whether a document is an object of Kubernetes."""
    return isinstance(document, dict) and text(document.get("kind")) is not None and "apiVersion" in document


def resources(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The object, or those of a List."""
    if (text(document.get("kind")) or "").endswith("List") and isinstance(document.get("items"), list):
        for inner in maps(document["items"]):
            yield from resources(inner) if is_manifest(inner) else ()
    else:
        yield document


def services(document: dict[str, Any], source: str) -> list[Service]:
    """Every container of every pod that the document describes. Init containers are named, not judged."""
    got = []
    for resource in resources(document):
        for spec, around in _specs(resource, {}, 0):
            got += [_service(resource, spec, around, c, source) for c in _containers(spec)]
    return got


def _specs(value: Any, around: dict[str, Any], depth: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each pod's spec, wherever the kind of object has it, and the mapping two levels up (replicas, size)."""
    if depth > DEEP:
        return
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list) or _kserve_model(value):
            yield value, around
            return
        for name, inner in value.items():
            if name in ("metadata", "status", "data", "stringData"):
                continue
            outer = value if any(k in value for k in ("replicas", "size", "progressDeadlineSeconds")) else around
            yield from _specs(inner, outer, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _specs(inner, around, depth + 1)


def _kserve_model(value: dict[str, Any]) -> bool:
    """The predictor of an InferenceService, whose container comes from a runtime elsewhere."""
    model = value.get("model")
    return isinstance(model, dict) and "modelFormat" in model


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    got = maps(spec.get("containers"))
    return [*got, mapping(spec["model"])] if _kserve_model(spec) else got


def _service(
    resource: dict[str, Any], spec: dict[str, Any], around: dict[str, Any], given: dict[str, Any], source: str
) -> Service:
    kind = text(resource.get("kind")) or "?"
    meta = mapping(resource.get("metadata"))
    name = text(meta.get("name")) or text(meta.get("generateName")) or "?"
    inside = text(given.get("name")) or "model"
    found = Found({})
    literal, inherited, not_text = _variables(given)
    command = [interpolated(t, literal) for t in texts(given.get("command"))]
    args = [interpolated(t, literal) for t in texts(given.get("args"))]
    for field in ("command", "args"):
        odd = next((v for v in given.get(field) or () if isinstance(v, Plain) and (v.is_number() or v.is_bool())), None)
        if isinstance(given.get(field), list) and odd is not None:
            not_text.append(f"{field}: {odd}")
    container = _container(spec, given, literal, inherited, command)
    found.container, found.environment, found.known = container, dict(literal), dict(literal)
    found.folder = container.workdir
    words = [*command, *args]
    found.argv = list(words)
    unwrap(found)
    if given.get("envFrom"):
        names = [text(mapping(inner).get("name")) for one in maps(given["envFrom"]) for inner in one.values()]
        found.miss("launch-env-file", path="envFrom: " + ", ".join(n for n in names if n))
    line = getattr(given, "line", 0)
    where = f"{kind}/{name}, container {inside}" + (f", line {line}" if line else "")
    many = len(_containers(spec)) > 1
    return Service(
        name=f"{name}/{inside}" if many else name,
        command=tuple(words) or (container.image or inside,),
        launch=launch_of(found),
        deployment=Deployment(
            kind="kubernetes",
            name=name,
            source=source,
            where=where,
            pod=msgspec.structs.replace(
                _pod(kind, meta, spec, around, given, container, literal), not_text=tuple(not_text)
            ),
        ),
    )


def _variables(given: dict[str, Any]) -> tuple[dict[str, str], list[str], list[str]]:
    """(variables with their values, names whose values come from elsewhere, what is no text where text belongs)."""
    literal: dict[str, str] = {}
    inherited: list[str] = []
    not_text: list[str] = []
    for one in maps(given.get("env")):
        name, value = text(one.get("name")), one.get("value")
        if name is None:
            continue
        if "valueFrom" in one:
            inherited.append(name)
        else:
            if isinstance(value, Plain) and (value.is_number() or value.is_bool()):
                not_text.append(f"env {name}: {HIDDEN if is_secret(name) else value}")
            literal[name] = interpolated(text(value) or "", literal)
    return literal, inherited, not_text


# -- the container -------------------------------------------------------------------------------------------------


def _container(
    spec: dict[str, Any], given: dict[str, Any], literal: dict[str, str], inherited: list[str], command: list[str]
) -> Container:
    mounts = _mounts(spec, given)
    shm = next((m for m in mounts if m.target == _SHM), None)
    limits = mapping(mapping(given.get("resources")).get("limits"))
    security = {**mapping(spec.get("securityContext")), **mapping(given.get("securityContext"))}
    capabilities = mapping(security.get("capabilities"))
    resource, count = _gpus(limits)
    user = whole(security.get("runAsUser"))
    memory = shm is not None and shm.kind == "memory"
    return Container(
        program="kubernetes",
        image=text(given.get("image")),
        name=text(given.get("name")),
        shm_size=shm.size if shm is not None and memory else None,
        shm_mount=None if shm is None else "tmpfs" if memory else shm.source or shm.kind,
        ipc="host" if yes(spec.get("hostIPC")) else None,
        memory=amount(text(limits.get("memory"))),
        entrypoint=command[0] if command else None,
        asked_gpus=(Gpus(by=resource, count=count),) if resource is not None else (),
        runtime=text(spec.get("runtimeClassName")),
        privileged=yes(security.get("privileged")),
        network="host" if yes(spec.get("hostNetwork")) else None,
        pid="host" if yes(spec.get("hostPID")) else None,
        user=None if user is None else str(user),
        workdir=text(given.get("workingDir")),
        restart=text(spec.get("restartPolicy")),
        read_only=yes(security.get("readOnlyRootFilesystem")),
        ports=tuple(_ports(given)),
        mounts=tuple(mounts),
        cap_add=tuple(c.upper().removeprefix("CAP_") for c in texts(capabilities.get("add"))),
        cap_drop=tuple(c.upper().removeprefix("CAP_") for c in texts(capabilities.get("drop"))),
        env_inherited=tuple(inherited),
        secrets_given=secrets(literal),
    )


def _gpus(resources: dict[str, Any]) -> tuple[str | None, int | None]:
    """The GPU resource that is asked for and how many of it: nvidia.com/gpu, nvidia.com/mig-1g.10gb, a vendor's own name."""
    for name, value in resources.items():
        if name.startswith("nvidia.com/") or name.endswith("/gpu") or "vgpu" in name.lower():
            if not name.endswith(("gpumem", "gpucores", "gpumem-percentage", "gpu-memory", "priority")):
                number = quantity(text(value))
                return name, int(number) if number is not None and number == int(number) else None
    return None, None


def _ports(given: dict[str, Any]) -> Iterator[Port]:
    for one in maps(given.get("ports")):
        inside, outside = whole(one.get("containerPort")), whole(one.get("hostPort"))
        if inside is not None:
            published = None if outside is None else (outside, outside)
            yield Port(
                inside=(inside, inside), published=published, protocol=(text(one.get("protocol")) or "TCP").lower()
            )


def _mounts(spec: dict[str, Any], given: dict[str, Any]) -> list[Mount]:
    volumes = {text(v.get("name")): v for v in maps(spec.get("volumes"))}
    got = []
    for one in maps(given.get("volumeMounts")):
        target, volume = text(one.get("mountPath")), volumes.get(text(one.get("name")), {})
        if target is None:
            continue
        field = next((f for f in volume if f in _KINDS), None)
        inner = mapping(volume.get(field)) if field else {}
        kind = _KINDS[field] if field else "other"
        if kind == "empty" and text(inner.get("medium")) == "Memory":
            kind = "memory"
        source = text(inner.get("path") or inner.get("claimName") or inner.get("name") or volume.get("name"))
        below = text(one.get("subPath"))
        if kind == "bind" and source and below:
            source = f"{source.rstrip('/')}/{below}"
        got.append(
            Mount(
                target=clean_target(target),
                kind=kind,
                source=source,
                read_only=yes(one.get("readOnly")),
                size=amount(text(inner.get("sizeLimit"))),
                create=kind == "bind" and "OrCreate" in (text(inner.get("type")) or ""),
            )
        )
    return got


# -- the pod -------------------------------------------------------------------------------------------------------


def _pod(
    kind: str,
    meta: dict[str, Any],
    spec: dict[str, Any],
    around: dict[str, Any],
    given: dict[str, Any],
    container: Container,
    literal: dict[str, str],
) -> Pod:
    asked = mapping(given.get("resources"))
    limits, requests = mapping(asked.get("limits")), mapping(asked.get("requests"))
    limit_name, limit = _gpus(limits)
    request_name, request = _gpus(requests)
    return Pod(
        resource=kind,
        namespace=text(meta.get("namespace")),
        container=container.name,
        replicas=whole(around.get("replicas")),
        gpu_resource=limit_name or request_name,
        gpu_limit=limit,
        gpu_request=request,
        memory_limit=amount(text(limits.get("memory"))),
        memory_request=amount(text(requests.get("memory"))),
        cpu_limit=quantity(text(limits.get("cpu"))),
        cpu_request=quantity(text(requests.get("cpu"))),
        shm=next((m for m in container.mounts if m.target == _SHM), None),
        memory_volumes=tuple(m for m in container.mounts if m.kind == "memory"),
        host_ipc=yes(spec.get("hostIPC")),
        host_network=yes(spec.get("hostNetwork")),
        host_pid=yes(spec.get("hostPID")),
        runtime_class=text(spec.get("runtimeClassName")),
        node_selector={str(k): str(v) for k, v in mapping(spec.get("nodeSelector")).items() if isinstance(v, str)},
        node_name=text(spec.get("nodeName")),
        liveness=_probe(given.get("livenessProbe")),
        readiness=_probe(given.get("readinessProbe")),
        startup=_probe(given.get("startupProbe")),
        restart_policy=text(spec.get("restartPolicy")),
        run_as_user=whole(container.user) if container.user else None,
        progress_deadline_s=whole(around.get("progressDeadlineSeconds")),
        grace_s=whole(spec.get("terminationGracePeriodSeconds")),
        tokens=container.secrets_given,
        claims=tuple(t for c in maps(spec.get("resourceClaims")) if (t := text(c.get("name"))) is not None),
        init_containers=tuple(t for c in maps(spec.get("initContainers")) if (t := text(c.get("name"))) is not None),
        group_size=whole(around.get("size")),
    )


def _probe(value: Any) -> PodProbe | None:
    if not isinstance(value, dict) or not value:
        return None
    how = next((h for h in ("httpGet", "tcpSocket", "exec", "grpc") if h in value), "?")
    inner = mapping(value.get(how))

    def number(name: str, default: int) -> int:
        given = whole(value.get(name))
        return default if given is None else given

    return PodProbe(
        how=how,
        path=text(inner.get("path")),
        port=text(inner.get("port")),
        headers=tuple((text(h.get("name")) or "").lower() for h in maps(inner.get("httpHeaders"))),
        initial_delay_s=number("initialDelaySeconds", 0),
        period_s=number("periodSeconds", 10) or 10,
        timeout_s=number("timeoutSeconds", 1) or 1,
        failures=number("failureThreshold", 3) or 3,
        successes=number("successThreshold", 1) or 1,
    )
