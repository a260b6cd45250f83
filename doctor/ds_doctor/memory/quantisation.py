"""How a checkpoint stores its weights, from the quantization_config: bits of one weight with its scales; it never opens a weight file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .architecture import Quantisation
from .values import WIDTH, Values

_FP8 = frozenset(
    [
        "fp8",
        "fbgemm_fp8",
        "ptpc_fp8",
        "deepseek_v4_fp8",
        "modelopt_fp8",
        "fp8_per_tensor",
        "fp8_per_block",
        "w8a8_fp8",
        "float8",
    ]
)


def quantisation(config: Mapping[str, Any], fields: Mapping[str, Any]) -> Quantisation | None:
    """None: stored in the model's own type."""
    for place in (config, fields):
        for name in ("quantization_config", "compression_config", "quant_config"):
            told = place.get(name)
            if isinstance(told, Mapping) and told:
                return _read(Values(told, f"{name}."), config, fields)
            if isinstance(told, str) and told:
                return named(told)
    return None


def named(word: str) -> Quantisation:
    """A method by its name alone, as --quantization or a description gives it."""
    text = word.lower()
    if "nvfp4" in text and "fp8" in text:
        return Quantisation(method=text, bits=8.0, feed_bits=4.5)
    if "fp4" in text and "fp8" in text:  # DeepSeek V4: fp8 dense, fp4 experts
        return Quantisation(method=text, bits=8.03, expert_bits=4.25)
    if "mxfp4" in text:
        return Quantisation(method="mxfp4", bits=16, expert_bits=4.25)
    if "nvfp4" in text:
        return Quantisation(method="nvfp4", bits=4.5)
    if "mxfp8" in text:
        return Quantisation(method="mxfp8", bits=8.25)
    if "fp8" in text or "w8a8" in text or "int8" in text:
        return Quantisation(method=text, bits=8.03)
    if (
        "awq" in text
        or "gptq" in text
        or "int4" in text
        or "marlin" in text
        or "auto_round" in text
        or "auto-round" in text
        or "w4a16" in text
    ):
        return Quantisation(method=text, bits=4.15)
    if "bitsandbytes" in text:
        return Quantisation(method=text, bits=4.13)
    return Quantisation(method=text, bits=16, known=False)


def _read(v: Values, config: Mapping[str, Any], fields: Mapping[str, Any]) -> Quantisation:
    method = v.word("quant_method", "quantization", "quant_type").lower()
    skips = _skips(v)
    if method == "compressed-tensors" or "config_groups" in v:
        return _compressed(v, method, skips)
    if method.startswith("modelopt") or "quant_algo" in v or "quantization" in v:
        return _modelopt(v, method or "modelopt", skips)
    if method == "mxfp4":
        return Quantisation(method="mxfp4", bits=16, expert_bits=4.25, skips=skips)
    expert = _word(fields, "expert_dtype") or v.word("expert_dtype") or _word(config, "expert_dtype")
    if method in _FP8 or method.startswith("fp8"):
        block = v.raw("weight_block_size")
        size = (
            block[0] * block[1]
            if isinstance(block, list) and len(block) == 2 and all(isinstance(b, int) and b > 0 for b in block)
            else 0
        )
        bits = 8 + (32 / size if size >= 1024 else 8 / size if size else 0.0)
        return Quantisation(method=method, bits=bits, expert_bits=4.25 if "fp4" in expert else None, skips=skips)
    if method in (
        "awq",
        "gptq",
        "gptq_marlin",
        "awq_marlin",
        "auto-round",
        "auto_round",
        "autoround",
        "inc",
        "quark",
        "hqq",
        "intel/auto-round",
    ):
        bits = v.between("bits", "w_bit", "nbits", default=4.0, low=1, high=16)
        group = v.between("group_size", "q_group_size", default=128.0, low=-1, high=WIDTH)
        return Quantisation(method=method, bits=bits + _scales(group, bits), skips=skips)
    if method == "bitsandbytes":
        return Quantisation(
            method=method, bits=4.13 if v.flag("load_in_4bit", "_load_in_4bit", default=False) else 8.0, skips=skips
        )
    if method in ("gguf", "torchao", "experts_int8", "moe_wna16"):
        return Quantisation(method=method, bits=8, skips=skips, known=False)
    guess = named(method)
    return Quantisation(
        method=method or "unnamed", bits=guess.bits, expert_bits=guess.expert_bits, skips=skips, known=False
    )


def _scales(group: float, bits: float) -> float:
    """Bits a weight for a 16-bit scale and a zero point of each group; none for one scale a channel."""
    return (16 + bits) / group if group > 0 else 0.01


def _word(place: Mapping[str, Any], name: str) -> str:
    value = place.get(name)
    return value if isinstance(value, str) else ""


def _skips(v: Values) -> tuple[str, ...]:
    found: list[str] = []
    for name in (
        "ignore",
        "modules_to_not_convert",
        "ignored_layers",
        "exclude_modules",
        "llm_int8_skip_modules",
        "exclude",
    ):
        value = v.raw(name)
        if isinstance(value, list):
            found += [x[:200] for x in value[:4096] if isinstance(x, str)]
    return tuple(found)


def _kv_bytes(v: Values) -> int | None:
    scheme = v.inner("kv_cache_scheme")
    if scheme is not None and scheme.whole("num_bits", default=0, low=0, high=64) == 8:
        return 1
    algo = v.word("kv_cache_quant_algo", "kv_cache_scheme").lower()
    return 1 if "fp8" in algo else None


def _compressed(v: Values, method: str, skips: tuple[str, ...]) -> Quantisation:
    groups = v.inner("config_groups")
    bits, experts, linear = 16.0, None, None
    for name in list(groups.fields)[:64] if groups is not None else ():
        one = groups.inner(name) if groups is not None else None
        weights = one.inner("weights") if one is not None else None
        if one is None or weights is None:
            continue
        per = weights.between("num_bits", default=8.0, low=1, high=16)
        size = weights.between("group_size", default=0.0, low=-1, high=WIDTH)
        floating = weights.word("type") == "float"
        scale = (8 if floating and per == 4 else 16) / size if size > 0 else 0.01
        targets = one.raw("targets")
        aims = " ".join(t for t in targets if isinstance(t, str)) if isinstance(targets, list) else "Linear"
        if "expert" in aims and "Linear" not in aims:
            experts = per + scale
        else:
            linear = per + scale if linear is None else max(linear, per + scale)
    bits = linear if linear is not None else (16.0 if experts is not None else 8.0)
    return Quantisation(
        method=method or "compressed-tensors", bits=bits, expert_bits=experts, skips=skips, kv_bytes=_kv_bytes(v)
    )


def _modelopt(v: Values, method: str, skips: tuple[str, ...]) -> Quantisation:
    inner = v.inner("quantization") or v
    algo = (inner.word("quant_algo") or method).lower()
    skips = skips or _skips(inner)
    kv = _kv_bytes(v) or _kv_bytes(inner)
    if "mixed" in algo:
        return Quantisation(method=method, bits=8, expert_bits=4.5, skips=skips, kv_bytes=kv, known=False)
    if "fp4" in algo:
        return Quantisation(method=method, bits=4.5, skips=skips, kv_bytes=kv)
    if "mxfp8" in algo:
        return Quantisation(method=method, bits=8.25, skips=skips, kv_bytes=kv)
    return Quantisation(method=method, bits=8.0, skips=skips, kv_bytes=kv, known="fp8" in algo)
