"""Arguments in, exit code out: the entry point; one command a file, imported when it is used."""

from __future__ import annotations

import gc
import os
import sys


class Usage(Exception):
    """Wrong usage or configuration: one line for standard error, exit status 2."""


def main(argv: list[str] | None = None) -> None:
    """The console script. Wrong usage is one line on standard error and exit status 2."""
    words = sys.argv[1:] if argv is None else argv
    gc.disable()  # the process lives for a moment and makes no garbage in circles; collecting costs it 5 ms
    if not sys.platform.startswith("linux"):
        _say(f"it judges Linux hosts; this is {sys.platform}. Run it on the GPU server or in its container.")
        sys.exit(2)
    status: object
    try:
        if words[:1] == ["run"]:
            from . import ahead

            ahead.start(words)
        if words == ["run"]:  # what most people type needs no parser, whose import costs 20 ms
            from .judge import Options, run

            status = run(Options())
        else:
            from .commands import parse

            status = parse(words)
    except Usage as e:
        _say(" ".join(str(e).split()))
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the reader has seen enough (`ds-doctor ... | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    _leave(status if isinstance(status, int) else 0)


def _say(line: str) -> None:
    sys.stderr.write(f"ds-doctor: {line}\n")


def _leave(status: int) -> None:
    """End at once: a probe's thread that still hangs must not hold the exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(status)
