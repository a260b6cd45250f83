"""What a quantised checkpoint's list of exceptions leaves in the model's own type: the share of each part; it weighs nothing.

An entry is a module's name, with or without what stands in front of `layers.N` (transformers modules_to_not_convert, vLLM
ignored_layers), a name with `*` (ModelOptimizer), or `re:` and a pattern (compressed-tensors, which matches at the beginning).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Modules of each role, as models call them, and the share of its parameters. What is small beside them (norms, gates,
# convolutions, A_log) is none: naming it leaves the rest quantised. `|`: the same module under other names.
_MODULES: dict[tuple[str, str], tuple[tuple[str, float], ...]] = {
    ("attention", "heads"): (("self_attn.q_proj|self_attn.q_b_proj|self_attn.qkv_proj", 0.5), ("self_attn.o_proj", 0.5)),
    ("attention", "kv"): (("self_attn.k_proj|self_attn.qkv_proj", 0.5), ("self_attn.v_proj|self_attn.qkv_proj", 0.5)),
    ("attention", "whole"): (("self_attn.q_a_proj|self_attn.fused_qkv_a_proj_with_mqa", 0.7), ("self_attn.kv_a_proj_with_mqa", 0.3)),
    ("latent", ""): (("self_attn.kv_b_proj", 1.0),),
    ("indexer", ""): (("self_attn.indexer.wq_b", 0.9), ("self_attn.indexer.wk", 0.1)),
    ("state", ""): (("linear_attn.in_proj_qkvz|linear_attn.in_proj_qkv|mamba.in_proj|mixer.in_proj", 0.67), ("linear_attn.out_proj|mamba.out_proj|mixer.out_proj", 0.33)),
    ("mlp", ""): (("mlp.gate_proj|mlp.gate_up_proj|feed_forward.w1", 1 / 3), ("mlp.up_proj|mlp.gate_up_proj|feed_forward.w3", 1 / 3), ("mlp.down_proj|feed_forward.w2", 1 / 3)),
    ("shared", ""): (
        ("mlp.shared_expert.gate_proj|mlp.shared_experts.gate_proj|mlp.shared_experts.gate_up_proj", 1 / 3),
        ("mlp.shared_expert.up_proj|mlp.shared_experts.up_proj|mlp.shared_experts.gate_up_proj", 1 / 3),
        ("mlp.shared_expert.down_proj|mlp.shared_experts.down_proj", 1 / 3),
    ),
    ("experts", ""): (
        ("mlp.experts.0.gate_proj|mlp.experts.0.gate_up_proj|block_sparse_moe.experts.0.w1", 1 / 3),
        ("mlp.experts.0.up_proj|mlp.experts.0.gate_up_proj|block_sparse_moe.experts.0.w3", 1 / 3),
        ("mlp.experts.0.down_proj|block_sparse_moe.experts.0.w2", 1 / 3),
    ),
}  # fmt: skip
_TOWERS = re.compile(r"visual|vision|image|audio|speech|whisper|multi_?modal|mm_|projector|patch_embed", re.IGNORECASE)
_LAYER = re.compile(r"(?:layers|blocks|h)\.(\d{1,4})\.?")
_FRONTS = ("model.", "model.language_model.", "language_model.model.", "")
_PATTERNS = 32  # of one checkpoint; real ones have a handful
_ASKED = 100_000  # matches tried for one checkpoint; a real one takes fewer
_LONGEST = 160  # characters of a pattern
# What could take long to match: a repeated group, look-around, a reference back.
_COSTLY = re.compile(r"\)[*+{]|\(\?(?!:)|\\[1-9]")


class Exceptions:
    """The exceptions of one checkpoint, in a form that can be asked for every layer."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.anywhere: list[str] = []
        self.of_layer: dict[int, list[str]] = {}
        self.patterns: list[tuple[re.Pattern[str], bool]] = []
        for entry in dict.fromkeys(entries):
            self._take(entry)
        self._seen: dict[str, bool] = {}
        self._left = _ASKED

    def _take(self, entry: str) -> None:
        if entry.startswith("re:") or "*" in entry:
            self._take_pattern(entry)
            return
        if _TOWERS.search(entry):
            return
        m = _LAYER.search(entry)
        if m is None:
            self.anywhere.append(entry.strip("."))
        elif not re.search(r"experts\.\d", entry):  # one expert of many
            self.of_layer.setdefault(int(m[1]), []).append(entry[m.end() :].strip("."))

    def _take_pattern(self, entry: str) -> None:
        text = entry.removeprefix("re:")
        if len(text) > _LONGEST or len(self.patterns) >= _PATTERNS:
            return
        if not entry.startswith("re:"):
            text = ".*".join(re.escape(part) for part in re.split(r"\*+", text)) + r"(?:\.|\Z)"
        layered = re.search(r"\d|\(|\[", text) is not None
        if _COSTLY.search(text) or len(re.findall(r"[*+{]", text)) > (2 if layered else 3):
            return
        try:
            self.patterns.append((re.compile(text), layered))
        except (re.error, RecursionError, OverflowError):
            return

    def share(self, role: str, split: str, layer: int | None) -> float:
        """The share of a part's parameters that stays in the model's own type, 0 to 1."""
        modules = _MODULES.get((role, split)) or _MODULES.get((role, "")) or ()
        if layer is None or layer < 0:
            return 0.0
        return sum(part for names, part in modules if any(self._named(name, layer) for name in names.split("|")))

    def _named(self, name: str, layer: int) -> bool:
        here = f".{name}."
        if any(not entry or f".{entry}." in here for entry in self.of_layer.get(layer, ())):
            return True
        if name not in self._seen:  # what holds for every layer is asked once
            self._seen[name] = any(f".{entry}." in here for entry in self.anywhere) or self._matched(name, 0, False)
        return self._seen[name] or self._matched(name, layer, True)

    def _matched(self, name: str, layer: int, layered: bool) -> bool:
        for pattern, of_layer in self.patterns:
            if of_layer is layered and self._left > 0:
                self._left -= len(_FRONTS)
                if any(pattern.match(f"{front}layers.{layer}.{name}") for front in _FRONTS):
                    return True
        return False


_last: list[tuple[tuple[str, ...], Exceptions]] = []  # planning asks for the same checkpoint many times


def exceptions(skips: tuple[str, ...]) -> Exceptions:
    """The exceptions that a quantization_config lists."""
    for known, made in _last:
        if known == skips:
            return made
    made = Exceptions(skips)
    _last[:] = [*_last[-3:], (skips, made)]
    return made
