"""What the launch command asks of memory: parallel sizes, shares, lengths, offloading, as numbers; it judges nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.python_env import Packages

from ._open_words import need_certain
from ._options import Options, options
from ._require import numbers

AUTO = -1  # --max-model-len auto: the engine takes what fits
_VERSION = re.compile(r"v?(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?:[.\-+]?(?:post|rc|dev|a|b)\d*)*(?:[-+]|\Z)")
HOST_TABLES = "SGLANG_ENABLE_DSV41_ENGRAM_HOST_TABLE"  # sglang 0.5.23 environ.py
_SIZES = (1, 1 << 16)  # of a parallel group: more is a slip of the hand


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The command's words on memory; None: it does not say, and the engine takes its default. `share` is a fraction of the
    GPU's memory (vLLM) or of what is free before loading (SGLang), `length` the longest request (-1: what fits),
    `sequences` and `batched` the largest batch in requests and tokens. `version` of the engine and where it is from:
    installed, image, newest (nothing tells). Sizes as the engines take them: GiB, and GB where the name says so.
    `host_tables`: whether Engram tables stay in host memory (None: the engine's default).
    `devices`: indices or UUIDs of the GPUs to use (None: the visible ones in order, from `first_device` in `device_step`s)."""

    engine: str
    version: str
    version_from: str
    model: str | None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False
    ep_size: int = 1
    dcp: int = 1
    nodes: int = 1
    dp_attention: bool = False
    share: float | None = None
    length: int | None = None
    kv_dtype: str = "auto"
    kv_bytes: int | None = None
    tokens: int | None = None
    sequences: int | None = None
    batched: int | None = None
    block: int | None = None
    eager: bool = False
    dtype: str = "auto"
    quantisation: str | None = None
    offload_gib: float = 0.0
    kv_offload_gib: float = 0.0
    swap_gib: float = 0.0
    hicache: bool = False
    hicache_gb: float = 0.0
    hicache_ratio: float | None = None
    loras: int = 0
    lora_rank: int = 0
    speculative: str | None = None
    spec_tokens: int = 0
    state_mode: str | None = None
    state_dtype: str = "auto"
    hybrid_manager: bool = True
    prefix_caching: bool | None = None
    swa_ratio: float = 0.8
    text_only: bool = False
    devices: tuple[str, ...] | None = None
    first_device: int = 0
    device_step: int = 1
    overrides: dict[str, Any] = {}
    host_tables: bool | None = None

    @property
    def vllm(self) -> bool:
        return self.engine == "vllm"

    @property
    def ranks(self) -> int:
        """Processes of one engine, on all its nodes."""
        return self.tp * self.pp

    @property
    def share_flag(self) -> str:
        return "--gpu-memory-utilization" if self.vllm else "--mem-fraction-static"

    @property
    def length_flag(self) -> str:
        return "--max-model-len" if self.vllm else "--context-length"

    def at_least(self, version: str) -> bool:
        """Whether the engine is this version or newer."""
        return numbers(self.version) >= numbers(version)


def ask(
    launch: Launch, flags: EngineFlags | None, packages: Packages | None, environment: Environment | None = None
) -> Ask:
    """What the command asks. NotApplicable when it starts no server, Undecided for a value that no engine can take."""
    made = options(launch, flags) if launch.engine in ("vllm", "sglang") else None
    if made is None or not made.serves or made.help:
        raise NotApplicable("memory-no-server")
    need_certain(made)
    version, version_from = engine_version(launch, packages)
    read = _Values(made)
    common: dict[str, Any] = {
        "engine": launch.engine,
        "version": version,
        "version_from": version_from,
        "model": made.model,
        "tp": read.size("tensor_parallel_size", "tp_size"),
        "pp": read.size("pipeline_parallel_size", "pp_size"),
        "dp": read.size("data_parallel_size", "dp_size"),
        "nodes": read.size("nnodes"),
        "dcp": read.size("decode_context_parallel_size", "dcp_size"),
        "kv_dtype": read.word("kv_cache_dtype") or "auto",
        "dtype": read.word("dtype") or "auto",
        "quantisation": read.word("quantization"),
        "offload_gib": read.number("cpu_offload_gb") or 0.0,
        "text_only": read.on("language_model_only", "language_only"),
    }
    if launch.engine == "vllm":
        return Ask(**common, **_vllm(read))
    inherited = environment.variables if environment is not None and launch.container is None else {}
    return Ask(**common, **_sglang(read, {**inherited, **launch.environment}))


def _vllm(read: _Values) -> dict[str, Any]:
    stays = read.table("engram_config").get("cpu_offload")
    lora = read.on("enable_lora")
    return {
        "ep": read.on("enable_expert_parallel"),
        "share": read.fraction("gpu_memory_utilization"),
        "length": read.whole("max_model_len", low=AUTO),
        "kv_bytes": read.whole("kv_cache_memory_bytes"),
        "sequences": read.whole("max_num_seqs"),
        "batched": read.whole("max_num_batched_tokens"),
        "block": read.whole("block_size"),
        "eager": read.on("enforce_eager"),
        "kv_offload_gib": read.number("kv_offloading_size") or 0.0,
        "swap_gib": read.number("swap_space") or 0.0,
        "loras": (read.whole("max_loras") or 1) if lora else 0,
        "lora_rank": (read.whole("max_lora_rank") or 16) if lora else 0,
        "speculative": _speculation(read),
        "spec_tokens": _tokens(read),
        "state_mode": read.word("mamba_cache_mode"),
        "state_dtype": read.word("mamba_ssm_cache_dtype") or read.word("mamba_cache_dtype") or "auto",
        "hybrid_manager": not read.on("disable_hybrid_kv_cache_manager"),
        "prefix_caching": read.value("enable_prefix_caching")[1],
        "devices": _devices(read),
        "overrides": read.table("hf_overrides"),
        "host_tables": stays if isinstance(stays, bool) else None,
    }


