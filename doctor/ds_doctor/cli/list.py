"""`ds-doctor list`: what there is; the logic is in registry and catalogue."""

from __future__ import annotations

import os
from typing import Any

import click

from .. import engine
from ..model import Lang
from ..registry import fact_name, one_line, probe_of
from ..report.layout import table
from . import put
from .lang import from_locale, t


@click.command("list", help=t("List the checks, rules, facts or plugins.", "列出检查、规则、事实或插件。"))
@click.argument("what", type=click.Choice(["checks", "rules", "facts", "plugins"]))
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--lang", type=click.Choice(["en", "zh"]))
def command(what: str, form: str, lang: Lang | None) -> int:
    lang = lang or from_locale()
    doctor = engine.assemble(os.environ)
    rows = {"checks": _checks, "rules": _rules, "facts": _facts, "plugins": _plugins}[what](doctor, lang)
    if form == "json":
        import msgspec

        put(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
    elif rows:
        cells = [[_cell(v) for v in row.values()] for row in rows]
        put("\n".join(table([[k.upper() for k in rows[0]], *cells])) + "\n")
    for error in doctor.errors:
        click.echo(f"ds-doctor: {doctor.catalogue.explain(error.reason, lang)}", err=True)
    return 3 if doctor.errors else 0


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def _checks(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    return [
        {"check": c.name, "family": c.family, "rules": list(c.rules), "facts": [fact_name(w.fact) for w in c.wants]}
        for c in doctor.checks
    ]


def _rules(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    rows = []
    for one in doctor.checks:
        for name in one.rules:
            rule = doctor.catalogue.rule[name]
            rows.append(
                {
                    "rule": name,
                    "level": rule.level,
                    "standing": rule.standing,
                    "family": one.family,
                    "healthy": rule.healthy.say(lang),
                }
            )
    return rows


def _facts(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    rows = []
    for fact in sorted(engine.wanted(doctor.checks), key=fact_name):
        try:
            where = probe_of(fact).ask.__module__
        except LookupError as e:
            where = one_line(e)
        first = (fact.__doc__ or "").strip().split(". ")[0].split("\n\n")[0].rstrip(".")
        rows.append({"fact": fact_name(fact), "probe": where, "holds": " ".join(first.split())})
    return rows


def _plugins(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    return [
        {"plugin": p.name, "checks": len(p.checks), "rules": sum(len(c.rules) for c in p.checks), "folder": p.folder}
        for p in doctor.plugins
    ]
