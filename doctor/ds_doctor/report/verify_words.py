"""The words of `ds-doctor verify` in both languages; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Lang

WORDS: Mapping[str, tuple[str, str]] = {
    "verdict.proven": ("PROVEN", "已证实"),
    "verdict.whole": ("WHOLE", "完整"),
    "verdict.fail": ("DAMAGED", "有损坏"),
    "verdict.unknown": ("UNREAD", "未能读全"),
    "says.proven": (
        "the model is whole, and every weight file has the content that is due",
        "模型完整，且所有权重文件的内容均与应有的一致",
    ),
    "says.unprovable": ("structure whole, content not provable offline", "结构完整，但内容无法离线证明"),
    "says.quick": ("structure whole, content not hashed (--quick)", "结构完整，未校验内容的哈希值（--quick）"),
    "says.part": (
        "structure whole, {proven} of {files} weight files proven",
        "结构完整，{files} 个权重文件中已证实 {proven} 个",
    ),
    "says.fail": ("the model is damaged, incomplete or not the right one", "模型已损坏、不完整，或不是应有的内容"),
    "says.unknown": ("not everything could be read", "有内容无法读取"),
    "layout.plain": ("folder", "目录"),
    "layout.file": ("single file", "单个文件"),
    "layout.hub-cache": ("Hub cache", "Hub 缓存"),
    "layout.local-dir": ("downloaded with hf download --local-dir", "由 hf download --local-dir 下载"),
    "layout.modelscope": ("ModelScope", "ModelScope"),
    "at": ("{repo} at {revision}", "{repo}，版本 {revision}"),
    "files": ("{files} files, {size}", "{files} 个文件，{size}"),
    "hashed": ("{size} hashed in {time} ({rate}/s)", "校验 {size}，用时 {time}（{rate}/s）"),
    "hashed.few": ("{size} hashed", "校验 {size}"),
    "cached": ("{n} hashed earlier and unchanged", "{n} 个此前已校验且未变"),
    "status.proven": ("proven", "已证实"),
    "status.wrong": ("WRONG", "不符"),
    "status.unproven": ("nothing vouches", "无依据"),
    "status.not-hashed": ("not hashed", "未校验"),
    "status.changed": ("CHANGED", "读取时变化"),
    "status.unread": ("UNREAD", "未读"),
    "all": ("Files", "文件"),
    "manifest.written": ("{n} digests written to {path}", "已将 {n} 个哈希值写入 {path}"),
    "manifest.partly": (
        "{n} digests written to {path}; the rest of the {files} files was not hashed, so that it is no manifest of the whole model",
        "已将 {n} 个哈希值写入 {path}；共 {files} 个文件，其余未校验，因此它不是整个模型的清单",
    ),
    "manifest.kept": (
        "{path} is not written: what is damaged must not vouch for others",
        "未写入 {path}：不能让损坏的内容作为比对依据",
    ),
    "manifest.empty": ("it is empty", "文件为空"),
    "manifest.not-text": ("not a text file", "不是文本文件"),
    "manifest.not-json": ("broken JSON", "JSON 格式错误"),
    "manifest.no-entries": ("it lists no checksum", "其中没有任何校验和"),
    "manifest.no-usable": ("it lists no file that can lie in the model's folder", "其中没有一个文件可能位于模型目录内"),
    "manifest.too-large": ("too large for a list of checksums", "对校验和清单来说过大"),
    "manifest.too-deep": ("JSON nested too deeply", "JSON 嵌套过深"),
    "manifest.unknown-schema": ("a schema that this version does not know", "本版本不认识的 schema"),
    "manifest.unknown-algorithm": ("its checksum algorithm is not supported", "不支持其校验和算法"),
    "progress": ("{done} of {all}, {rate}/s, {left} left", "{done} / {all}，{rate}/s，剩余 {left}"),
    "hashing": ("hashing", "校验中"),
    "interrupted": (
        "interrupted; {n} of {files} files are hashed and kept: the same command goes on from there",
        "已中断；{files} 个文件中已校验 {n} 个并保存：再次执行同一命令即可继续",
    ),
    "interrupted.lost": ("interrupted; nothing of it is kept", "已中断；没有保存任何结果"),
    "exit.1": ("exit status 1: damaged or incomplete", "退出码 1：有损坏或不完整"),
    "exit.1strict": ("exit status 1: a warning counts as a failure (--strict)", "退出码 1：警告按失败处理（--strict）"),
    "exit.3": ("exit status 3: not everything could be read", "退出码 3：有内容无法读取"),
    "exit.3strict": (
        "exit status 3: not every weight file is proven (--strict)",
        "退出码 3：并非所有权重文件都已证实（--strict）",
    ),
}


def word(key: str, lang: Lang, **blanks: object) -> str:
    """One of WORDS with its blanks filled."""
    text = WORDS[key][0 if lang == "en" else 1]
    return text.format(**blanks) if blanks else text


def size(count: float) -> str:
    """Bytes for people, in powers of 1024."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024 or unit == "GiB":
            return f"{count:.1f} {unit}" if count < 100 else f"{count:.0f} {unit}"
    raise AssertionError


def duration(seconds: float, lang: Lang) -> str:
    """A time for people."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if lang == "en" else f"{hours} 小时 {minutes} 分"
    return f"{minutes} min {rest} s" if lang == "en" else f"{minutes} 分 {rest} 秒"
