"""The launch command as far as it tells engine, model, workers and the container around them; never judges a flag.

Wrappers are looked through: NAME=value, env, sudo, nohup, exec, nice, numactl, taskset, time, timeout, `bash -c` and
`docker run` (podman, nerdctl). What is not understood stays None.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .environment import HIDDEN
from .environment import parse as without_secrets


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """`docker run`: the program, the image, --shm-size in bytes, --ipc, --memory in bytes, the GPUs that --gpus names
    (indices and UUIDs; None: all, or none were named); None: not given, not readable. `shm_mount`: what is mounted over
    /dev/shm, `tmpfs` (`shm_size` is then its size) or the source of a volume; `?` where a size was given that is none."""

    program: str
    image: str | None = None
    shm_size: int | None = None
    shm_mount: str | None = None
    ipc: str | None = None
    memory: int | None = None
    gpus: tuple[str, ...] | None = None
    entrypoint: str | None = None


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What the launch command starts.

    `argv` is the engine's own command, wrappers taken off. `engine`: vllm, sglang or None. `entry` is how it is started:
    `vllm serve`, `sglang serve`, or the module behind `python -m`; `arguments` are the words that the entry's own parser
    gets. The sizes are None where the command does not give them (both engines then take 1). `environment`: assignments in front, or -e of the container;
    `nodes`: --nnodes. `container`: None when the engine starts right here.
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


ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"(pypy|python)[0-9.]*\Z")

# Wrappers, and which of their options take a value of their own.
_WRAPPERS: dict[str, frozenset[str]] = {
    "env": frozenset(("-u", "--unset", "-C", "--chdir")),
    "sudo": frozenset(("-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group")),
    "nohup": frozenset(),
    "exec": frozenset(("-a",)),
    "setsid": frozenset(),
    "time": frozenset(("-f", "-o")),
    "nice": frozenset(("-n",)),
    "ionice": frozenset(("-c", "-n", "-p")),
    "stdbuf": frozenset(("-i", "-o", "-e")),
    "numactl": frozenset(("-N", "-m", "-C", "-i", "-p")),
    "chrt": frozenset(),
    "catchsegv": frozenset(),
}
_FIRST_WORD = {"taskset": frozenset(("-p",)), "timeout": frozenset(("-s", "-k", "--signal", "--kill-after"))}
_SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
_RUNNERS = frozenset(("docker", "podman", "nerdctl"))

# Options of `docker run` without a value: https://docs.docker.com/reference/cli/docker/container/run/
_DOCKER_BARE = frozenset(
    (
        *("--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck"),
        *("--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--rm", "--sig-proxy"),
        *("--tty", "--replace", "--tls-verify", "--no-hosts", "--no-hostname", "--rootfs", "--use-api-socket"),
    )
)
_DOCKER_SHORT_BARE = "dhiPqt"

# Each engine's names: vllm 0.33.0 vllm/engine/arg_utils.py, sglang 0.5.23 sglang/srt/server_args.py. SGLang takes
# unambiguous abbreviations, of which --tp and --dp are in every recipe.
_SIZES = {
    "tensor_parallel": ("--tensor-parallel-size", "-tp", "--tp-size", "--tp"),
    "pipeline_parallel": ("--pipeline-parallel-size", "-pp", "--pp-size", "--pp"),
    "data_parallel": ("--data-parallel-size", "-dp", "--dp-size", "--dp"),
    "nodes": ("--nnodes", "-n"),
}
_MODEL = ("--model", "--model-path")
# Flags whose value is a secret; `--max-num-batched-tokens` and `--tokenizer` are none.
_SECRET = re.compile(r"--?[\w-]*(api[-_]key|password|secret|[-_]token)\Z", re.IGNORECASE)
_SIZE_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DEEP = 8  # wrappers within wrappers beyond this are not looked through


def bytes_of(text: str) -> int | None:
    """`2g`, `512mb`, `67108864`, `1.5GiB` as docker reads sizes; None for anything else."""
    m = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*(?:([bkmgt])(?:i?b)?)?\s*", text.lower())
    return int(float(m[1]) * _SIZE_UNITS[m[2] or "b"]) if m else None


def parse(command: tuple[str, ...]) -> Launch:
    """What the command says. It never fails: what is not understood stays None."""
    argv, environment, container = _unwrap(_without_redirections(command), {}, None, 0)
    engine, python, entry, rest = _engine(argv, container)
    sizes = {name: _number(rest, flags) for name, flags in _SIZES.items()}
    return Launch(
        argv=_hidden(argv),
        engine=engine,
        entry=entry,
        arguments=_hidden(rest),
        python=python,
        model=_model(engine, entry, rest),
        environment=without_secrets(environment),
        container=container,
        **sizes,
    )


def _without_redirections(command: Sequence[str]) -> list[str]:
    """The words without what a shell keeps for itself (`> log 2>&1 &`, a pipe and what follows it): a command copied out
    of a script brings them along."""
    kept: list[str] = []
    words = iter(command)
    for word in words:
        if word in ("&", ";", "|", "|&", "||"):
            break
        if re.fullmatch(r"\d*>>?|&>>?|<", word):
            next(words, None)
        elif not re.match(r"\d*>>?\S|&>>?\S", word):
            kept.append(word)
    return kept


def _hidden(argv: list[str]) -> tuple[str, ...]:
    """The words without secrets: a fact is written to reports and snapshots."""
    words: list[str] = []
    for i, word in enumerate(argv):
        name, equals, _ = word.partition("=")
        if i and _SECRET.match(argv[i - 1]):
            word = HIDDEN
        elif equals and _SECRET.match(name):
            word = f"{name}={HIDDEN}"
        words.append(re.sub(r"(?<=://)[^/@\s]+@", HIDDEN + "@", word))
    return tuple(words)


def _unwrap(
    argv: list[str], environment: dict[str, str], container: Container | None, depth: int
) -> tuple[list[str], dict[str, str], Container | None]:
    """Take the wrappers off, outermost first."""
    while argv and depth < _DEEP:
        depth += 1
        m = ASSIGNMENT.fullmatch(argv[0])
        if m:
            environment = {**environment, m[1]: m[2]}
            argv, depth = argv[1:], depth - 1
            continue
        name = argv[0].rpartition("/")[2]
        if name in _WRAPPERS:
            argv = _past_options(argv[1:], _WRAPPERS[name])
        elif name in _FIRST_WORD:
            argv = _past_options(argv[1:], _FIRST_WORD[name])[1:]
        elif name in _SHELLS:
            inner = _shell(argv[1:])
            if inner is None:
                break
            argv = inner
        elif name in _RUNNERS and container is None and "run" in argv[1:3]:
            container, given, argv = _docker(name, argv[argv.index("run") + 1 :])
            environment = given  # the container does not inherit what stands in front of docker
        else:
            break
    return argv, environment, container


def _past_options(argv: list[str], with_value: frozenset[str]) -> list[str]:
    i = 0
    while i < len(argv) and argv[i].startswith("-"):
        if argv[i] == "--":
            return argv[i + 1 :]
        i += 2 if argv[i] in with_value else 1
    return argv[i:]


def _shell(argv: list[str]) -> list[str] | None:
    """The words of `-c 'command'`; None when it is something else, or more than one command."""
    import shlex

    for i, word in enumerate(argv):
        if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
            if i + 1 == len(argv) or re.search(r"[;|&\n`]|\$\(", argv[i + 1]):
                return None
            try:
                return shlex.split(argv[i + 1])
            except ValueError:
                return None
        if not word.startswith("-"):
            return None
    return None


def _docker(program: str, argv: list[str]) -> tuple[Container, dict[str, str], list[str]]:
    """The container's settings, its environment, and the command inside it."""
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    mounted: tuple[str, str] | None = None
    i = 0
    while i < len(argv) and argv[i].startswith("-") and argv[i] != "-":
        word = argv[i]
        i += 1
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            bare = name in _DOCKER_BARE
        else:
            bare = all(c in _DOCKER_SHORT_BARE for c in word[1:])
            if not bare and not equals and len(word) > 2:  # -eNAME=value
                name, equals, value = word[:2], "=", word[2:]
            elif not bare and equals and len(name) > 2:
                name, value = word[:2], word[2:]
        if not bare and not equals:
            value = argv[i] if i < len(argv) else ""
            i += 1
        if name in ("-e", "--env"):
            variable, has_value, text = value.partition("=")
            if has_value:
                environment[variable] = text
        else:
            options[name] = value
            mounted = _over_shm(name, value) or mounted
    size = mounted[1] if mounted else options.get("--shm-size", "")
    if size and bytes_of(size) is None:
        mounted = ("?", "")
    image = argv[i] if i < len(argv) else None
    inside = argv[i + 1 :]
    if "--entrypoint" in options:
        inside = [options["--entrypoint"], *inside] if options["--entrypoint"] else inside
    container = Container(
        program=program,
        image=image,
        shm_size=bytes_of(size) or None,  # docker takes 0 for its default
        shm_mount=mounted[0] if mounted else None,
        ipc=options.get("--ipc"),
        memory=bytes_of(options.get("--memory", options.get("-m", ""))),
        gpus=_device_list(options.get("--gpus", "")) or _cdi_list(options.get("--device", "")),
        entrypoint=options.get("--entrypoint"),
    )
    return container, environment, inside


