"""The report's own words in both languages (the words about rules stand in rules.toml); decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Lang

WORDS: Mapping[str, tuple[str, str]] = {
    "verdict.pass": ("PASS", "通过"),
    "verdict.warn": ("WARN", "警告"),
    "verdict.fail": ("FAIL", "失败"),
    "verdict.unknown": ("UNKNOWN", "无法判断"),
    "says.pass": ("no problem was found in what could be checked", "已检查的各项均未发现问题"),
    "says.warn": ("nothing failed; read the warnings", "没有失败项；请阅读警告"),
    "says.fail": ("this host is not ready", "该主机尚未就绪"),
    "says.unknown": (
        "nothing failed, but too little was checked to call this host ready",
        "没有失败项，但检查不完整，无法确认该主机就绪",
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
    "n.error": ("{n} with errors", "{n} 项检查出错"),
    "n.unknown": ("{n} could not be checked", "{n} 项无法判断"),
    "n.pass": ("{n} passed", "{n} 项通过"),
    "n.skip": ("{n} not applicable", "{n} 项不适用"),
    "why": ("why", "原因"),
    "fix": ("fix", "处理"),
    "verify": ("verify", "验证"),
    "known": ("basis", "依据"),
    "claim": ("documents say", "文档称"),
    "and": ("also on {on}", "同样涉及 {on}"),
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
    "effect.none": ("changes nothing", "不做任何更改"),
    "effect.setting": ("changes a setting", "更改设置"),
    "effect.needs_restart": ("needs a restart of the service or container", "需要重启服务或容器"),
    "effect.needs_reboot": ("needs a reboot", "需要重启主机"),
    "unjudged": ("Could not be checked", "无法判断"),
    "broken": ("Checks or plugins with errors", "出错的检查或插件"),
    "passed": ("Passed", "通过"),
    "skipped": ("Not applicable", "不适用"),
    "required": ("required", "必需"),
    "gpu": ("GPU", "GPU"),
    "name": ("name", "名称"),
    "free": ("free", "空闲"),
    "total": ("total", "总计"),
    "cc": ("CC", "计算能力"),
    "driver": ("driver", "驱动"),
    "cuda": ("CUDA", "CUDA"),
    "links": ("links", "互连"),
    "host": ("host", "主机"),
    "target": ("target", "目标"),
    "vm": ("VM ({what})", "虚拟机（{what}）"),
    "container": ("inside a container ({what})", "容器内（{what}）"),
    "exit.0": ("exit status 0", "退出码 0"),
    "exit.1": ("exit status 1: something failed", "退出码 1：有项目失败"),
    "exit.1strict": ("exit status 1: a warning counts as a failure (--strict)", "退出码 1：警告按失败处理（--strict）"),
    "exit.3": ("exit status 3: nothing failed, but the checks are incomplete", "退出码 3：没有失败项，但检查不完整"),
    "why3.error": ("a check or plugin had an error", "有检查或插件出错"),
    "why3.required": ("a required rule could not be checked: {rules}", "必需的规则无法判断：{rules}"),
    "why3.nothing": ("no rule could be checked", "没有任何规则能够判断"),
    "more": ("-v lists them", "使用 -v 逐项列出"),
    "waiting": ("waiting for {what} ({s} s)", "正在等待 {what}（{s} 秒）"),
}


def word(key: str, lang: Lang, **blanks: object) -> str:
    """One of WORDS with its blanks filled."""
    text = WORDS[key][0 if lang == "en" else 1]
    return text.format(**blanks) if blanks else text
