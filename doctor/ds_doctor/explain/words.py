"""Sentences as bags of words in two languages: what is left of a text when wording, order and language are taken away.

Pure text: it knows no catalogue and does no I/O.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[a-z][a-z0-9_+]*|[0-9]+(?:\.[0-9]+)*|[\u3400-\u9fff]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
# Identifiers of one run: they say nothing about the kind of fault.
_NOISE = re.compile(
    r"""0x[0-9a-f]+ | \b[0-9a-f]{12,}\b | \b\d{1,4}[-/]\d{1,2}[-/]\d{1,4}\b | \b\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d+)?\b
      | \b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b | (?<![\w.])/[\w.+-]+(?:/[\w.+-]*)*
      | \b(?:Runtime|Value|Assertion|Type|Key|Attribute|Import|ModuleNotFound|FileNotFound|OS|Index|NotImplemented)Error\b:?
      | \bTraceback\ \(most\ recent\ call\ last\):? | \[Errno\ \d+\]""",
    re.VERBOSE | re.IGNORECASE,
)
_COUNT = re.compile(r"\d{1,2}\Z|\d+\.\d+|\d{5,}\Z")  # an amount; 803, 504 or 4090 may be a code or a name
_STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "am",
        "i",
        "my",
        "me",
        "we",
        "our",
        "you",
        "your",
        "it",
        "its",
        "this",
        "that",
        "these",
        "those",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "with",
        "without",
        "as",
        "and",
        "or",
        "but",
        "so",
        "then",
        "than",
        "do",
        "does",
        "did",
        "done",
        "has",
        "have",
        "had",
        "having",
        "can",
        "could",
        "will",
        "would",
        "should",
        "may",
        "might",
        "just",
        "still",
        "also",
        "only",
        "very",
        "what",
        "why",
        "how",
        "when",
        "where",
        "which",
        "who",
        "there",
        "here",
        "get",
        "gets",
        "got",
        "give",
        "gives",
        "given",
        "make",
        "made",
        "after",
        "before",
        "while",
        "during",
        "if",
        "into",
        "out",
        "up",
        "down",
        "about",
        "all",
        "any",
        "some",
        "no",
        "not",
        "cannot",
        "dont",
        "doesnt",
        "wont",
        "isnt",
        "please",
        "help",
        "need",
        "want",
        "trying",
        "try",
        "says",
        "say",
        "said",
        "shows",
        "show",
    ]
)
_STOP_ZH = re.compile(
    "为什么|怎么办|怎么回事|怎么样|是什么|什么意思|什么原因|怎么解决|如何解决|怎么处理|怎么|如何|什么|请问|一直|总是|出现|提示|显示|"
    "的时候|时候|之后|以后|然后|但是|不过|已经|有没有|是不是|能不能|可以|需要|我的|你的|这个|那个|一个|了|的|吗|呢|吧|啊|是|在|就|都|也|还|被|把|和|与|或"
)
# What people write in either language, folded into one word. Longest first.
_SAME_ZH = {
    "显存不足": "memory oom", "显存溢出": "memory oom", "爆显存": "memory oom", "显存不够": "memory oom", "内存不足": "ram oom",
    "内存溢出": "ram oom", "内存不够": "ram oom", "共享内存": "shm", "显存": "memory", "内存": "ram", "显卡": "gpu", "多卡": "multi gpu", "单卡": "single gpu",
    "双卡": "multi gpu", "驱动程序": "driver", "驱动": "driver", "容器": "container", "镜像": "image", "下载": "download", "模型": "model",
    "权重": "weight", "启动": "start", "开机": "boot", "重启": "restart", "卡死": "hang", "卡住": "hang", "挂起": "hang", "挂住": "hang", "无响应": "hang",
    "没反应": "hang", "不动": "hang", "死锁": "hang", "崩溃": "crash", "闪退": "crash", "退出": "exit", "报错": "error", "错误": "error", "异常": "error", "失败": "fail",
    "超时": "timeout", "端口": "port", "占用": "use", "网关": "gateway", "代理": "proxy", "量化": "quant", "编译": "compile", "缓存": "cache",
    "权限": "permission", "磁盘": "disk", "硬盘": "disk", "空间": "space", "校验": "checksum", "版本": "version", "不匹配": "mismatch", "冲突": "conflict",
    "升级": "upgrade", "安装": "install", "加载": "load", "上下文": "context", "并发": "concurrency", "吞吐": "throughput", "延迟": "latency",
    "张量并行": "tensor parallel", "流水线并行": "pipeline parallel", "推理": "inference", "多机": "multi node", "多节点": "multi node", "跨节点": "multi node",
    "节点": "node", "网卡": "interface", "环境变量": "environment variable", "分词器": "tokenizer", "工具调用": "tool call", "函数调用": "tool call",
    "聊天模板": "chat template", "对话模板": "chat template", "参数": "argument", "找不到": "missing", "未找到": "missing", "缺少": "missing", "不存在": "missing",
    "不支持": "unsupported", "识别不到": "undetected", "检测不到": "undetected", "看不到": "undetected", "不可用": "unavailable", "拒绝": "refused", "连接": "connect",
    "很慢": "slow", "太慢": "slow", "变慢": "slow", "慢": "slow", "乱码": "garbage", "温度": "temperature", "掉卡": "lost gpu", "日志": "log", "服务": "server", "请求": "request",
}  # fmt: skip
_SAME_EN = {
    "vram": "memory", "mem": "memory", "gpus": "gpu", "card": "gpu", "cards": "gpu", "graphics": "gpu", "stuck": "hang", "hangs": "hang", "hung": "hang",
    "freeze": "hang", "freezes": "hang", "frozen": "hang", "stall": "hang", "deadlock": "hang", "blocked": "hang", "crashes": "crash", "dies": "crash", "died": "crash",
    "failed": "fail", "fails": "fail", "failure": "fail", "failing": "fail", "errors": "error", "exception": "error", "startup": "start", "launch": "start",
    "starting": "start", "starts": "start", "boot": "boot", "docker": "container", "pod": "container", "tp": "tensor parallel", "pp": "pipeline parallel",
    "weights": "weight", "checkpoint": "weight", "timed": "timeout", "quantization": "quant", "quantisation": "quant", "quantized": "quant",
    "latencies": "latency", "unrecognized": "unknown", "unrecognised": "unknown", "dev_shm": "shm", "shmem": "shm", "downloading": "download",
    "downloads": "download", "compiling": "compile", "compilation": "compile", "loading": "load", "loads": "load", "args": "argument", "arg": "argument",
    "flag": "argument", "flags": "argument", "option": "argument", "param": "argument", "params": "argument", "parameter": "argument", "nodes": "node",
    "slower": "slow", "sluggish": "slow", "drivers": "driver", "versions": "version", "garbled": "garbage", "gibberish": "garbage", "folder": "directory", "dir": "directory",
    "ram": "ram", "tool_call": "tool call", "toolcall": "tool call", "oom": "memory oom", "outofmemory": "memory oom", "multigpu": "multi gpu", "multinode": "multi node",
}  # fmt: skip
_ZH = re.compile("|".join(sorted(_SAME_ZH, key=len, reverse=True)))


def plain(text: str) -> str:
    """Full-width forms as plain ones, without addresses, dates, paths and other marks of one run."""
    return _NOISE.sub(" ", unicodedata.normalize("NFKC", text))


def tokens(text: str) -> list[str]:
    """The words that carry meaning, each once, in order; Chinese as known terms and pairs of characters."""
    found: dict[str, None] = {}
    for word in _WORD.findall(_CAMEL.sub(" ", plain(text)).lower()):
        if word[0] >= "\u3400":
            _chinese(word, found)
        elif (word not in _STOP and len(word) > 1) or word.isdigit():
            for one in _SAME_EN.get(word, "").split() or [_stem(word)]:
                found[one] = None
    return list(found)


def _chinese(run: str, found: dict[str, None]) -> None:
    at = 0
    for term in _ZH.finditer(run):
        _pairs(run[at : term.start()], found)
        for one in _SAME_ZH[term[0]].split():
            found[one] = None
        at = term.end()
    _pairs(run[at:], found)


def _pairs(text: str, found: dict[str, None]) -> None:
    for piece in _STOP_ZH.split(text):
        if len(piece) == 1:
            found[piece] = None
        for i in range(len(piece) - 1):
            found[piece[i : i + 2]] = None


def _stem(word: str) -> str:
    """Without the commonest English endings; the same for phrase and question is all that matters."""
    if word.isalpha() and len(word) > 4:
        for end, put in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", "")):
            if word.endswith(end) and not word.endswith("ss") and len(word) - len(end) >= 3:
                word = word[: -len(end)] + put
                break
        return word.rstrip("e") if len(word) > 4 else word
    return word
