"""Whatever the seed documents describe is found by the words people use, and what they say stands beside it with its standing."""

from __future__ import annotations

import json
import re
from collections import Counter

import msgspec
import pytest

from ds_doctor.catalogue import Claim, parse
from support import FIXTURES
from test_claims import BAD_ADVICE, CITED, SEEDS
from test_signatures import CHECKS, entries, explained, whole


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One documented failure: how people ask for it, the texts the documents print, and how those are really spelt."""

    en: tuple[str, ...]
    zh: tuple[str, ...]
    symptoms: tuple[str, ...]
    variants: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        return (*self.en, *self.zh, *self.symptoms, *self.variants)


ASKED = msgspec.convert(json.loads((FIXTURES / "explain" / "documented.json").read_text("utf-8")), dict[str, Asked])


def covering(failure: str) -> set[str]:
    return {name for name, entry in entries().items() if failure in entry.covers}


def test_every_documented_failure_is_asked_for() -> None:
    assert set(ASKED) == set((FIXTURES / "documented-failures.txt").read_text("ascii").split())


@pytest.mark.parametrize("failure", ASKED)
def test_it_is_found_by_any_of_its_words(failure: str) -> None:
    known = covering(failure)
    assert known
    for text in ASKED[failure].texts():
        assert known & {m.name for m in explained(text)[:3]}, text


@pytest.mark.parametrize("failure", ASKED)
def test_what_the_documents_say_about_it_stands_there_with_its_standing(failure: str) -> None:
    assert any(entries()[name].claims for name in covering(failure))


def test_the_message_that_no_engine_prints_leads_with_what_it_is() -> None:
    for text in ("flash download failed", "Error: Flash Download failed - Target DLL has been cancelled"):
        assert explained(text)[0].name == "flash-download-failed"
    symptom = whole().symptom["flash-download-failed"]
    for words in (symptom.title.en, symptom.title.zh):
        assert "Keil" in words


def claims() -> list[tuple[str, Claim]]:
    return [(name, claim) for name, entry in entries().items() for claim in entry.claims]


def test_every_claim_cites_the_document_that_makes_it_and_whoever_refutes_it() -> None:
    for name, claim in claims():
        cited = [s for s in claim.sources if s.startswith("seed ")]
        assert cited, f"{name}: {claim.says.en}"
        for source in cited:
            match = CITED.match(source)
            assert match and match[1] in SEEDS, source
        if claim.standing != "documented":
            assert len(cited) < len(claim.sources), f"{name}: {claim.says.en}"
        if claim.standing == "disputed":
            assert sum(s.count("§") for s in cited) >= 2, f"{name}: {claim.says.en}"


def test_a_claim_stands_under_an_entry_once() -> None:
    for name, entry in entries().items():
        said = [c.says.en for c in entry.claims]
        assert len(said) == len(set(said)), name


def test_no_cause_advises_what_is_refuted() -> None:
    for name, cause in whole().cause.items():
        advice = [s.run for s in cause.fix if s.run] + [t for s in cause.fix if s.say for t in (s.say.en, s.say.zh)]
        for line in [*advice, cause.verify or ""]:
            for bad in BAD_ADVICE:
                assert not re.search(bad, line), f"{name}: {line}"


def test_what_is_covered_is_a_documented_failure() -> None:
    for name, entry in entries().items():
        assert set(entry.covers) <= set(ASKED), name
        assert len(entry.covers) == len(set(entry.covers)), name


TABLE = parse((CHECKS / "rules.toml").read_bytes(), "rules.toml").claim


def test_the_table_holds_all_that_the_documents_say() -> None:
    assert Counter(said.kind for said in TABLE.values()) == {"requirement": 171, "formula": 17, "contradiction": 63}


@pytest.mark.parametrize("name", TABLE)
def test_each_has_its_verdict_its_sources_and_a_place_where_it_is_dealt_with(name: str) -> None:
    said = TABLE[name]
    assert said.where
    cited = [s for s in said.sources if s.startswith("seed ")]
    assert cited
    for source in cited:
        match = CITED.match(source)
        assert match and match[1] in SEEDS, source
    if said.standing != "documented":
        assert len(cited) < len(said.sources)
