"""A site changes rules and adds its own with --rules; what cannot work is told in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support import FIXTURES

WORDS = """
level = "fail"
standing = "reported"
healthy = { en = "ok", zh = "正常" }
title = { en = "{value} is wrong", zh = "{value} 不对" }
why = { en = "Because.", zh = "因为。" }
fix = [{ say = { en = "Mend it.", zh = "修好它。" } }]
sources = ["https://wiki.example/gpu"]
"""


def run(tmp_path: Path, when: str, words: str = WORDS, name: str = "site-rule") -> subprocess.CompletedProcess[str]:
    file = tmp_path / "site.toml"
    file.write_text(f"schema = 1\n[rule.{name}]\n{words}\n{when}\n")
    replay = FIXTURES / "hosts" / "h200-x2" / "snapshot.json"
    argv = ["run", "--replay", str(replay), "--rules", str(file), "--only", "site", "--format", "json"]
    return subprocess.run([sys.executable, "-m", "ds_doctor", *argv], capture_output=True, text=True, timeout=60)


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (one,) = json.loads(done.stdout)["results"]
    return dict(one)


@pytest.mark.parametrize(
    ("when", "status", "titles"),
    [
        (
            'when = [{ fact = "modules", field = "loaded.*", op = "==", value = "nvidia_uvm" }]',
            "fail",
            ["nvidia_uvm is wrong"],
        ),
        ('when = [{ fact = "modules", field = "loaded.*", op = "==", value = "nvidia_peermem" }]', "pass", []),
        (
            'when = [{ fact = "modules", field = "loaded.*", op = "in", value = ["nvidia", "nouveau"] }]',
            "fail",
            ["nvidia is wrong"],
        ),
        (
            'when = [{ fact = "modules", field = "loaded.*", op = "matches", value = "^nvidia_" }]',
            "fail",
            ["nvidia_uvm is wrong"],
        ),
        ('when = [{ fact = "modules", field = "loaded.*", op = "<", value = "3" }]', "unknown", []),
    ],
)
def test_a_site_adds_a_rule(tmp_path: Path, when: str, status: str, titles: list[str]) -> None:
    got = result(run(tmp_path, when))
    assert (got["status"], [f["title"] for f in got["findings"]]) == (status, titles)
    assert got["family"] == "site"


def test_dotted_numbers_compare_as_numbers() -> None:
    from ds_doctor.site import Condition, _holds

    assert _holds(Condition("nvml", "driver", "<", "580.159.4"), "580.95.5")
    assert not _holds(Condition("nvml", "driver", "<", "580.95"), "580.159.04")


@pytest.mark.parametrize(
    ("when", "words", "says"),
    [
        ("", WORDS, "a new one needs `when`"),
        ("when = []", WORDS, "a new one needs `when`"),
        ('when = [{ fact = "nope", field = "x", op = "==", value = 1 }]', WORDS, "there is no fact 'nope'"),
        (
            'when = [{ fact = "modules", field = "x.y", op = "==", value = 1 }]',
            WORDS,
            "has no field 'x'; it has loaded",
        ),
        ('when = [{ fact = "modules", field = "loaded", op = "~", value = 1 }]', WORDS, "Invalid enum value '~'"),
        (
            'when = [{ fact = "modules", field = "loaded.*", op = "matches", value = "(" }]',
            WORDS,
            "no regular expression",
        ),
        ('when = [{ fact = "modules", field = "loaded", op = "in", value = 1 }]', WORDS, "takes a list"),
        ('when = [{ fact = "modules", field = "loaded", op = "==", value = "x" }]', WORDS, "add .* for any of"),
        ('when = [{ fact = "modules", field = "loaded.x", op = "==", value = "x" }]', WORDS, "'x' must be *"),
        ('when = [{ fact = "modules", field = "loaded.*", op = "==", value = 1 }]', WORDS, "is a text, and 1 is none"),
        ('when = [{ fact = "modules", field = "loaded.*", op = "<", value = [1] }]', WORDS, "is a text, and [1]"),
        ('when = [{ fact = "nvml", field = "gpus.*.nam", op = "==", value = "x" }]', WORDS, "no field 'nam'; it has"),
        ('when = [{ fact = "nvml", field = "driver.x", op = "==", value = "x" }]', WORDS, "holds nothing named 'x'"),
        ('when = [{ fact = "nvml", field = "gpus.*.index", op = "in", value = ["0"] }]', WORDS, "is a number, and '0'"),
        (
            'when = [{ fact = "modules", field = "loaded", op = "==", value = 1 }]',
            "level = 'fail'",
            "a new rule needs standing",
        ),
        (
            'when = [{ fact = "modules", field = "loaded", op = "==", value = 1 }]',
            WORDS.replace("Because.", "Because {x}.").replace("因为。", "因为 {x}。"),
            "unknown blank {x}",
        ),
    ],
)
def test_a_condition_that_cannot_work_is_one_line(tmp_path: Path, when: str, words: str, says: str) -> None:
    done = run(tmp_path, when, words)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_site_cannot_give_a_rule_of_ours_another_meaning(tmp_path: Path) -> None:
    done = run(tmp_path, 'when = [{ fact = "modules", field = "loaded", op = "==", value = 1 }]', name="driver-nouveau")
    assert done.returncode == 2 and "exists already" in done.stderr


def test_of_several_files_the_later_wins(tmp_path: Path) -> None:
    (tmp_path / "off.toml").write_text("schema = 1\n[rule.gpu-none]\nlevel = 'off'\n")
    (tmp_path / "on.toml").write_text("schema = 1\n[rule.gpu-none]\nlevel = 'warn'\n")

    def judged(*names: str) -> int:
        files = [w for n in names for w in ("--rules", str(tmp_path / n))]
        argv = [sys.executable, "-m", "ds_doctor", "run", "--only", "gpu-none", "--format", "json", *files]
        return len(json.loads(subprocess.run(argv, capture_output=True, timeout=60).stdout)["results"])

    assert judged("off.toml") == 0
    assert judged("off.toml", "on.toml") == 1
    assert judged("on.toml", "off.toml") == 0
