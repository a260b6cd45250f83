"""Weights: is the model folder complete and unbroken, as far as names, sizes, headers and the index tell?

Structure only; whether the bytes are the right ones is the business of weights_content.
"""

from __future__ import annotations

import shlex

from ds_doctor.api import Findings, NotApplicable, check, found, not_applicable, undecided
from ds_doctor.probes.checksums import Checksums
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.model_folder import ModelFolder, WeightFile
from ds_doctor.probes.model_parts import ModelParts
from ds_doctor.probes.proof import Proof

from ._repair import anew, pulled, resumed
from ._weights import (
    CUT_OFF,
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


_KINDS = {"character": "character device", "block": "block device"}


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
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    if model.index is not None and model.index.not_indexed_files.count:
        return  # there are some, which the index does not name: that is another rule's fault
    if not model.weights and not model.weights_unseen:
        named = model.index.files if model.index else 0
        yield found("weights-none", on=model.path, path=model.path, files=model.files, named=named)


@check("weights-unreadable")
def every_file_may_be_read(model: ModelFolder, proof: Proof | None) -> Findings:
    if model.layout in ("denied", "unreadable"):
        error = "EACCES" if model.layout == "denied" else "I/O"
        yield found("weights-unreadable", on=model.path, file=model.path, folder=quoted_path(model), error=error)
        return
    for file in of_kind(model, "denied", "unreadable"):
        error = "EACCES" if file.kind == "denied" else file.error or "I/O"
        yield found("weights-unreadable", on=file.name, file=file.name, folder=quoted_path(model), error=error)
    told = {f.name for f in of_kind(model, "denied", "unreadable")}
    for name in (f.name for f in (proof.unread if proof else ()) if f.problem == "denied" and f.name not in told):
        yield found("weights-unreadable", on=name, file=name, folder=quoted_path(model), error="EACCES")
    yield from all_seen(model, "weights-unreadable")


@check("weights-not-a-file")
def files_are_files(model: ModelFolder, sums: Checksums | None) -> Findings:
    if model.layout in FILE_TYPES:
        yield found(
            "weights-not-a-file",
            on=model.path,
            file=model.path,
            kind=_KINDS.get(model.layout, model.layout),
            repair=(),
            again=(),
        )
        return
    for file in of_kind(model, *FILE_TYPES):
        yield found(
            "weights-not-a-file",
            on=file.name,
            file=file.name,
            kind=_KINDS.get(file.kind, file.kind),
            **anew(model, file.name, sums),
        )
    yield from all_seen(model, "weights-not-a-file")


@check("weights-link-dangling")
def no_link_leads_to_nothing(model: ModelFolder, sums: Checksums | None) -> Findings:
    for file in of_kind(model, "dangling", "missing"):
        yield found(
            "weights-link-dangling",
            on=file.name,
            file=file.name,
            target=file.target or "?",
            **anew(model, file.name, sums),
        )
    yield from all_seen(model, "weights-link-dangling")


@check("weights-file-empty")
def no_file_is_empty(model: ModelFolder, sums: Checksums | None) -> Findings:
    for file in of_kind(model, "empty"):
        yield found("weights-file-empty", on=file.name, file=file.name, **anew(model, file.name, sums))
    yield from all_seen(model, "weights-file-empty")


@check("weights-lfs-pointer")
def no_file_is_a_git_lfs_pointer(model: ModelFolder, sums: Checksums | None) -> Findings:
    for file in of_kind(model, "lfs-pointer"):
        due = "?" if file.should_be is None else file.should_be
        size = file.size or "?"
        yield found(
            "weights-lfs-pointer",
            on=file.name,
            file=file.name,
            size=size,
            should_be=due,
            folder=quoted_path(model),
            **pulled(model, file.name, sums),
        )
    yield from all_seen(model, "weights-lfs-pointer")


@check("weights-not-weights")
def files_hold_what_their_names_say(model: ModelFolder, sums: Checksums | None) -> Findings:
    for file in of_kind(model, *NOT_WEIGHTS):
        if file.kind == "gguf" and (file.name.endswith(".gguf") or file.header_bytes is not None):
            continue  # it is no other format's name
        what = NOT_WEIGHTS[file.kind]
        yield found(
            "weights-not-weights",
            on=file.name,
            file=file.name,
            what=what,
            size=file.size or "?",
            **anew(model, file.name, sums),
        )
    yield from all_seen(model, "weights-not-weights")


@check("weights-shard-truncated", "weights-shard-oversized")
def shards_are_as_long_as_their_headers_say(model: ModelFolder, sums: Checksums | None) -> Findings:
    for file in structured(model):
        if file.error in CUT_OFF:
            # The header or the directory is cut off: how long the file should be, nobody can tell.
            least = file.want or file.size
            want, lost = f">{least}", f">{least - file.size}" if least > file.size else "?"
            yield found(
                "weights-shard-truncated",
                on=file.name,
                file=file.name,
                size=file.size,
                want=want,
                lost=lost,
                **anew(model, file.name, sums),
            )
        if file.expected_size is None or file.size == file.expected_size:
            continue
        size, due = file.size, file.expected_size
        if size < due:
            yield found(
                "weights-shard-truncated",
                on=file.name,
                file=file.name,
                size=size,
                want=due,
                lost=due - size,
                **anew(model, file.name, sums),
            )
        else:
            yield found(
                "weights-shard-oversized",
                on=file.name,
                file=file.name,
                size=size,
                want=due,
                more=size - due,
                **anew(model, file.name, sums),
            )
    yield from unjudged(model, "weights-shard-truncated", "weights-shard-oversized")


@check("weights-header-malformed", "weights-tensor-layout", "weights-dtype-unknown")
def headers_describe_their_tensors(model: ModelFolder, sums: Checksums | None) -> Findings:
    judged = structured(model)
    for file in judged:
        if file.error in CUT_OFF:
            continue  # a file that ends within its header is a truncated one
        if file.kind == "malformed" and file.error in HEADER_ERRORS:
            numbers = [str(n) for n in (file.got, file.want) if n is not None]
            said = [word for word in (file.tensor, " / ".join(numbers)) if word]
            yield found(
                "weights-header-malformed",
                on=file.name,
                file=file.name,
                error=file.error,
                numbers=f" ({', '.join(said)})" if said else "",
                **anew(model, file.name, sums),
            )
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
                **anew(model, file.name, sums),
            )
        elif file.unknown_dtypes:
            reader = "gguf 0.19" if file.kind == "gguf" else "safetensors 0.8"
            yield found(
                "weights-dtype-unknown",
                on=file.name,
                file=file.name,
                dtypes=", ".join(file.unknown_dtypes),
                reader=reader,
            )
    pickled = sum(f.kind == "pytorch" for f in judged)
    if pickled:
        yield undecided("weights-dtype-unknown", "weights-types-in-pickle", files=pickled)
    yield from unjudged(model, "weights-header-malformed", "weights-tensor-layout", "weights-dtype-unknown")


