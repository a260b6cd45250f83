"""Weights: is the content of the files the right one, as far as it was hashed?"""

from __future__ import annotations

from ds_doctor.api import Findings, Undecided, check, found
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.proof import Proof

from ._weights import quoted_path, shown, weight_files

FAMILY = "weights"


@check("weights-checksum-mismatch")
def the_content_is_the_right_one(model: ModelFolder, proof: Proof | None) -> Findings:
    weight_files(model)
    if proof is None or not proof.hashed:
        raise Undecided("weights-not-hashed")
    wrong = [f for f in proof.wrong if f.role == "weights"]
    if wrong:
        yield found(
            "weights-checksum-mismatch",
            on=model.path,
            count=len(wrong),
            files=proof.weights,
            names=shown(tuple(f.name for f in wrong[:5]), len(wrong)),
            folder=quoted_path(model),
        )
