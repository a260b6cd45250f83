"""Takes the wrappers off a command: env, sudo, numactl, torchrun, uv run, srun, shells, docker; never starts anything."""

from __future__ import annotations

import re
from collections.abc import Callable

from .command import Found, engine_of
from .docker import RUNNERS
from .words import ASSIGNMENT, Options

_DEEP = 12  # wrappers within wrappers beyond this are not looked through
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ash", "ksh"))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Wrappers, and which of their options take a value of their own.
_PLAIN: dict[str, frozenset[str]] = {
    "sudo": _words("-u -g -h -p -C -D -R -T -U -r -t --user --group --chdir --prompt --host --chroot --close-from"),
    "doas": _words("-u -C"),
    "nohup": frozenset(),
    "exec": _words("-a"),
    "command": frozenset(),
    "builtin": frozenset(),
    "setsid": frozenset(),
    "time": _words("-f -o --format --output"),
    "nice": _words("-n --adjustment"),
    "ionice": _words("-c -n -p --class --classdata"),
    "stdbuf": _words("-i -o -e --input --output --error"),
    "numactl": _words(
        "-N -m -C -i -p -P -w --cpunodebind --membind --physcpubind --interleave --preferred --preferred-many"
    ),
    "chrt": frozenset(),
    "catchsegv": frozenset(),
    "unbuffer": frozenset(),
    "tini": _words("-p -e"),
    "dumb-init": _words("-r --rewrite"),
    "systemd-run": _words(
        "-p --property -u --unit -E --setenv --slice --uid --gid --nice --working-directory -d -M -H"
    ),
    "prlimit": frozenset(),
    "systemd-inhibit": frozenset(),
    "setpriv": _words("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"),
    "unshare": frozenset(),
    "with-contenv": frozenset(),
}
# Those whose first word behind the options is their own.
_FIRST_WORD = {
    "taskset": _words("-p"),
    "timeout": _words("-s -k --signal --kill-after"),
    "gosu": frozenset(),
    "su-exec": frozenset(),
    "chroot": frozenset(),
    "flock": _words("-w -E --timeout --conflict-exit-code"),
}
# `PROGRAM run ...`: environments of Python. https://docs.astral.sh/uv/reference/cli/#uv-run and the others' --help.
_RUN = {
    "uv": _words(
        "--with --with-editable --with-requirements --extra --group --no-group --only-group --env-file --package --python -p "
        "--project --directory --index --default-index --index-url -i --extra-index-url --find-links -f --index-strategy "
        "--keyring-provider --resolution --prerelease --exclude-newer --link-mode --config-setting -C --refresh-package "
        "--upgrade-package -P --cache-dir --config-file --allow-insecure-host --torch-backend --color"
    ),
    "poetry": _words("-C --directory -P --project"),
    "pdm": _words("-p --project"),
    "pipenv": frozenset(),
    "hatch": frozenset(),
    "rye": frozenset(),
    "pixi": _words("-e --environment --manifest-path"),
    "conda": _words("-n --name -p --prefix --cwd"),
    "mamba": _words("-n --name -p --prefix --cwd"),
    "micromamba": _words("-n --name -p --prefix -r --root-prefix --cwd -a --attach"),
}
_TORCHRUN = _words(
    "--nnodes --nproc-per-node --nproc_per_node --rdzv-backend --rdzv_backend --rdzv-endpoint --rdzv_endpoint --rdzv-id "
    "--rdzv_id --rdzv-conf --rdzv_conf --max-restarts --max_restarts --monitor-interval --monitor_interval --start-method "
    "--start_method --role --log-dir --log_dir --redirects -r --tee -t --local-ranks-filter --local_ranks_filter "
    "--node-rank --node_rank --master-addr --master_addr --master-port --master_port --local-addr --local_addr "
    "--logs-specs --logs_specs"
)
_SRUN = _words(
    "-N --nodes -n --ntasks -c --cpus-per-task -G --gpus -p --partition -A --account -t --time -J --job-name -o --output "
    "-e --error -w --nodelist -x --exclude -C --constraint -q --qos -D --chdir -m --distribution -d --dependency -i --input"
)
# Options of these take values in many ways (--mca key value): only what is certain is looked through.
_MPI = {
    "-np": 1,
    "-n": 1,
    "-c": 1,
    "-N": 1,
    "--np": 1,
    "-H": 1,
    "--host": 1,
    "-host": 1,
    "--hostfile": 1,
    "-hostfile": 1,
    "-machinefile": 1,
    "-x": 1,
    "--map-by": 1,
    "--bind-to": 1,
    "-bind-to": 1,
    "--mca": 2,
    "-mca": 2,
    "-genv": 2,
    "-wdir": 1,
    "--wdir": 1,
    "-ppn": 1,
    "--allow-run-as-root": 0,
    "--oversubscribe": 0,
    "--tag-output": 0,
}


