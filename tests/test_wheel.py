"""The wheel holds all that a run needs: code, rules, their compiled form and the vendor tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(pip, check=True, timeout=300)
    (file,) = folder.glob("*.whl")
    return file


def test_the_wheel_holds_what_the_tree_holds(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    tree = {
        str(p.relative_to(root))
        for root in (ROOT / "doctor", ROOT / "checks")
        for p in root.rglob("*")
        if p.suffix in (".py", ".toml", ".typed")
    }
    assert tree - held == set()
    tables = {n for n in tree if n.endswith(".toml") and n != "ds_doctor_checks/rules.toml"}
    assert {n for n in held if ".dist-info/" not in n} - tree == {
        "ds_doctor_checks/rules.json",
        "ds_doctor_checks/known.json",
        *(n.replace(".toml", ".json") for n in tables),
    }
    with zipfile.ZipFile(wheel) as files:
        for name in tables:
            table = tomllib.loads(files.read(name).decode())
            assert json.loads(files.read(name.replace(".toml", ".json"))) == table


def test_an_installed_wheel_lists_its_rules_from_the_compiled_form(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    home = tmp_path / "home"
    home.mkdir()
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)],
        check=True,
        timeout=120,
    )
    done = subprocess.run(
        [sys.executable, "-c", "from ds_doctor.cli import main; main(['list', 'rules'])"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "HOME": str(home), "XDG_CACHE_HOME": ""},
        timeout=60,
    )
    assert "driver-nouveau" in done.stdout, done.stderr
    assert list(home.iterdir()) == [], "nothing had to be compiled again"


def test_a_rules_toml_that_is_not_right_stops_the_build(tmp_path: Path) -> None:
    for name in ("doctor", "checks", "hatch_build.py", "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "rules.toml").write_text("schema = 1\n[rule.x]\nlevel = 'loud'\n")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0 and "rules.toml" in done.stdout + done.stderr