def _sglang(read: _Values, variables: Mapping[str, str]) -> dict[str, Any]:
    tables = variables.get(HOST_TABLES)
    lora = read.on("enable_lora") or read.given("lora_paths")
    return {
        "ep": (read.whole("ep_size") or 1) > 1,
        "ep_size": read.whole("ep_size") or 1,
        "dp_attention": read.on("enable_dp_attention"),
        "share": read.fraction("mem_fraction_static"),
        "length": read.whole("context_length"),
        "tokens": read.whole("max_total_tokens"),
        "sequences": read.whole("max_running_requests"),
        "batched": read.whole("chunked_prefill_size", low=AUTO),
        "block": read.whole("page_size"),
        "eager": read.on("disable_cuda_graph"),
        "hicache": read.on("enable_hierarchical_cache"),
        "hicache_gb": read.number("hicache_size") or 0.0,
        "hicache_ratio": read.number("hicache_ratio"),
        "loras": (read.whole("max_loras_per_batch") or 8) if lora else 0,
        "lora_rank": (read.whole("max_lora_rank") or 16) if lora else 0,
        "speculative": read.word("speculative_algorithm"),
        "spec_tokens": read.whole("speculative_num_draft_tokens") or 0,
        "state_dtype": read.word("mamba_ssm_dtype") or "auto",
        "prefix_caching": False if read.on("disable_radix_cache") else None,
        "swa_ratio": read.number("swa_full_tokens_ratio") or 0.8,
        "first_device": read.whole("base_gpu_id") or 0,
        "device_step": max(1, read.whole("gpu_id_step") or 1),
        "overrides": read.table("json_model_override_args"),
        "host_tables": None if tables is None else tables.lower() in ("1", "true", "yes", "y"),
    }


def _speculation(read: _Values) -> str | None:
    """vLLM's method of speculative decoding; `?` where it is asked for without one."""
    config = read.table("speculative_config")
    method = config.get("method") or read.word("spec_method")
    if isinstance(method, str) and method:
        return method
    return "?" if config or read.given("spec_model") else None


def _devices(read: _Values) -> tuple[str, ...] | None:
    """--device-ids: separated by commas."""
    value = read.value("device_ids")[1]
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(v).strip() for v in value) if isinstance(value, (list, tuple)) and value else None


def _tokens(read: _Values) -> int:
    """Speculative tokens of a step."""
    number = read.table("speculative_config").get("num_speculative_tokens") or read.whole("spec_tokens")
    return number if type(number) is int and 0 <= number < 1024 else 0


def engine_version(launch: Launch, packages: Packages | None) -> tuple[str, str]:
    """(version, where it is from) of the engine that the command starts; the newest known where nothing tells."""
    engine = launch.engine or "vllm"
    if launch.container is not None:
        tag = (launch.container.image or "").partition("@")[0].rpartition("/")[2].partition(":")[2]
        found = _VERSION.match(tag)
        if found is not None:
            return found[1], "image"
    elif packages is not None and engine in packages.packages:
        found = _VERSION.match(packages.packages[engine].version)
        if found is not None:
            return found[1], "installed"
    from ._data import table

    newest: str = table("engines")[engine][0]["version"]
    return newest, "newest"


class _Values:
    """What was given, by the parser's own names; the first of several names that was given."""

    def __init__(self, made: Options) -> None:
        self.made = made

    def value(self, *names: str) -> tuple[str, Any]:
        for name in names:
            found = self.made.of(name)
            if found is not None:
                return found.name, self.made.values.get(name)
        return names[0], None

    def given(self, name: str) -> bool:
        return self.made.of(name) is not None

    def on(self, *names: str) -> bool:
        return self.value(*names)[1] is True

    def word(self, *names: str) -> str | None:
        value = self.value(*names)[1]
        return value if isinstance(value, str) and value else None

    def number(self, *names: str) -> float | None:
        flag, value = self.value(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 40:
            raise _unread(flag, value)
        return float(value)

    def whole(self, *names: str, low: int = 0) -> int | None:
        flag, value = self.value(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 1 << 50:
            raise _unread(flag, value)
        return value

    def size(self, *names: str) -> int:
        flag, value = self.value(*names)
        if value is None:
            return 1
        if isinstance(value, bool) or not isinstance(value, int) or not _SIZES[0] <= value <= _SIZES[1]:
            raise _unread(flag, value)
        return value

    def fraction(self, name: str) -> float | None:
        value = self.number(name)
        if value is not None and not 0 < value <= 1:
            raise _unread(self.value(name)[0], value)
        return value

    def table(self, name: str) -> dict[str, Any]:
        flag, value = self.value(name)
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value.encode())
            except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
                raise _unread(flag, value) from None
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _unread(flag, value)
        return value


def _unread(flag: str, value: object) -> Undecided:
    return Undecided("memory-option-unread", option=flag, value=str(value)[:60])
