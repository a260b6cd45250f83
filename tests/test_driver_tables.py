"""The vendor tables answer as NVIDIA's pages do, and every datum names its source."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.model import Undecided
from ds_doctor.probes.loader import Library, Loader
from ds_doctor.probes.nvml import Gpu
from ds_doctor.probes.pci import PciGpu
from ds_doctor_checks import _compat as compat
from ds_doctor_checks import _driver as of
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


@pytest.mark.parametrize(("cc", "dropped"), [("7.0", 13), ("7.5", None), ("9.0", None)])
def test_cuda_13_dropped_what_is_older_than_turing(cc: str, dropped: int | None) -> None:
    assert compat.dropped_by(cc) == dropped


@pytest.mark.parametrize(("cc", "oldest"), [("8.0", "11.0"), ("9.0", "11.8"), ("10.0", "12.8"), ("19.0", None)])
def test_the_oldest_cuda_of_a_capability_is_that_of_its_row(cc: str, oldest: str | None) -> None:
    row = compat.oldest_cuda(cc)
    assert (row[0] if row else None) == oldest


def test_the_first_branch_of_blackwell_is_not_too_old_for_it() -> None:
    blackwell = (PciGpu(bdf="0000:01:00.0", device="0x2901"),)
    assert of.oldest_branch() == 570
    assert of.too_old_for(blackwell, "570.26") == ()
    assert of.too_old_for(blackwell, "565.57.01") == blackwell
    assert of.too_old_for(blackwell, None) == ()


@pytest.mark.parametrize(
    ("names", "may"),
    [
        (["NVIDIA H200"], True),
        (["NVIDIA H200", "NVIDIA GeForce RTX 4090"], False),
        (["NVIDIA H200", "A card of tomorrow"], None),
        ([], None),
    ],
)
def test_forward_compatibility_is_for_data_center_gpus_only(names: list[str], may: bool | None) -> None:
    assert of.forward_compatible(tuple(Gpu(index=i, name=n) for i, n in enumerate(names))) is may


def test_a_compat_libcuda_of_the_drivers_own_version_is_not_newer() -> None:
    def loader(version: str) -> Loader:
        path = "/usr/local/cuda/compat/libcuda.so.1"
        return Loader(
            picked={"libcuda.so.1": Library(path=path, real=path, how="LD_LIBRARY_PATH", version=version)},
            cache_readable=True,
        )

    assert of.newer_compat("580.95.05", loader("580.95.05")) is None
    assert of.newer_compat("580.95.05", loader("590.10")) == "590.10"
    assert of.newer_compat("580.95.05", None) is None
