"""A third party's distribution is installed and judged like our own; a broken one costs one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
RULES = (HERE / "plugin" / "acme_doctor" / "rules.toml").read_text()


def run(*args: str, **env: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", "--format", "json", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The plugin as pip installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, str(HERE / "plugin")], check=True, timeout=120)
    return str(folder)


def broken(folder: Path, body: str, rules: str | None = RULES) -> str:
    """A plugin by hand: a package, and the entry point that pip would write."""
    package = folder / "bad_doctor"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    if rules is not None:
        (package / "rules.toml").write_text(rules)
    info = folder / "bad_doctor-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-doctor\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[ds_doctor.checks]\nbad = bad_doctor\n")
    return str(folder)


def test_an_installed_plugin_fails_a_host(installed: str, tmp_path: Path) -> None:
    (tmp_path / "notice").write_text("DRAINED 2026-11-29\n")
    status, report, _ = run("--only", "acme-*", PYTHONPATH=installed, ACME_NOTICE=str(tmp_path / "notice"))
    assert status == 1
    assert [(r["rule"], r["status"], r["title"]) for r in report["results"]] == [
        ("acme-drained", "fail", "The host is drained since 2026-11-29")
    ]


def test_an_installed_plugin_passes_a_host(installed: str, tmp_path: Path) -> None:
    (tmp_path / "notice").write_text("all is well\n")
    status, report, _ = run("--only", "motd", PYTHONPATH=installed, ACME_NOTICE=str(tmp_path / "notice"))
    assert (status, report["results"][0]["status"]) == (0, "pass")


def test_a_plugin_skips_with_its_own_reason(installed: str, tmp_path: Path) -> None:
    status, report, _ = run("--only", "acme-drained", PYTHONPATH=installed, ACME_NOTICE=str(tmp_path / "none"))
    assert status == 3  # no rule was judged at all
    assert report["results"][0]["reason"] == f"{tmp_path}/none does not exist"


def test_a_plugin_facts_travel_in_a_snapshot(installed: str, tmp_path: Path) -> None:
    (tmp_path / "notice").write_text("DRAINED\n")
    file = str(tmp_path / "snapshot.json")
    run("--record", file, PYTHONPATH=installed, ACME_NOTICE=str(tmp_path / "notice"))
    status, report, _ = run("--replay", file, "--only", "acme-drained", PYTHONPATH=installed)
    assert (status, report["results"][0]["status"]) == (1, "fail")


@pytest.mark.parametrize(
    ("body", "rules", "says"),
    [
        ("raise ImportError('no such libfoo')", RULES, "cannot be imported: ImportError: no such libfoo"),
        ("import sys; sys.exit('bye')", RULES, "cannot be imported: SystemExit: bye"),
        ("def broken(:", RULES, "cannot be imported: SyntaxError"),
        ("", None, "has no usable rules.toml"),
        ("", "schema = 1\n[rule.x]\nlevel = 'loud'\n", "has no usable rules.toml"),
        ("", RULES.replace("acme-drained", "driver-nouveau"), "the rule driver-nouveau already belongs to built-in"),
        ("", RULES, "none of its checks covers its rule acme-drained"),
        (
            "from ds_doctor.api import check\n@check('driver-nouveau')\ndef mine() -> None: ...\n",
            RULES,
            "its check mine refers to the rule driver-nouveau, which is not in its rules.toml",
        ),
        (
            "from ds_doctor.api import check\n@check('acme-drained')\ndef mine(x: int) -> None: ...\n",
            RULES,
            "not a fact",
        ),
    ],
)
def test_a_broken_plugin_becomes_one_error_line(tmp_path: Path, body: str, rules: str | None, says: str) -> None:
    status, report, stderr = run("--only", "driver", PYTHONPATH=broken(tmp_path, body, rules))
    errors = [r for r in report["results"] if r["status"] == "error"]
    assert [r["rule"] for r in errors] == ["plugin-bad"]
    assert says in errors[0]["reason"] and "\n" not in errors[0]["reason"]
    assert len(report["results"]) > 1, "the run went on"
    assert status in (1, 3)
    assert "Traceback" not in stderr


def explained(path: str, *words: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "explain", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "LC_ALL": "C.UTF-8", **env},
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_plugin_s_failures_are_explained_beside_our_own(installed: str, tmp_path: Path) -> None:
    (tmp_path / "notice").write_text("DRAINED Monday\n")
    status, page, _ = explained(installed, "ACME-FS: licence expired on node7", ACME_NOTICE=str(tmp_path / "notice"))
    assert status == 0 and "The licence of Acme's file system has expired" in page and "FOUND HERE" in page
    assert "Acme's file system" in explained(installed, "acme filesystem licence is expired", "--no-here")[1]
    assert "Keil" in explained(installed, "flash download failed", "--no-here")[1]


def test_a_plugin_whose_catalogue_is_broken_costs_only_itself(tmp_path: Path) -> None:
    path = broken(tmp_path, "x = 1\n", "schema = 1\n[rule.x]\nlevel = 'loud'\n")
    status, page, said = explained(path, "flash download failed", "--no-here")
    assert status == 0 and "Keil" in page
    assert said.count("\n") == 1 and "rules.toml" in said
