"""rules.toml -> rules, causes, symptoms, reasons and their words, checked hard; knows no check.

A rule is something that can be wrong and that a check decides; a cause is one that no check decides; a symptom is what
people see. rules.toml owns level, standing and every word; numbers reach a text only through its blanks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from . import pattern
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
        return fill(getattr(self, lang), in_language(data or {}, lang))

    def plain(self, lang: Lang) -> str:
        """As it stands: braces are no blanks where nothing fills them."""
        said: str = getattr(self, lang)
        return said


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step of a fix: words to follow (`say`) or a command to run (`run`), where, and what it changes."""

    say: Text | None = None
    run: str | None = None
    where: Literal["host", "container", "target", "here"] | None = None
    effect: Literal["none", "setting", "needs_restart", "needs_reboot"] | None = None


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a document says about the subject of a rule, and how it stands to the truth. `about`: it is shown only where a
    finding names one of these under `about` in its data; empty: always."""

    says: Text
    standing: Standing
    truth: Text
    sources: tuple[str, ...] = ()
    about: tuple[str, ...] = ()


Tier = Literal["decisive", "usual", "general", "consequence", "wrapper"]
TIERS: tuple[Tier, ...] = ("decisive", "usual", "general", "consequence", "wrapper")


class Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How people say it who have no message to quote."""

    en: tuple[str, ...] = ()
    zh: tuple[str, ...] = ()


class Signs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a text or log shows that it speaks of an entry.

    One of `match` and all of `also` are somewhere in the text, none of `unless` is. `seen` are real texts of it. `tier`
    ranks it among what else the text shows; it stands before the entries in `over`, which it explains.
    """

    match: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()
    phrases: Phrases = Phrases()
    tier: Tier = "usual"
    over: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


class Rule(Signs, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything a reader sees about one rule. `healthy` says what is true where the rule is kept. `claims_of`: what a
    finding may be about -> the entries of `claim` that it then shows beside `claims`."""

    level: Level
    standing: Standing
    healthy: Text
    title: Text
    why: Text
    fix: tuple[Step, ...]
    sources: tuple[str, ...]
    verify: str | None = None
    short: Text | None = None  # the title where no number was measured
    claims_of: dict[str, tuple[str, ...]] = {}


