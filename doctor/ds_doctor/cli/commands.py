"""The commands there are, and how a wrong one is told; each is imported only when it is called or its help is shown."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from .. import __version__
from . import Usage, put
from .lang import t

# Command -> its line in the list of commands. The module of that name is imported when the command is called.
COMMANDS: Mapping[str, str] = {
    "run": t(
        "Check this host, and the launch COMMAND if one is given.", "检查本主机，若给出启动命令 COMMAND 则一并检查。"
    ),
    "explain": t("Explain an error text, a log or a rule.", "解释一条错误信息、一份日志或一条规则。"),
    "verify": t(
        "Verify a model's weights: complete, uncorrupted, the right ones.", "验证模型权重：完整、未损坏、正是所需版本。"
    ),
    "fit": t("Work out whether a model fits on GPUs, without a host.", "计算模型能否放进 GPU 显存（无需主机）。"),
    "list": t("List the checks, rules, symptoms, facts or plugins.", "列出检查、规则、症状、事实或插件。"),
    "schema": t("Print the JSON Schema of what the program writes.", "输出本程序所写 JSON 的 Schema。"),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__package__}.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, without importing every command for its first line."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=t(
        "Preflight check for hosts that serve large language models with vLLM or SGLang on NVIDIA GPUs. "
        "Read-only: it changes nothing, needs no root and sends nothing anywhere.",
        "为使用 vLLM 或 SGLang 在 NVIDIA GPU 上部署大语言模型的主机做部署前体检。只读运行：不做任何更改，不需要 root，也不向外发送任何数据。",
    ),
)
@click.version_option(__version__, prog_name="ds-doctor", message="%(prog)s %(version)s")
def cli() -> None:
    pass


def _parted(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Our words, and the launch command's after the first `--`."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], tuple(words[end + 1 :])


def parse(words: list[str]) -> object:
    """Run the command that the words name; its exit status. Usage for words that no command takes."""
    try:
        if not words:
            put(cli.get_help(click.Context(cli, info_name="ds-doctor", max_content_width=100)) + "\n")
            raise Usage(t("give a command, for example: ds-doctor run", "请给出命令，例如：ds-doctor run"))
        # The launch command is not ours to parse: words that look like options are its own.
        own, launch = _parted(words) if words[0] == "run" else (words, ())
        with cli.make_context(
            "ds-doctor", list(own), obj=launch
        ) as context:  # main() makes exit status 1 of a broken pipe
            return cli.invoke(context)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as e:
        place = e.ctx.command_path if isinstance(e, click.UsageError) and e.ctx else None
        hint = f" ({t('see', '参见')}: {place} --help)" if place else ""
        raise Usage(_told(e) + hint) from None


def _told(e: click.ClickException) -> str:
    """Click's message; in Chinese for what people meet, else as click has it."""
    if t("en", "zh") == "en":
        return e.format_message()
    if isinstance(e, click.NoSuchOption):
        near = f"，是否想用 {'、'.join(sorted(e.possibilities))}？" if e.possibilities else ""
        return f"没有选项 {e.option_name}{near}"
    if isinstance(e, click.BadOptionUsage):
        return f"选项 {e.option_name} 的用法不对：{e.message}"
    if isinstance(e, click.MissingParameter):
        return f"缺少参数 {e.param.human_readable_name if e.param else ''}".rstrip()
    if isinstance(e, click.BadParameter):
        name = e.param.opts[0] if e.param and e.param.opts else ""
        return f"{name} 的值无效：{e.message}"
    return e.format_message()
