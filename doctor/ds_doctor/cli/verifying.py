"""What `ds-doctor verify` does with its options: looks at the structure, has the content hashed, judges, reports; the logic is elsewhere."""

from __future__ import annotations

import functools
import os
import shlex
import sys
import threading
import time
from typing import Any

import msgspec

from .. import __version__, engine, manifest
from ..gather import Gathering
from ..host import Host
from ..model import Lang, Outcome, Trouble
from ..probes._weight_file import PARSED
from ..probes.checksums import Checksums, Vouching
from ..probes.model_access import ModelAccess
from ..probes.model_folder import ModelFolder
from ..probes.proof import FileProof, Proof, recalled, tally
from ..registry import Check, load_plugins
from ..report import verify as document
from ..report.document import TargetDoc, ToolDoc, result_doc
from ..report.verify_words import word
from . import Unwritten, Usage, put
from .judge import outputs_of, site_rules, write_out
from .lang import from_locale, t
from .proving import STRUCTURE_S, Stopped, Wish, prove
from .terminal import colorful, width
from .verify_asked import Request, asked, check, part_of

FAMILY = "weights"
# What fails because it cannot be read says nothing about the content.
UNREAD = frozenset(["weights-unreadable", "weights-read-error"])


def verify(r: Request) -> int:
    """Verify, print the report, and give the exit status. Usage for what cannot be done, before anything is looked at."""
    begun = time.monotonic()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lang = r.lang or from_locale()
    check(r)
    outputs = outputs_of(r.output, [("--write-manifest", r.write_manifest)] if r.write_manifest else [])
    host = Host(asked(r))
    outcomes = _look(host, [ModelFolder, Checksums, *([ModelAccess] if r.user is not None else [])], lang)
    judges = _Judges(r)
    if r.rules:  # a site's file that is wrong is told before the work
        judges.get()
    try:
        folder = _there(r, host, outcomes, judges, lang)
        _fits(r, host, folder, outcomes.get(ModelAccess))
        vouching = _vouching(host)
        if vouching is not None and any(given.given and not given.entries for given in vouching.lists):
            raise Usage(f"--manifest {r.manifest}{t(': ', '：')}{word('manifest.no-usable', lang)}")
        states, seconds = _states(r, host, vouching, lang, judges)
    except (Stopped, Unseen) as e:
        sys.stderr.write(f"ds-doctor: {e}\n")
        return e.status
    doctor, checks, rules = judges.get()
    outcomes |= _look(host, [f for f in engine.wanted(checks) if f not in outcomes], lang)
    if vouching is not None:
        outcomes[Proof] = Outcome(tally(states, hashed=not r.quick))
    results = engine.judge(checks, outcomes, doctor.catalogue, rules)
    verdicts = _concluded(r, engine.conclude(results, doctor.errors, set(), r.strict), folder, states)
    target = TargetDoc(model=r.path)
    again = shlex.join(["ds-doctor", "verify", folder.given])
    doc = document.VerifyDoc(
        schema=document.SCHEMA,
        tool=ToolDoc(name="ds-doctor", version=__version__, catalogue_date=doctor.catalogue.date),
        path=os.fsencode(folder.path or folder.given).decode("utf-8", "replace"),
        layout="plain" if vouching is None else vouching.layout,
        repo=None if vouching is None else vouching.repo,
        revision=None if vouching is None else vouching.revision,
        started_at=started_at,
        duration_s=round(time.monotonic() - begun, 3),
        verdict=verdicts.verdict,
        exit_code=verdicts.exit_code,
        counts={str(k): v for k, v in verdicts.counts.items()},
        quick=r.quick,
        part=r.only_shards,
        summary=document.summary_doc(states, seconds),
        results=tuple(result_doc(x, doctor.catalogue, lang, False, target, again) for x in verdicts.results),
        files=tuple(document.file_doc(s) for s in states),
    )
    return _told(r, doc, states, "" if vouching is None else vouching.root, outputs, lang)


