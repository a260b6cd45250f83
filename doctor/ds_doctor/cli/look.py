"""What the options say is to be looked at: this host, its files below a folder, or a snapshot; gathers the facts, judges nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import msgspec

from .. import engine, snapshot
from ..gather import Gathering, ask
from ..host import Asked, Host
from ..model import Lang, Outcome, Reason
from ..probes.environment import redact
from ..probes.launch import asked_launch
from ..replay import ReplayedHost
from ..rooted import RootedHost
from . import Usage, ahead, files
from .lang import t

LAST_RESORT_S = 3.0  # after the time is up, when even the interpreter hangs


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `run`, with their defaults."""

    form: str = "text"
    output: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    require: tuple[str, ...] = ()
    strict: bool = False
    python: str | None = None
    file: str | None = None
    service: str | None = None
    model: str | None = None
    verify_weights: bool = False
    root: str | None = None
    record: str | None = None
    replay: str | None = None
    profile: str | None = None
    rules: tuple[str, ...] = ()
    timeout: float = 20.0
    lang: Lang | None = None
    verbose: bool = False
    quiet: bool = False
    command: tuple[str, ...] = ()


def end_whatever_happens(timeout_s: float) -> None:
    """A check or probe that holds the interpreter's lock cannot be left behind: then the kernel ends the process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s + LAST_RESORT_S)


def what(options: Options, explain: Callable[[Reason], str]) -> tuple[list[Asked], snapshot.Snapshot | None]:
    """What is to be judged, one for each service of a file, and the snapshot to replay if one is given."""
    if options.replay is not None:
        data = files.read("--replay", options.replay, snapshot.LIMIT)
        try:
            kept = snapshot.read(data, f"--replay {options.replay}")
        except snapshot.SnapshotError as e:
            raise Usage(str(e)) from None
        if not options.command and options.file is None:
            return [kept.asked, *(s.asked for s in kept.services)], kept
        other = msgspec.structs.replace(
            kept.asked, command=redact(options.command), model=None, launch=None, deployment=None, gateways=()
        )
        return _services(options, other, explain), kept
    model = options.model
    if model is not None and options.root is None and os.path.lexists(model):  # else it may be a hub id
        model = files.absolute("--model", model)
    python = _python(options.python, options.root)
    root = files.absolute("--root", options.root) if options.root is not None else None
    asked = Asked(command=redact(options.command), python=python, model=model, root=root)
    return _services(options, asked, explain), None


def _services(options: Options, asked: Asked, explain: Callable[[Reason], str]) -> list[Asked]:
    if options.file is None:
        return [asked]
    from .given import asked_services

    return asked_services(options.file, options.service, asked, explain)


def _python(python: str | None, root: str | None) -> str | None:
    """The absolute path of --python, which must be an executable file (under --root: a path there)."""
    if python is None or root is not None:
        return python
    import shutil

    path = files.absolute("--python", python) if "/" in python else shutil.which(python)
    if path is None:
        raise Usage(t(f"--python {python}: no such program on PATH", f"--python {python}：PATH 中没有这个程序"))
    try:
        os.stat(path)
    except FileNotFoundError:
        raise Usage(t(f"--python {python}: does not exist", f"--python {python}：不存在")) from None
    except (OSError, ValueError) as e:
        raise Usage(f"--python {python}: {getattr(e, 'strerror', None) or e}") from None
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise Usage(t(f"--python {python}: not an executable file", f"--python {python}：不是可执行文件"))
    return path


def gather(options: Options, asked: Asked, facts: list[type], deadline: float, lang: Lang) -> dict[type, Outcome]:
    """The facts for what was asked."""
    return gather_all(options, [asked], facts, deadline, lang)[0]


def gather_all(
    options: Options,
    asked: list[Asked],
    facts: list[type],
    deadline: float,
    lang: Lang,
    meanwhile: Callable[[], None] | None = None,
) -> list[dict[type, Outcome]]:
    """The facts for each service: those of the first, and of every other one those again that may differ from them.
    `meanwhile` is done while probes wait for other processes."""
    from .progress import Progress

    host = host_for(options, asked[0])
    due = max(time.monotonic() + 0.2, deadline - min(engine.RESERVE_S, options.timeout / 4))
    gathering = Gathering(host, due)
    # What was asked ahead met the libraries of this environment.
    if options.root is None and _loader(host) == _loader(Host(env=os.environ)):
        ahead.join(gathering)
    gathering.want(facts)
    with Progress(lang) as progress:
        got = [gathering.collect(progress.waiting, meanwhile)]
        for one in asked[1:]:
            other = host_for(options, one)
            again = Gathering(other, due)
            again.want(f for f in facts if _differs(gathering.looked.get(f), host, other))
            got.append({**got[0], **again.collect(progress.waiting)})
    return got


def host_for(options: Options, asked: Asked) -> Host:
    """The door to what the options say is to be looked at."""
    if options.root is not None:
        return RootedHost(options.root, asked)
    return Host(asked, environment(asked))


def _differs(looked: frozenset[str] | None, one: Host, other: Host) -> bool:
    """Whether a fact can come out otherwise for the other service; `looked`: what its probe asked for."""
    if looked is None or "asked" in looked:
        return True
    if "env" in looked and one.env != other.env:
        return True
    return "loader" in looked and _loader(one) != _loader(other)


def _loader(host: Host) -> dict[str, str]:
    return {n: v for n, v in host.env.items() if n.startswith("LD_")}


def environment(asked: Asked) -> dict[str, str]:
    """The variables that the engine will see: this process's, and those in front of the launch command. systemd hands
    on none of ours."""
    launch = asked_launch(asked)
    unit = asked.deployment.unit if asked.deployment is not None else None
    ours = os.environ if unit is None else systemd(unit.user)
    return {**ours, **(launch.environment if launch.container is None else {})}


def systemd(user: str | None) -> dict[str, str]:
    """What a system service starts with (man 5 systemd.exec, Environment variables)."""
    import pwd

    from ..launch.unit import PATH

    try:
        found = pwd.getpwuid(int(user)) if user and user.isdigit() else pwd.getpwnam(user or "root")
    except (KeyError, OSError, OverflowError, ValueError):
        return {"PATH": PATH}
    return {"PATH": PATH, "HOME": found.pw_dir, **({"USER": found.pw_name, "LOGNAME": found.pw_name} if user else {})}


def replay(
    options: Options, kept: snapshot.Snapshot, asked: Asked, facts: list[type], service: int = 0
) -> dict[type, Outcome]:
    """The recorded facts; `service`: of which of several services. What only repeats what was asked is worked out anew;
    of what was looked at for another command nobody knows how it stands with this one."""
    recorded = [kept.asked, *(s.asked for s in kept.services)]
    other = service >= len(recorded) or _launched(asked) != _launched(recorded[service])
    try:
        got = snapshot.outcomes(kept, facts, f"--replay {options.replay}", 0 if other else service)
    except snapshot.SnapshotError as e:
        raise Usage(str(e)) from None
    nowhere = ReplayedHost({}, {}, asked)
    for fact in facts:
        if getattr(fact, "of_asked_alone", False):
            got[fact] = ask(nowhere, fact)
        elif other and getattr(fact, "of_command", False):
            got[fact] = Outcome(None, "absent", Reason("not-recorded-for-command"))
    return got


def _launched(asked: Asked) -> tuple[object, ...]:
    return asked.command, asked.launch, asked.deployment
