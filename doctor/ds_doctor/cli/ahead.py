"""Starts the slowest probes before the rest of the program is imported; judges nothing.

NVML takes longer than everything else that a run does, importing this program included, and compilers take their time to
say their versions. Both wait for other processes, so a live run asks them first.
"""

from __future__ import annotations

import time

from ..gather import Gathering
from ..host import Host
from ..probes.nvml import Nvml
from ..probes.toolchain import Toolchain

ENOUGH_S = 20.0  # until the run's own options are known
_begun: list[Gathering] = []


def start(words: list[str]) -> None:
    """Ask NVML if the words look like a live run of everything. A wrong guess costs a short-lived child and nothing else."""
    options = ("--root", "--replay", "--only", "--help", "-h", "--timeout")
    ours = words[: words.index("--")] if "--" in words else words
    # A command's own LD_LIBRARY_PATH decides which NVML it meets.
    loader = any(w.startswith("LD_") for w in words)
    if words[:1] == ["run"] and not loader and not any(w.startswith(options) for w in ours):
        gathering = Gathering(Host(), time.monotonic() + ENOUGH_S)
        # Whose Python.h and CUDA_HOME count is known only where nothing else was asked for.
        plain = not any(w.startswith(("--python", "--model", "-f", "--file")) or w == "--" for w in words)
        gathering.want([Nvml, Toolchain] if plain else [Nvml])
        _begun.append(gathering)


def join(gathering: Gathering) -> None:
    """Let `gathering` wait for what was asked ahead."""
    for begun in _begun:
        gathering.adopt(begun)