class _Judges:
    """The checks of the weights with their words. They are loaded when they are asked for, or in the background while files are hashed."""

    def __init__(self, r: Request) -> None:
        self.r = r
        self.loading: threading.Thread | None = None
        self.loaded: tuple[engine.Doctor, list[Check], set[str]] | None = None

    def ahead(self) -> None:
        """Begin to load them. Threads that hash need Python's lock for moments only, and soon."""
        if self.loaded is None:
            sys.setswitchinterval(0.0005)
            self.loading = threading.Thread(target=self._load, daemon=True, name="judges")
            self.loading.start()

    def get(self) -> tuple[engine.Doctor, list[Check], set[str]]:
        if self.loading is not None:
            self.loading.join()
            sys.setswitchinterval(0.005)
        if self.loaded is None:
            self._load()
        assert self.loaded is not None
        return self.loaded

    def _load(self) -> None:
        # A site's file may speak of every rule; otherwise only those of the weights are needed.
        load = load_plugins if self.r.rules else functools.partial(load_plugins, FAMILY)
        doctor, off = site_rules(engine.assemble(os.environ, load), self.r.rules)
        checks, rules, _ = engine.chosen(doctor, engine.Choice(only=(FAMILY,), off=off))
        self.loaded = doctor, checks, rules


def _look(host: Host, facts: list[type], lang: Lang) -> dict[type, Outcome]:
    from .progress import Progress

    gathering = Gathering(host, time.monotonic() + STRUCTURE_S)
    gathering.want(facts)
    with Progress(lang) as progress:
        return gathering.collect(progress.waiting)


class Unseen(Exception):
    """The structure could not be looked at: one line for standard error, exit status 3."""

    status = 3


def _there(r: Request, host: Host, outcomes: dict[type, Outcome], judges: _Judges, lang: Lang) -> ModelFolder:
    """What was looked at. Usage where there is nothing, Unseen where it gave no answer."""
    outcome = outcomes[ModelFolder]
    folder = outcome.fact
    if not isinstance(folder, ModelFolder):
        words = judges.get()[0].catalogue
        said = f"{r.path}{t(': ', '：')}{words.explain(outcome.reason, lang) if outcome.reason else outcome.trouble}"
        if outcome.trouble == "absent":  # an address of a bucket, say
            raise Usage(said)
        raise Unseen(said)
    if folder.layout == "missing":
        from ..probes._model_place import hub_cache

        cache = hub_cache(dict(host.env))
        raise Usage(
            t(
                f"{r.path}: does not exist, and is no model in the Hub cache ({cache})",
                f"{r.path}：不存在，也不是 Hub 缓存（{cache}）中的模型",
            )
        )
    several = _models_in(host, folder)
    if several:
        raise Usage(
            t(
                f"{r.path}: holds several models; give one of them: {', '.join(several)}",
                f"{r.path}：其中有多个模型，请给出其中一个：{'、'.join(several)}",
            )
        )
    return folder


def _fits(r: Request, host: Host, folder: ModelFolder, access: Outcome | None) -> None:
    """Usage, before anything is hashed, for an option that says nothing about this model or this host."""
    seen = None if access is None else access.fact
    if r.user is not None and isinstance(seen, ModelAccess) and seen.problem == "user-unknown":
        raise Usage(
            t(
                f"--user {r.user}: no such user or group on this host; give UID or UID:GID",
                f"--user {r.user}：本机没有该用户或组；请给出 UID 或 UID:GID",
            )
        )
    if r.revision is not None and folder.hub is None:
        raise Usage(
            t(
                f"--revision {r.revision}: {r.path} is not in a Hub cache, the only layout with revisions to choose from",
                f"--revision {r.revision}：{r.path} 不在 Hub 缓存中，只有 Hub 缓存才有可选的版本",
            )
        )
    if r.revision is not None and folder.hub is not None and not _is_of(host, os.path.abspath(r.path), r.revision):
        raise Usage(
            t(
                f"--revision {r.revision}: {r.path} is the snapshot of another one",
                f"--revision {r.revision}：{r.path} 是另一版本的快照",
            )
        )


def _is_of(host: Host, path: str, revision: str) -> bool:
    """Whether the path may be of the revision: it is no snapshot of one commit, or that of this commit, branch or tag."""
    repository, _, inside = path.partition("/snapshots/")
    commit = inside.partition("/")[0]
    if not commit or commit.startswith(revision):
        return True
    try:
        return host.text(f"{repository}/refs/{revision}", limit=4096).strip() == commit
    except Trouble:
        return False


def _models_in(host: Host, folder: ModelFolder) -> list[str]:
    """The first models of a Hub cache that was given as a whole; none where the folder is a model or nothing of the kind."""
    if folder.layout != "folder" or folder.weights or folder.path is None:
        return []
    try:
        names = [n for n in host.names(folder.path) if n.startswith("models--")]
    except Trouble:
        return []
    return [f"{folder.path}/{n}" for n in names[:5]] if len(names) > 1 else []


