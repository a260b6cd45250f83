"""What `ds-doctor run` does with its options: gather or replay, judge, report; the logic is in engine and report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

import msgspec

from .. import __version__, catalogue, compiled, engine, registry, snapshot
from ..combine import combine
from ..model import Lang, Outcome
from ..probes.launch import asked_launch
from ..probes.python_env import Packages
from ..report import FORMATS, document, render
from ..report import host as host_words
from . import Unwritten, Usage, files, put
from .lang import from_locale, t
from .look import Options, end_whatever_happens, gather_all, replay, what
from .terminal import colorful, width


def run(options: Options) -> int:
    """Judge, print the report, and give the exit status. Usage for what cannot be done, before anything is judged."""
    begun = time.monotonic()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lang = options.lang or from_locale()
    outputs = _check(options)
    deadline = begun + options.timeout
    end_whatever_happens(options.timeout)

    doctor = engine.assemble(os.environ)
    doctor, off = site_rules(doctor, options.rules)
    words = doctor.catalogue
    asked, kept = what(options, lambda reason: words.explain(reason, lang))
    if options.profile is not None:
        from .profiles import load

        profile = load(options.profile, doctor.plugins)
        asked = [msgspec.structs.replace(a, profile=profile) for a in asked]
    choice = engine.Choice(only=options.only, skip=options.skip, require=options.require, off=off)
    try:
        checks, rules, required = engine.chosen(doctor, choice)
    except engine.PatternError as e:
        raise Usage(_pattern(e)) from None

    facts = engine.wanted(doctor.checks if options.record else checks)
    named = options.python is not None and kept is None and options.root is None
    facts += [f for f in (*host_words.ALWAYS, *([Packages] if named else [])) if f not in facts]
    if kept is None:
        engines = {name for a in asked if (name := asked_launch(a).engine) is not None}

        def meanwhile() -> None:
            for name in engines:
                registry.warm(doctor.plugins, name)

        gathered = gather_all(options, asked, facts, deadline, lang, meanwhile)
    else:
        gathered = [replay(options, kept, a, facts, i) for i, a in enumerate(asked)]
    outcomes = gathered[0]
    if named:
        _understood(outcomes[Packages], words, lang)
    if options.verify_weights:
        from .proving import Stopped, prove_all

        try:
            deadline += prove_all(options, asked, gathered, lang)
        except Stopped as e:
            sys.stderr.write(f"ds-doctor: {e}\n")
            return e.status
    judged = [engine.judge(checks, o, words, rules, deadline) for o in gathered]
    together = combine([host_words.service_name(a) for a in asked], judged)
    verdicts = [engine.conclude(results, doctor.errors, required, options.strict) for results in judged]
    report = document.build(
        engine.conclude(together.results, doctor.errors, required, options.strict),
        words,
        lang,
        version=__version__,
        host=host_words.host_doc(outcomes),
        target=host_words.target_doc(asked[0], outcomes, words, lang)
        if len(asked) == 1
        else host_words.targets_doc(asked, outcomes),
        services=[
            host_words.service_doc(a, o, v, own, words, lang)
            for a, o, v, own in zip(asked, gathered, verdicts, together.own, strict=True)
            if a.deployment is not None
        ],
        started_at=started_at,
        duration_s=time.monotonic() - begun,
    )

    status = report.exit_code
    if options.record is not None:
        more = [
            (a, {f: o for f, o in other.items() if o is not outcomes.get(f)})
            for a, other in zip(asked[1:], gathered[1:], strict=True)
        ]
        data = snapshot.write(outcomes, asked[0], __version__, started_at, more)
        status = write_out("--record", options.record, data, status)
    for form, path in outputs:
        text = render(form, report, lang, verbose=options.verbose)
        status = write_out("--output", path, text.encode(), status)
    page = render(
        options.form, report, lang, verbose=options.verbose, quiet=options.quiet, color=colorful(), width=width()
    )
    try:
        put(page)
    except Unwritten as e:
        sys.stderr.write(f"ds-doctor: {e}\n")
        status = status or 3
    return status


def _check(options: Options) -> list[tuple[str, str]]:
    """Usage for options that cannot work; the (format, path) pairs of --output."""
    if not 1 <= options.timeout <= 3600:
        raise Usage(
            t(
                f"--timeout {options.timeout:g}: between 1 and 3600 seconds",
                f"--timeout {options.timeout:g}：应在 1 到 3600 秒之间",
            )
        )
    given = ("file", "service", "python", "model", "root", "record", "replay", "profile")
    named = {n: getattr(options, n) for n in given}
    for name, value in [*named.items(), *(("rules", path) for path in options.rules)]:
        if value == "":  # --model "$MODEL" with MODEL unset
            raise Usage(t(f"--{name}: the value is empty", f"--{name}：值为空"))
    # A snapshot holds what was asked when it was recorded.
    for name in ("root", "record", "python", "model"):
        _exclude(**{name: named[name], "replay": options.replay})
    if options.verify_weights:
        for name in ("root", "replay"):
            if named[name] is not None:
                raise Usage(
                    t(f"--verify-weights and --{name} exclude each other", f"--verify-weights 与 --{name} 不能同时使用")
                )
        if options.model is None and not options.command and options.file is None:
            raise Usage(
                t(
                    "--verify-weights: give the model with --model, or a launch command",
                    "--verify-weights：请用 --model 给出模型，或给出启动命令",
                )
            )
    if options.service is not None and options.file is None:
        raise Usage(t("--service: it chooses a service of the file given with -f", "--service：须与 -f 一起使用"))
    if options.root is not None:
        _folder("--root", options.root)
    return outputs_of(options.output, [("--record", options.record)] if options.record is not None else [])


def outputs_of(given: Iterable[str], others: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (format, path) pairs of --output. Usage for one that cannot be written, or that names the same file as another or as one of
    the `others` (option, path)."""
    outputs = [_output(o) for o in given]
    written: set[str] = set()
    for option, path in [*(("--output", path) for _, path in outputs), *others]:
        files.writable(option, path)
        where = os.path.realpath(path)
        if where in written and (os.path.isfile(path) or not os.path.exists(path)):
            raise Usage(
                t(
                    f"{option} {path}: this file is written already; each output needs its own",
                    f"{option} {path}：已有输出写入该文件；每个输出需要各自的文件",
                )
            )
        written.add(where)
    return outputs


