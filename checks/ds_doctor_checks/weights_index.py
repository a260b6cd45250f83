"""Weights: do the shard indexes, the numbers in the names and the headers speak of the same files and tensors?"""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.checksums import Checksums
from ds_doctor.probes.model_folder import ModelFolder, ShardIndex, WeightFile

from ._repair import anew, resumed
from ._weights import FILE_TYPES, listed, shown, weight_files

FAMILY = "weights"
_UNREADABLE = ("not-json", "no-weight-map", "too-large", *FILE_TYPES)
_PART = re.compile(r"-(\d{1,6})-of-(\d{1,6})\.gguf\Z")


def _indexes(model: ModelFolder) -> list[ShardIndex]:
    return [i for i in (model.index, *model.more_indexes) if i is not None]


@check("weights-index-malformed", "weights-index-escapes", "weights-shard-missing", "weights-extra-shards")
def the_index_names_the_shards_that_are_there(model: ModelFolder, sums: Checksums | None) -> Findings:
    listed(model)
    indexes = _indexes(model)
    if model.doubles.count:
        names, of = shown(model.doubles.first, model.doubles.count), model.doubles_of
        yield found("weights-extra-shards", on=model.doubles.first[0], file=of, count=model.doubles.count, names=names)
    if not indexes:
        raise NotApplicable("weights-no-index", path=model.path or model.given)
    for index in indexes:
        if index.problem in _UNREADABLE:
            yield found(
                "weights-index-malformed",
                on=index.name,
                file=index.name,
                problem=index.problem,
                **anew(model, index.name, sums),
            )
        yield from _files_of(index, model, sums)
    unusable = next((i for i in indexes if i.problem is not None), None)
    if unusable is not None:
        raise Undecided("weights-index-unusable", file=unusable.name, problem=unusable.problem)
    if model.layout == "file":  # nobody looked for the others
        for rule in ("weights-shard-missing", "weights-extra-shards"):
            yield not_applicable(rule, "model-is-one-file", path=model.path or model.given)


def _files_of(index: ShardIndex, model: ModelFolder, sums: Checksums | None) -> Findings:
    if index.escapes.count:
        names = shown(index.escapes.first, index.escapes.count)
        yield found("weights-index-escapes", on=index.name, file=index.name, count=index.escapes.count, names=names)
    if index.missing.count:
        names = shown(index.missing.first, index.missing.count)
        half = f" ({model.leftovers.count} unfinished)" if model.leftovers.count else ""
        yield found(
            "weights-shard-missing",
            on=index.name,
            file=index.name,
            count=index.missing.count,
            files=index.files,
            names=names,
            half=half,
            **resumed(model, sums),
        )
    if index.not_indexed_files.count:
        names = shown(index.not_indexed_files.first, index.not_indexed_files.count)
        yield found(
            "weights-extra-shards", on=index.name, file=index.name, count=index.not_indexed_files.count, names=names
        )


