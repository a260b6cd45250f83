"""Which rules a pattern of --only, --skip and --require names."""

from __future__ import annotations

import pytest

from ds_doctor import engine
from ds_doctor.catalogue import Catalogue
from ds_doctor.registry import Check


def _check(name: str, family: str, *rules: str) -> Check:
    return Check(name, family, "test", rules, (), lambda: ())


DOCTOR = engine.Doctor(
    (_check("gpus_are_there", "launch", "launch-too-few-gpus", "launch-gpu-lost"), _check("driver", "driver", "driver-missing")),
    Catalogue(schema=1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("launch", {"launch-too-few-gpus", "launch-gpu-lost"}),
        ("launch.*", {"launch-too-few-gpus", "launch-gpu-lost"}),
        ("launch.launch-too-*", {"launch-too-few-gpus"}),
        ("launch.gpus_are_there", {"launch-too-few-gpus", "launch-gpu-lost"}),
        ("launch-gpu-lost", {"launch-gpu-lost"}),
        ("*.driver*", {"driver-missing"}),
    ],
)
def test_a_pattern_names_rules_checks_and_families_also_together(pattern: str, names: set[str]) -> None:
    assert engine.chosen(DOCTOR, engine.Choice(only=(pattern,)))[1] == names


@pytest.mark.parametrize("pattern", ["launch.driver-missing", "launchx.*", "driver.gpus*"])
def test_a_rule_of_another_family_is_not_named(pattern: str) -> None:
    with pytest.raises(engine.PatternError):
        engine.chosen(DOCTOR, engine.Choice(only=(pattern,)))
