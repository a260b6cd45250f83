"""`ds-doctor explain`: the options; reading and ranking stand in explain, looking at the host in look."""

from __future__ import annotations

from typing import Any

import click

from .explaining import Request, explain
from .lang import t


@click.command(
    "explain",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=t(
        "Explain an error: TEXT is what was printed or what you would call it (English or Chinese), - reads standard input, "
        "a rule ID is explained as such. Exit status: 0 an answer, 1 none found, 2 wrong usage.",
        "解释一条错误：TEXT 可以是打印出的信息，也可以是对问题的描述（中文或英文）；- 表示读取标准输入；给出规则 ID 则解释该规则。退出码：0 有答案，1 没有找到，2 用法错误。",
    ),
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="FILE",
    help=t("Read a log, also .gz, .xz, .zst (repeatable).", "读取日志，也支持 .gz、.xz、.zst（可重复）。"),
)
@click.option(
    "--top",
    type=click.IntRange(1, 50),
    default=3,
    show_default=True,
    metavar="N",
    help=t("Show the N best answers.", "显示最可能的 N 个答案。"),
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--here/--no-here",
    default=True,
    show_default=True,
    help=t("Look whether each cause holds on this host.", "检查各原因在本机上是否存在。"),
)
@click.option(
    "--replay",
    metavar="FILE",
    help=t("Look at the facts saved in FILE instead of this host.", "查看 FILE 中保存的事实而非本主机。"),
)
@click.option("--python", metavar="PATH", help=t("The Python interpreter of the engine.", "推理引擎的 Python 解释器。"))
@click.option("--model", metavar="PATH", help=t("The model directory to look at.", "要查看的模型目录。"))
@click.option(
    "--timeout",
    type=float,
    default=20.0,
    show_default=True,
    metavar="S",
    help=t("Look at the host for S seconds at most.", "查看主机最多用 S 秒。"),
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help=t("Language of the answer. Default: from the locale.", "回答的语言，默认取自系统区域设置。"),
)
@click.option("-v", "--verbose", is_flag=True, help=t("Show every cause and source.", "显示全部原因与来源。"))
@click.argument("text", metavar="[TEXT… | - | RULE-ID]", nargs=-1, type=click.UNPROCESSED)
def command(**given: Any) -> int:
    return explain(Request(**given))
