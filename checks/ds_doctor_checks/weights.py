"""Weights: is the model folder complete and unbroken, as far as names, sizes, headers and the index tell?

Structure only; whether the bytes are the right ones is the business of weights_content.
"""

from __future__ import annotations

import shlex

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_folder import ModelFolder

from ._weights import (
    FILE_TYPES,
    HEADER_ERRORS,
    NOT_WEIGHTS,
    all_seen,
    listed,
    of_kind,
    only_gguf,
    quoted_path,
    shown,
    structured,
    unjudged,
    weight_files,
)


def _kept_offline(launch: Launch | None, environment: Environment | None) -> bool:
    """Whether the command names a repository of the Hub, and a variable forbids to ask the Hub."""
    from ._environment import variables
    from ._hub import hub_id, is_offline

    given = variables(environment, launch)
    return hub_id(launch) is not None and is_offline({n: v.value for n, v in given.items()}) is not None


@check("weights-path-missing", "weights-hub-ref-broken")
def the_model_is_where_it_should_be(
    model: ModelFolder, launch: Launch | None, environment: Environment | None
) -> Findings:
    if model.layout == "missing" and model.source == "command" and _kept_offline(launch, environment):
        yield not_applicable("weights-path-missing", "offline-says")
        yield not_applicable("weights-hub-ref-broken", "model-path-not-there", path=model.given)
    elif model.layout in ("missing", "dangling"):
        yield found("weights-path-missing", on=model.given, path=model.given)
        yield not_applicable("weights-hub-ref-broken", "model-path-not-there", path=model.given)
    elif model.hub is None:
        yield not_applicable("weights-hub-ref-broken", "model-not-in-hub-cache")
    elif model.hub.problem is not None:
        yield found(
            "weights-hub-ref-broken",
            on=model.hub.repo,
            repo=shlex.quote(model.hub.repo),
            revision=shlex.quote(model.hub.revision),
            commit=model.hub.commit or "?",
            snapshots=model.hub.snapshots,
            problem=model.hub.problem,
        )


@check("weights-none")
def the_folder_has_weights(model: ModelFolder) -> Findings:
    listed(model)
    if not model.weights and not model.weights_unseen:
        if model.pipeline:
            raise Undecided("weights-in-subfolders", path=model.path or model.given)
        named = model.index.files if model.index else 0
        yield found("weights-none", on=model.path, path=model.path, files=model.files, named=named)


@check("weights-unreadable")
def every_file_may_be_read(model: ModelFolder) -> Findings:
    if model.layout == "denied":
        yield found("weights-unreadable", on=model.path, file=model.path, folder=quoted_path(model), error="EACCES")
        return
    for file in of_kind(model, "denied", "unreadable"):
        error = "EACCES" if file.kind == "denied" else file.error or "I/O"
        yield found("weights-unreadable", on=file.name, file=file.name, folder=quoted_path(model), error=error)
    yield from all_seen(model, "weights-unreadable")


@check("weights-not-a-file")
def files_are_files(model: ModelFolder) -> Findings:
    if model.layout in FILE_TYPES:
        yield found("weights-not-a-file", on=model.path, file=model.path, kind=model.layout)
        return
    for file in of_kind(model, *FILE_TYPES):
        yield found("weights-not-a-file", on=file.name, file=file.name, kind=file.kind)
    yield from all_seen(model, "weights-not-a-file")


@check("weights-link-dangling")
def no_link_leads_to_nothing(model: ModelFolder) -> Findings:
    for file in of_kind(model, "dangling", "missing"):
        yield found("weights-link-dangling", on=file.name, file=file.name, target=file.target or "?")
    yield from all_seen(model, "weights-link-dangling")


@check("weights-file-empty")
def no_file_is_empty(model: ModelFolder) -> Findings:
    for file in of_kind(model, "empty"):
        yield found("weights-file-empty", on=file.name, file=file.name)
    yield from all_seen(model, "weights-file-empty")


