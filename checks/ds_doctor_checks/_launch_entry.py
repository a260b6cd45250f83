"""Whether what the command starts exists in the engine; it knows no flag."""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.launch import Launch

from ._data import table
from ._flag_table import choose
from ._options import MODULES

NAMES = {"vllm": "vLLM", "sglang": "SGLang"}


def judged(launch: Launch, installed: EngineFlags | None) -> Findings:
    engine, module = launch.engine or "", launch.entry or ""
    if not module.startswith(engine + "."):
        raise NotApplicable("launch-no-module")
    chosen = choose(launch, installed)
    if not _missing(module):
        return
    history = next((m for m in table("flags_" + engine)["module"] if m["name"] == module and "last_seen" in m), None)
    if not chosen.exact:
        yield undecided(
            "launch-module-unknown",
            "launch-other-version",
            engine=NAMES[engine],
            version=chosen.version or "?",
            known=table("flags_" + engine)["version"],
        )
        return
    yield found(
        "launch-module-unknown",
        engine=NAMES[engine],
        version=table("flags_" + engine)["version"],
        module=module,
        last_seen=history["last_seen"] if history else "-",
        instead=f"vllm serve {launch.model or 'MODEL'}"
        if engine == "vllm"
        else f"python3 -m {MODULES[engine]} --model-path {launch.model or 'MODEL'}",
    )


def _missing(module: str) -> bool:
    """Whether the wheel of the bundled table has no such module: some package above it, listed whole, lacks its part."""
    listed = table("launch_words")["modules"]
    parts = module.split(".")
    return any(
        parts[i] not in listed[".".join(parts[:i])] for i in range(1, len(parts)) if ".".join(parts[:i]) in listed
    )
