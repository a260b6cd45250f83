"""rules.toml -> rules, reasons and their words, checked hard; knows no check.

A rule is something that can be wrong. rules.toml owns its level, standing and every word; numbers reach a text only
through its blanks. The texts are compiled to JSON when the wheel is built, or kept by digest in the user's cache
directory in a checkout, since reading TOML costs a hundred times more than reading JSON.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from .model import LANGS, MOST, WEIGHT, Lang, Level, Reason, Standing

SCHEMA = 1
RULES_LIMIT = 16 << 20
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


class _Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a site changes of a rule that exists, or the whole of a rule that it adds (`when`: see the room site)."""

    level: Level | Literal["off"] | None = None
    standing: Standing | None = None
    healthy: Text | None = None
    title: Text | None = None
    why: Text | None = None
    fix: tuple[Step, ...] | None = None
    verify: str | None = None
    sources: tuple[str, ...] | None = None
    when: tuple[dict[str, Any], ...] | None = None


class Changed(msgspec.Struct, frozen=True):
    """A catalogue with a site's file laid over it: the rules turned off or given a level, the conditions of those added."""

    catalogue: Catalogue
    off: frozenset[str]
    on: frozenset[str]
    when: dict[str, tuple[dict[str, Any], ...]]


class _SiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    date: str = ""
    rule: dict[str, _Change] = {}
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
    file = _decode(data, where, _File)
    for name, rule in file.rule.items():
        _check_rule(rule, f"{where}: rule.{name}", name)
    for name, text in file.reason.items():
        _check_id(name, f"{where}: reason.{name}")
        _check_text(text, f"{where}: reason.{name}")
    return Catalogue(file.schema, file.date, file.rule, file.reason)


def _decode(data: bytes, where: str, kind: type[Any]) -> Any:
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


def _check_text(text: Text, where: str) -> None:
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
        _check_text(step.say, where)


def _check_rule(rule: Rule, where: str, name: str) -> None:
    _check_id(name, where)
    most = MOST[rule.standing]
    if most is None:
        raise CatalogueError(f"{where}: a refuted claim is no rule; it belongs under claims")
    if WEIGHT[rule.level] > WEIGHT[most]:
        raise CatalogueError(f"{where}: standing {rule.standing} allows at most {most}, not {rule.level}")
    for part in ("healthy", "title", "why"):
        _check_text(getattr(rule, part), f"{where}.{part}")
    if blanks(rule.healthy.en):
        raise CatalogueError(f"{where}.healthy: has no blanks, since nothing was found when it is shown")
    if not rule.fix:
        raise CatalogueError(f"{where}: has no fix; every finding has a next step")
    for i, step in enumerate(rule.fix, 1):
        _check_step(step, f"{where}.fix step {i}")
    if not rule.sources:
        raise CatalogueError(f"{where}: has no sources")
    for claim in rule.claims:
        _check_text(claim.says, f"{where}.claims")
        _check_text(claim.truth, f"{where}.claims")


def changed(catalogue: Catalogue, data: bytes, where: str) -> Changed:
    """The catalogue with the changes and additions of a site's file (`--rules FILE`)."""
    file: _SiteFile = _decode(data, where, _SiteFile)
    rules = dict(catalogue.rule)
    off: set[str] = set()
    when: dict[str, tuple[dict[str, Any], ...]] = {}
    for name, change in file.rule.items():
        given = {f: getattr(change, f) for f in Rule.__struct_fields__ if getattr(change, f, None) is not None}
        if change.level == "off":
            off.add(name)
            del given["level"]
        old = catalogue.rule.get(name)
        if old is not None:
            if change.when is not None:
                raise CatalogueError(f"{where}: rule.{name}: exists already; a site's own rule needs another name")
            rules[name] = msgspec.structs.replace(old, **given)
            _check_rule(rules[name], f"{where}: rule.{name}", name)
            for part in ("title", "why"):
                extra = blanks(getattr(rules[name], part).en) - blanks(old.title.en) - blanks(old.why.en)
                if extra:
                    raise CatalogueError(f"{where}: rule.{name}.{part}: unknown blank {{{min(extra)}}}")
        elif change.when:
            rules[name] = _added(name, given, where)
            _check_rule(rules[name], f"{where}: rule.{name}", name)
            when[name] = change.when
        else:
            raise CatalogueError(
                f"{where}: rule.{name}: there is no such rule (see: ds-doctor list rules); a new one needs `when`"
            )
    for name, text in file.reason.items():
        _check_text(text, f"{where}: reason.{name}")
    words = Catalogue(catalogue.schema, catalogue.date, rules, {**catalogue.reason, **file.reason})
    on = frozenset(name for name, change in file.rule.items() if change.level is not None) - off
    return Changed(words, frozenset(off), on, when)


