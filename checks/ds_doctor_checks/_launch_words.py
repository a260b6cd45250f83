"""What the parser refuses of a command's words, each told as the mistake that it is; it judges no value between flags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ds_doctor.api import Finding, Findings, NotApplicable, found, undecided
from ds_doctor.probes.engine_flags import EngineFlags, Flag
from ds_doctor.probes.launch import Launch

from ._data import table
from ._flag_parser import names_of
from ._flag_table import bundled, choose
from ._launch_entry import NAMES
from ._options import Error, Given, Options, options

OTHER = {"vllm": "sglang", "sglang": "vllm"}
# What people write behind a switch. The parsers take none of them for a value.
TRUTHS = frozenset(("true", "false", "1", "0", "yes", "no", "on", "off"))
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_QUOTES = re.compile("[\u2018\u2019\u201c\u201d\u00ab\u00bb]")
# rapidfuzz.fuzz.ratio: --gpu-memory-utilisation 96, --pipline-parallel-size 98, --max-batch-size to --max-num-seqs 57.
_LIKE = 82
_MOST_CLOSE = 3


def close(word: str, names: Iterable[str], least: float = _LIKE) -> list[str]:
    """The known names that are most like a word, the nearest first."""
    from rapidfuzz import fuzz, process

    plain = {n: n.lstrip("-").replace("_", "-").lower() for n in names}
    near = process.extract(
        word.lstrip("-" + _DASHES).replace("_", "-").lower(), plain, scorer=fuzz.ratio, score_cutoff=least, limit=8
    )
    best = near[0][1] if near else 0
    return [n for _, score, n in near if score >= best - 4][:_MOST_CLOSE]


def refused(launch: Launch, installed: EngineFlags | None) -> Findings:
    """A finding for each word that ends the parser. Where the table is another version's, nothing is called a fault."""
    made = options(launch, installed)
    if not made.serves:
        raise NotApplicable("launch-no-server")
    told = _Told(launch, made, choose(launch, installed).flags)
    seen = set()
    read_otherwise: set[int | None] = set()  # the value of -host is left over because of -host
    for error in made.errors:
        rule, on, data = told.of(error)
        if error.kind == "extra" and error.at in read_otherwise:
            continue
        if error.kind == "bool-value" and rule == "launch-flag-misspelt" and error.at is not None:
            read_otherwise.add(error.at + 1)
        if not made.table.exact:
            if rule not in seen:
                yield undecided(rule, "launch-other-version", **told.other())
        elif rule == "launch-model-missing" and made.config is not None:
            yield undecided(rule, "launch-config-file", path=made.config)
        else:
            yield found(rule, on=on, **data)
        seen.add(rule)


