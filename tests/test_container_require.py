"""NVIDIA_REQUIRE_* is read as nvidia-container-cli reads it, and registry mirrors as dockerd does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ds_doctor_checks import _container, _require
from ds_doctor_checks._require import Values, holds

HERE = Values("12.4", "550.163.01", "9.0", frozenset({"nvidia"}))
NO_BRAND = HERE._replace(brands=None)


# The answers of the original code (libnvidia-container src/cli/dsl.c), compiled and asked.
@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("cuda>=12.4", True),
        ("cuda>=12.4.0", True),
        ("cuda>=12", True),
        ("cuda>=12.5", False),
        ("cuda=12.40", False),
        ("CUDA>=12", True),
        ("cuda!=12.4", False),
        ("cuda!13", True),
        ("driver>=550,driver<551", True),
        ("driver>=550,driver<550.100", False),
        ("cuda>=13.0 brand=tesla,driver>=550,driver<551", False),
        ("cuda>=13.0 brand=NVIDIA,driver>=550,driver<551", True),
        ("brand!=geforce", True),
        ("arch>=8.0 cuda>=99", True),
        ("  cuda>=12.4  ", True),
        (",cuda>=12.4,", True),
        ("", True),
        ("cuda>=12.4 nonsense", True),
        ("cuda>=13,nonsense", False),
    ],
)
def test_an_expression_holds_as_the_original_says(expression: str, answer: bool) -> None:
    assert holds(expression, HERE) is answer


@pytest.mark.parametrize(
    "expression", ["cuda", "cuda>=", ">=12", "cuda>=12.a", "cuda==12", "brand<tesla", "gpu>=1", "cuda=>1"]
)
def test_an_expression_that_the_original_refuses_is_refused(expression: str) -> None:
    with pytest.raises(ValueError):
        holds(expression, HERE)


def test_an_unknown_brand_leaves_open_only_what_depends_on_it() -> None:
    assert holds("cuda>=13 brand=tesla,driver>=550,driver<551", NO_BRAND) is None
    assert holds("cuda>=13 brand=tesla,driver>=535,driver<536", NO_BRAND) is False
    assert holds("cuda>=12 brand=tesla,driver>=535,driver<536", NO_BRAND) is True
    assert holds("brand=tesla cuda>=13", NO_BRAND) is None


def test_a_geforce_card_is_of_no_other_brand() -> None:
    brands = _require.brands_of(("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"))
    assert holds("brand=tesla", HERE._replace(brands=brands)) is False
    assert holds("brand=geforce", HERE._replace(brands=brands)) is None
    assert _require.brands_of(("NVIDIA H200",)) is None


def test_requirements_are_off_only_by_a_true_value() -> None:
    variables = {"NVIDIA_REQUIRE_CUDA": "cuda>=13", "NVIDIA_REQUIRE_EMPTY": " ", "PATH": "/bin"}
    assert _require.required(variables) == {"NVIDIA_REQUIRE_CUDA": "cuda>=13"}
    assert _require.required({**variables, "NVIDIA_DISABLE_REQUIRE": "true"}) == {}
    assert _require.required({**variables, "NVIDIA_DISABLE_REQUIRE": "0"}) != {}


@given(some.text(max_size=60))
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    for values in (HERE, NO_BRAND, Values(None, None, None, None)):
        try:
            holds(text, values)
        except ValueError:
            pass
    _require.wanted_cuda(text)
    _container.mirror_fault(text)


# From dockerd's own test (daemon/pkg/registry), the paths aside, which only older releases refuse.
@pytest.mark.parametrize(
    "url",
    [
        "http://mirror-1.example.com",
        "https://mirror-1.example.com/",
        "http://localhost:5000",
        "https://[::1]:5000",
        "https://m.example.com/v1/",
    ],
)
def test_a_mirror_that_dockerd_takes_is_no_fault(url: str) -> None:
    assert _container.mirror_fault(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "!invalid!://%as%",
        "mirror-1.example.com",
        "mirror-1.example.com:5000",
        "ftp://mirror-1.example.com",
        "http://mirror-1.example.com/?q=foo",
        "https://mirror-1.example.com#frag",
        "http://<hidden>@mirror-1.example.com/",
        "",
    ],
)
def test_a_mirror_that_dockerd_refuses_is_a_fault(url: str) -> None:
    assert _container.mirror_fault(url) is not None


def test_brands_that_all_lead_to_one_answer_leave_nothing_open() -> None:
    card = HERE._replace(brands=frozenset({"geforce", "geforcertx"}))
    both = "cuda>=13 brand=geforce,driver>=550,driver<551 brand=geforcertx,driver>=550,driver<551"
    assert holds(both, card) is None
    assert _require.settled(both, card) is True
    assert _require.settled("cuda>=13 brand=geforce,driver>=550,driver<551", card) is None
    assert _require.settled("cuda>=13 brand=tesla,driver>=550", card) is False
    assert _require.settled("cuda>=13 brand=tesla,driver>=550", NO_BRAND) is None