@check("weights-lfs-pointer")
def no_file_is_a_git_lfs_pointer(model: ModelFolder) -> Findings:
    for file in of_kind(model, "lfs-pointer"):
        due = "?" if file.should_be is None else file.should_be
        size = file.size or "?"
        yield found(
            "weights-lfs-pointer", on=file.name, file=file.name, size=size, should_be=due, folder=quoted_path(model)
        )
    yield from all_seen(model, "weights-lfs-pointer")


@check("weights-not-weights")
def files_hold_what_their_names_say(model: ModelFolder) -> Findings:
    for file in of_kind(model, "other", *NOT_WEIGHTS):
        if file.kind == "gguf" and file.name.endswith(".gguf"):
            continue
        what = NOT_WEIGHTS.get(file.kind, "?")
        yield found("weights-not-weights", on=file.name, file=file.name, what=what, size=file.size or "?")
    yield from all_seen(model, "weights-not-weights")


@check("weights-shard-truncated", "weights-shard-oversized")
def shards_are_as_long_as_their_headers_say(model: ModelFolder) -> Findings:
    for file in weight_files(model):
        if file.error == "NoCentralDirectory":
            # A zip archive, whose directory is at its end: how long the file should be, nobody can tell.
            yield found(
                "weights-shard-truncated", on=file.name, file=file.name, size=file.size, want=f">{file.size}", lost="?"
            )
    judged = structured(model)
    for file in judged:
        if file.error == "InvalidHeaderLength":
            # The header itself is cut off: how long the file should be, nobody can tell.
            want = file.want or file.size
            yield found(
                "weights-shard-truncated",
                on=file.name,
                file=file.name,
                size=file.size,
                want=f">{want}",
                lost=f">{want - file.size}",
            )
        if file.expected_size is None:
            continue
        if file.size < file.expected_size:
            lost = file.expected_size - file.size
            yield found(
                "weights-shard-truncated",
                on=file.name,
                file=file.name,
                size=file.size,
                want=file.expected_size,
                lost=lost,
            )
        elif file.size > file.expected_size:
            more = file.size - file.expected_size
            yield found(
                "weights-shard-oversized",
                on=file.name,
                file=file.name,
                size=file.size,
                want=file.expected_size,
                more=more,
            )
    yield from unjudged(model, "weights-shard-truncated", "weights-shard-oversized")


@check("weights-header-malformed", "weights-tensor-layout", "weights-dtype-unknown")
def headers_describe_their_tensors(model: ModelFolder) -> Findings:
    judged = structured(model)
    for file in judged:
        if file.kind == "malformed" and file.error in HEADER_ERRORS:
            if file.error == "InvalidHeaderLength":
                continue  # a file that ends within its header is a truncated one
            numbers = "" if file.want is None else f" ({file.got} / {file.want})"
            yield found("weights-header-malformed", on=file.name, file=file.name, error=file.error, numbers=numbers)
        elif file.kind == "malformed":
            got, want = ("?" if n is None else n for n in (file.got, file.want))
            yield found(
                "weights-tensor-layout",
                on=file.name,
                file=file.name,
                error=file.error,
                tensor=file.tensor or "?",
                got=got,
                want=want,
            )
        elif file.unknown_dtypes:
            yield found("weights-dtype-unknown", on=file.name, file=file.name, dtypes=", ".join(file.unknown_dtypes))
    yield from unjudged(model, "weights-header-malformed", "weights-tensor-layout", "weights-dtype-unknown")


@check("weights-index-malformed", "weights-index-escapes", "weights-shard-missing", "weights-extra-shards")
def the_index_names_the_shards_that_are_there(model: ModelFolder) -> Findings:
    listed(model)
    index = model.index
    if index is None:
        raise NotApplicable("weights-no-index", path=model.path or model.given)
    if index.problem is not None:
        if index.problem in ("not-json", "no-weight-map", "too-large", *FILE_TYPES):
            yield found("weights-index-malformed", on=index.name, file=index.name, problem=index.problem)
        raise Undecided("weights-index-unusable", file=index.name, problem=index.problem)
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
        )
    if index.not_indexed_files.count:
        names = shown(index.not_indexed_files.first, index.not_indexed_files.count)
        yield found(
            "weights-extra-shards", on=index.name, file=index.name, count=index.not_indexed_files.count, names=names
        )


