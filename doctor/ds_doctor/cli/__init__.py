"""Arguments in, exit code out: the entry point and the list of commands; one command a file, imported when it is used."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping

import click

from .. import __version__
from .lang import t

# Command -> the module that holds it; imported only when it is called or its help is shown.
COMMANDS: Mapping[str, str] = {"run": "run", "list": "list", "schema": "schema"}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{COMMANDS[name]}").command
        return command


@click.command(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=t(
        "Preflight doctor for hosts that serve large language models with vLLM or SGLang on NVIDIA GPUs. "
        "It only looks: it changes nothing, needs no root and sends nothing anywhere.",
        "为使用 vLLM 或 SGLang 在 NVIDIA GPU 上部署大语言模型的主机做部署前体检。只看不改：不做任何更改，不需要 root，也不向外发送任何数据。",
    ),
)
@click.version_option(__version__, prog_name="ds-doctor", message="%(prog)s %(version)s")
def cli() -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """The console script. Wrong usage is one line on standard error and exit status 2."""
    if not sys.platform.startswith("linux"):
        sys.stderr.write(
            f"ds-doctor: it judges Linux hosts; this is {sys.platform}. Run it on the GPU server or in its container.\n"
        )
        sys.exit(2)
    try:
        status = cli.main(argv, prog_name="ds-doctor", standalone_mode=False)
    except click.ClickException as e:
        place = getattr(e, "ctx", None)
        hint = (
            f" ({t('see', '参见')}: {place.command_path} --help)" if isinstance(e, click.UsageError) and place else ""
        )
        message = " ".join(e.format_message().split())
        click.echo(f"ds-doctor: {message}{hint}", err=True)
        status = 2
    except (click.Abort, KeyboardInterrupt):
        status = 130
    except BrokenPipeError:  # the reader has seen enough (`ds-doctor … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    _leave(status if isinstance(status, int) else 0)


def _leave(status: int) -> None:
    """End at once: a probe's thread that still hangs must not hold the exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(status)
