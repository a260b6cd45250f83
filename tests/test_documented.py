"""Whatever the seed documents describe is found by the words people use, and what they say stands beside it with its standing."""

from __future__ import annotations

import json

import msgspec
import pytest

from support import FIXTURES
from test_signatures import all_known, entries, explained


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
    symptom = all_known().catalogue.symptom["flash-download-failed"]
    for words in (symptom.title.en, symptom.title.zh):
        assert "Keil" in words
