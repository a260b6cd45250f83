"""rules.toml -> rules, reasons and their words, checked hard; knows no check.

A rule is something that can be wrong. rules.toml owns its level, standing and every word; numbers reach a text only
through its blanks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from .model import LANGS, MOST, WEIGHT, Lang, Level, Reason, Standing

SCHEMA = 1
LONGEST = 1000  # characters of a value in a text; the JSON holds it whole
_BLANK = re.compile(r"\{([^{}]*)\}")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class CatalogueError(Exception):
    """A rules.toml that cannot be used: one line with the file and the place."""


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same text in both languages, with the same {blanks}."""

    en: str
    zh: str

    def say(self, lang: Lang, data: Mapping[str, Any] | None = None) -> str:
        return fill(getattr(self, lang), data or {})


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a fix: words to follow (`say`) or a command to run (`run`), where, and what it changes."""

    say: Text | None = None
    run: str | None = None
    where: Literal["host", "container", "target", "here"] | None = None
    effect: Literal["none", "setting", "needs_restart", "needs_reboot"] | None = None


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a document says about the subject of a rule, and how it stands to the truth."""

    says: Text
    standing: Standing
    truth: Text
    sources: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything a reader sees about one rule. `healthy` says what is true where the rule is kept."""

    level: Level
    standing: Standing
    healthy: Text
    title: Text
    why: Text
    fix: tuple[Step, ...]
    sources: tuple[str, ...]
    verify: str | None = None
    claims: tuple[Claim, ...] = ()
    covers: tuple[str, ...] = ()


class Catalogue(msgspec.Struct, frozen=True):
    """The rules and reasons of one file or of several put together."""

    schema: int
    date: str = ""
    rule: dict[str, Rule] = {}
    reason: dict[str, Text] = {}

    def explain(self, reason: Reason, lang: Lang) -> str:
        """A reason in words; one that no catalogue knows is shown as it stands."""
        text = self.reason.get(reason.id)
        if text is None:
            return str(reason)
        data = {k: self.explain(v, lang) if isinstance(v, Reason) else v for k, v in reason.data.items()}
        return text.say(lang, data)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    date: str = ""
    rule: dict[str, Rule] = {}
    reason: dict[str, Text] = {}


def blanks(text: str) -> set[str]:
    """The names of a text's {blanks}."""
    return set(_BLANK.findall(text))


def fill(text: str, data: Mapping[str, Any]) -> str:
    """Put the data into the blanks; a blank without a value becomes `?`."""
    return _BLANK.sub(lambda m: show(data[m[1]]) if m[1] in data else "?", text)


def show(value: Any) -> str:
    """One value as it stands in a text: no needless zeros, lists with commas, no control characters, of sane length."""
    text = _plain(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… (+{len(text) - LONGEST})"


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(v) for v in value)
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def parse(data: bytes, where: str) -> Catalogue:
    """A rules.toml. CatalogueError with one line for anything that is not right in it."""
    file = decode(data, where, _File)
    for name, rule in file.rule.items():
        check_rule(rule, f"{where}: rule.{name}", name)
    for name, text in file.reason.items():
        _check_id(name, f"{where}: reason.{name}")
        check_text(text, f"{where}: reason.{name}")
    return Catalogue(file.schema, file.date, file.rule, file.reason)


def decode(data: bytes, where: str, kind: type[Any]) -> Any:
    try:
        raw = _toml(data.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise CatalogueError(f"{where}: not UTF-8 at byte {e.start}") from None
    except (ValueError, RecursionError) as e:
        raise CatalogueError(f"{where}: not valid TOML: {_first_line(e)}") from None
    try:
        file = msgspec.convert(raw, kind)
    except msgspec.ValidationError as e:
        raise CatalogueError(f"{where}: {_first_line(e)}") from None
    if file.schema != SCHEMA:
        raise CatalogueError(f"{where}: schema {file.schema}, this program reads schema {SCHEMA}")
    return file


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    tables: dict[str, Any] = tomllib.loads(text)
    return tables


def _first_line(e: BaseException) -> str:
    return (str(e).splitlines() or [type(e).__name__])[0]


def _check_id(name: str, where: str) -> None:
    if not _ID.match(name):
        raise CatalogueError(f"{where}: an id is small letters, digits and single hyphens")


def check_text(text: Text, where: str) -> None:
    for lang in LANGS:
        if not getattr(text, lang).strip():
            raise CatalogueError(f"{where}: the text in {lang} is empty")
        for blank in blanks(getattr(text, lang)):
            if not _NAME.match(blank):
                raise CatalogueError(f"{where}: {{{blank}}} is no blank (small letters, digits, _)")
    if blanks(text.en) != blanks(text.zh):
        odd = ", ".join(sorted(blanks(text.en) ^ blanks(text.zh)))
        raise CatalogueError(f"{where}: the blanks differ between en and zh: {odd}")


def _check_step(step: Step, where: str) -> None:
    if (step.say is None) == (step.run is None):
        raise CatalogueError(f"{where}: a step has either say or run")
    if step.run is not None and (step.where is None or step.effect is None):
        raise CatalogueError(f"{where}: a run step says where and which effect")
    if step.say is not None:
        check_text(step.say, where)


def check_rule(rule: Rule, where: str, name: str) -> None:
    _check_id(name, where)
    most = MOST[rule.standing]
    if most is None:
        raise CatalogueError(f"{where}: a refuted claim is no rule; it belongs under claims")
    if WEIGHT[rule.level] > WEIGHT[most]:
        raise CatalogueError(f"{where}: standing {rule.standing} allows at most {most}, not {rule.level}")
    for part in ("healthy", "title", "why"):
        check_text(getattr(rule, part), f"{where}.{part}")
    if blanks(rule.healthy.en):
        raise CatalogueError(f"{where}.healthy: has no blanks, since nothing was found when it is shown")
    if not rule.fix:
        raise CatalogueError(f"{where}: has no fix; every finding has a next step")
    for i, step in enumerate(rule.fix, 1):
        _check_step(step, f"{where}.fix step {i}")
    if not rule.sources:
        raise CatalogueError(f"{where}: has no sources")
    for claim in rule.claims:
        check_text(claim.says, f"{where}.claims")
        check_text(claim.truth, f"{where}.claims")


def together(catalogues: Iterable[Catalogue]) -> Catalogue:
    """Several catalogues as one; the first owner of an id keeps it (the engine refuses the second one's plugin)."""
    rules: dict[str, Rule] = {}
    reasons: dict[str, Text] = {}
    date = ""
    for one in catalogues:
        rules = {**one.rule, **rules}
        reasons = {**one.reason, **reasons}
        date = date or one.date
    return Catalogue(SCHEMA, date, rules, reasons)
