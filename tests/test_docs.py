"""The generated pages are what the catalogue says, with a real example of everything."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ds_doctor.catalogue import Catalogue, Cause, Claim, Rule, Step, Symptom, Text, is_blank
from ds_doctor.compiled import load_whole
from ds_doctor.explain.scan import masked
from ds_doctor.model import Finding, Lang
from ds_doctor.report.words import word
from support import CASES, doctor, judge_case

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = {
    "en": "Generated from `rules.toml` by `pytest --update`; do not edit.",
    "zh": "由 `pytest --update` 从 `rules.toml` 生成，请勿手工编辑。",
}
RULES = {
    "en": "# The rules of ds-doctor\n\n{g} {n} rules in {f} families. Under each rule stands what it says of a host on which it is broken.\n",
    "zh": "# ds-doctor 的规则\n\n{g}共 {n} 条规则，{f} 个类别。每条规则下给出它在出问题的主机上的实际输出。\n",
}
FAILURES = {
    "en": "# The known failures\n\n{g} {c} causes that no check decides and {s} symptoms, beside the rules of [rules.md](rules.md). "
    "`ds-doctor explain` recognises them in a text or log. Under each stands a line as it was really printed.\n",
    "zh": "# 已知故障\n\n{g}除 [rules.zh.md](rules.zh.md) 中的规则外，还有 {c} 个无法由检查判断的原因和 {s} 个症状。"
    "`ds-doctor explain` 可以从文字或日志中识别它们。每项下给出真实打印过的一行。\n",
}
CLAIMS = {
    "en": "# What the documents claim\n\n{g} Everything that the three seed documents demand, reckon, or contradict each other about, with the verdict. "
    "What they say of single failures stands with the [rules](rules.md) and [failures](failures.md). `ds-doctor list claims` prints all of it.\n",
    "zh": "# 文档中的说法\n\n{g}三份来源文档提出的要求、公式及相互矛盾之处，逐条给出结论。它们关于具体故障的说法见[规则](rules.zh.md)与[已知故障](failures.zh.md)。"
    "`ds-doctor list claims` 可全部列出。\n",
}
WORDS = {
    "causes": {"en": "Causes", "zh": "原因"},
    "where": {"en": "see", "zh": "见"},
    "requirement": {"en": "Requirements", "zh": "要求"},
    "formula": {"en": "Formulas", "zh": "公式"},
    "contradiction": {"en": "Contradictions", "zh": "矛盾"},
}


@functools.cache
def whole() -> Catalogue:
    return load_whole(str(ROOT / "checks" / "ds_doctor_checks"))


@functools.cache
def findings() -> dict[str, Finding]:
    """A finding of each rule: of the first case that breaks it."""
    found: dict[str, Finding] = {}
    for path in CASES:
        for name, result in judge_case(path)[1].items():
            if result.findings:
                found.setdefault(name, result.findings[0])
    return found


def of(text: Text, lang: Lang) -> str:
    said: str = getattr(text, lang)
    return said


def steps(fix: tuple[Step, ...], lang: Lang) -> Iterator[str]:
    told = [s for s in fix if not (s.run and is_blank(s.run))]  # a command that only a check knows is none to be shown
    for n, step in enumerate(told, 1):
        yield f"{n}. {of(step.say, lang) if step.say else '`' + (step.run or '') + '`'}"
    yield ""


def claims(some: tuple[Claim, ...], lang: Lang) -> Iterator[str]:
    for claim in some:
        yield (
            f"- {word('claim', lang)}: {of(claim.says, lang)} **{word('standing.' + claim.standing, lang)}** "
            f"{of(claim.truth, lang)} ({'; '.join(claim.sources)})"
        )
    if some:
        yield ""


def seen(entry: Rule | Cause | Symptom) -> Iterator[str]:
    if entry.seen:
        yield "```"
        yield from masked(entry.seen[0]).splitlines()
        yield "```"
        yield ""


def rules_page(lang: Lang) -> str:
    families: dict[str, list[tuple[str, str]]] = {}
    for check in doctor().checks:
        for rule in check.rules:
            families.setdefault(check.family, []).append((rule, check.name))
    lines = [RULES[lang].format(g=GENERATED[lang], n=len(doctor().catalogue.rule), f=len(families))]
    for family, rules in families.items():
        lines.append(f"## {family}\n")
        for name, check in rules:
            rule = whole().rule[name]
            lines.append(f"### {name}\n")
            lines.append(f"{word(rule.level, lang)} · {word('standing.' + rule.standing, lang)} · `{check}`\n")
            lines.append(f"{of(rule.healthy, lang)}\n")
            lines.append(f"> {rule.title.say(lang, findings()[name].data)}\n")
            lines.extend(seen(rule))
            lines.append(f"{of(rule.why, lang)}\n")
            lines.extend(steps(rule.fix, lang))
            if rule.verify:
                lines.append(f"{word('verify', lang)}: `{rule.verify}`\n")
            lines.extend(claims(rule.claims, lang))
            lines.extend(f"- {source}" for source in rule.sources)
            lines.append("")
    return "\n".join(lines)


def failures_page(lang: Lang) -> str:
    all_ = whole()
    symptoms, causes = all_.symptom, all_.cause
    ending = "md" if lang == "en" else "zh.md"
    lines = [FAILURES[lang].format(g=GENERATED[lang], c=len(causes), s=len(symptoms))]
    for name, symptom in symptoms.items():
        lines += [f"## {name}\n", f"**{of(symptom.title, lang)}**\n", *seen(symptom), of(symptom.note, lang) + "\n"]
        links = [f"[{c}]({'#' if c in causes else f'rules.{ending}#'}{c})" for c in symptom.causes]
        lines.append(f"{WORDS['causes'][lang]}: {', '.join(links)}\n")
        lines += [*claims(symptom.claims, lang), *(f"- {s}" for s in symptom.sources), ""]
    for name, cause in causes.items():
        lines += [f"## {name}\n", f"**{of(cause.title, lang)}** · {word('standing.' + cause.standing, lang)}\n"]
        lines += [*seen(cause), of(cause.why, lang) + "\n", *steps(cause.fix, lang)]
        if cause.verify:
            lines.append(f"{word('verify', lang)}: `{cause.verify}`\n")
        lines += [*claims(cause.claims, lang), *(f"- {s}" for s in cause.sources), ""]
    return "\n".join(lines)


def claims_page(lang: Lang) -> str:
    all_ = whole()
    lines = [CLAIMS[lang].format(g=GENERATED[lang])]
    ending = "md" if lang == "en" else "zh.md"
    for kind in ("requirement", "formula", "contradiction"):
        some = {n: c for n, c in all_.claim.items() if c.kind == kind}
        lines.append(f"## {WORDS[kind][lang]} ({len(some)})\n")
        for name, claim in some.items():
            see = [f"[{w}]({'rules' if w in all_.rule else 'failures'}.{ending}#{w})" for w in claim.where]
            where = f" {WORDS['where'][lang]} {', '.join(see)}." if see else ""
            lines.append(
                f"- `{name}`: {of(claim.says, lang)} **{word('standing.' + claim.standing, lang)}** {of(claim.truth, lang)}"
                f"{where} ({'; '.join(claim.sources)})"
            )
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "page"), [("rules", rules_page), ("failures", failures_page), ("claims", claims_page)]
)
def test_the_page_is_what_the_catalogue_says(
    name: str, page: Callable[[Lang], str], lang: Lang, golden: Callable[[Path, str], None]
) -> None:
    golden(DOCS / f"{name}.{'md' if lang == 'en' else 'zh.md'}", page(lang))


def test_every_rule_has_an_example_of_it_broken() -> None:
    assert set(doctor().catalogue.rule) <= set(findings())