class _Told:
    """One command's errors, made findings."""

    def __init__(self, launch: Launch, made: Options, flags: EngineFlags) -> None:
        self.launch = launch
        self.made = made
        self.engine = made.table.engine
        self.flags: dict[str, Flag] = {n: f for f in flags.flags if not f.positional for n in names_of(f)}
        self.words = table("launch_words")
        self.common = dict(
            engine=NAMES[self.engine],
            version=made.table.version or "?",
            table="installed" if made.table.installed else "bundled",
        )

    def other(self) -> dict[str, Any]:
        t = self.made.table
        return dict(engine=NAMES[self.engine], version=t.wanted or "?", known=t.version or "?")

    def of(self, error: Error) -> tuple[str, str, dict[str, Any]]:
        """(rule, what it is on, the blanks)."""
        data = {**self.common, "flag": error.name or error.word, "message": error.message.replace("\n", " / ")}
        on = error.word or error.name
        if error.kind in ("unknown", "extra"):
            rule, more = self._not_taken(error)
        elif error.kind == "bool-value":
            rule, more = self._switch(error)
        elif error.kind == "ambiguous":
            rule, more = self._ambiguous(error)
        elif error.kind == "choice":
            near = close(error.value, [str(c) for c in error.choices], 60)
            rule = "launch-value-no-choice"
            more = dict(value=error.value, choices=[str(c) for c in error.choices], close=near or "-")
        elif error.kind == "required":
            rule, more = "launch-model-missing", {}
        else:
            rule = {
                "no-value": "launch-value-missing",
                "type": "launch-value-refused",
                "keys": "launch-value-refused",
                "json": "launch-json-malformed",
                "model-first": "launch-model-not-first",
                "config-file": "launch-config-file-refused",
                "retired": "launch-flag-retired",
            }[error.kind]
            more = dict(value=error.value)
        return rule, on, {**data, **more}

    def _ambiguous(self, error: Error) -> tuple[str, dict[str, Any]]:
        gone = self._gone(error.word)
        if gone is not None:
            return "launch-flag-removed", gone
        return "launch-flag-ambiguous", dict(word=error.word, matches=list(error.matches))

    def _switch(self, error: Error) -> tuple[str, dict[str, Any]]:
        long = "-" + error.word
        if not error.word.startswith("--") and long in self.flags:  # -host is read as -h and "ost"
            return "launch-flag-misspelt", dict(flag=error.word, close=[long])
        return "launch-switch-with-value", dict(value=error.value, off=self._off(error.name))

    def _off(self, name: str) -> dict[str, str]:
        """How the switch is turned off, in words of both languages."""
        flag = self.flags.get(name)
        if flag is None or not flag.negative:
            return {"en": "leave it out", "zh": "不写即可"}
        off = next((n for n in flag.negative if n.startswith("--disable-")), flag.negative[0])
        return {"en": f"write {off} or leave it out", "zh": f"写 {off} 或不写"}

    def _gone(self, word: str) -> dict[str, Any] | None:
        name = "--" + word.lstrip("-").replace("_", "-")
        data = table("flags_" + self.engine)
        for entry in data["removed"]:
            if entry["flag"] == name and word.startswith("--"):
                samples = data["samples"]
                last = entry["last_seen"]
                after = samples[samples.index(last) + 1] if last in samples[:-1] else data["version"]
                instead = str(entry.get("replacement", "-"))
                return dict(flag=name, last_seen=last, gone=after, instead="-" if instead == "removed" else instead)
        return None

    def _not_taken(self, error: Error) -> tuple[str, dict[str, Any]]:
        word = error.word
        if word[:1] and word[0] in _DASHES:
            name = "--" + word.lstrip("-" + _DASHES).partition("=")[0]
            return "launch-dash-typographic", dict(word=word, close=close(name, self.flags) or [name])
        if error.kind == "extra":
            return self._left_over(error)
        if self._behind_image() and (word in self.words["docker"]["options"] or re.match(r"-e\w+$", word)):
            return "launch-docker-option-behind-image", dict(word=" ".join(error.words), image=self._image())
        turned = self._other_spelling(word)
        if turned:
            return "launch-flag-misspelt", dict(flag=word, close=turned)
        gone = self._gone(word)
        if gone is not None:
            return "launch-flag-removed", gone
        theirs = self._theirs(word)
        if theirs is not None:
            return "launch-flag-other-engine", dict(flag=word, other=NAMES[OTHER[self.engine]], instead=theirs or "-")
        near = close(word, self.flags)
        if near:
            return "launch-flag-misspelt", dict(flag=word, close=near)
        return "launch-flag-unknown", dict(flag=word)

    def _other_spelling(self, word: str) -> list[str]:
        """A known flag whose dashes, underscores or blank were written otherwise: --tp_size, -host, -tp2, --kv-cache-Dtype."""
        name = "--" + word.lstrip("-").replace("_", "-")
        for candidate in (name, name.lower()):
            if candidate in self.flags and candidate != word:
                return [candidate]
        for short in sorted((n for n in self.flags if not n.startswith("--")), key=len, reverse=True):
            rest = word[len(short) :]
            if word.startswith(short) and re.fullmatch(r"=?[0-9]+", rest) and len(short) > 2:
                return [f"{short} {rest.lstrip('=')}"]
        return []

    def _theirs(self, word: str) -> str | None:
        """What this engine has for a flag of the other one; "" for nothing, None when the other has no such flag."""
        meant = self.words["meant"][self.engine].get(word)
        if meant is not None:
            return str(meant)
        other = OTHER[self.engine]
        names = [n for f in bundled(other).flags if not f.positional for n in names_of(f)]
        name = word if other == "sglang" else "--" + word[2:].replace("_", "-") if word.startswith("--") else word
        for pair in self.words["pairs"]:
            if pair[other] == name:
                return str(pair[self.engine])
        if name in names:
            return ""
        return None

    def _left_over(self, error: Error) -> tuple[str, dict[str, Any]]:
        word, at = error.word, error.at
        before = self.launch.arguments[at - 1] if at else ""
        arguments = self.launch.arguments
        if self._behind_image():
            entry = self._image_entry()
            if entry and (at == 1 or arguments[:1] in (("vllm",), ("serve",), ("python",), ("python3",))):
                model = error.words[-1] if error.words[-1] not in ("serve", "vllm") else "MODEL"
                return "launch-image-starts-the-server", dict(
                    image=self._image(), words=[*arguments[:1], *error.words], model=model
                )
            if before in ("-e", "--env") and "=" in word:
                return "launch-docker-option-behind-image", dict(word=f"{before} {word}", image=self._image())
        name, equals, value = word.partition("=")
        if equals and "--" + name.replace("_", "-") in self.flags:
            return "launch-flag-misspelt", dict(flag=word, close=[f"--{name.replace('_', '-')}={value}"])
        given = self._switch_before(at)
        if given is not None:
            return "launch-switch-with-value", dict(flag=given.word, value=word, off=self._off(given.name))
        return "launch-word-left-over", dict(words=list(error.words))

    def _switch_before(self, at: int | None) -> Given | None:
        """The switch right in front of a word."""
        if at is None:
            return None
        given = next((g for g in self.made.given if g.at == at - 1 and not g.words), None)
        flag = self.flags.get(given.name) if given else None
        return given if flag is not None and flag.kind in ("switch", "pair") else None

    def _behind_image(self) -> bool:
        return self.launch.container is not None and self.launch.container.image is not None

    def _image(self) -> str:
        return (self.launch.container.image if self.launch.container else None) or "?"

    def _image_entry(self) -> bool:
        """Whether the image itself starts the server: then the words behind it are its arguments."""
        return "vllm-openai" in self._image() and not (self.launch.container and self.launch.container.entrypoint)