@check("weights-pickle")
def weights_are_no_pickles(model: ModelFolder) -> Findings:
    """Where a file is broken, its format is the least of the worries, but it is no less a pickle."""
    pickles = [f.name for f in weight_files(model) if f.kind in ("pytorch", "pytorch-legacy") or f.format == "pytorch"]
    if pickles:
        names = shown(tuple(pickles[:5]), len(pickles))
        yield found("weights-pickle", on=model.path, count=len(pickles), names=names)
    yield from all_seen(model, "weights-pickle")


@check("weights-spare-damaged")
def files_that_no_engine_loads_are_whole(model: ModelFolder, sums: Checksums | None) -> Findings:
    """Those that were never fetched (Git LFS pointers) are none of anybody's business."""
    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    if not model.spare and not model.spare_missing.count and not model.spare_unseen:
        raise NotApplicable("weights-no-spare", path=model.path or model.given)
    for file in model.spare:
        problem = _damage(file)
        if problem is not None:
            known = anew(model, file.name, sums)
            yield found("weights-spare-damaged", on=file.name, file=file.name, problem=problem, **known)
    for name in model.spare_missing.first:
        yield found("weights-spare-damaged", on=name, file=name, problem="missing", **anew(model, name, sums))
    if model.spare_unseen:
        seen = len(model.spare)
        yield undecided("weights-spare-damaged", "weights-not-all-seen", unseen=model.spare_unseen, seen=seen)


def _damage(file: WeightFile) -> str | None:
    if file.kind == "malformed" and file.error != "InvalidMagicNumber":
        return file.error
    if file.expected_size not in (None, file.size):
        return f"{file.size} / {file.expected_size}"
    if file.kind in ("empty", "dangling", "unreadable", "not-json", "no-weight-map"):
        return file.kind
    if file.kind in ("html", "xml", "json", "text", "zeros", "other"):
        return NOT_WEIGHTS[file.kind]
    return None


@check("weights-leftovers")
def no_half_download_is_left(model: ModelFolder, sums: Checksums | None) -> Findings:
    if model.layout not in ("folder", "file"):
        listed(model)
    if model.leftovers.count:
        names = shown(model.leftovers.first, model.leftovers.count)
        yield found(
            "weights-leftovers", on=model.path, count=model.leftovers.count, names=names, **resumed(model, sums)
        )


@check("weights-config-missing", "weights-config-malformed", "weights-tokenizer-missing")
def the_configuration_is_there(model: ModelFolder, sums: Checksums | None, parts: ModelParts | None) -> Findings:
    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    for file in model.small:
        if file.kind in ("not-json", "too-large"):
            yield found("weights-config-malformed", on=file.name, file=file.name, **anew(model, file.name, sums))
    names = {f.name for f in model.small}
    if not model.files:
        for rule in ("weights-config-missing", "weights-tokenizer-missing"):
            yield not_applicable(rule, "weights-folder-empty", path=model.path or model.given)
        return
    if model.pipeline:
        for rule in ("weights-config-missing", "weights-tokenizer-missing"):
            yield undecided(rule, "weights-in-subfolders", path=model.path or model.given)
        return
    if model.adapter:
        for rule in ("weights-config-missing", "weights-tokenizer-missing"):
            yield not_applicable(rule, "weights-adapter", path=model.path or model.given)
        return
    if not names & {"config.json", "params.json"} and not model.config_elsewhere and not only_gguf(model):
        yield found("weights-config-missing", on=model.path, path=model.path, **anew(model, "config.json", sums))
    if model.tokenizer_elsewhere:
        yield not_applicable("weights-tokenizer-missing", "tokenizer-elsewhere")
    elif model.config is not None and not model.config.vocabulary:
        yield not_applicable("weights-tokenizer-missing", "weights-without-vocabulary")
    elif parts is not None and (parts.tokenizer_class or parts.own_tokenizer):
        yield not_applicable("weights-tokenizer-missing", "weights-vocabulary-decides")
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