def _folder(option: str, path: str) -> None:
    try:
        names = os.listdir(path)
    except NotADirectoryError:
        raise Usage(t(f"{option} {path}: not a folder", f"{option} {path}：不是目录")) from None
    except FileNotFoundError:
        raise Usage(t(f"{option} {path}: does not exist", f"{option} {path}：不存在")) from None
    except (OSError, ValueError) as e:
        raise Usage(f"{option} {path}: {getattr(e, 'strerror', None) or e}") from None
    if not {"etc", "usr"}.intersection(names):  # a mount that is not there, a slip of the hand
        raise Usage(
            t(
                f"{option} {path}: no root of a Linux system (it holds neither etc nor usr)",
                f"{option} {path}：不是 Linux 系统的根目录（其中既没有 etc 也没有 usr）",
            )
        )


def _pattern(e: engine.PatternError) -> str:
    where = f"{e.option} {e.pattern}"
    if e.left_out:
        return t(
            f"{where}: the rule is left out by --only, --skip or --rules",
            f"{where}：该规则已被 --only、--skip 或 --rules 排除",
        )
    return t(
        f"{where}: no rule, check or family has this name (see: ds-doctor list rules)",
        f"{where}：没有名为此的规则、检查或类别（参见：ds-doctor list rules）",
    )


def _exclude(**options: str | None) -> None:
    given = [f"--{name}" for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise Usage(t(f"{given[0]} and {given[1]} exclude each other", f"{given[0]} 与 {given[1]} 不能同时使用"))


def _output(text: str) -> tuple[str, str]:
    form, equals, path = text.partition("=")
    if not equals or not path or form not in FORMATS:
        raise Usage(
            t(
                f"--output {text}: FORMAT=PATH, where FORMAT is one of {', '.join(FORMATS)}",
                f"--output {text}：应为 FORMAT=PATH，其中 FORMAT 为 {', '.join(FORMATS)} 之一",
            )
        )
    return form, path


def _understood(outcome: Outcome, words: catalogue.Catalogue, lang: Lang) -> None:
    """Usage when --python names something that is no Python interpreter."""
    if outcome.trouble == "malformed" and outcome.reason is not None:
        raise Usage(f"--python: {words.explain(outcome.reason, lang)}")


def site_rules(doctor: engine.Doctor, paths: Iterable[str]) -> tuple[engine.Doctor, frozenset[str]]:
    """The doctor with the changes and additions of every --rules FILE, and the rules that they turn off."""
    off: frozenset[str] = frozenset()
    for path in paths:
        data = files.read("--rules", path, compiled.RULES_LIMIT)
        try:
            doctor, off = engine.with_site(doctor, data, f"--rules {path}", off)
        except catalogue.CatalogueError as e:
            raise Usage(str(e)) from None
    return doctor, off


def write_out(option: str, path: str, data: bytes, status: int) -> int:
    """Write a result; when that fails say so, and never end with 0."""
    try:
        files.write(path, data)
    except OSError as e:
        sys.stderr.write(f"ds-doctor: {option} {path}: {e.strerror}\n")
        return status or 3
    return status
