"""torch's allocator settings: which of the variables counts, and what torch's own parser would refuse; pure.

Measured with torch 2.14.0+cu130: `import torch` ends with a ValueError over what is refused here, in any process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ._nccl_settings import one_slip

# In the order in which they count: with both of the first two set, torch 2.14.0 reads PYTORCH_CUDA_ALLOC_CONF (measured).
VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
READ_ALSO_SINCE = (2, 9)  # PYTORCH_ALLOC_CONF: torch before 2.9 does not know it (release notes)
NEWEST = (2, 14)  # the parser that was tried
BOOLEAN = frozenset(
    (
        *("expandable_segments", "release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "throw_on_cudamalloc_oom"),
        *("pinned_use_cuda_host_register", "pinned_use_hip_host_register", "pinned_use_background_threads"),
        "graph_capture_record_stream_reuse",
    )
)
SIZES = frozenset(
    (
        *("max_split_size_mb", "max_non_split_rounding_mb", "large_segment_size_mb", "pinned_reserve_segment_size_mb"),
        *("pinned_max_round_threshold_mb", "pinned_max_cached_size_mb"),
    )
)
KEYS = (
    BOOLEAN
    | SIZES
    | {"backend", "garbage_collection_threshold", "roundup_power2_divisions", "pinned_num_register_threads"}
    | {"per_process_memory_fraction"}
)
# Of other releases: neither right nor wrong without knowing which.
SOMETIMES = frozenset(("roundup_bypass_threshold_mb", "pinned_max_power2_size_mb", "expandable_segments_handle_type"))


def pairs(text: str) -> Iterator[tuple[str, str | None]]:
    """(key, value) as torch splits them: at commas outside brackets, blanks dropped. None: no colon."""
    for part in re.split(r",(?![^\[]*\])", re.sub(r"\s", "", text)):
        if part:
            key, colon, value = part.partition(":")
            yield key, value if colon else None


def expandable(text: str) -> bool:
    """Whether expandable segments are on."""
    return any(key == "expandable_segments" and value == "True" for key, value in pairs(text))


def refusal(text: str) -> tuple[str, str] | None:
    """(the part, what torch says) of the first setting that its parser refuses; None when it takes all, as far as is known."""
    for key, value in pairs(text):
        said = _refused(key, value)
        if said is not None:
            return (key if value is None else f"{key}:{value}"), said
    return None


def unknown(text: str) -> str | None:
    """The first key that the parser of torch 2.14 does not know and that is no slip of one that it knows."""
    return next((k for k, v in pairs(text) if v is not None and k not in KEYS and meant(k) is None), None)


def meant(key: str) -> str | None:
    """The key that a name was likely meant to be."""
    return next((k for k in sorted(KEYS) if one_slip(key, k) or key.lower().replace("-", "_") == k), None)


def _refused(key: str, value: str | None) -> str | None:
    if value is None:
        return "Index out of bounds in ConfigTokenizer" if "=" not in key else f"Unrecognized key '{key}'"
    if key not in KEYS:
        return f"Unrecognized key '{key}'" if meant(key) is not None else None
    if key in BOOLEAN:
        return None if value in ("True", "False") else f"Expected 'True' or 'False' but got '{value}'"
    if key == "backend":
        good = value in ("native", "cudaMallocAsync")
        return None if good else "Unknown allocator backend, options are native and cudaMallocAsync"
    if key in SIZES:
        if not re.match(r"[+-]?\d", value):  # stoull takes what begins with a number
            return "stoull"
        small = key == "max_split_size_mb" and re.fullmatch(r"\d+", value) is not None and int(value[:9]) < 20
        return "CachingAllocator option max_split_size_mb too small, must be >= 20" if small else None
    if key == "garbage_collection_threshold":
        number = _number(value)
        good = number is not None and 0 < number < 1
        return None if good else "garbage_collect_threshold is invalid, set it in (0.0, 1.0)"
    if key == "per_process_memory_fraction":
        number = _number(value)
        return (
            None
            if number is not None and 0 <= number <= 1
            else "per_process_memory_fraction is invalid, set it in [0.0, 1.0]"
        )
    divisions = [p.rpartition(":")[2] for p in value.strip("[]").split(",")]
    good = all(re.fullmatch(r"\d{1,9}", d) and int(d) > 0 and int(d) & (int(d) - 1) == 0 for d in divisions)
    if key == "roundup_power2_divisions":
        return None if good else "For roundups, the divisions has to be power of 2"
    return None if good else f"Number of register threads has to be power of 2, got {value}"


def _number(text: str) -> float | None:
    m = re.match(r"[+-]?(\d+(\.\d*)?|\.\d+)", text)
    return float(m[0]) if m else None
