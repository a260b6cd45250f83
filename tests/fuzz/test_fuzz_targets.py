"""Every fuzz target holds over its checked-in corpus and over a bounded number of changes to it; the loop finds what it is meant to find."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fuzz_loop import Found, fuzz, mutate
from fuzz_targets import TARGETS, WORDS

CORPUS = Path(__file__).parent / "corpus"
RUNS = 400  # for each target: a second or so


def seeds(target: str) -> list[bytes]:
    return [p.read_bytes() for p in sorted((CORPUS / target).iterdir()) if p.name[0] != "."]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_over_its_corpus(target: str) -> None:
    every = seeds(target)
    assert every
    outcomes = {TARGETS[target](data) for data in every}
    assert len(outcomes) > 3, "the corpus reaches what the format has"


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_holds_over_changes_to_its_corpus(target: str) -> None:
    rnd = random.Random(target)
    kept = seeds(target)
    for _ in range(RUNS):
        data = mutate(rnd.choice(kept), kept, WORDS[target], rnd)
        try:
            TARGETS[target](data)
        except Exception as e:
            raise Found(data, type(e).__name__) from e


def picky(data: bytes) -> str:
    """Breaks on one input in four billion."""
    if data[:1] == b"B":
        if data[1:2] == b"U":
            if data[2:3] == b"G":
                if data[3:4] == b"!":
                    raise ValueError("a bug")
                return "close"
    return "far"


def test_the_loop_finds_its_way_to_a_bug_behind_several_conditions() -> None:
    with pytest.raises(Found) as caught:
        fuzz(picky, [b"A"], [], runs=200_000, package=__file__)
    assert caught.value.data.startswith(b"BUG!")


def test_the_loop_keeps_one_input_for_each_thing_that_is_new() -> None:
    kept = fuzz(lambda data: min(len(data), 3), [b"a", b"b", b"cc"], [], runs=200, package=__file__)
    assert kept[:3] == [b"a", b"cc", b""]
    assert sorted(min(len(data), 3) for data in kept) == [0, 1, 2, 3]


def test_the_same_seed_makes_the_same_run() -> None:
    runs = [
        fuzz(TARGETS["first_bytes"], seeds("first_bytes"), WORDS["first_bytes"], runs=300, seed=5) for _ in range(2)
    ]
    assert runs[0] == runs[1]