def unwrap(found: Found) -> None:
    """Take the wrappers off, outermost first."""
    deep = 0
    while found.argv and deep < _DEEP:
        word = found.argv[0]
        m = ASSIGNMENT.fullmatch(word)
        if m:
            found.environment[m[1]] = m[2]
            found.argv = found.argv[1:]
            continue
        deep += 1
        name = word.rpartition("/")[2]
        if engine_of(found.argv, found.container)[0] is not None:
            return
        step = _STEPS.get(name)
        if step is not None:
            before = found.argv
            step(found, name)
            if found.argv is before:
                return
        elif name in _PLAIN:
            _plain(found, name)
        elif name in _FIRST_WORD:
            found.argv = Options(found.argv[1:], _FIRST_WORD[name]).rest[1:]
        else:
            return
        found.wrappers.append(name)


def _plain(found: Found, name: str) -> None:
    options = Options(found.argv[1:], _PLAIN[name])
    found.argv = options.rest
    if name == "sudo":
        found.folder = options.last("-D", "--chdir") or found.folder
    if name == "chrt" and found.argv and found.argv[0].isdigit():
        found.argv = found.argv[1:]
    if name == "systemd-run":
        for setting in options.values("-E", "--setenv"):
            variable, equals, value = setting.partition("=")
            if equals:
                found.environment[variable] = value


def _env(found: Found, _: str) -> None:
    words = found.argv[1:]
    while words and words[0].startswith("-") and words[0] != "--":
        word, words = words[0], words[1:]
        if word in ("-i", "--ignore-environment", "-"):
            found.miss("launch-environment-cleared")
        elif word in ("-u", "--unset", "-C", "--chdir", "-S", "--split-string") or word.startswith(
            ("--unset=", "--chdir=", "--split-string=")
        ):
            name, equals, value = word.partition("=")
            if not equals and words:
                value, words = words[0], words[1:]
            words = _env_option(found, name, value, words)
        elif word.startswith(("-S", "-u")):
            words = _env_option(found, word[:2], word[2:], words)
    if words[:1] == ["--"]:
        words = words[1:]
    found.argv = words


def _env_option(found: Found, name: str, value: str, words: list[str]) -> list[str]:
    if name in ("-S", "--split-string"):
        import shlex

        try:
            return [*shlex.split(value), *words]
        except ValueError:
            found.miss("launch-quotes-open", at=value[:80])
    elif name in ("-C", "--chdir"):
        found.folder = value
    else:
        found.environment.pop(value, None)
    return words


def _run(found: Found, name: str) -> None:
    """`uv run`, `conda run` and the like; `uvx` and `pipx run` start a program of a package."""
    valued = _RUN[name]
    words = Options(found.argv[1:], valued).rest  # options may stand in front of the verb
    if words[:1] != ["run"]:
        return
    options = Options(words[1:], valued)
    found.argv = options.rest
    found.folder = options.last("--directory", "--cwd") or found.folder
    if name == "uv" and (options.last("-m", "--module") is not None) and found.argv:
        found.argv = ["python", "-m", *found.argv]
    if options.last("--env-file"):
        found.miss("launch-env-file", path=options.last("--env-file"))
    place = options.last("-p", "--prefix") if name in ("conda", "mamba", "micromamba") else None
    if place and place.startswith("/"):
        found.environment.setdefault("CONDA_PREFIX", place)


def _uvx(found: Found, _: str) -> None:
    options = Options(found.argv[1:], _RUN["uv"] | {"--from"})
    if options.rest:
        found.argv = [options.rest[0].partition("@")[0], *options.rest[1:]]


def _torchrun(found: Found, _: str) -> None:
    _torch(found, found.argv[1:])


def _torch(found: Found, words: list[str]) -> None:
    options = Options(words, _TORCHRUN)
    if not options.rest:
        return
    nodes = options.last("--nnodes") or ""
    if re.fullmatch(r"[1-9]\d{0,3}", nodes):
        found.nodes = int(nodes)
    names = [n for n, _ in options.given]
    module = "-m" in names or "--module" in names
    if "--no-python" in names or "--no_python" in names:
        found.argv = options.rest
    else:
        found.argv = ["python", "-m", *options.rest] if module else ["python", *options.rest]


def _python(found: Found, _: str) -> None:
    """python -m torch.distributed.run in front of the engine's module."""
    words = found.argv
    if len(words) > 2 and words[1] == "-m" and words[2] in ("torch.distributed.run", "torch.distributed.launch"):
        python = words[0]
        _torch(found, words[3:])
        if found.argv[:1] == ["python"]:
            found.argv = [python, *found.argv[1:]]


