"""What the options say is to be looked at: this host, its files below a folder, or a snapshot; gathers the facts, judges nothing."""

from __future__ import annotations

import os
import signal
import time

import msgspec

from .. import engine, snapshot
from ..gather import Gathering, ask
from ..host import Asked, Host
from ..model import Lang, Outcome, Reason
from ..probes.environment import redact
from ..probes.launch import parse
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
    model: str | None = None
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


def what(options: Options) -> tuple[Asked, snapshot.Snapshot | None]:
    """What is to be judged, and the snapshot to replay if one is given."""
    if options.replay is not None:
        data = files.read("--replay", options.replay, snapshot.LIMIT)
        try:
            kept = snapshot.read(data, f"--replay {options.replay}")
        except snapshot.SnapshotError as e:
            raise Usage(str(e)) from None
        asked = kept.asked
        if options.command:
            asked = msgspec.structs.replace(asked, command=redact(options.command), model=None)
        return asked, kept
    model = options.model
    if model is not None and options.root is None and os.path.lexists(model):  # else it may be a hub id
        model = files.absolute("--model", model)
    python = _python(options.python, options.root)
    root = files.absolute("--root", options.root) if options.root is not None else None
    return Asked(command=redact(options.command), python=python, model=model, root=root), None


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
    from .progress import Progress

    host = RootedHost(options.root, asked) if options.root is not None else Host(asked, environment(asked))
    due = max(time.monotonic() + 0.2, deadline - min(engine.RESERVE_S, options.timeout / 4))
    gathering = Gathering(host, due)
    if options.root is None:
        ahead.join(gathering)
    gathering.want(facts)
    with Progress(lang) as progress:
        return gathering.collect(progress.waiting)


def environment(asked: Asked) -> dict[str, str]:
    """The variables that the engine will see: this process's, and those in front of the launch command."""
    launch = parse(asked.command)
    return {**os.environ, **(launch.environment if launch.container is None else {})}


def replay(options: Options, kept: snapshot.Snapshot, asked: Asked, facts: list[type]) -> dict[type, Outcome]:
    """The recorded facts. What only repeats what was asked is worked out anew; of what was looked at for another command
    nobody knows how it stands with this one."""
    try:
        got = snapshot.outcomes(kept, facts, f"--replay {options.replay}")
    except snapshot.SnapshotError as e:
        raise Usage(str(e)) from None
    other = asked.command != kept.asked.command
    nowhere = ReplayedHost({}, {}, asked)
    for fact in facts:
        if getattr(fact, "of_asked_alone", False):
            got[fact] = ask(nowhere, fact)
        elif other and getattr(fact, "of_command", False):
            got[fact] = Outcome(None, "unseen", Reason("not-recorded-for-command"))
    return got
