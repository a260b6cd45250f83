"""The markers of Requires-Dist lines are answered as pip answers them, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker

from ds_doctor_checks._pins import holds

HERE = {
    "platform_system": "Linux",
    "sys_platform": "linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "python_version": "3.12",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
TERMS = [
    'platform_system == "Linux"',
    'platform_machine == "x86_64"',
    'platform_machine != "aarch64"',
    'platform_machine == "aarch64"',
    'python_version < "3.13"',
    'python_version >= "3.9"',
    'python_version == "3.12"',
    'sys_platform != "linux"',
    'implementation_name == "cpython"',
    "os_name == 'nt'",
]


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    word = st.sampled_from([" and ", " or "])
    return st.tuples(parts, word, parts).map("".join) | parts.map(lambda p: f"({p})")


@given(st.recursive(st.sampled_from(TERMS), joined, max_leaves=8))
def test_every_marker_of_known_words_has_the_value_that_packaging_gives_it(marker: str) -> None:
    assert holds(marker, "3.12.3", "x86_64") is Marker(marker).evaluate(HERE)


@pytest.mark.parametrize(
    "marker",
    ['platform_release > "5"', 'platform_release > "5" and sys_platform == "linux"', "garbage", "(", ")", "()"],
)
def test_a_marker_that_cannot_be_answered_does_not_hold(marker: str) -> None:
    assert not holds(marker, "3.12", "x86_64")


def test_a_part_that_cannot_be_answered_does_not_matter_where_the_rest_decides() -> None:
    assert holds('platform_release > "5" or sys_platform == "linux"', "3.12", "x86_64")


def test_without_the_machine_a_marker_on_it_does_not_hold() -> None:
    assert not holds('platform_machine == "x86_64"', "3.12", "")
    assert not holds('platform_machine != "x86_64"', "3.12", "")


@given(st.text(max_size=80))
def test_any_text_has_a_value(marker: str) -> None:
    holds(marker, "3.12", "x86_64")