def _vouching(host: Host) -> Vouching | None:
    from ..probes import _checksum_look

    try:
        return host.once(_checksum_look.look_at)
    except Trouble:
        return None


def _states(
    r: Request, host: Host, vouching: Vouching | None, lang: Lang, judges: _Judges
) -> tuple[list[FileProof], float]:
    if vouching is None:
        return [], 0.0
    if r.quick:
        return list(recalled(host, vouching)), 0.0
    part = None
    if r.only_shards is not None:
        part = part_of(r.only_shards, tuple(f.name for f in vouching.files if f.role == "weights"))
    wish = Wish(
        threads=r.threads,
        warm=r.warm,
        remember=not r.no_cache,
        more=("sha256",) if r.write_manifest else (),
        part=part,
        quiet=r.quiet,
    )
    return prove(host, vouching, wish, lang, judges.ahead)


def _concluded(r: Request, verdicts: engine.Verdicts, folder: ModelFolder, states: list[FileProof]) -> engine.Verdicts:
    """The verdict and exit status of `verify`: what cannot be read is neither whole nor damaged."""
    failed = {x.rule for x in verdicts.results if x.status == "fail"}
    blind = folder.weights_unseen > 0 or folder.layout in ("denied", "unreadable", "too-large")
    proven = {s.file.name for s in states if s.status == "proven"}
    # A header larger than any that is published was left alone: its file is whole only if its content is the right one.
    blind |= any(
        f.kind == "header-not-parsed" and (f.header_bytes or 0) > PARSED and f.name not in proven
        for f in folder.weights
    )
    if verdicts.exit_code == 1 and failed and failed <= UNREAD:
        return msgspec.structs.replace(verdicts, exit_code=3, verdict="unknown")
    if verdicts.exit_code == 0 and blind:
        return msgspec.structs.replace(verdicts, exit_code=3, verdict="unknown")
    if r.strict and verdicts.exit_code == 0:
        weights = [s for s in states if s.file.role == "weights"]
        if not weights or any(s.status != "proven" for s in weights):
            return msgspec.structs.replace(verdicts, exit_code=3)
    return verdicts


def _told(
    r: Request,
    doc: document.VerifyDoc,
    states: list[FileProof],
    root: str,
    outputs: list[tuple[str, str]],
    lang: Lang,
) -> int:
    status = doc.exit_code
    if r.write_manifest is not None:
        status = _write_manifest(r.write_manifest, doc, states, root, lang, status)
    for form, path in outputs:
        status = write_out("--output", path, _render(form, doc, lang, verbose=r.verbose).encode(), status)
    try:
        put(_render(r.form, doc, lang, verbose=r.verbose, quiet=r.quiet, color=colorful(), width=width()))
    except Unwritten as e:
        sys.stderr.write(f"ds-doctor: {e}\n")
        status = status or 3
    return status


def _render(form: str, doc: document.VerifyDoc, lang: Lang, **how: Any) -> str:
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(doc), indent=2).decode() + "\n"
    from ..report import verify_text

    return verify_text.render(doc, lang, **how)


def _write_manifest(
    path: str, doc: document.VerifyDoc, states: list[FileProof], root: str, lang: Lang, status: int
) -> int:
    """Record the digests, unless something is wrong: what is damaged must not vouch for others."""
    if status not in (0, 3) or any(s.status in ("wrong", "changed", "unread") for s in states):
        sys.stderr.write(f"ds-doctor: {word('manifest.kept', lang, path=path)}\n")
        return status
    entries = [
        manifest.Entry(name=_relative(s.file.path, root), size=s.file.size, digests={"sha256": s.digests["sha256"]})
        for s in states
        if "sha256" in s.digests
    ]
    if manifest.is_list_name(os.path.basename(path)):
        data = manifest.write_sums(entries)
    else:
        data = manifest.write(
            entries, repo=doc.repo, revision=doc.revision, version=__version__, created_at=doc.started_at
        )
    done = write_out("--write-manifest", path, data, status)
    if done == status:
        said = "manifest.written" if len(entries) == len(states) else "manifest.partly"
        sys.stderr.write(f"ds-doctor: {word(said, lang, n=len(entries), files=len(states), path=path)}\n")
    return done


def _relative(path: str, root: str) -> str:
    """The name of a file in the model's folder; its own where the model is that file."""
    inside = path.removeprefix(root.rstrip("/") + "/")
    return os.path.basename(path) if inside == path else inside
