"""Weights: do the files hold data, may the serving user read them, and are the model's small files whole?"""

from __future__ import annotations

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.checksums import Checksums
from ds_doctor.probes.model_access import ModelAccess
from ds_doctor.probes.model_config import ModelConfig
from ds_doctor.probes.model_folder import ModelFolder
from ds_doctor.probes.model_parts import ModelParts
from ds_doctor.probes.proof import Proof
from ds_doctor.probes.zero_runs import ZeroRuns

from ._repair import anew
from ._weights import all_seen, listed, only_gguf, quoted_path, shown, weight_files

FAMILY = "weights"


@check("weights-preallocated", "weights-tensor-zeros")
def the_files_hold_data(model: ModelFolder, zeros: ZeroRuns, sums: Checksums | None, proof: Proof | None) -> Findings:
    from ._weights_zeros import is_unwritten, is_zeroed

    weight_files(model)
    for run in zeros.runs:
        if proof is not None and run.file in proof.right:
            continue  # the published file has these zeros, too
        share = round(100 * (run.end - run.begin) / max(1, run.size - run.data_begin))
        data = {"file": run.file, "begin": run.begin, "end": run.end, "bytes": run.end - run.begin, "share": share}
        if is_unwritten(run):
            yield found("weights-preallocated", on=run.file, **anew(model, run.file, sums), **data)
        elif is_zeroed(run):
            names = shown(run.first, run.matrices)
            yield found("weights-tensor-zeros", on=run.file, names=names, count=run.matrices, **data)
    unseen = max(zeros.unseen + len(zeros.blind), len(model.weights) - zeros.files)  # a damaged one is not looked into
    if unseen or not zeros.files:
        for rule in ("weights-preallocated", "weights-tensor-zeros"):
            yield undecided(rule, "weights-zeros-not-all-seen", seen=zeros.files, unseen=unseen)


@check("weights-user-cannot-read", "weights-permissions-mixed")
def the_serving_user_may_read_the_model(model: ModelFolder, access: ModelAccess) -> Findings:
    from ._weights_access import opened, trial

    listed(model)
    if access.uid is not None:
        yield not_applicable("weights-permissions-mixed", "weights-user-told", user=access.user or access.uid)
    elif access.private.count and access.public:
        names = shown(access.private.first, access.private.count)
        every = access.private.count + access.public
        yield found(
            "weights-permissions-mixed",
            on=model.path,
            count=access.private.count,
            files=every,
            names=names,
            folder=quoted_path(model),
        )
    if access.problem is not None:
        raise Undecided("weights-user-unknown", user=access.user or "?", problem=access.problem)
    if access.uid is None:
        yield not_applicable("weights-user-cannot-read", "weights-no-user")
        return
    for block in access.blocked:
        yield found(
            "weights-user-cannot-read",
            on=block.shown,
            file=block.shown,
            user=access.user,
            mode=block.mode,
            owner=f"{block.uid}:{block.gid}",
            files=block.files,
            repair=opened(block, access.uid),
            trial=trial(block, access.uid),
        )
    if access.unsure.count:
        names = shown(access.unsure.first, access.unsure.count)
        yield undecided("weights-user-cannot-read", "weights-access-unsure", user=access.user, names=names)


@check("weights-small-file-malformed", "weights-template-malformed")
def small_files_are_whole(model: ModelFolder, parts: ModelParts) -> Findings:
    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    for part in parts.parts:
        rule = "weights-template-malformed" if part.what == "template" else "weights-small-file-malformed"
        if part.problem in ("denied", "unreadable", "too-large"):
            yield undecided(rule, "weights-file-not-judged", file=part.name, kind=part.problem, files=1)
            continue
        problem = part.problem if part.detail is None else f"{part.problem}: {part.detail}"
        yield found(rule, on=part.name, file=part.name, problem=problem)


@check("weights-vocabulary-missing", "weights-merges-missing", "weights-template-missing", "weights-processor-missing")
def what_the_model_type_needs_is_there(model: ModelFolder, parts: ModelParts, config: ModelConfig | None) -> Findings:
    from . import _weights_parts as needs

    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    if model.adapter:
        raise NotApplicable("weights-adapter", path=model.path or model.given)
    if model.pipeline or only_gguf(model):
        raise NotApplicable("weights-carries-its-own", path=model.path or model.given)
    path = model.path or model.given
    if model.tokenizer_elsewhere:
        yield not_applicable("weights-vocabulary-missing", "tokenizer-elsewhere")
    elif not parts.tokenizer_class:  # where no class is named, weights-tokenizer-missing says what is to be said
        yield not_applicable("weights-vocabulary-missing", "weights-no-tokenizer-settings", path=path)
    elif not parts.vocabulary and not parts.own_tokenizer and parts.tokenizer_class not in needs.WITHOUT_VOCABULARY:
        yield found("weights-vocabulary-missing", on=path, path=path, kind=parts.tokenizer_class)
    if parts.merges_missing and parts.tokenizer_class in needs.OF_MERGES:
        yield found("weights-merges-missing", on="merges.txt", path=path, kind=parts.tokenizer_class)
    if config is None or config.config is None:
        for rule in ("weights-template-missing", "weights-processor-missing"):
            yield undecided(rule, "weights-config-unread", path=path)
        return
    if needs.lacks_template(parts, config):
        yield found("weights-template-missing", on=path, path=path, name=parts.name)
    kind = needs.lacks_processor(parts, config)
    if kind is not None:
        yield found("weights-processor-missing", on="preprocessor_config.json", path=path, kind=kind)


@check("weights-code-missing", "weights-model-code-missing")
def the_code_that_the_configuration_names_is_there(
    model: ModelFolder, parts: ModelParts, config: ModelConfig | None
) -> Findings:
    from ._weights_parts import is_native

    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    native = config is not None and is_native(config)
    for rule, lost in (
        ("weights-code-missing", [parts.code_missing] + [parts.config_code_missing] * (not native)),
        ("weights-model-code-missing", [parts.config_code_missing] * native + [parts.model_code_missing]),
    ):
        count = sum(n.count for n in lost)
        first = tuple(n for names in lost for n in names.first)
        if count:
            yield found(rule, on=first[0], count=count, names=shown(first[:5], count), path=model.path)


@check("weights-not-as-published", "weights-other-than-published")
def the_checkpoint_is_the_published_one(model: ModelFolder, parts: ModelParts, config: ModelConfig | None) -> Findings:
    from ._weights_published import difference

    weight_files(model)
    differs = difference(model, parts, config)
    if differs is not None:
        yield found(differs.rule, on=model.path, **differs.data)
    yield from all_seen(model, "weights-not-as-published", "weights-other-than-published")
