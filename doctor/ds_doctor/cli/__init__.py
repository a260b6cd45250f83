"""Arguments in, exit code out: the entry point; one command a file, imported when it is used."""

from __future__ import annotations

import gc
import os
import sys


class Usage(Exception):
    """Wrong usage or configuration: one line for standard error, exit status 2."""


class Unwritten(Exception):
    """Standard output does not take what it is given: one line for standard error, and never exit status 0."""


def main(argv: list[str] | None = None) -> None:
    """The console script. Wrong usage is one line on standard error and exit status 2; so is, with 3, a fault of our own."""
    words = sys.argv[1:] if argv is None else argv
    _open_streams()
    _strangers_last()
    gc.disable()  # the process lives for a moment and makes no garbage in circles; collecting costs it 5 ms
    if not sys.platform.startswith("linux"):
        _say(f"it judges Linux hosts; this is {sys.platform}. Run it on the GPU server or in its container.")
        sys.exit(2)
    status: object
    try:
        _end_with_the_children()
        status = _run(words)
    except Usage as e:
        _say(str(e))
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the reader has seen enough (`ds-doctor ... | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except Unwritten as e:
        _say(str(e))
        status = 3
    except Exception as e:  # noqa: BLE001 - whatever breaks is one line, and is no verdict on the host
        _say(f"it broke: {_what(e)}")
        status = 3
    _leave(status if isinstance(status, int) else 0)


def _run(words: list[str]) -> object:
    if words[:1] == ["run"]:
        from . import ahead

        ahead.start(words)
    if words == ["run"] or words[:2] == [
        "run",
        "--",
    ]:  # what most people type needs no parser, whose import costs 20 ms
        from .judge import run
        from .look import Options

        return run(Options(command=tuple(words[2:])))
    if words[:1] == ["explain"] and all(w in ("-", "--no-here") or not w.startswith("-") for w in words[1:]):
        from .explaining import Request, explain

        return explain(Request(text=tuple(w for w in words[1:] if w != "--no-here"), here="--no-here" not in words))
    if words[:1] == ["verify"]:
        from .verify_asked import plain

        request = plain(words[1:])
        if request is not None:
            from .verifying import verify

            return verify(request)
    from .commands import parse

    return parse(words)


def put(text: str) -> None:
    """Write to standard output, as UTF-8 under any locale. Unwritten when it does not take it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        raise Unwritten(f"standard output: {e.strerror}") from None


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"ds-doctor: {' '.join(text.split())}\n")
    except OSError:
        pass


def _what(e: Exception) -> str:
    """A fault of our own in one line, with the place that a report of it needs."""
    place = e.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place is not None else ""
    hint = ""
    if isinstance(e, ImportError):
        hint = f"; is it installed for this Python ({sys.version_info[0]}.{sys.version_info[1]}), and whole?"
    return f"{type(e).__name__}{f': {e}' if str(e) else ''}{where}{hint}"


def _open_streams() -> None:
    """Standard streams that were closed are opened on nothing, so that no file of ours gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # Standard output for reading only: what is written there is lost, and writing must say so.
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _strangers_last() -> None:
    """What PYTHONPATH and the current folder hold is found last: a click.py or queue.py there is not the one we need."""
    here = sys.path[:1] if sys.path[:1] in ([""], [_full("")]) else []
    strange = {_full(p) for p in [*os.environ.get("PYTHONPATH", "").split(":"), *here]}
    own = os.path.dirname(
        os.path.dirname(os.path.dirname(_full(__file__)))
    )  # pip install --target: it is on PYTHONPATH
    first = [p for p in sys.path if _full(p) not in strange]
    last = [p for p in sys.path if _full(p) in strange and _full(p) != own]
    sys.path[:] = [*([own] if own in strange else []), *first, *last]


def _full(path: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError:  # the current folder is gone
        return path


def _end_with_the_children() -> None:
    """Ctrl-C, `timeout`, a supervisor or a pod's end stops this process and what it started, at once."""
    import signal

    def end(number: int, _: object) -> None:
        _leave(128 + number)

    signal.signal(signal.SIGTERM, end)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored (nohup, a script's `&`)
        signal.signal(signal.SIGINT, end)


def _leave(status: int) -> None:
    """End at once: a probe's thread that still hangs must not hold the exit, and its command must not outlive us."""
    command = sys.modules.get("ds_doctor.command")
    if command is not None:
        command.kill_running()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, RuntimeError):
            pass
    os._exit(status)
