"""Which GPUs a compiled target runs on, and what the architecture lists of torch, FlashInfer and CMake come to."""

from __future__ import annotations

import pytest

from ds_doctor_checks._arch import Arch, flashinfer_list


@pytest.mark.parametrize(
    ("target", "cc", "runs"),
    [
        (Arch(False, 8, 0), (8, 0), True),
        (Arch(False, 8, 0), (8, 6), True),  # machine code runs on later minors of its major
        (Arch(False, 8, 6), (8, 0), False),
        (Arch(False, 8, 0), (9, 0), False),
        (Arch(True, 9, 0), (9, 0), True),  # PTX: on this capability and all later ones
        (Arch(True, 9, 0), (12, 0), True),
        (Arch(True, 9, 0), (8, 9), False),
        (Arch(False, 9, 0, "a"), (9, 0), True),
        (Arch(True, 10, 0, "a"), (10, 3), False),  # of this architecture alone, also as PTX
        (Arch(False, 10, 0, "f"), (10, 3), True),
        (Arch(True, 10, 0, "f"), (12, 0), False),
        (Arch(False, 8, 6), (8, 7), False),  # a Jetson Orin takes machine code of its own only
        (Arch(False, 8, 7), (8, 9), False),
        (Arch(False, 8, 7), (8, 7), True),
    ],
)
def test_a_target_runs_on_the_gpus_that_the_programming_guide_says(
    target: Arch, cc: tuple[int, int], runs: bool
) -> None:
    assert target.runs_on(cc) is runs


@pytest.mark.parametrize(
    ("value", "suffixes"),
    [("8.9", [""]), ("9.0", ["a"]), ("10.0", ["a"]), ("12.0", ["f"]), ("12.1", ["a"]), ("9.0a 12.0f", ["a", "f"])],
)
def test_flashinfer_adds_the_letter_itself(value: str, suffixes: list[str]) -> None:
    targets, bad = flashinfer_list(value)
    assert ([t.suffix for t in targets], bad) == (suffixes, [])
