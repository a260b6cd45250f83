"""The vendor tables answer as NVIDIA's pages do, and every datum names its source."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.model import Undecided
from ds_doctor_checks import _compat as compat
from ds_doctor_checks import _gpus as gpus
from ds_doctor_checks._data import table


@pytest.mark.parametrize(("cuda", "driver"), [("11.8", "450.80.02"), ("12.4", "525.60.13"), ("13.2", "580.65.06")])
def test_the_oldest_driver_is_that_of_the_cuda_major(cuda: str, driver: str) -> None:
    assert compat.oldest_driver(cuda) == driver


def test_an_unknown_cuda_is_not_guessed() -> None:
    with pytest.raises(Undecided):
        compat.oldest_driver("14.0")
    assert compat.full_driver("13.4") is None  # no page names its build
    assert compat.cuda_of_driver("615.10.01") is None


@pytest.mark.parametrize(
    ("tag", "cuda"),
    [("cu130", "13.0"), ("+cu126", "12.6"), ("0.33.0+cu129.post1", "12.9"), ("cpu", None), ("cu1", None)],
)
def test_a_wheels_tag_tells_its_cuda(tag: str, cuda: str | None) -> None:
    assert compat.cuda_of_tag(tag) == cuda


@pytest.mark.parametrize(("driver", "ended"), [("535.230.02", "2026-06"), ("570.195.03", "2026-02"), ("580.1.2", None)])
def test_an_ended_branch_is_told_with_its_month(driver: str, ended: str | None) -> None:
    assert compat.branch_ended(driver) == ended


@given(st.text())
def test_a_version_is_numbers_or_undecided(text: str) -> None:
    try:
        assert all(isinstance(n, int) for n in compat.number(text))
    except Undecided:
        pass


@pytest.mark.parametrize(
    ("name", "id_", "line"),
    [
        ("NVIDIA H200", "H200", "data-center"),
        ("NVIDIA H200 NVL", "H200-NVL", "data-center"),
        ("NVIDIA H20-3e", "H20-3e", "data-center"),
        ("NVIDIA GH200 480GB", "GH200", "data-center"),
        ("NVIDIA A100-SXM4-80GB", "A100-80", "data-center"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090", "geforce"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Blackwell", None),
        ("Tesla T4", "T4", "data-center"),
        ("NVIDIA GB200", "GB200", "data-center"),
    ],
)
def test_a_gpu_is_known_by_its_name(name: str, id_: str, line: str | None) -> None:
    entry = gpus.known(name)
    assert entry is not None and entry["id"] == id_
    assert gpus.line_of(name) == line


@pytest.mark.parametrize(
    ("device", "architecture"),
    [
        ("0x2335", "Hopper"),
        ("0x2901", "Blackwell"),
        ("0x2684", "Ada"),
        ("0x1eb8", "Turing"),
        ("0x1db1", None),
        ("", None),
    ],
)
def test_a_pci_id_tells_the_architecture(device: str, architecture: str | None) -> None:
    assert gpus.architecture_of_pci(device) == architecture


def _rows(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return ([value] if "source" in value else []) + [r for v in value.values() for r in _rows(v)]
    return [r for v in value for r in _rows(v)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", ["cuda_driver", "gpus"])
def test_every_datum_names_a_source_of_its_table(name: str) -> None:
    data = table(name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", data["date"])
    rows = _rows(data)
    assert len(rows) > 20
    assert {r["source"] for r in rows} <= set(data["sources"])


def test_every_pattern_of_the_gpu_table_fits_the_names_seen() -> None:
    for row in table("gpus")["gpu"]:
        re.compile(row["pattern"])
        for name in row.get("names", ()):
            entry = gpus.known(name)
            assert entry is not None and entry["id"] == row["id"], name
