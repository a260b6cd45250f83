"""What a launch says, typed: the command, the container around it, the deployment that would start it; values only."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

PROBES = "ds_doctor.probes.launch"  # where the probes of the facts stand; this room does no I/O


class Unread(msgspec.Struct, frozen=True):
    """Something that was given and is not understood: an id of a `[reason.<id>]` text, and its blanks. Never guessed at."""

    id: str
    data: dict[str, Any] = {}


class Mount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One path inside the container and what lies there.

    `kind`: bind (`source` is a path outside), volume (`source` is its name, None: anonymous), tmpfs, memory (an emptyDir of
    medium Memory), empty (an emptyDir), config, secret, claim, image, ephemeral, other. `size` in bytes where one is given.
    `create`: a missing source is created by the runtime (docker -v) instead of refused.
    """

    target: str
    kind: str
    source: str | None = None
    read_only: bool = False
    size: int | None = None
    create: bool = False


class Port(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One port of the container; `published` (None: chosen freely) on `address` (None: all) outside. Ranges: first and last."""

    inside: tuple[int, int]
    published: tuple[int, int] | None = None
    address: str | None = None
    protocol: str = "tcp"


class Gpus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """GPUs that were asked for: all of them, so many, or these (indices and UUIDs). `by`: the option or field that says it.
    `capabilities`: named with it; None where the way of asking has none."""

    by: str
    every: bool = False
    count: int | None = None
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] | None = None


class Ulimit(msgspec.Struct, frozen=True, kw_only=True):
    """Soft and hard limit; -1: none."""

    soft: int
    hard: int


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """The container that the engine would start in: of `docker run`, of a Compose service, of a pod.

    `program`: docker, podman, nerdctl, kubernetes. Sizes in bytes; None: not given, not readable. `gpus`: the GPUs named
    (None: all, so many, or none were asked for), `asked_gpus`: each way in which they are asked for. `shm_mount`: what is
    mounted over /dev/shm, `tmpfs` (`shm_size` is then its size) or the source of a volume; `?` where a size was given that
    is none. `running`: the command is executed in a container that exists (`exec`), whose settings are not seen here.
    `ports_unread`: published ones that are not understood. `env_files` are not read; `env_inherited` are names whose values come from outside.
    """

    program: str
    image: str | None = None
    name: str | None = None
    shm_size: int | None = None
    shm_mount: str | None = None
    ipc: str | None = None
    memory: int | None = None
    gpus: tuple[str, ...] | None = None
    entrypoint: str | None = None
    asked_gpus: tuple[Gpus, ...] = ()
    runtime: str | None = None
    privileged: bool = False
    network: str | None = None
    pid: str | None = None
    user: str | None = None
    platform: str | None = None
    workdir: str | None = None
    restart: str | None = None
    read_only: bool = False
    remove: bool = False
    running: bool = False
    publish_all: bool = False
    ports: tuple[Port, ...] = ()
    ports_unread: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    ulimits: dict[str, Ulimit] = {}
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    env_inherited: tuple[str, ...] = ()
    secrets_given: tuple[str, ...] = ()  # names of variables whose secret stands in the command or file


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What the launch command starts.

    `argv` is the engine's own command, wrappers taken off. `engine`: vllm, sglang or None. `entry` is how it is started:
    `vllm serve`, `sglang serve`, or the module behind `python -m`; `arguments` are the words that the entry's own parser
    gets. The sizes are None where the command does not give them (both engines then take 1). `environment`: assignments in front, or -e of the container;
    `nodes`: --nnodes. `container`: None when the engine starts right here.

    `wrappers`: the programs that were looked through, outermost first; `folder`: where `cd` or --chdir leads before the
    engine starts. `unread`: what is not understood, and why; `open`: words of the command that hold a variable or
    substitution whose value nobody knows yet, so that nothing can be said of them.
    """

    of_asked_alone: ClassVar[bool] = True  # a replay works it out anew

    argv: tuple[str, ...]
    engine: str | None = None
    entry: str | None = None
    arguments: tuple[str, ...] = ()
    python: str | None = None
    model: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    nodes: int | None = None
    environment: dict[str, str] = {}
    container: Container | None = None
    wrappers: tuple[str, ...] = ()
    folder: str | None = None
    open: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()


class PodProbe(msgspec.Struct, frozen=True, kw_only=True):
    """A probe of the kubelet; seconds, with the defaults of Kubernetes where nothing is given. `how`: httpGet, tcpSocket,
    exec, grpc. `headers`: the names of those that it sends, in small letters."""

    how: str = "?"
    path: str | None = None
    port: str | None = None
    headers: tuple[str, ...] = ()
    initial_delay_s: int = 0
    period_s: int = 10
    timeout_s: int = 1
    failures: int = 3
    successes: int = 1


class Pod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a manifest says of the pod and of the container that holds the engine. Sizes in bytes; None: not given.

    `gpu_resource`: the resource of which GPUs are asked (nvidia.com/gpu, nvidia.com/mig-1g.10gb ...), `gpu_limit` and
    `gpu_request` how many. `shm`: the volume mounted over /dev/shm. `tokens`: the variables whose secret stands in the
    manifest. `claims`: resource claims (DRA), another way to GPUs. `not_text`: numbers and truth values where Kubernetes
    takes texts only.
    """

    resource: str
    namespace: str | None = None
    container: str | None = None
    replicas: int | None = None
    gpu_resource: str | None = None
    gpu_limit: int | None = None
    gpu_request: int | None = None
    memory_limit: int | None = None
    memory_request: int | None = None
    cpu_limit: float | None = None
    cpu_request: float | None = None
    shm: Mount | None = None
    memory_volumes: tuple[Mount, ...] = ()
    host_ipc: bool = False
    host_network: bool = False
    host_pid: bool = False
    runtime_class: str | None = None
    node_selector: dict[str, str] = {}
    node_name: str | None = None
    liveness: PodProbe | None = None
    readiness: PodProbe | None = None
    startup: PodProbe | None = None
    restart_policy: str | None = None
    run_as_user: int | None = None
    progress_deadline_s: int | None = None
    grace_s: int | None = None
    tokens: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    init_containers: tuple[str, ...] = ()
    group_size: int | None = None
    not_text: tuple[str, ...] = ()


class Compose(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a Compose file says of a service beside its container. `version`: the file's, which only old programs read.
    `reservations`: the devices under deploy.resources; `health_start_s`: how long a health check may fail at first."""

    version: str | None = None
    reservations: tuple[Gpus, ...] = ()
    depends_on: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    build: bool = False
    healthcheck: bool = False
    health_start_s: float | None = None
    health_interval_s: float | None = None
    health_retries: int | None = None
    replicas: int | None = None


class Slip(msgspec.Struct, frozen=True, kw_only=True):
    """One word of Environment= that is not what it looks like. `kind`: ignored (no assignment), swallowed (a second
    assignment became part of the first one's value), literal ($X is not filled in), secret (one in plain text). `text`
    carries no secret."""

    kind: str
    text: str


class Unit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A systemd service. `limits`: LimitNOFILE, LimitMEMLOCK ... as they are written; seconds; None: not given, inf: none.

    `program`: the first word of ExecStart; `shell`: the words of the command that mean something to a shell alone, and are
    not among its arguments here; `slips`: what Environment does otherwise than it looks.
    """

    type: str | None = None
    program: str | None = None
    shell: tuple[str, ...] = ()
    slips: tuple[Slip, ...] = ()
    user: str | None = None
    working_directory: str | None = None
    limits: dict[str, str] = {}
    timeout_start_s: float | None = None
    restart: str | None = None
    memory_max: int | None = None
    device_policy: str | None = None
    device_allow: tuple[str, ...] = ()
    private_devices: bool = False
    private_tmp: bool = False
    protect_home: str | None = None
    read_only_paths: tuple[str, ...] = ()
    environment_files: tuple[str, ...] = ()
    pass_environment: tuple[str, ...] = ()


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The service of a file that would start the engine. `kind`: compose, kubernetes, systemd, script. `source`: the file
    as it was given, `folder` the folder that it lies in. `where`: the place in it, `services.llm`, `Deployment/llm, container server`, `line 7`."""

    of_asked_alone: ClassVar[bool] = True  # a replay works it out anew

    kind: str
    name: str
    source: str
    where: str = ""
    folder: str | None = None
    pod: Pod | None = None
    compose: Compose | None = None
    unit: Unit | None = None


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service of a file: its command as words, what they say, and the settings around it."""

    name: str
    command: tuple[str, ...]
    launch: Launch
    deployment: Deployment


class Gateway(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One route to a server behind a gateway.

    `kind`: nginx, ingress-nginx, alb, haproxy, gke, gateway-api, istio, envoy, traefik. `where`: the place in the file.
    `timeout_s`: None: none, or not known. `whole`: it counts for the whole request, else between two pieces of the answer.
    `setting`: what sets it; `default`: the file does not, and this is the program's own. `buffers`: the answer is collected
    before it is passed on. `body_bytes`: the largest request, None: no limit known; `body_setting`, `body_default` likewise.
    `ports`: of the servers behind it, as far as they are named.
    """

    kind: str
    where: str
    setting: str
    timeout_s: float | None = None
    whole: bool = False
    default: bool = False
    buffers: bool = False
    body_bytes: int | None = None
    body_setting: str | None = None
    body_default: bool = False
    ports: tuple[int, ...] = ()
