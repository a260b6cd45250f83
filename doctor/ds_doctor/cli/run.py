"""`ds-doctor run`: the options; what they do stands in judge."""

from __future__ import annotations

from typing import Any

import click

from ..report import FORMATS
from . import Usage
from .judge import run
from .lang import t
from .look import Options

_MANY: dict[str, Any] = {"multiple": True, "metavar": "PATTERN"}


@click.command(
    "run",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=t(
        "Check this host before a deployment, and the launch COMMAND if one is given after --. Exit status: 0 nothing failed, "
        "1 a rule failed, 2 wrong usage, 3 nothing failed but the checks are incomplete.",
        "部署前检查本主机；若在 -- 之后给出启动命令 COMMAND，则一并检查。退出码：0 没有失败项，1 有规则失败，2 用法错误，3 没有失败项但检查不完整。",
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help=t("Format of standard output.", "标准输出的格式。"),
)
@click.option(
    "--output",
    multiple=True,
    metavar="FORMAT=PATH",
    help=t("Also write the report to a file (repeatable).", "另将报告写入文件（可重复）。"),
)
@click.option(
    "--only",
    **_MANY,
    help=t(
        "Check only these: rule ID, check or family (or family.rule), * allowed (repeatable).",
        "只检查这些：规则 ID、检查名或类别名（也可写作 类别.规则），可用 *（可重复）。",
    ),
)
@click.option("--skip", **_MANY, help=t("Skip these (repeatable).", "跳过这些（可重复）。"))
@click.option(
    "--require",
    **_MANY,
    help=t("Exit with 3 if these could not be checked (repeatable).", "若这些规则无法判断，退出码为 3（可重复）。"),
)
@click.option("--strict", is_flag=True, help=t("Treat warnings as failures.", "将警告视为失败。"))
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    help=t(
        "Take the launch command from FILE: Compose, Kubernetes manifest, systemd unit or shell script; - reads standard input.",
        "从 FILE 读取启动命令：Compose、Kubernetes 清单、systemd 单元或 shell 脚本；- 表示标准输入。",
    ),
)
@click.option("--service", metavar="NAME", help=t("Only this service of FILE.", "只检查 FILE 中的这个服务。"))
@click.option(
    "--python",
    metavar="PATH",
    help=t(
        "The Python interpreter of the engine. Default: that of COMMAND, else $VIRTUAL_ENV, $CONDA_PREFIX, python3 on PATH.",
        "推理引擎的 Python 解释器。默认依次取：COMMAND 所用的、$VIRTUAL_ENV、$CONDA_PREFIX、PATH 中的 python3。",
    ),
)
@click.option("--model", metavar="PATH", help=t("The model directory to check.", "要检查的模型目录。"))
@click.option(
    "--verify-weights",
    is_flag=True,
    help=t(
        "Hash the model's files too, as ds-doctor verify does; --timeout does not count that time.",
        "同时校验模型文件的哈希值，与 ds-doctor verify 相同；该时间不计入 --timeout。",
    ),
)
@click.option(
    "--profile",
    metavar="NAME|FILE",
    help=t(
        "Check also what the model of this profile needs; list profiles shows the names.",
        "同时检查该配置档所述模型的需求；名称见 list profiles。",
    ),
)
@click.option(
    "--root",
    metavar="DIR",
    help=t(
        "Check the files below DIR instead of this host; no command is run.",
        "检查 DIR 下的文件而非本主机；不执行任何命令。",
    ),
)
@click.option("--record", metavar="FILE", help=t("Save all facts to FILE.", "将全部事实保存到 FILE。"))
@click.option(
    "--replay",
    metavar="FILE",
    help=t("Check the facts saved in FILE instead of this host.", "检查 FILE 中保存的事实而非本主机。"),
)
@click.option(
    "--rules",
    multiple=True,
    metavar="FILE",
    help=t("Site rules: change levels and texts of rules (repeatable).", "站点规则：更改规则的级别与文字（可重复）。"),
)
@click.option(
    "--timeout",
    type=float,
    default=20.0,
    show_default=True,
    metavar="S",
    help=t("Finish the whole run within S seconds.", "整个运行在 S 秒内完成。"),
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help=t("Language of the report. Default: from the locale.", "报告语言，默认取自系统区域设置。"),
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=t("Show every rule, source and documented claim.", "显示每条规则、来源与文档中的说法。"),
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help=t("Show problems only; print nothing if there are none.", "只显示问题；没有问题时不输出。"),
)
@click.argument("strays", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def command(launch: tuple[str, ...], /, strays: tuple[str, ...], **given: Any) -> int:
    if strays:
        raise Usage(
            t(
                f"unexpected argument {strays[0]!r}; the launch command goes after --",
                f"多余的参数 {strays[0]!r}；启动命令应写在 -- 之后",
            )
        )
    return run(Options(command=launch, **given))
