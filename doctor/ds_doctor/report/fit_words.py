"""The words of `ds-doctor fit` in both languages; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Lang

WORDS: Mapping[str, tuple[str, str]] = {
    "verdict.fits": ("FITS", "放得下"),
    "verdict.tight": ("TIGHT", "勉强"),
    "verdict.no": ("DOES NOT FIT", "放不下"),
    "says.fits": ("it fits also when everything takes its most", "各项开销都取上限时也放得下"),
    "says.tight": ("it may fit or not: what cannot be predicted decides", "能否放下取决于无法预测的部分"),
    "says.no": ("it does not fit, whatever the estimates' error", "即使考虑估算误差也放不下"),
    "reason.weights.no": (
        "the weights ({weights} GiB on each GPU) and what the engine itself needs exceed its {budget} GiB",
        "权重（每块 GPU {weights} GiB）加上引擎自身开销超过其可用的 {budget} GiB",
    ),
    "reason.weights.tight": (
        "the weights ({weights} GiB on each GPU) may leave nothing of the engine's {budget} GiB",
        "权重（每块 GPU {weights} GiB）可能占满引擎可用的 {budget} GiB",
    ),
    "reason.cache.no": (
        "one request of {length} tokens needs {need} GiB of KV cache, and at most {high} GiB are left for it",
        "一个 {length} 词元的请求需要 {need} GiB 的 KV 缓存，而最多只剩 {high} GiB",
    ),
    "reason.cache.tight": (
        "one request of {length} tokens needs {need} GiB of KV cache, and {low} to {high} GiB are left for it",
        "一个 {length} 词元的请求需要 {need} GiB 的 KV 缓存，而剩余 {low} 到 {high} GiB",
    ),
    "reason.free": (
        "the engine demands {budget} GiB of each GPU when it starts, but only {free} GiB are free: {short} GiB too few",
        "引擎启动时要求每块 GPU 有 {budget} GiB，但只空闲 {free} GiB，缺 {short} GiB",
    ),
    "reason.context": (
        "the KV cache holds about {tokens} tokens, fewer than the context of {length}: SGLang starts and rejects longer requests",
        "KV 缓存约可存 {tokens} 个词元，少于上下文长度 {length}：SGLang 能启动，但会拒绝更长的请求",
    ),
    "reason.graphs": (
        "with a share of {share}, the CUDA graphs, which are taken after the cache, may find no memory",
        "占比为 {share} 时，在缓存之后捕获的 CUDA Graph 可能没有显存可用",
    ),
    "reason.heads": (
        "its {heads} attention heads cannot be divided by a tensor-parallel size of {tp}: the engine refuses to start",
        "其 {heads} 个注意力头不能被张量并行数 {tp} 整除：引擎会拒绝启动",
    ),
    "reason.shape": (
        "its KV heads or the width of its layers cannot be divided by a tensor-parallel size of {tp}: the engine refuses to start",
        "其 KV 头数或层宽不能被张量并行数 {tp} 整除：引擎会拒绝启动",
    ),
    "reason.concurrency": (
        "{wanted} requests of {length} tokens at once were asked for, the KV cache holds about {requests}",
        "要求同时处理 {wanted} 个 {length} 词元的请求，而 KV 缓存约能容纳 {requests} 个",
    ),
    "reason.uncertain": (
        "the model type {type} is not known here; it was counted as plain attention",
        "这里不认识模型类型 {type}，已按普通注意力估算",
    ),
    "assume.tp": ("tensor parallel over all {gpus} GPUs: tp {tp}", "在全部 {gpus} 块 GPU 上做张量并行：tp {tp}"),
    "assume.tp-heads": (
        "tp {tp} of {gpus} GPUs: the model's heads and layers cannot be divided by more",
        "{gpus} 块 GPU 中取 tp {tp}：模型的注意力头与层宽不能被更大的数整除",
    ),
    "assume.idle": ("{gpus} of the {all} GPUs are used", "{all} 块 GPU 中使用 {gpus} 块"),
    "assume.engine": (
        "{engine} {version}, the newest that is known here; --engine-version takes another",
        "{engine} {version}（这里已知的最新版本）；可用 --engine-version 指定其他版本",
    ),
    "assume.context": (
        "the model's own context of {length} tokens; --max-model-len takes another",
        "使用模型自身的上下文长度 {length} 词元；可用 --max-model-len 指定",
    ),
    "assume.context-unknown": (
        "the configuration names no context length: {length} tokens are taken",
        "配置中没有上下文长度：按 {length} 词元计算",
    ),
    "assume.over-context": (
        "{length} tokens exceed the model's context of {context}: the engine refuses that unless it is told otherwise",
        "{length} 词元超出模型的上下文 {context}：除非另行设置，引擎会拒绝",
    ),
    "assume.bundled": ("the architecture of {id} as it is bundled here", "使用此处内置的 {id} 的结构"),
    "assume.by-name": (
        "counted as {id} by its name, its files were not seen",
        "按名称视为 {id}，没有看到其文件",
    ),
    "assume.by-suffix": (
        "counted as {id} with {how} weights by its name, its files were not seen",
        "按名称视为权重为 {how} 的 {id}，没有看到其文件",
    ),
    "assume.derived": (
        "worked out from published figures, not read from a configuration: {fields}",
        "以下字段由公开数据推得，而非读自配置：{fields}",
    ),
    "assume.weights-config": (
        "weights worked out from the configuration alone: ±{percent} %",
        "权重仅由配置推算：±{percent} %",
    ),
    "assume.weights-size": ("weights by the size of the checkpoint: ±{percent} %", "权重按检查点大小计：±{percent} %"),
    "assume.weights-tensors": (
        "weights by the tensors' own sizes: ±{percent} %",
        "权重按各张量自身大小计：±{percent} %",
    ),
    "assume.card": (
        "{name} was not seen: its {gib} GiB are the data sheet's figure less what drivers usually keep",
        "没有实测过 {name}：{gib} GiB 为标称值减去驱动通常保留的部分",
    ),
    "assume.alone": ("nothing else uses the GPUs", "GPU 上没有其他程序"),
    "assume.free": ("the free memory that was seen {where}", "使用{where}看到的空闲显存"),
    "assume.plain": (
        "no LoRA adapters and no speculative decoding: each takes memory on top",
        "不含 LoRA 适配器与推测解码：它们还会占用显存",
    ),
    "assume.lora": (
        "no speculative decoding, which takes memory on top",
        "不含推测解码，它还会占用显存",
    ),
    "assume.tables": (
        "vLLM keeps the Engram tables ({gib} GiB) in host memory, which is its default",
        "vLLM 默认将 Engram 表（{gib} GiB）放在主机内存中",
    ),
    "assume.hosts": ("more than 8 GPUs are several hosts", "超过 8 块 GPU 通常意味着多台主机"),
    "where.here": ("on this host", "在本机上"),
    "where.recording": ("when the recording was made", "在录制时"),
    "on": ("{model} on {gpus}", "{model}，{gpus}"),
    "of": ("{count} x {name}, {total} GiB each", "{count} × {name}，每块 {total} GiB"),
    "one": ("{name}, {total} GiB", "{name}，{total} GiB"),
    "free-now": ("{free} GiB free", "空闲 {free} GiB"),
    "weights": ("weights", "权重"),
    "kv": ("KV cache", "KV 缓存"),
    "overhead": ("overhead", "开销"),
    "unused": ("not used", "未使用"),
    "to": ("{low} to {high}", "{low} 到 {high}"),
    "missing": ("missing", "不足"),
    "k.model": ("model", "模型"),
    "k.engine": ("engine", "引擎"),
    "k.per-token": ("KV per token", "每词元 KV"),
    "v.per-token": (
        "{gpu} bytes on each GPU, {model} bytes of the whole model",
        "每块 GPU {gpu} 字节，整个模型 {model} 字节",
    ),
    "v.per-token-none": (
        "does not grow: every layer keeps a window or a state",
        "不随长度增长：每层只保留窗口或状态",
    ),
    "k.tokens": ("KV tokens", "KV 词元数"),
    "k.need": ("one request", "单个请求"),
    "v.need": ("of {length} tokens needs {need} GiB of KV cache", "{length} 词元需要 {need} GiB 的 KV 缓存"),
    "k.requests": ("at once", "并发"),
    "v.requests": ("{requests} requests of {length} tokens", "{requests} 个 {length} 词元的请求"),
    "k.longest": ("longest", "最长"),
    "v.longest": ("{longest} tokens in one request", "单个请求 {longest} 词元"),
    "v.whole": (
        "{longest} tokens in one request, the model's whole context",
        "单个请求 {longest} 词元，即模型的完整上下文",
    ),
    "v.none": ("no request fits", "任何请求都放不下"),
    "k.host": ("host", "主机"),
    "v.host": ("about {gib} GiB of memory", "约需 {gib} GiB 内存"),
    "v.shm": ("{mib} MiB of /dev/shm", "{mib} MiB 的 /dev/shm"),
    "changes": ("What would help:", "可以这样调整："),
    "change.gpus": ("{gpus} GPUs", "{gpus} 块 GPU"),
    "change.requests": ("{requests} requests of {length} tokens at once", "可并发 {requests} 个 {length} 词元的请求"),
    "no-change": (
        "No single setting was found that makes it fit on these GPUs.",
        "没有找到能使其在这些 GPU 上放下的设置。",
    ),
    "sets": ("The fewest GPUs of each kind on which it fits:", "各型号 GPU 最少需要："),
    "no-sets": (
        "It fits on none of the sets that were tried (up to 16 GPUs).",
        "尝试过的各种组合（最多 16 块 GPU）都放不下。",
    ),
    "set.requests": ("{requests} requests at once", "可并发 {requests} 个请求"),
    "assumptions": ("Assumed:", "前提："),
    "sources": ("Sources:", "来源："),
    "parameters": ("{total} parameters", "{total} 参数"),
    "active": ("{active} active", "激活 {active}"),
    "layers": ("{count} {kind}", "{count} 层 {kind}"),
    "comma": (", ", "，"),
    "semicolon": ("; ", "；"),
    "aside": ("({what})", "（{what}）"),
    "exit.0": ("exit status 0", "退出码 0"),
    "exit.1": ("exit status 1: it does not fit", "退出码 1：放不下"),
}


def word(key: str, lang: Lang, **blanks: object) -> str:
    """One of WORDS with its blanks filled."""
    text = WORDS[key][0 if lang == "en" else 1]
    return text.format(**blanks) if blanks else text
