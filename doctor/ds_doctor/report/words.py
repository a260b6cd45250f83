"""The report's own words in both languages (the words about rules stand in rules.toml); decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Lang

WORDS: Mapping[str, tuple[str, str]] = {
    "verdict.pass": ("PASS", "通过"),
    "verdict.warn": ("WARN", "警告"),
    "verdict.fail": ("FAIL", "失败"),
    "verdict.unknown": ("UNKNOWN", "无法判断"),
    "says.pass": ("nothing that was judged stands in the way of a deployment", "已判断的各项均不妨碍部署"),
    "says.warn": ("nothing failed; read the warnings", "没有失败项；请阅读警告"),
    "says.fail": ("this host is not ready", "该主机尚未就绪"),
    "says.unknown": (
        "nothing failed, but this run cannot vouch for the host",
        "没有失败项，但本次运行无法为该主机作保",
    ),
    "fail": ("FAIL", "失败"),
    "warn": ("WARN", "警告"),
    "note": ("NOTE", "提示"),
    "error": ("ERROR", "出错"),
    "unknown": ("UNKNOWN", "未知"),
    "pass": ("pass", "通过"),
    "skip": ("skip", "不适用"),
    "n.fail": ("{n} failed", "{n} 项失败"),
    "n.warn": ("{n} warned", "{n} 项警告"),
    "n.note": ("{n} noted", "{n} 项提示"),
    "n.error": ("{n} broke", "{n} 项检查出错"),
    "n.unknown": ("{n} could not be judged", "{n} 项无法判断"),
    "n.pass": ("{n} passed", "{n} 项通过"),
    "n.skip": ("{n} do not apply", "{n} 项不适用"),
    "why": ("why", "原因"),
    "fix": ("fix", "处理"),
    "verify": ("verify", "验证"),
    "known": ("basis", "依据"),
    "claim": ("documents say", "文档称"),
    "and": ("also on {on}", "另见 {on}"),
    "on": ("on {on}", "对象 {on}"),
    "standing.measured": ("measured on a real host", "实机测得"),
    "standing.vendor": ("vendor documentation or engine source", "厂商文档或引擎源码"),
    "standing.reported": ("confirmed public reports", "公开报告证实"),
    "standing.documented": ("one document says so, unconfirmed", "仅有文档记载，未经证实"),
    "standing.disputed": ("documents contradict each other", "文档之间相互矛盾"),
    "standing.refuted": ("refuted", "已被推翻"),
    "where.host": ("on the host", "在宿主机上"),
    "where.container": ("in the container", "在容器内"),
    "where.target": ("in the engine's environment", "在推理引擎的环境中"),
    "where.here": ("here", "在此处"),
    "effect.none": ("changes nothing", "不改变任何东西"),
    "effect.setting": ("changes a setting", "更改设置"),
    "effect.needs_restart": ("needs a restart of the service or container", "需要重启服务或容器"),
    "effect.needs_reboot": ("needs a reboot", "需要重启主机"),
    "unjudged": ("Could not be judged", "无法判断"),
    "broken": ("Checks or plugins that broke", "出错的检查或插件"),
    "passed": ("Passed", "通过"),
    "skipped": ("Does not apply", "不适用"),
    "required": ("required", "必需"),
    "gpu": ("GPU", "GPU"),
    "name": ("name", "名称"),
    "free": ("free", "空闲"),
    "total": ("total", "总计"),
    "cc": ("CC", "算力"),
    "driver": ("driver", "驱动"),
    "cuda": ("CUDA", "CUDA"),
    "links": ("links", "互连"),
    "host": ("host", "主机"),
    "target": ("target", "目标"),
    "root": ("only the files below {what} (--root)", "仅检查 {what} 之下的文件（--root）"),
    "vm": ("VM ({what})", "虚拟机（{what}）"),
    "container": ("inside a container ({what})", "容器内（{what}）"),
    "exit.0": ("exit status 0", "退出码 0"),
    "exit.1": ("exit status 1: something failed", "退出码 1：有项目失败"),
    "exit.1strict": ("exit status 1: a warning counts as a failure (--strict)", "退出码 1：警告按失败处理（--strict）"),
    "exit.3": ("exit status 3: nothing failed, but the run cannot vouch", "退出码 3：没有失败项，但无法作保"),
    "why3.error": ("a check or plugin broke", "有检查或插件出错"),
    "why3.required": ("a required rule could not be judged: {rules}", "必需的规则无法判断：{rules}"),
    "why3.nothing": ("no rule could be judged", "没有任何规则得到判断"),
    "more": ("-v shows each of them", "使用 -v 查看每一项"),
    "waiting": ("waiting for {what} ({s} s)", "正在等待 {what}（{s} 秒）"),
}


def word(key: str, lang: Lang, **blanks: object) -> str:
    """One of WORDS with its blanks filled."""
    text = WORDS[key][0 if lang == "en" else 1]
    return text.format(**blanks) if blanks else text