def _added(name: str, given: dict[str, Any], where: str) -> Rule:
    lacks = [f for f in ("level", "standing", "healthy", "title", "why", "fix", "sources") if f not in given]
    if lacks:
        raise CatalogueError(f"{where}: rule.{name}: a new rule needs {', '.join(lacks)}")
    rule = Rule(**given)
    for part in ("title", "why"):
        extra = blanks(getattr(rule, part).en) - {"value", "on"}
        if extra:
            raise CatalogueError(
                f"{where}: rule.{name}.{part}: unknown blank {{{min(extra)}}} (value and on are there)"
            )
    return rule


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


# -- compiled ------------------------------------------------------------------------------------------------------


class _Compiled(msgspec.Struct, frozen=True):
    digest: str
    catalogue: Catalogue


def digest(data: bytes) -> str:
    """Of the TOML text and of the shape that this version compiles it to."""
    shape = repr([(c.__name__, c.__struct_fields__) for c in (Text, Step, Claim, Rule, Catalogue)])
    # Tells two states of our own file apart, which needs no cryptography: importing hashlib costs 3 ms.
    return f"{len(data):08x}{zlib.crc32(data):08x}{zlib.adler32(data):08x}{zlib.crc32(shape.encode()):08x}"


def compiled(data: bytes, where: str) -> bytes:
    """What `load` reads instead of the TOML."""
    return msgspec.json.encode(_Compiled(digest(data), parse(data, where)))


def cache_folder(env: Mapping[str, str]) -> str | None:
    """The user's cache directory of this program; None where there is no usable HOME."""
    base = env.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = env.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = home + "/.cache"
    return base + "/ds-doctor"


def load(folder: str, env: Mapping[str, str]) -> Catalogue:
    """The catalogue of the package in `folder`. CatalogueError when there is none or it is not right."""
    path = os.path.join(folder, "rules.toml")
    try:
        with open(path, "rb") as f:
            data = f.read(RULES_LIMIT + 1)
    except OSError as e:
        raise CatalogueError(f"{path}: {e.strerror}") from None
    if len(data) > RULES_LIMIT:
        raise CatalogueError(f"{path}: larger than {RULES_LIMIT >> 20} MiB")
    want = digest(data)
    cache = cache_folder(env)
    kept = os.path.join(cache, f"catalogue-{want[:32]}.json") if cache else None
    for candidate in (os.path.join(folder, "rules.json"), kept):
        catalogue = _from_compiled(candidate, want)
        if catalogue is not None:
            return catalogue
    catalogue = parse(data, path)
    if kept is not None and cache is not None:
        _keep(cache, kept, msgspec.json.encode(_Compiled(want, catalogue)))
    return catalogue


def _from_compiled(path: str | None, want: str) -> Catalogue | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as f:
            # Another user's file in a shared cache directory could put words into our mouth.
            if os.fstat(f.fileno()).st_uid not in (0, os.geteuid()):
                return None
            one = msgspec.json.decode(f.read(RULES_LIMIT), type=_Compiled)
    except (OSError, msgspec.MsgspecError):
        return None
    return one.catalogue if one.digest == want else None


def _keep(cache: str, path: str, data: bytes) -> None:
    """Best effort: a cache that cannot be written costs a few milliseconds and nothing else."""
    import tempfile

    try:
        os.makedirs(cache, mode=0o700, exist_ok=True)
        fd, name = tempfile.mkstemp(dir=cache, prefix=".new-")
        with os.fdopen(fd, "wb") as f:
            f.write(data)
        os.replace(name, path)
    except OSError:
        return
