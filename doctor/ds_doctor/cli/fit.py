"""`ds-doctor fit`: the options; what they do stands in fitting."""

from __future__ import annotations

from typing import Any

import click

from .fitting import Request, fit
from .lang import t


@click.command(
    "fit",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=t(
        "Work out whether MODEL fits in the memory of GPUs, and how much is left for its requests. MODEL is a folder, a config.json or an id on the "
        "Hugging Face Hub (well-known ones are bundled; nothing is downloaded). Without --gpus or --replay: the GPUs of this host, or the fewest of each "
        "kind on which it fits. Exit status: 0 it fits or may fit, 1 it does not, 2 wrong usage, 3 cannot tell.",
        "计算 MODEL 能否放进 GPU 显存，以及还能留给请求多少。MODEL 可以是目录、config.json 或 Hugging Face Hub 上的 ID（常见模型已内置；不会下载任何内容）。未给出 --gpus 或 "
        "--replay 时，使用本机的 GPU；没有 GPU 时列出各型号最少需要几块。退出码：0 放得下或可能放得下，1 放不下，2 用法错误，3 无法判断。",
    ),
)
@click.option(
    "--gpus",
    metavar="SET",
    help=t("The GPUs, for example 8xH200, 2xRTX4090, 2x24GiB.", "GPU，例如 8xH200、2xRTX4090、2x24GiB。"),
)
@click.option(
    "--replay",
    metavar="FILE",
    help=t("The GPUs of a recorded host, with their free memory.", "使用录制文件中的 GPU 及其空闲显存。"),
)
@click.option("--engine", type=click.Choice(["vllm", "sglang"]), default="vllm", show_default=True)
@click.option(
    "--engine-version",
    metavar="V",
    help=t("Its version. Default: the newest that is known here.", "引擎版本，默认为这里已知的最新版本。"),
)
@click.option(
    "-tp",
    "--tp",
    "--tensor-parallel-size",
    "--tp-size",
    "tp",
    metavar="N",
    help=t("Tensor-parallel size. Default: all the GPUs.", "张量并行数，默认为全部 GPU。"),
)
@click.option(
    "-pp",
    "--pp",
    "--pipeline-parallel-size",
    "--pp-size",
    "pp",
    metavar="N",
    help=t("Pipeline-parallel size.", "流水线并行数。"),
)
@click.option(
    "-dp", "--dp", "--data-parallel-size", "--dp-size", "dp", metavar="N", help=t("Data-parallel size.", "数据并行数。")
)
@click.option(
    "--ep",
    "--enable-expert-parallel",
    "ep",
    is_flag=True,
    help=t("Spread the experts over all ranks.", "将专家分布到所有进程。"),
)
@click.option(
    "--max-model-len",
    "--context-length",
    "max_len",
    metavar="N",
    help=t(
        "Longest request, also 32k or 128K, auto. Default: the model's.",
        "最长请求，也可写 32k、128K、auto；默认取模型自身。",
    ),
)
@click.option(
    "--kv-cache-dtype",
    "kv_dtype",
    default="auto",
    show_default=True,
    metavar="TYPE",
    help=t("Type of the KV cache, for example fp8.", "KV 缓存类型，例如 fp8。"),
)
@click.option(
    "--concurrency",
    metavar="N",
    help=t("So many requests of that length are to run at once.", "需要同时处理的请求数。"),
)
@click.option(
    "--gpu-memory-utilization",
    "--mem-fraction-static",
    "share",
    metavar="X",
    help=t("Share of each GPU that the engine may take.", "引擎可使用的显存比例。"),
)
@click.option(
    "--max-num-seqs",
    "--max-running-requests",
    "seqs",
    metavar="N",
    help=t("Largest batch in requests.", "最大并行请求数。"),
)
@click.option(
    "--max-num-batched-tokens",
    "--chunked-prefill-size",
    "batched",
    metavar="N",
    help=t("Largest batch in tokens.", "单步最大词元数。"),
)
@click.option(
    "--cpu-offload-gb",
    "offload",
    metavar="X",
    help=t("GiB of weights of each GPU that stay on the host.", "每块 GPU 留在主机内存中的权重（GiB）。"),
)
@click.option(
    "--quantization",
    "quantisation",
    metavar="METHOD",
    help=t("How the engine quantises 16-bit weights, for example fp8.", "引擎对 16 位权重的量化方式，例如 fp8。"),
)
@click.option(
    "--max-loras",
    "--max-loras-per-batch",
    "loras",
    metavar="N",
    help=t("LoRA adapters at once.", "同时加载的 LoRA 适配器数。"),
)
@click.option("--max-lora-rank", "lora_rank", metavar="N", help=t("Their largest rank (16).", "其最大秩（默认 16）。"))
@click.option(
    "--enforce-eager", "--disable-cuda-graph", "eager", is_flag=True, help=t("No CUDA graphs.", "不使用 CUDA Graph。")
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help=t("Format of standard output.", "标准输出的格式。"),
)
@click.option(
    "--lang",
    type=click.Choice(["en", "zh"]),
    help=t("Language. Default: from the locale.", "语言，默认取自系统区域设置。"),
)
@click.argument("model", metavar="MODEL")
def command(**given: Any) -> int:
    return fit(Request(**given))


# fmt: skip