@check("weights-numbering-holes", "weights-numbering-mixed")
def numbered_shards_are_one_whole_set(model: ModelFolder, sums: Checksums | None) -> Findings:
    weight_files(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    # With an index that was read, it says which files make up the model; the numbers are only names.
    judged = [n for n in model.numbering if not n.decided]
    if not judged:
        usable = next((i for i in _indexes(model) if i.problem is None), None)
        if usable is not None:
            raise NotApplicable("weights-index-decides", file=usable.name)
        raise NotApplicable("weights-not-numbered", path=model.path or model.given)
    totals: dict[tuple[str, str], list[str]] = {}
    for one in judged:
        several = totals.setdefault((one.stem, one.ext), [])
        several.append(str(one.total))
        if one.beyond is not None:  # a number beyond the total is of a larger set
            several.append(f">={one.beyond}")
        if one.missing.count:
            names = shown(one.missing.first, one.missing.count)
            yield found(
                "weights-numbering-holes",
                on=f"{one.stem}-*-of-{one.total}.{one.ext}",
                total=one.total,
                count=one.missing.count,
                names=names,
                **resumed(model, sums),
            )
    for (stem, ext), several in totals.items():
        if len(several) > 1:
            yield found("weights-numbering-mixed", on=f"{stem}-*.{ext}", stem=stem, totals=", ".join(several))


@check("weights-gguf-split")
def gguf_parts_are_what_their_names_say(model: ModelFolder) -> Findings:
    files = [f for f in weight_files(model) if f.kind == "gguf" and (f.parts or 0) > 1]
    if not files:
        raise NotApplicable("weights-gguf-not-split", path=model.path or model.given)
    sets: dict[tuple[str, int], list[WeightFile]] = {}
    for file in files:
        m = _PART.search(file.name)
        part, parts = (file.part or 0) + 1, file.parts or 0
        if m is not None and (int(m[1]), int(m[2])) == (part, parts):
            sets.setdefault((file.name[: m.start()], parts), []).append(file)
            continue
        yield found(
            "weights-gguf-split",
            on=file.name,
            file=file.name,
            says=f"{part} / {parts}",
            name="?" if m is None else f"{int(m[1])} / {int(m[2])}",
        )
    for (stem, parts), together in sets.items():
        tensors, due = sum(f.tensors for f in together), together[0].tensors_of_all
        if len(together) == parts and (tensors != due or any(f.tensors_of_all != due for f in together)):
            yield found(
                "weights-gguf-split",
                on=f"{stem}-*-of-{parts}.gguf",
                file=f"{stem}-*-of-{parts}.gguf",
                says=f"{due} tensors",
                name=f"{tensors} tensors",
            )


@check(
    "weights-tensor-absent",
    "weights-tensor-misplaced",
    "weights-tensor-twice",
    "weights-tensor-not-indexed",
    "weights-total-size",
)
def the_index_agrees_with_the_headers(model: ModelFolder) -> Findings:
    weight_files(model)
    for one in model.numbering:
        of = f"{one.stem}-*-of-{one.total}.{one.ext}"
        if one.copies.count:
            names = shown(one.twice.first, one.twice.count)
            for name in one.copies.first:
                yield found("weights-tensor-twice", on=name, file=of, count=one.twice.count, names=names)
        elif one.twice.count:
            names = shown(one.twice.first, one.twice.count)
            yield found("weights-tensor-twice", on=of, file=of, count=one.twice.count, names=names)
    indexes = _indexes(model)
    if not indexes:
        raise NotApplicable("weights-no-index", path=model.path or model.given)
    named = [i for i in indexes if i.problem is None and not i.of_torch]
    for index in named:
        yield from _tensors_of(index, model)
    blind = next((i for i in indexes if i.problem is not None), None)
    if blind is not None:
        raise Undecided("weights-index-unusable", file=blind.name, problem=blind.problem)
    torch = next((i for i in indexes if i.of_torch), None)
    if torch is not None:
        raise Undecided("weights-names-in-pickle", file=torch.name)
    partial = next((i for i in named if i.tensor_bytes is None), None)  # some header of the index could not be read
    if partial is not None and model.layout == "file":
        yield not_applicable("weights-total-size", "model-is-one-file", path=model.path or model.given)
    elif partial is not None:
        raise Undecided("weights-headers-not-all-read", file=partial.name)


def _tensors_of(index: ShardIndex, model: ModelFolder) -> Findings:
    absent = [index.absent]
    tied = None if model.config is None else model.config.tied
    if tied is False:
        absent.append(index.absent_heads)
    elif tied is None and index.absent_heads.count:
        # The default differs from model to model, and a configuration leaves defaults out.
        yield undecided(
            "weights-tensor-absent", "weights-head-maybe-tied", file=index.name, count=index.absent_heads.count
        )
    count = sum(a.count for a in absent)
    if count:
        names = shown(tuple(n for a in absent for n in a.first)[:5], count)
        yield found("weights-tensor-absent", on=index.name, file=index.name, count=count, names=names)
    for rule, names_ in (
        ("weights-tensor-misplaced", index.misplaced),
        ("weights-tensor-twice", index.twice),
        ("weights-tensor-not-indexed", index.not_indexed),
    ):
        if names_.count:
            names = shown(names_.first, names_.count)
            yield found(rule, on=index.name, file=index.name, count=names_.count, names=names)
    if index.tensor_bytes is None:
        return
    if index.total_size is None:
        yield undecided("weights-total-size", "weights-index-no-size", file=index.name)
    elif index.total_size != index.tensor_bytes:
        yield found(
            "weights-total-size", on=index.name, file=index.name, claims=index.total_size, sum=index.tensor_bytes
        )
