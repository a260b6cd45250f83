"""`ds-doctor list`: what there is; the logic is in registry and catalogue."""

from __future__ import annotations

import os
from typing import Any

import click

from .. import compiled, engine
from ..catalogue import Catalogue, together
from ..model import Lang
from ..registry import fact_name, one_line, probe_of
from ..report.layout import table, wrap
from ..report.words import word
from . import put
from .lang import from_locale, t
from .terminal import width


@click.command(
    "list",
    help=t(
        "List what there is: checks and the rules they judge, facts, plugins, profiles of models; the symptoms and causes that explain knows; "
        "what the documents claim, with its verdict.",
        "列出已有内容：检查及其规则、事实、插件、模型配置档；explain 认识的症状与原因；文档中的说法及其结论。",
    ),
)
@click.argument(
    "what", type=click.Choice(["checks", "rules", "symptoms", "causes", "claims", "facts", "plugins", "profiles"])
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--lang", type=click.Choice(["en", "zh"]))
def command(what: str, form: str, lang: Lang | None) -> int:
    lang = lang or from_locale()
    doctor = engine.assemble(os.environ)
    rows: list[dict[str, Any]]
    if what in ("symptoms", "causes", "claims"):
        whole = together(compiled.load_whole(p.folder) for p in doctor.plugins)
        rows = {"symptoms": _symptoms, "causes": _causes, "claims": _claims}[what](whole, lang)
    else:
        rows = {"checks": _checks, "rules": _rules, "facts": _facts, "plugins": _plugins, "profiles": _profiles}[what](
            doctor, lang
        )
    if form == "json":
        import msgspec

        put(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")
    elif what == "claims":
        put("".join(_block(row, lang) for row in rows))
    elif rows:
        cells = [[_cell(v) for v in row.values()] for row in rows]
        put("\n".join(table([[k.upper() for k in rows[0]], *cells])) + "\n")
    for error in doctor.errors:
        click.echo(f"ds-doctor: {doctor.catalogue.explain(error.reason, lang)}", err=True)
    return 3 if doctor.errors else 0


def _block(row: dict[str, Any], lang: Lang) -> str:
    """A claim with its verdict, as lines: a table of sentences is not to be read."""
    lines = [f"{row['claim']} [{word('standing.' + row['standing'], lang)}]"]
    lines += ["  " + line for line in wrap(row["says"], width() - 2)]
    lines += ["  = " + line if i == 0 else "    " + line for i, line in enumerate(wrap(row["truth"], width() - 4))]
    return "\n".join(lines) + "\n"


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


def _symptoms(whole: Catalogue, lang: Lang) -> list[dict[str, Any]]:
    return [
        {"symptom": name, "title": s.title.plain(lang), "causes": list(s.causes)} for name, s in whole.symptom.items()
    ]


def _causes(whole: Catalogue, lang: Lang) -> list[dict[str, Any]]:
    return [{"cause": name, "standing": c.standing, "title": c.title.plain(lang)} for name, c in whole.cause.items()]


def _claims(whole: Catalogue, lang: Lang) -> list[dict[str, Any]]:
    """The claims of the documents: those under a rule, cause or symptom first, then the others."""
    rows = []
    for kind in (whole.rule, whole.cause, whole.symptom):
        for name, entry in kind.items():
            for claim in entry.claims:
                rows.append(_claim(name, claim.standing, claim.says.plain(lang), claim.truth.plain(lang), (name,)))
    for name, one in whole.claim.items():
        rows.append(_claim(name, one.standing, one.says.plain(lang), one.truth.plain(lang), one.where))
    return rows


def _claim(name: str, standing: str, says: str, truth: str, where: tuple[str, ...]) -> dict[str, Any]:
    return {"claim": name, "standing": standing, "says": says, "truth": truth, "where": list(where)}


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


def _profiles(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    from .profiles import load, names

    rows = []
    for name, path in sorted(names(doctor.plugins).items()):
        one = load(name, doctor.plugins)
        rows.append({"profile": name, "models": list(one.models), "engines": list(one.engine), "file": path + ".toml"})
    return rows


def _plugins(doctor: engine.Doctor, lang: Lang) -> list[dict[str, Any]]:
    return [
        {"plugin": p.name, "checks": len(p.checks), "rules": sum(len(c.rules) for c in p.checks), "folder": p.folder}
        for p in doctor.plugins
    ]
