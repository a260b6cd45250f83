"""Every signature of the catalogue is seen on a line that it must know and on one that only looks alike."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ds_doctor import pattern
from ds_doctor.catalogue import Catalogue
from ds_doctor.compiled import load_whole
from ds_doctor.explain import known, reading
from ds_doctor.explain.index import Entry_, Index, every
from ds_doctor.explain.rank import Match
from ds_doctor.explain.scan import WINDOW
from support import FIXTURES, tomllib

CHECKS = Path(__file__).parent.parent / "checks" / "ds_doctor_checks"


class Lines(msgspec.Struct, forbid_unknown_fields=True):
    """fixtures/signatures/<section>.toml: more lines that show the entry, and lines that only look like it."""

    lines: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@functools.cache
def all_known() -> known.Known:
    return known.load([str(CHECKS)], {})[0]


@functools.cache
def whole() -> Catalogue:
    return load_whole(str(CHECKS))


@functools.cache
def index() -> Index:
    return all_known().index


@functools.cache
def fixtures() -> dict[str, Lines]:
    found: dict[str, Lines] = {}
    for path in sorted((FIXTURES / "signatures").glob("*.toml")):
        for name, lines in tomllib.loads(path.read_text("utf-8")).items():
            assert name not in found, f"{name} stands in two files"
            found[name] = msgspec.convert(lines, Lines)
    return found


@functools.cache
def entries() -> dict[str, Entry_]:
    return {name: entry for name, _, entry in every(whole())}


WITH_SIGNS = sorted(name for name, entry in entries().items() if entry.match)


def lines_of(name: str) -> tuple[str, ...]:
    return (*entries()[name].seen, *fixtures().get(name, Lines()).lines)


def explained(text: str, fast: bool | None = None) -> list[Match]:
    one = reading(index(), fast)
    for _ in one.read(0, [text.encode()]):
        pass
    return one.answer()


def by_signature(text: str, fast: bool | None = None) -> list[str]:
    return [m.name for m in explained(text, fast) if m.literal]


def test_every_fixture_is_of_an_entry() -> None:
    assert set(fixtures()) <= set(entries())


@pytest.mark.parametrize("name", WITH_SIGNS)
def test_its_own_lines_are_known(name: str) -> None:
    assert entries()[name].seen, "an entry with patterns shows a real text in `seen`"
    for text in lines_of(name):
        assert by_signature(text)[:1] == [name], text


@pytest.mark.parametrize("name", WITH_SIGNS)
def test_every_pattern_is_seen(name: str) -> None:
    for text in entries()[name].match:
        matcher = pattern.Matcher(text)
        assert any(matcher.find(line) for lines in lines_of(name) for line in lines.splitlines()), text


@pytest.mark.parametrize("name", WITH_SIGNS)
def test_what_only_looks_alike_is_told_apart(name: str) -> None:
    near = fixtures().get(name, Lines()).near
    assert near, "a line that looks alike stands in fixtures/signatures"
    for text in near:
        assert name not in by_signature(text), text


@pytest.mark.parametrize("name", sorted(n for n, e in entries().items() if e.match or e.phrases.en or e.phrases.zh))
def test_people_find_it_in_both_languages(name: str) -> None:
    phrases = entries()[name].phrases
    assert phrases.en and phrases.zh
    for text in (*phrases.en, *phrases.zh):
        assert name in [m.name for m in explained(text)][:3], text


def adversaries(text: str) -> Iterator[str]:
    """Lines that would hurt a backtracking matcher: much of what the pattern wants, and never the end.

    As long as what a pattern is ever tried on: a window to both sides of its literal.
    """
    parts = pattern.parts(text)
    bare = [pattern.literals(p)[0] for p in parts]
    yield ("".join(bare[:-1]) + (bare[0] or "x") * WINDOW)[: 2 * WINDOW]
    yield ((bare[0] + " ") * WINDOW)[: 2 * WINDOW - 2000] + "a" * 2000
    yield (" ".join(b * 30 for b in bare[:-1]) + "0" * 2 * WINDOW)[: 2 * WINDOW]


def test_no_line_makes_a_pattern_slow() -> None:
    slow = []
    for text in index().patterns:
        matcher = pattern.Matcher(text)
        for line in adversaries(text):
            start = time.process_time()
            matcher.find(line)
            if time.process_time() - start > 0.1:  # a linear one takes a hundredth of it
                slow.append(text)
    assert not slow


def test_both_scanners_give_the_same_answers() -> None:
    pytest.importorskip("hyperscan")
    text = "\n".join(line for name in WITH_SIGNS for line in (*lines_of(name), *fixtures().get(name, Lines()).near))
    plain, fast = reading(index(), False), reading(index(), True)
    for one in (plain, fast):
        for _ in one.read(0, [text.encode()]):
            pass
    assert plain.scan.hits == fast.scan.hits
