"""`ds-doctor run`: judge this host, and the launch command if one is given; the logic is in engine and report."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import click

from .. import __version__, catalogue, engine, snapshot
from ..host import Asked, Host, RootedHost
from ..model import Lang, Outcome
from ..probes.environment import redact
from ..report import FORMATS, document, render
from ..report import host as host_words
from . import files
from .lang import from_locale, t

_MANY: dict[str, Any] = {"multiple": True, "metavar": "PATTERN"}


@click.command(
    "run",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=t(
        "Judge this host before a deployment, and the launch COMMAND if one is given after --. Exit status: 0 nothing failed, "
        "1 a rule failed, 2 wrong usage, 3 nothing failed but the run cannot vouch.",
        "部署前检查本主机；若在 -- 之后给出启动命令 COMMAND，则一并检查。退出码：0 没有失败项，1 有规则失败，2 用法错误，3 没有失败项但无法作保。",
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help=t("What standard output gets.", "标准输出的格式。"),
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
        "Judge only these: rule id, check or family, * allowed (repeatable).",
        "只检查这些：规则、检查或类别名，可用 *（可重复）。",
    ),
)
@click.option("--skip", **_MANY, help=t("Leave these out (repeatable).", "跳过这些（可重复）。"))
@click.option(
    "--require",
    **_MANY,
    help=t("Exit 3 unless these could be judged (repeatable).", "若这些无法判断则退出码为 3（可重复）。"),
)
@click.option("--strict", is_flag=True, help=t("A warning counts as a failure.", "警告按失败处理。"))
@click.option(
    "--python",
    metavar="PATH",
    help=t(
        "The interpreter that the engine will use. Default: the command's, $VIRTUAL_ENV, $CONDA_PREFIX, python3 on PATH.",
        "推理引擎将使用的解释器。默认：启动命令的、$VIRTUAL_ENV、$CONDA_PREFIX、PATH 中的 python3。",
    ),
)
@click.option("--model", metavar="PATH", help=t("A model folder to check.", "要检查的模型目录。"))
@click.option(
    "--root",
    metavar="DIR",
    help=t(
        "Judge the files below DIR instead of this host; nothing is run.",
        "检查 DIR 下的文件而非本主机；不执行任何命令。",
    ),
)
@click.option("--record", metavar="FILE", help=t("Keep all facts in FILE.", "将全部事实保存到 FILE。"))
@click.option(
    "--replay",
    metavar="FILE",
    help=t("Judge the facts of FILE instead of this host.", "检查 FILE 中保存的事实而非本主机。"),
)
@click.option(
    "--rules",
    multiple=True,
    metavar="FILE",
    help=t("Change levels and texts of rules (repeatable).", "更改规则的级别与文字（可重复）。"),
)
@click.option(
    "--timeout",
    type=float,
    default=20.0,
    show_default=True,
    metavar="S",
    help=t("The whole run ends within S seconds.", "整个运行在 S 秒内结束。"),
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help=t("Language of the report. Default: the locale's.", "报告语言，默认取自系统区域设置。"),
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=t("Show every rule, source and documented claim.", "显示每条规则、来源与文档说法。"),
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help=t("Only what is wrong; nothing when all is well.", "只显示问题；一切正常时不输出。"),
)
@click.argument("command_words", metavar="[-- COMMAND…]", nargs=-1, type=click.UNPROCESSED)
def command(
    form: str,
    output: tuple[str, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    require: tuple[str, ...],
    strict: bool,
    python: str | None,
    model: str | None,
    root: str | None,
    record: str | None,
    replay: str | None,
    rules: tuple[str, ...],
    timeout: float,
    lang: Lang | None,
    verbose: bool,
    quiet: bool,
    command_words: tuple[str, ...],
) -> int:
    begun = time.monotonic()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lang = lang or from_locale()
    if command_words and "--" not in sys.argv:
        raise click.UsageError(f"unexpected argument {command_words[0]!r}; the launch command goes after --")
    if not 1 <= timeout <= 3600:
        raise click.UsageError(f"--timeout {timeout:g}: between 1 and 3600 seconds")
    _exclude(root=root, replay=replay)
    _exclude(record=record, replay=replay)
    outputs = [_output(o) for o in output]
    for where, path in [*(("--output", p) for _, p in outputs), *([("--record", record)] if record else [])]:
        files.writable(where, path)

    asked = Asked(
        command=redact(command_words),
        python=_python(python, root),
        model=os.path.abspath(model) if model and not root else model,
    )
    kept = None
    if replay is not None:
        try:
            kept = snapshot.read(files.read("--replay", replay, snapshot.LIMIT), f"--replay {replay}")
        except snapshot.SnapshotError as e:
            raise click.UsageError(str(e)) from None
        asked = kept.asked
    if root is not None and not os.path.isdir(root):
        raise click.UsageError(f"--root {root}: {'not a folder' if os.path.exists(root) else 'does not exist'}")

    doctor = engine.assemble(os.environ)
    words, off = doctor.catalogue, set[str]()
    for path in rules:
        try:
            words, more = catalogue.changed(
                words, files.read("--rules", path, catalogue.RULES_LIMIT), f"--rules {path}"
            )
        except catalogue.CatalogueError as e:
            raise click.UsageError(str(e)) from None
        off |= more
    try:
        checks, ids, required = engine.chosen(
            doctor, engine.Choice(only=only, skip=skip, require=require, off=frozenset(off))
        )
    except engine.PatternError as e:
        raise click.UsageError(str(e)) from None

    facts = [*engine.wanted(doctor.checks if record else checks)]
    facts += [f for f in host_words.ALWAYS if f not in facts]
    outcomes: dict[type, Outcome]
    if kept is not None:
        try:
            outcomes = snapshot.outcomes(kept, facts, f"--replay {replay}")
        except snapshot.SnapshotError as e:
            raise click.UsageError(str(e)) from None
    else:
        host = RootedHost(root, asked) if root is not None else Host(asked)
        from .progress import Progress

        with Progress(lang) as progress:
            reserve = min(engine.RESERVE_S, timeout / 4)
            left = timeout - (time.monotonic() - begun) - reserve
            outcomes = engine.gather(host, facts, max(0.2, left), progress.waiting)

    results = engine.judge(checks, outcomes, words, ids, check_s=min(engine.CHECK_S, timeout / 10))
    verdicts = engine.conclude(results, doctor.errors, required, strict)
    report = document.build(
        verdicts,
        words,
        lang,
        version=__version__,
        host=host_words.host_doc(outcomes),
        target=host_words.target_doc(asked, outcomes),
        started_at=started_at,
        duration_s=time.monotonic() - begun,
    )
    status = report.exit_code
    if record is not None:
        status = _write("--record", record, snapshot.write(outcomes, asked, __version__, started_at), status)
    for name, path in outputs:
        status = _write("--output", path, render(name, report, lang, verbose=verbose).encode(), status)
    colorful = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(form, report, lang, verbose=verbose, quiet=quiet, color=colorful, width=_width())
    sys.stdout.buffer.write(text.encode("utf-8"))
    return status


def _exclude(**options: str | None) -> None:
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} and {given[1]} exclude each other")


def _output(text: str) -> tuple[str, str]:
    form, equals, path = text.partition("=")
    if not equals or not path or form not in FORMATS:
        raise click.UsageError(f"--output {text}: FORMAT=PATH, where FORMAT is one of {', '.join(FORMATS)}")
    return form, path


def _python(python: str | None, root: str | None) -> str | None:
    """The absolute path of --python, which must be an executable file (under --root: a path there)."""
    if python is None or root is not None:
        return python
    import shutil

    path = os.path.abspath(python) if "/" in python else shutil.which(python)
    if path is None or not os.path.exists(path):
        raise click.UsageError(f"--python {python}: does not exist")
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        raise click.UsageError(f"--python {python}: not an executable file")
    return path


def _write(option: str, path: str, data: bytes, status: int) -> int:
    """Write a result; when that fails say so, and never end with 0."""
    try:
        files.write(path, data)
    except OSError as e:
        click.echo(f"ds-doctor: {option} {path}: {e.strerror}", err=True)
        return status or 3
    return status


def _width(default: int = 80) -> int:
    """Cells of the terminal that standard output is, between 60 and 110; `default` for files and pipes."""
    try:
        return min(110, max(60, os.get_terminal_size(1).columns))
    except OSError:
        return default
