"""The generated pages are what the catalogue says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ds_doctor.model import Lang
from ds_doctor.report.words import word
from support import doctor

DOCS = Path(__file__).parent.parent / "docs"
HEAD = {
    "en": "# The rules of ds-doctor\n\nGenerated from `rules.toml` by `pytest --update`; do not edit. {n} rules in {f} families.\n",
    "zh": "# ds-doctor 的规则\n\n由 `pytest --update` 从 `rules.toml` 生成，请勿手工编辑。共 {n} 条规则，{f} 个类别。\n",
}


def page(lang: Lang) -> str:
    families: dict[str, list[tuple[str, str]]] = {}
    for check in doctor().checks:
        for rule in check.rules:
            families.setdefault(check.family, []).append((rule, check.name))
    lines = [HEAD[lang].format(n=len(doctor().catalogue.rule), f=len(families))]
    for family, rules in families.items():
        lines.append(f"## {family}\n")
        for name, check in rules:
            rule = doctor().catalogue.rule[name]
            lines.append(f"### {name}\n")
            lines.append(f"{word(rule.level, lang)} · {word('standing.' + rule.standing, lang)} · `{check}`\n")
            lines.append(f"{rule.healthy.say(lang)}\n")
            lines.append(f"> {getattr(rule.title, lang)}\n")
            lines.append(f"{getattr(rule.why, lang)}\n")
            for n, step in enumerate(rule.fix, 1):
                lines.append(f"{n}. {getattr(step.say, lang) if step.say else '`' + (step.run or '') + '`'}")
            lines.append("")
            if rule.verify:
                lines.append(f"{word('verify', lang)}: `{rule.verify}`\n")
            for claim in rule.claims:
                lines.append(
                    f"- {word('claim', lang)}: {claim.says.say(lang)} **{word('standing.' + claim.standing, lang)}** {claim.truth.say(lang)} ({'; '.join(claim.sources)})"
                )
            if rule.claims:
                lines.append("")
            lines.extend(f"- {source}" for source in rule.sources)
            lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_rule_page_is_what_the_catalogue_says(lang: Lang, golden: Callable[[Path, str], None]) -> None:
    golden(DOCS / ("rules.md" if lang == "en" else "rules.zh.md"), page(lang))
