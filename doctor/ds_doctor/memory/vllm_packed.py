"""vLLM's packed blocks: caches of different page size side by side in one block, for models with a sparse indexer (0.27 on) and DeepSeek V4.

Follows _get_packed_kv_cache_groups in vllm/v1/core/kv_cache_planning.py (0.33).
"""

from __future__ import annotations

from collections import Counter, defaultdict

from .kv import Kept


def packed(every: list[Kept]) -> list[list[Kept]] | None:
    """The groups; None where all pages are alike and nothing has to be packed."""
    if len({k.page for k in every}) <= 1:
        return None
    buckets: dict[tuple[str, int, int], list[Kept]] = defaultdict(list)
    for k in every:
        buckets[k.kind, k.block, k.window].append(k)
    kinds = [(bucket, Counter(k.page for k in bucket)) for bucket in buckets.values()]
    balanced = [len(set(pages.values())) == 1 for _, pages in kinds]
    repeats = max(
        (max(pages.values()) for (_, pages), even in zip(kinds, balanced, strict=True) if even and len(pages) > 1),
        default=0,
    )
    if repeats:
        repeats = _least_padding(
            [max(pages.values()) for (_, pages), even in zip(kinds, balanced, strict=True) if even], repeats
        )

    def count(pages: Counter[int], even: bool) -> int:
        return -(-max(pages.values()) // repeats) if even and repeats else 1

    def is_state(bucket: list[Kept]) -> bool:
        return bucket[0].kind in ("state", "ring") or (not repeats and bucket[0].kind == "sliding")

    def widest(pages: Counter[int], n: int) -> int:
        return sum(-(-times // n) * page for page, times in pages.items())

    anchor = max(
        widest(pages, len(bucket) if is_state(bucket) else count(pages, even))
        for (bucket, pages), even in zip(kinds, balanced, strict=True)
    )
    groups = []
    for (bucket, pages), even in zip(kinds, balanced, strict=True):
        n = count(pages, even)
        if anchor and is_state(bucket):
            n = max(n, -(-len(bucket) // max(anchor // bucket[0].page, 1)))
        by_page: dict[int, list[Kept]] = defaultdict(list)
        for k in bucket:
            by_page[k.page].append(k)
        if n == 1:
            groups.append(bucket)
            continue
        pattern = list(zip(*by_page.values(), strict=False))
        groups += [[k for row in pattern[i::n] for k in row] for i in range(n)]
    return groups


def _least_padding(values: list[int], low: int) -> int:
    """The size from `low` on that rounds every value up with the least padding; the larger of two alike."""
    best, least = low, None
    for d in range(max(1, low), max(values) + 1):
        padding = sum(-x % d for x in values)
        if least is None or padding <= least:
            best, least = d, padding
    return best
