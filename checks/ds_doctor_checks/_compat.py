"""Which driver runs which CUDA, and which CUDA knows which GPU: look-ups in data/cuda_driver.toml; it judges nothing.

Versions are texts such as "580.95.05", "13.0", "9.0"; `number` makes them comparable.
"""

from __future__ import annotations

import re

from ds_doctor.api import Undecided

from ._data import table

Number = tuple[int, ...]


def number(version: str) -> Number:
    """`580.95.05` -> (580, 95, 5). Undecided when it is no version."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){0,3}", version):
        raise Undecided("no-version", text=version)
    return tuple(int(part) for part in version.split("."))


def cuda_of_tag(tag: str) -> str | None:
    """`cu130` or `cu126` of a wheel's local version -> `13.0`, `12.6`. None when it is no such tag."""
    m = re.search(r"(?:\A|[.+_-])cu(\d{2})(\d)(?:\Z|[.+_-])", tag)
    return f"{m[1]}.{m[2]}" if m else None


def branch(driver: str) -> int:
    """`580.95.05` -> 580."""
    return number(driver)[0]


def oldest_driver(cuda: str) -> str:
    """The oldest driver on which a program built with this CUDA runs at all (minor-version compatibility).

    Undecided for a CUDA major that the table does not know.
    """
    for row in table("cuda_driver")["runs"]:
        if row["cuda_major"] == number(cuda)[0]:
            driver: str = row["driver"]
            return driver
    raise Undecided("cuda-unknown", cuda=cuda)


def full_driver(cuda: str) -> str | None:
    """The driver that came with this CUDA: below it, PTX of this CUDA does not compile. None where no source names it."""
    for row in table("cuda_driver")["toolkit"]:
        if number(row["cuda"]) == number(cuda)[:2] and row["verified"]:
            driver: str = row["driver"]
            return driver
    return None


def cuda_of_driver(driver: str) -> str | None:
    """The newest CUDA that this driver knows. None for a branch that the table does not know for sure."""
    for row in table("cuda_driver")["branch"]:
        if row["branch"] == branch(driver) and row["verified"]:
            cuda: str = row["cuda"]
            return cuda
    return None


def newest_branch() -> int:
    """The newest driver branch that the table knows: about newer ones nothing can be said."""
    branches: list[int] = [row["branch"] for row in table("cuda_driver")["branch"]]
    return max(branches)


def branch_ended(driver: str) -> str | None:
    """The month in which NVIDIA ended this driver's branch; None where it is maintained or no page says."""
    for row in table("cuda_driver")["branch"]:
        if row["branch"] == branch(driver) and row.get("maintained") is False:
            until: str = row["until"]
            return until
    return None


def maintained_branches() -> list[int]:
    """The driver branches that NVIDIA maintains."""
    return [row["branch"] for row in table("cuda_driver")["branch"] if row.get("maintained")]


def oldest_cuda(cc: str) -> tuple[str, bool] | None:
    """(the oldest CUDA that knows the compute capability, whether a source was read for it). None: no entry."""
    for row in table("cuda_driver")["architecture"]:
        if row["cc"] == cc:
            return row["cuda"], row["verified"]
    return None


def dropped_by(cc: str) -> int | None:
    """The first CUDA major that cannot build for this compute capability any more; None while all can."""
    for row in table("cuda_driver")["dropped"]:
        if number(cc) < number(row["below_cc"]):
            major: int = row["cuda_major"]
            return major
    return None
