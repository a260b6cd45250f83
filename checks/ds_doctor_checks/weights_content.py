"""Weights: is the content of the files the right one, as far as it was hashed now or before?"""

from __future__ import annotations

from collections.abc import Iterator

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, passed, undecided
from ds_doctor.probes.checksums import Checksums
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.proof import Proof, UnreadFile, WrongFile

from ._repair import repair
from ._weights import SOURCES, quoted_path, weight_files

FAMILY = "weights"

ENGINE_READS = ("config", "code")


def _wrong(proof: Proof, *roles: str) -> Iterator[WrongFile]:
    return (f for f in proof.wrong if f.role in roles)


def _unread(proof: Proof, *problems: str) -> Iterator[UnreadFile]:
    return (f for f in proof.unread if f.problem in problems)


def _differs(rule: str, model: ModelFolder, sums: Checksums | None, file: WrongFile) -> Findings:
    yield found(
        rule,
        on=file.name,
        file=file.name,
        algorithm=file.algorithm,
        actual=file.actual,
        expected=file.expected,
        source=SOURCES.get(file.source, file.source),
        where=file.where,
        size=file.size,
        folder=quoted_path(model),
        repair=repair(model, file.name, sums),
    )


@check("weights-checksum-mismatch")
def the_content_is_the_right_one(model: ModelFolder, proof: Proof | None, sums: Checksums | None) -> Findings:
    weight_files(model)
    if proof is None:
        raise Undecided("weights-not-hashed", path=quoted_path(model))
    for file in _wrong(proof, "weights"):
        yield from _differs("weights-checksum-mismatch", model, sums, file)
    unread = sum(f.role == "weights" for f in proof.unread)
    if unread:
        raise Undecided("weights-not-all-read", count=unread, files=proof.weights)
    if proof.unhashed.count:
        if proof.weights_proven:
            raise Undecided(
                "weights-partly-hashed", proven=proof.weights_proven, files=proof.weights, path=quoted_path(model)
            )
        raise Undecided("weights-not-hashed", path=quoted_path(model))
    if proof.unvouched.count == proof.weights:
        raise Undecided("weights-not-vouched", path=quoted_path(model))
    if proof.unvouched.count:
        raise Undecided(
            "weights-partly-vouched",
            proven=proof.weights_proven,
            files=proof.weights,
            count=proof.unvouched.count,
            first=proof.unvouched.first[0],
        )
    if proof.since is not None:
        yield passed(
            "weights-checksum-mismatch",
            "weights-proven" if proof.hashed else "weights-proven-before",
            proven=proof.weights_proven,
            since=proof.since,
        )


@check("weights-file-changed", "weights-document-changed")
def the_files_beside_the_weights_are_the_right_ones(
    model: ModelFolder, proof: Proof | None, sums: Checksums | None
) -> Findings:
    if proof is None:
        raise Undecided("weights-not-hashed", path=quoted_path(model))
    if proof.files == proof.weights:
        raise NotApplicable("weights-nothing-beside", path=model.path or model.given)
    for file in _wrong(proof, *ENGINE_READS):
        yield from _differs("weights-file-changed", model, sums, file)
    for file in _wrong(proof, "other"):
        yield from _differs("weights-document-changed", model, sums, file)
    if not proof.hashed:
        for rule in ("weights-file-changed", "weights-document-changed"):
            yield undecided(rule, "weights-not-hashed", path=quoted_path(model))
    elif proof.proven == proof.weights_proven:  # a pass would say that they are the right ones
        nothing = proof.unvouched.count == proof.weights
        for rule in ("weights-file-changed", "weights-document-changed"):
            if nothing:
                yield undecided(rule, "weights-not-vouched", path=quoted_path(model))
            else:
                yield undecided(rule, "weights-beside-not-vouched")


@check("weights-changing", "weights-read-error")
def every_file_can_be_read_to_its_end(model: ModelFolder, proof: Proof | None) -> Findings:
    if proof is None or not proof.hashed:
        raise Undecided("weights-not-hashed", path=quoted_path(model))
    for file in _unread(proof, "changed", "missing"):
        yield found("weights-changing", on=file.name, file=file.name)
    for file in _unread(proof, "read-error", "not-a-file"):
        yield found(
            "weights-read-error",
            on=file.name,
            file=file.name,
            error=file.error or file.problem,
            offset="?" if file.offset is None else file.offset,
            folder=quoted_path(model),
        )
