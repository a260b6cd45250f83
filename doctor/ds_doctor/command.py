"""Runs one command, bounded in time and output, and leaves nothing of it behind; knows no host, interprets nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from .model import Absent, Denied, Malformed, TimedOut

OUTPUT_LIMIT = 1 << 20  # bytes of one command's output
_running: set[int] = set()  # process groups of commands that have not been seen to end


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Of one command: exit status (negative: the signal that ended it), what it printed, whether that was cut."""

    status: int
    out: str
    err: str
    cut: bool = False


def run_command(argv: list[str], timeout_s: float, env: Mapping[str, str], limit: int = OUTPUT_LIMIT) -> Output:
    """Run `argv` in a process group of its own with no input, for at most `timeout_s`.

    A grandchild that keeps the pipes open after the command has ended is not waited for; a command that cannot be
    killed (it hangs in the kernel) is left behind. Raises Absent, Denied, TimedOut, Malformed.
    """
    import selectors
    import subprocess

    deadline = time.monotonic() + timeout_s
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            start_new_session=True,
            cwd="/",
        )
    except FileNotFoundError:
        raise Absent("command-missing", command=argv[0]) from None
    except PermissionError:
        raise Denied("command-denied", command=argv[0]) from None
    except OSError as e:
        raise Malformed("command-broken", command=argv[0], error=e.strerror or "?") from None
    _running.add(child.pid)
    assert child.stdout is not None and child.stderr is not None
    got: dict[int, bytearray] = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    fd_out, fd_err = got
    cut = timed_out = False
    with selectors.DefaultSelector() as wait:
        for fd in got:
            os.set_blocking(fd, False)
            wait.register(fd, selectors.EVENT_READ)
        ended: float | None = None
        while wait.get_map():
            now = time.monotonic()
            if now > deadline:
                timed_out = child.poll() is None
                break
            if ended is None and child.poll() is not None:
                ended = now
            if ended is not None and now > ended + 0.2:  # a grandchild holds the pipe
                break
            for key, _ in wait.select(timeout=min(0.05, max(0.0, deadline - now))):
                part = os.read(key.fd, 1 << 16)
                if not part:
                    wait.unregister(key.fd)
                elif len(got[key.fd]) < limit:
                    got[key.fd] += part
                else:
                    cut = True
        else:
            # Both pipes are closed; the command itself may still run.
            try:
                child.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                timed_out = True
    _kill(child.pid)  # what it left running, too
    _running.discard(child.pid)
    try:
        child.wait(timeout=0.2)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel: nothing more can be done from here
    child.stdout.close()
    child.stderr.close()
    if timed_out:
        raise TimedOut("command-timed-out", command=os.path.basename(argv[0]), timeout_s=round(timeout_s, 1))
    status = child.returncode if child.returncode is not None else -9  # SIGKILL
    return Output(
        status=status, out=got[fd_out].decode("utf-8", "replace"), err=got[fd_err].decode("utf-8", "replace"), cut=cut
    )


def kill_running() -> None:
    """End the commands that still run: this process is about to."""
    for group in list(_running):
        _kill(group)


def _kill(group: int) -> None:
    import signal

    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