def surprising(launch: Launch, installed: EngineFlags | None) -> Findings:
    """What the parser takes, but hardly as it was meant."""
    made = options(launch, installed)
    if not made.serves:
        raise NotApplicable("launch-no-server")
    told = _Told(launch, made, choose(launch, installed).flags)
    yield from _table(told)
    if not made.table.exact:
        rules = {f.rule for f in _surprises(told)}
        for rule in sorted(rules):
            yield undecided(rule, "launch-other-version", **told.other())
        return
    for finding in _surprises(told):
        if finding.rule == "launch-default-model" and made.config is not None:
            yield undecided(finding.rule, "launch-config-file", path=made.config)
        else:
            yield finding


def _table(told: _Told) -> Findings:
    t = told.made.table
    if not t.exact:
        yield found("launch-flags-of-other-version", engine=NAMES[t.engine], wanted=t.wanted or "?", version=t.version)
    elif t.wanted is None:
        yield undecided(
            "launch-flags-of-other-version", "launch-version-unseen", engine=NAMES[t.engine], version=t.version
        )


def _surprises(told: _Told) -> Iterator[Finding]:
    made, common = told.made, told.common
    usual = told.words["usual"][told.engine]
    for g in made.given:
        flag = told.flags.get(g.name)
        if g.abbreviated:
            rule = "launch-flag-usual-abbreviation" if g.word in usual else "launch-flag-abbreviated"
            yield found(rule, on=g.word, word=g.word, flag=g.name, **common)
        if flag is not None and flag.deprecated:
            yield found("launch-flag-deprecated", on=g.word, flag=g.name, **common)
        if flag is not None and flag.type.startswith("human-int"):
            word = g.words[0].strip() if g.words else ""
            m = re.fullmatch(r"(\d+)([kmgt])" if told.engine == "vllm" else r"(\d+)([kMGT])", word)
            if m:
                power = "kmgt".index(m[2].lower()) + 1
                yield found(
                    "launch-integer-decimal",
                    on=g.word,
                    flag=g.name,
                    word=word,
                    value=int(m[1]) * 1000**power,
                    binary_word=m[1] + (m[2].upper() if told.engine == "vllm" else m[2].upper() + "i"),
                    binary=int(m[1]) * 1024**power,
                    **common,
                )
    yield from _repeated(told)
    yield from _swallowed(told)
    for word in told.launch.arguments:
        if _QUOTES.search(word):
            yield found("launch-quotes-curly", on=word[:60], word=word, **common)


def _repeated(told: _Told) -> Iterator[Finding]:
    by: dict[str, list[Given]] = {}
    for g in told.made.given:
        flag = told.flags.get(g.name)
        if not g.dotted and not (flag is not None and flag.repeats):
            by.setdefault(g.dest, []).append(g)
    for uses in by.values():
        if len({repr(g.value) for g in uses}) > 1:
            shown = [" ".join((g.word, *g.words)) for g in uses]
            yield found(
                "launch-flag-repeated", on=uses[-1].name, flag=uses[-1].name, uses=shown, last=shown[-1], **told.common
            )


def _swallowed(told: _Told) -> Iterator[Finding]:
    """A positional that the module ignores, a model that a flag of many values took: the default model is served."""
    made = told.made
    module = told.engine == "vllm" and not (told.launch.entry or "").endswith(" serve")
    positional = made.values.get("model_tag") if module else None
    if positional is not None:
        at = next((i for i, w in enumerate(told.launch.arguments) if w == positional), None)
        given = told._switch_before(at)
        if given is not None and positional.lower() in TRUTHS:
            yield found(
                "launch-value-swallowed",
                on=given.word,
                flag=given.word,
                value=positional,
                off=told._off(given.name),
                **told.common,
            )
    if told.engine != "vllm" or made.help or any(e.kind in ("model-first", "required") for e in made.errors):
        return
    default = next((f.default for f in bundled("vllm").flags if f.dest == "model"), None)
    if made.model == default and made.of("model") is None and made.values.get("model_tag") in (None, positional):
        took = next((g for g in reversed(made.given) if len(g.words) > 1), None)
        word = positional or (took.words[-1] if took else None)
        yield found(
            "launch-default-model",
            model=default,
            word=word or "-",
            taken=took.word if took and not positional else told.launch.entry,
            **told.common,
        )