class Cause(Signs, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that goes wrong and that no check decides; `here`: the rules whose checks show it on a host."""

    standing: Standing
    title: Text
    why: Text
    fix: tuple[Step, ...]
    sources: tuple[str, ...]
    verify: str | None = None
    here: tuple[str, ...] = ()


class Symptom(Signs, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What people see, what it really is (`note`), and the rules or causes behind it, likeliest first."""

    title: Text
    note: Text
    causes: tuple[str, ...]
    sources: tuple[str, ...] = ()


class Documented(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What documents demand, reckon or contradict each other about: the verdict, and the entries that deal with it."""

    kind: Literal["requirement", "formula", "contradiction"]
    says: Text
    standing: Standing
    truth: Text
    where: tuple[str, ...] = ()
    sources: tuple[str, ...]


class Catalogue(msgspec.Struct, frozen=True):
    """The rules, causes, symptoms, claims and reasons of one file or of several put together."""

    schema: int
    date: str = ""
    rule: dict[str, Rule] = {}
    reason: dict[str, Text] = {}
    cause: dict[str, Cause] = {}
    symptom: dict[str, Symptom] = {}
    claim: dict[str, Documented] = {}

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
    cause: dict[str, Cause] = {}
    symptom: dict[str, Symptom] = {}
    claim: dict[str, Documented] = {}


def blanks(text: str) -> set[str]:
    """The names of a text's {blanks}."""
    return set(_BLANK.findall(text))


def is_blank(text: str) -> bool:
    """Whether a text is one blank and nothing else."""
    return re.fullmatch(r"\{\w+\}", text) is not None


def in_language(data: Mapping[str, Any], lang: Lang) -> Mapping[str, Any]:
    """The data; a value that is a text in both languages (`{"en": ..., "zh": ...}`, of a profile) as the one of them."""
    if not any(isinstance(v, Mapping) and v.keys() == {"en", "zh"} for v in data.values()):
        return data
    return {k: v[lang] if isinstance(v, Mapping) and v.keys() == {"en", "zh"} else v for k, v in data.items()}


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
    catalogue = Catalogue(file.schema, file.date, file.rule, file.reason, file.cause, file.symptom, file.claim)
    _check_known(catalogue, where)
    return catalogue


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


def check_plain(text: Text, where: str) -> None:
    """A text that nothing fills: braces are braces in it."""
    for lang in LANGS:
        if not getattr(text, lang).strip():
            raise CatalogueError(f"{where}: the text in {lang} is empty")


def check_text(text: Text, where: str) -> None:
    check_plain(text, where)
    for lang in LANGS:
        for blank in blanks(getattr(text, lang)):
            if not _NAME.match(blank):
                raise CatalogueError(f"{where}: {{{blank}}} is no blank (small letters, digits, _)")
    if blanks(text.en) != blanks(text.zh):
        odd = ", ".join(sorted(blanks(text.en) ^ blanks(text.zh)))
        raise CatalogueError(f"{where}: the blanks differ between en and zh: {odd}")


def _check_step(step: Step, where: str, filled: bool = True) -> None:
    if (step.say is None) == (step.run is None):
        raise CatalogueError(f"{where}: a step has either say or run")
    if step.run is not None and (step.where is None or step.effect is None):
        raise CatalogueError(f"{where}: a run step says where and which effect")
    if step.say is not None:
        (check_text if filled else check_plain)(step.say, where)


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
    if rule.short is not None:
        check_text(rule.short, f"{where}.short")
        if blanks(rule.short.en):
            raise CatalogueError(f"{where}.short: has no blanks, since it is shown where nothing was measured")
    _check_signs(rule, where)


def _check_signs(signs: Signs, where: str) -> None:
    for claim in signs.claims:
        check_plain(claim.says, f"{where}.claims")
        check_plain(claim.truth, f"{where}.claims")
    for part in ("match", "also", "unless"):
        for text in getattr(signs, part):
            try:
                pattern.check(text)
            except pattern.PatternError as e:
                raise CatalogueError(f"{where}.{part}: {text!r}: {e}") from None
    if (signs.also or signs.unless) and not signs.match:
        raise CatalogueError(f"{where}: also and unless narrow a match, and there is none")


def _check_known(catalogue: Catalogue, where: str) -> None:
    """The causes and symptoms, and that every id that one names is there."""
    for name, rule in catalogue.rule.items():
        for about, named in rule.claims_of.items():
            _check_named(named, catalogue.claim, f"{where}: rule.{name}.claims_of.{about}")
    for name, cause in catalogue.cause.items():
        place = f"{where}: cause.{name}"
        if name in catalogue.rule:
            raise CatalogueError(f"{place}: there is a rule of this name")
        _check_plain(name, place, {"title": cause.title, "why": cause.why})
        if cause.standing == "refuted":
            raise CatalogueError(f"{place}: a refuted claim is no cause; it belongs under claims")
        if not cause.fix:
            raise CatalogueError(f"{place}: has no fix; every cause has a next step")
        for i, step in enumerate(cause.fix, 1):
            _check_step(step, f"{place}.fix step {i}", filled=False)
        if not cause.sources:
            raise CatalogueError(f"{place}: has no sources")
        _check_signs(cause, place)
        _check_named(cause.here, catalogue.rule, f"{place}.here")
    for name, symptom in catalogue.symptom.items():
        place = f"{where}: symptom.{name}"
        if name in catalogue.rule or name in catalogue.cause:
            raise CatalogueError(f"{place}: there is a rule or cause of this name")
        _check_plain(name, place, {"title": symptom.title, "note": symptom.note})
        if not symptom.causes:
            raise CatalogueError(f"{place}: has no causes")
        _check_signs(symptom, place)
        _check_named(symptom.causes, {**catalogue.rule, **catalogue.cause}, f"{place}.causes")
    every = {**catalogue.rule, **catalogue.cause, **catalogue.symptom}
    for name, entry in every.items():
        _check_named(entry.over, every, f"{where}: {name}.over")
    for name, claim in catalogue.claim.items():
        place = f"{where}: claim.{name}"
        _check_plain(name, place, {"says": claim.says, "truth": claim.truth})
        if not claim.sources:
            raise CatalogueError(f"{place}: has no sources")
        _check_named(claim.where, every, f"{place}.where")


def _check_plain(name: str, where: str, texts: Mapping[str, Text]) -> None:
    _check_id(name, where)
    for part, text in texts.items():
        check_plain(text, f"{where}.{part}")


def _check_named(names: Iterable[str], there: Mapping[str, object], where: str) -> None:
    for name in names:
        if name not in there:
            raise CatalogueError(f"{where}: there is no {name}")


def together(catalogues: Iterable[Catalogue]) -> Catalogue:
    """Several catalogues as one; the first owner of an id keeps it (the engine refuses the second one's plugin)."""
    rules: dict[str, Rule] = {}
    reasons: dict[str, Text] = {}
    causes: dict[str, Cause] = {}
    symptoms: dict[str, Symptom] = {}
    claims: dict[str, Documented] = {}
    date = ""
    for one in catalogues:
        rules = {**one.rule, **rules}
        reasons = {**one.reason, **reasons}
        causes = {**one.cause, **causes}
        symptoms = {**one.symptom, **symptoms}
        claims = {**one.claim, **claims}
        date = date or one.date
    return Catalogue(SCHEMA, date, rules, reasons, causes, symptoms, claims)
