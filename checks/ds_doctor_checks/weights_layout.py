"""Weights: is everything there that the sources list, of the size that they say, from one revision, and from nowhere else?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.checksums import Checksums, Expected
from ds_doctor.probes.model_folder import ModelFolder

from ._repair import repair
from ._weights import SOURCES, listed, of_kind, quoted_path, shown

FAMILY = "weights"

ENGINE_READS = ("weights", "config", "code")
# Who lists a file that is not there, in words.
LISTERS = SOURCES | {
    "hub-blob": {"en": "a link in the snapshot", "zh": "快照中的链接"},
    "hub-metadata": {"en": "a record of its download", "zh": "其下载记录"},
}
# Why a list of checksums could not be used, or how a line of it is wrong.
PROBLEMS = {
    "empty": {"en": "it is empty", "zh": "文件为空"},
    "not-text": {"en": "it is no text", "zh": "不是文本"},
    "not-json": {"en": "it is no JSON", "zh": "不是 JSON"},
    "no-entries": {"en": "it has no line with a checksum", "zh": "没有任何校验和"},
    "too-large": {"en": "it is too large", "zh": "文件过大"},
    "file-too-large": {"en": "it is too large", "zh": "文件过大"},
    "too-deep": {"en": "it is nested too deeply", "zh": "嵌套过深"},
    "unknown-schema": {"en": "its schema is unknown", "zh": "格式未知"},
    "unknown-algorithm": {"en": "its algorithm is none that is known here", "zh": "其校验算法未知"},
    "file-missing": {"en": "it is a link to nothing", "zh": "是失效的链接"},
    "file-denied": {"en": "this user may not read it", "zh": "当前用户无权读取"},
    "bad-line": {"en": "a line is not understood", "zh": "有一行无法理解"},
    "bad-digest": {"en": "a checksum has the wrong length or other letters", "zh": "有校验和的长度或字符不对"},
    "escapes": {"en": "a name leads out of the directory", "zh": "有文件名指向目录之外"},
    "twice": {"en": "a file has two different checksums", "zh": "有文件出现两个不同的校验和"},
    "too-many": {"en": "it has too many lines", "zh": "行数过多"},
}
UNREADABLE = {"en": "it cannot be read", "zh": "无法读取"}


def _said_elsewhere(model: ModelFolder) -> set[str]:
    """The files of which other rules already say that they are not there."""
    names = {f.name for f in of_kind(model, "dangling", "missing")}
    return names | set(model.index.missing.first if model.index is not None else ())


def _usable(sums: Checksums) -> None:
    """Undecided where a manifest was given and nothing of it could be used."""
    for one in sums.lists:
        if one.given and one.problem is not None:
            raise Undecided("weights-manifest-unusable", file=one.name)


def _unseen(sums: Checksums, *rules: str) -> Findings:
    if sums.unseen:
        for rule in rules:
            yield undecided(rule, "weights-entries-unseen", unseen=sums.unseen, files=sums.files)


@check("weights-file-missing", "weights-config-left-out", "weights-left-out")
def every_listed_file_is_there(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if model.layout == "file":
        raise NotApplicable("model-is-one-file", path=model.path or model.given)
    if not sums.listed and not sums.lost:
        _usable(sums)
        raise NotApplicable("weights-nothing-listed", path=model.path or model.given)
    said = _said_elsewhere(model)
    for file in sums.lost:
        if file.name in said:
            continue
        rule = "weights-file-missing" if file.weight == "needed" else "weights-config-left-out"
        yield found(
            rule,
            on=file.name,
            file=file.name,
            source=LISTERS.get(file.source, file.source),
            where=file.where,
            folder=quoted_path(model),
            repair=repair(model, file.name, sums),
        )
    if sums.left_out.count:
        names = shown(sums.left_out.first, sums.left_out.count)
        yield found("weights-left-out", on=model.path, count=sums.left_out.count, names=names)


@check("weights-size-differs")
def files_have_the_size_that_is_due(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if not sums.sized:
        raise NotApplicable("weights-no-sizes", path=model.path or model.given)
    for file in sums.sizes:
        if file.role in ENGINE_READS:
            yield found(
                "weights-size-differs",
                on=file.name,
                file=file.name,
                size=file.size,
                due=file.due,
                source=SOURCES.get(file.source, file.source),
                where=file.where,
                folder=quoted_path(model),
                repair=repair(model, file.name, sums),
            )
    yield from _unseen(sums, "weights-size-differs")


@check("weights-unlisted", "weights-unlisted-beside")
def every_weight_file_is_listed(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if not sums.given and not sums.unlisted:
        raise NotApplicable("weights-no-manifest")
    _usable(sums)
    for name, where, is_fault in sums.unlisted:
        rule = "weights-unlisted" if is_fault else "weights-unlisted-beside"
        yield found(rule, on=name, file=name, where=where, folder=quoted_path(model))
    yield from _unseen(sums, "weights-unlisted", "weights-unlisted-beside")


@check("weights-sums-malformed")
def checksum_lists_can_be_read(sums: Checksums) -> Findings:
    if not sums.lists:
        raise NotApplicable("weights-no-sums")
    for one in sums.lists:
        problem = one.problem or one.first
        if problem is None:
            continue
        line = "" if one.line is None else f" ({one.line}{': ' if one.text else ''}{one.text})"
        yield found(
            "weights-sums-malformed",
            on=one.name,
            file=one.name,
            what=PROBLEMS.get(problem, UNREADABLE),
            line=line,
            entries=one.entries,
            problems=max(one.problems, 1),
        )


def _says(one: Expected) -> dict[str, str]:
    words = SOURCES.get(one.source, {"en": one.source, "zh": one.source})
    return {"en": f"{words['en']} ({one.where})", "zh": f"{words['zh']}（{one.where}）"}


def _is_of_another_revision(sources: Iterable[str]) -> bool:
    """Whether what a download says of itself differs from the list of the revision's files."""
    return set(sources) in ({"hub-blob", "hub-tree"}, {"hub-metadata", "hub-tree"})


