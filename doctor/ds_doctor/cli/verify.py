"""`ds-doctor verify`: the options; what they do stands in verifying."""

from __future__ import annotations

from typing import Any

import click

from ..report import FORMATS
from .lang import t
from .verify_asked import Request
from .verifying import verify


@click.command(
    "verify",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=t(
        "Verify the weights at PATH offline: complete, uncorrupted, the right ones. PATH is a model directory, a file, or a model ID that is in the Hugging "
        "Face Hub cache. Structure first, then the hash of every file against what the download left behind (Hub cache, download records, checksum files) or "
        "a manifest. Exit status: 0 whole, 1 damaged or incomplete, 2 wrong usage, 3 not everything could be read.",
        "离线验证 PATH 处的权重：是否完整、未损坏、正是所需版本。PATH 为模型目录、单个文件，或已在 Hugging Face Hub 缓存中的模型 ID。先检查结构，再将每个文件的哈希值与下载留下的依据"
        "（Hub 缓存、下载记录、校验和文件）或清单比对。退出码：0 完整，1 有损坏或不完整，2 用法错误，3 有内容无法读取。",
    ),
)
@click.argument("path", metavar="PATH")
@click.option("--quick", is_flag=True, help=t("Check the structure only; hash nothing.", "只检查结构，不校验哈希值。"))
@click.option(
    "--manifest",
    metavar="FILE",
    help=t(
        "Compare with the digests in FILE: written by --write-manifest, a SHA256SUMS file, or JSON of the Hub's API.",
        "与 FILE 中的哈希值比对：由 --write-manifest 写出的清单、SHA256SUMS 文件，或 Hub API 的 JSON。",
    ),
)
@click.option(
    "--write-manifest",
    metavar="FILE",
    help=t("Record the digests for the next time and for other nodes.", "记录哈希值，供以后和其他节点比对。"),
)
@click.option(
    "--only-shards",
    metavar="I/N",
    help=t(
        "Hash only part I of N of the weight files, to share the work among nodes.",
        "只校验 N 份权重文件中的第 I 份，便于多节点分工。",
    ),
)
@click.option(
    "--user",
    metavar="USER",
    help=t(
        "Check also that USER (name, UID or UID:GID) can read the files.",
        "同时检查用户 USER（名称、UID 或 UID:GID）能否读取这些文件。",
    ),
)
@click.option(
    "--revision",
    metavar="REV",
    help=t("The revision in the Hub cache. Default: main.", "Hub 缓存中的版本，默认为 main。"),
)
@click.option(
    "--no-cache",
    is_flag=True,
    help=t("Hash also what was hashed before and is unchanged.", "此前已校验且未变化的文件也重新校验。"),
)
@click.option(
    "--warm",
    is_flag=True,
    help=t(
        "Leave the files in the page cache for the server that starts next.",
        "让文件留在页缓存中，供随后启动的服务使用。",
    ),
)
@click.option(
    "--threads",
    type=int,
    metavar="N",
    help=t("Files hashed at once. Default: the CPUs.", "同时校验的文件数，默认为 CPU 数。"),
)
@click.option(
    "--strict",
    is_flag=True,
    help=t(
        "Treat warnings as failures, and exit with 3 unless every weight file is proven.",
        "将警告视为失败；若不是所有权重文件都已证实，退出码为 3。",
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
    "--rules",
    multiple=True,
    metavar="FILE",
    help=t("Site rules: change levels and texts of rules (repeatable).", "站点规则：更改规则的级别与文字（可重复）。"),
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help=t("Language of the report. Default: from the locale.", "报告语言，默认取自系统区域设置。"),
)
@click.option(
    "-v", "--verbose", is_flag=True, help=t("Show every file, rule and source.", "显示每个文件、规则与来源。")
)
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    help=t("Show problems only; print nothing if there are none.", "只显示问题；没有问题时不输出。"),
)
def command(**given: Any) -> int:
    return verify(Request(**given))
