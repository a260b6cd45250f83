"""A folder beside the published checkpoint that a profile describes: shards, tensors, size; it looks at nothing."""

from __future__ import annotations

from typing import Any

import msgspec

from ds_doctor.api import NotApplicable, Undecided
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.model_parts import ModelParts
from ds_doctor.profile import Profile

from ._profiles import BUILT_IN, built_in

GIB = 1 << 30
NEAR_GIB = 0.05  # the profile rounds, and counts tensors without the headers


class Difference(msgspec.Struct, frozen=True):
    """The rule that says it, and its numbers."""

    rule: str
    data: dict[str, Any]


def difference(model: ModelFolder, parts: ModelParts, config: ModelConfig | None) -> Difference | None:
    """How the folder differs; None where it does not. NotApplicable where no profile describes the model."""
    kind = model.config.model_type if model.config is not None else None
    profile = next((p for p in map(built_in, BUILT_IN) if kind is not None and kind in p.model_types), None)
    if profile is None or profile.shards is None:
        raise NotApplicable("no-profile")
    if any(f.kind != "safetensors" for f in model.weights):
        raise Undecided("weights-not-complete", path=model.path or model.given)
    index = model.index
    if index is not None and index.problem is None:
        whole, shards, tensors = not index.missing.count, index.files, index.tensors
    else:
        whole, shards = not any(n.missing.count for n in model.numbering), len(model.weights) + model.weights_unseen
        tensors = config.tensors.count if config is not None and config.tensors is not None else 0
    size = sum(f.expected_size or 0 for f in model.weights) / GIB
    if not whole or model.weights_unseen:
        raise Undecided("weights-not-complete", path=model.path or model.given)
    due = profile.checkpoint_gib or size
    if (shards, tensors) == (profile.shards, profile.tensors or tensors) and abs(size - due) < NEAR_GIB:
        return None
    data = {
        "shards": shards,
        "tensors": tensors,
        "size": round(size, 2),
        "due_shards": profile.shards,
        "due_tensors": profile.tensors or "?",
        "due_size": due,
        "profile": profile.models[0] if profile.models else profile.name,
    }
    return Difference(
        "weights-not-as-published" if _is_named(profile, parts.name) else "weights-other-than-published", data
    )


def _is_named(profile: Profile, name: str) -> bool:
    """Whether the folder or repository bears the published one's name: any other is a copy of somebody's own making."""
    given = name.lower()
    return any(given in (m.lower(), m.lower().rpartition("/")[2]) for m in profile.models)