def _accelerate(found: Found, _: str) -> None:
    if found.argv[1:2] != ["launch"]:
        return
    rest = found.argv[2:]
    for i, word in enumerate(rest):  # its options are many; the module it starts is certain
        if word in ("-m", "--module") and i + 1 < len(rest):
            found.argv = ["python", "-m", *rest[i + 1 :]]
            return


def _srun(found: Found, _: str) -> None:
    options = Options(found.argv[1:], _SRUN)
    found.argv = options.rest
    nodes = options.last("-N", "--nodes") or ""
    if nodes.isdigit() and int(nodes) > 1:
        found.nodes = int(nodes)
    image = options.last("--container-image")
    if image:
        found.miss("launch-container-elsewhere", program="srun --container-image", image=image)


def _mpi(found: Found, name: str) -> None:
    words = found.argv[1:]
    i = 0
    while i < len(words) and words[i].startswith("-"):
        word = words[i].partition("=")[0]
        if word not in _MPI:
            found.miss("launch-wrapper-option", program=name, option=word)
            return
        if word in ("-x",) and i + 1 < len(words):
            variable, equals, value = words[i + 1].partition("=")
            if equals:
                found.environment[variable] = value
        i += 1 + (0 if "=" in words[i] else _MPI[word])
    found.argv = words[i:]


def _ray(found: Found, _: str) -> None:
    if found.argv[1:3] == ["job", "submit"] and "--" in found.argv:
        found.argv = found.argv[found.argv.index("--") + 1 :]
        found.miss("launch-started-elsewhere", program="ray job submit")


def _kubectl(found: Found, name: str) -> None:
    if "exec" in found.argv[1:] and "--" in found.argv:
        found.argv = found.argv[found.argv.index("--") + 1 :]
        found.miss("launch-started-elsewhere", program=f"{name} exec")


def _ssh(found: Found, name: str) -> None:
    # What it would start there is another machine's business, whatever this one is like.
    found.miss("launch-started-elsewhere", program=name)


def _shell(found: Found, _: str) -> None:
    """`-c 'script'`: the engine's command in it, with what the commands in front of it set."""
    script, rest = _script_of(found.argv[1:])
    if script is None:
        return
    from .script import choose

    choose(found, script, rest)


def _script_of(argv: list[str]) -> tuple[str | None, list[str]]:
    """(the text behind -c, its own arguments from $0 on)."""
    i = 0
    while i < len(argv):
        word = argv[i]
        if word in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file"):
            i += 2
        elif word.startswith("-") and not word.startswith("--") and "c" in word[1:]:
            i += 1
            while i < len(argv) and argv[i] in ("-e", "-x", "-u", "-l", "-i", "--"):
                i += 1
            return (argv[i], argv[i + 1 :]) if i < len(argv) else (None, [])
        elif word.startswith(("-", "+")):
            i += 1
        else:
            return None, []
    return None, []


def _container(found: Found, name: str) -> None:
    from . import docker

    if found.container is not None:
        return
    at = docker.command(name, found.argv[1:])
    if at is None:
        if "compose" in found.argv[1:3]:
            found.miss("launch-compose-command")
        return
    container, given, inside = docker.read(name, at[0], at[1])
    found.container = container
    found.known = dict(given)
    found.environment = given  # the container does not inherit what stands in front of docker
    found.folder = container.workdir
    found.argv = inside
    for path in container.env_files:
        found.miss("launch-env-file", path=path)


def _image_runner(found: Found, name: str) -> None:
    """Apptainer and Singularity share the host's devices, network and /dev/shm: told, not modelled."""
    words = found.argv[1:]
    verbs = [i for i, w in enumerate(words) if w in ("exec", "run")]
    if not verbs:
        return
    options = Options(
        words[verbs[0] + 1 :], _words("-B --bind --env --env-file -H --home -W --workdir --pwd --cwd --overlay --mount")
    )
    if len(options.rest) > 1:
        for value in options.values("--env"):
            found.environment.update(p.partition("=")[::2] for p in value.split(",") if "=" in p)
        found.miss("launch-container-elsewhere", program=name, image=options.rest[0])
        found.argv = options.rest[1:]


_STEPS: dict[str, Callable[[Found, str], None]] = {
    "env": _env,
    "torchrun": _torchrun,
    "accelerate": _accelerate,
    "srun": _srun,
    "mpirun": _mpi,
    "mpiexec": _mpi,
    "ray": _ray,
    "ssh": _ssh,
    "kubectl": _kubectl,
    "uvx": _uvx,
    "apptainer": _image_runner,
    "singularity": _image_runner,
    **dict.fromkeys(_RUN, _run),
    **dict.fromkeys(SHELLS, _shell),
    **dict.fromkeys(RUNNERS, _container),
    **dict.fromkeys(("python", "python3", *(f"python3.{n}" for n in range(8, 20))), _python),
}