@check("weights-sums-conflict")
def sources_agree(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if not sums.vouched:
        raise NotApplicable("weights-nothing-listed", path=model.path or model.given)
    for c in sums.conflicts:
        if not _is_of_another_revision((c.one.source, c.other.source)):
            yield found(
                "weights-sums-conflict",
                on=c.name,
                file=c.name,
                algorithm=c.one.algorithm,
                one=_says(c.one),
                one_digest=c.one.digest,
                other=_says(c.other),
                other_digest=c.other.digest,
                folder=quoted_path(model),
            )


@check("weights-revisions-mixed")
def all_files_are_of_one_revision(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if sums.revision is None or not sums.listed:
        raise NotApplicable("weights-no-revision", path=model.path or model.given)

    def mixed(on: str, names: str, count: int, other: str) -> Any:
        return found(
            "weights-revisions-mixed",
            on=on,
            names=names,
            count=count,
            commit=sums.revision,
            other=other,
            folder=quoted_path(model),
            repair=repair(model, on, sums),
        )

    for one in sums.revisions[1:]:
        yield mixed(one.files.first[0], shown(one.files.first, one.files.count), one.files.count, one.commit)
    told = {n for one in sums.revisions[1:] for n in one.files.first}
    for c in sums.conflicts:
        if c.role in ENGINE_READS and c.name not in told and _is_of_another_revision((c.one.source, c.other.source)):
            mine = c.other if c.one.source == "hub-tree" else c.one
            yield mixed(c.name, c.name, 1, mine.where)


@check("weights-link-escapes", "weights-link-outside")
def links_stay_in_their_repository(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    rule, other = "weights-link-outside", "weights-link-escapes"
    if model.hub is not None:
        rule, other = other, rule
    yield not_applicable(other, "model-not-in-hub-cache" if model.hub is None else "model-in-hub-cache")
    for link in sums.links:
        command = repair(model, link.name, sums, astray=True)
        yield found(rule, on=link.name, file=link.name, target=link.target, repair=command)
    yield from _unseen(sums, rule)


@check("weights-several-snapshots")
def the_cache_has_one_snapshot(model: ModelFolder, sums: Checksums) -> Findings:
    listed(model)
    if sums.snapshots is None or model.hub is None:
        raise NotApplicable("model-not-in-hub-cache")
    if sums.snapshots.count > 1:
        refs = sums.snapshots.refs
        names = ", ".join(f"{name} = {commit[:12]}" for name, commit in sorted(refs.items())[:6])
        yield found(
            "weights-several-snapshots",
            on=model.hub.repo,
            repo=model.hub.repo,
            count=sums.snapshots.count,
            this=sums.snapshots.this,
            refs=names or "-",
        )