def _over_shm(name: str, value: str) -> tuple[str, str] | None:
    """(`tmpfs` or the source, its size as text) where an option mounts something over /dev/shm."""
    if name in ("-v", "--volume"):
        source, _, rest = value.partition(":")
        return (source, "") if rest.partition(":")[0].rstrip("/") == "/dev/shm" else None
    if name == "--tmpfs":
        target, _, options = value.partition(":")
        given = dict(o.partition("=")[::2] for o in options.split(","))
    elif name == "--mount":
        given = dict(o.strip().partition("=")[::2] for o in value.split(","))
        target = next((given[n] for n in ("target", "destination", "dst") if n in given), "")
        if given.get("type", "volume") != "tmpfs":
            source = given.get("source", given.get("src", "?"))
            return (source, "") if target.rstrip("/") == "/dev/shm" else None
    else:
        return None
    size = given.get("tmpfs-size", given.get("size", ""))
    return ("tmpfs", size) if target.rstrip("/") == "/dev/shm" else None


def _device_list(value: str) -> tuple[str, ...] | None:
    """`device=0,2` of --gpus, in the quotes that docker wants around the comma."""
    m = re.search(r"device=([^\"']+)", value)
    return tuple(d.strip() for d in m[1].split(",") if d.strip()) if m else None


