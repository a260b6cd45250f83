"""Whether a model is one of the Hugging Face Hub, and whether the Hub may be asked; pure."""

from __future__ import annotations

import re

from ds_doctor.probes.launch import Launch

TRUE = ("1", "ON", "YES", "TRUE")  # huggingface_hub/constants.py ENV_VARSTRUE_VALUES
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")


def hub_id(launch: Launch | None) -> str | None:
    """The Hub repository that the command names; None for a path, an address or no model."""
    model = launch.model if launch is not None and launch.engine is not None else None
    return model if model is not None and _HUB_ID.match(model.partition(":")[0]) else None


def is_offline(given: dict[str, str]) -> str | None:
    """The variable that switches the Hub off. HF_HUB_OFFLINE counts alone when it is set to anything (constants.py)."""
    name = "HF_HUB_OFFLINE" if given.get("HF_HUB_OFFLINE") else "TRANSFORMERS_OFFLINE"
    return name if given.get(name, "").upper() in TRUE else None