@check("weights-numbering-holes", "weights-numbering-mixed")
def numbered_shards_are_one_whole_set(model: ModelFolder) -> Findings:
    weight_files(model)
    index = model.index
    if index is not None and index.problem is None:
        # With an index that was read, it says which files make up the model; the numbers are only names.
        raise NotApplicable("weights-index-decides", file=index.name)
    if not model.numbering:
        raise NotApplicable("weights-not-numbered", path=model.path or model.given)
    totals: dict[tuple[str, str], list[int]] = {}
    for one in model.numbering:
        totals.setdefault((one.stem, one.ext), []).append(one.total)
        if one.missing.count:
            names = shown(one.missing.first, one.missing.count)
            yield found(
                "weights-numbering-holes",
                on=f"{one.stem}-*-of-{one.total}.{one.ext}",
                total=one.total,
                count=one.missing.count,
                names=names,
            )
    for (stem, ext), several in totals.items():
        if len(several) > 1:
            yield found("weights-numbering-mixed", on=f"{stem}-*.{ext}", stem=stem, totals=", ".join(map(str, several)))


@check(
    "weights-tensor-absent",
    "weights-tensor-misplaced",
    "weights-tensor-twice",
    "weights-tensor-not-indexed",
    "weights-total-size",
)
def the_index_agrees_with_the_headers(model: ModelFolder) -> Findings:
    weight_files(model)
    index = model.index
    if index is None:
        raise NotApplicable("weights-no-index", path=model.path or model.given)
    if index.problem is not None:
        raise Undecided("weights-index-unusable", file=index.name, problem=index.problem)
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
    if index.tensor_bytes is None:  # some header of the index could not be read
        raise Undecided("weights-headers-not-all-read", file=index.name)
    if index.total_size is None:
        yield undecided("weights-total-size", "weights-index-no-size", file=index.name)
    elif index.total_size != index.tensor_bytes:
        yield found(
            "weights-total-size", on=index.name, file=index.name, claims=index.total_size, sum=index.tensor_bytes
        )


@check("weights-leftovers")
def no_half_download_is_left(model: ModelFolder) -> Findings:
    if model.layout not in ("folder", "file"):
        listed(model)
    if model.leftovers.count:
        names = shown(model.leftovers.first, model.leftovers.count)
        yield found("weights-leftovers", on=model.path, count=model.leftovers.count, names=names)


@check("weights-config-missing", "weights-config-malformed", "weights-tokenizer-missing")
def the_configuration_is_there(model: ModelFolder) -> Findings:
    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    for file in model.small:
        if file.kind in ("not-json", "too-large"):
            yield found("weights-config-malformed", on=file.name, file=file.name)
    names = {f.name for f in model.small}
    if not model.files:
        for rule in ("weights-config-missing", "weights-tokenizer-missing"):
            yield not_applicable(rule, "weights-folder-empty", path=model.path or model.given)
        return
    if model.pipeline:
        for rule in ("weights-config-missing", "weights-tokenizer-missing"):
            yield undecided(rule, "weights-in-subfolders", path=model.path or model.given)
        return
    if not names & {"config.json", "params.json"} and not model.config_elsewhere and not only_gguf(model):
        yield found("weights-config-missing", on=model.path, path=model.path)
    if model.tokenizer_elsewhere:
        yield not_applicable("weights-tokenizer-missing", "tokenizer-elsewhere")
    elif not model.tokenizer and not only_gguf(model):
        yield found("weights-tokenizer-missing", on=model.path, path=model.path)
    blind = [f for f in model.small if f.kind not in ("ok", "not-json", "too-large")]
    if blind:
        yield undecided(
            "weights-config-malformed",
            "weights-file-not-judged",
            file=blind[0].name,
            kind=blind[0].kind,
            files=len(blind),
        )