def _cdi_list(value: str) -> tuple[str, ...] | None:
    """`nvidia.com/gpu=0` of --device."""
    m = re.fullmatch(r"nvidia\.com/gpu=(?!all\Z)(.+)", value)
    return (m[1],) if m else None


# Images whose entry point is the engine's own command, so that what follows the image are its arguments (vllm
# docker/Dockerfile: ENTRYPOINT ["vllm", "serve"]).
_ENTRY_IMAGE = re.compile(r"(^|/)vllm-openai(:|$)")


def _engine(argv: list[str], container: Container | None) -> tuple[str | None, str | None, str | None, list[str]]:
    """(engine, interpreter, entry, the entry's arguments)."""
    image = (container.image or "").partition("@")[0] if container else ""
    if container is not None and container.entrypoint is None and _ENTRY_IMAGE.search(image):
        return "vllm", None, "vllm serve", argv
    name = argv[0].rpartition("/")[2] if argv else ""
    if name in ("vllm", "sglang"):
        return (name, None, *_verb(name, argv[1:]))
    if _PYTHON.match(name):
        for i, word in enumerate(argv[1:], 1):
            module = argv[i + 1] if word == "-m" and i + 1 < len(argv) else word[2:] if word.startswith("-m") else None
            if module:
                top = module.partition(".")[0]
                rest = argv[i + 2 :] if word == "-m" else argv[i + 1 :]
                return (top if top in ("vllm", "sglang") else None), argv[0], module, rest
            if not word.startswith("-"):
                # python /opt/venv/bin/vllm serve ...
                script = word.rpartition("/")[2]
                if script in ("vllm", "sglang"):
                    return (script, argv[0], *_verb(script, argv[i + 1 :]))
                return None, argv[0], None, argv[i + 1 :]
        return None, argv[0], None, []
    return None, None, None, argv


def _verb(program: str, words: list[str]) -> tuple[str, list[str]]:
    """The sub-command of `vllm` or `sglang`, and its arguments."""
    if words and not words[0].startswith("-"):
        return f"{program} {words[0]}", words[1:]
    return program, words


def option(argv: Sequence[str], flags: tuple[str, ...]) -> str | None:
    """The last value given to one of the flags; underscores count as dashes, as both engines' parsers have it."""
    found: str | None = None
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            name = "--" + name[2:].replace("_", "-")
        if name in flags:
            if equals:
                found = value
            elif i + 1 < len(argv) and not argv[i + 1].startswith("-"):
                found = argv[i + 1]
    return found


def has(argv: Sequence[str], flags: tuple[str, ...]) -> bool:
    """Whether one of the flags is given, with or without a value."""
    return any(w.partition("=")[0].replace("_", "-") in flags for w in argv)


def _number(argv: list[str], flags: tuple[str, ...]) -> int | None:
    text = option(argv, flags)
    return int(text) if text is not None and re.fullmatch(r"[1-9][0-9]{0,5}", text) else None


def _model(engine: str | None, entry: str | None, rest: list[str]) -> str | None:
    given = option(rest, _MODEL)
    if given is not None or engine is None:
        return given
    # `vllm serve MODEL`, `sglang serve MODEL`: the first word behind the verb.
    if entry in ("vllm serve", "sglang serve") and rest and not rest[0].startswith("-"):
        return rest[0]
    return None


@probe
def launch(host: Host) -> Launch:
    if not host.asked.command:
        raise Absent("no-command")
    return parse(host.asked.command)
