"""Every ds-doctor command in the README runs, and what it says of exit statuses and files is so."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


SHOWN = re.compile(
    r"(<!-- output: (?P<args>[^|\n]*?)(?: \| head -(?P<head>\d+))? -->\n```\n\$ [^\n]*\n)(?P<text>.*?)(^```$)",
    re.DOTALL | re.MULTILINE,
)


def shown(args: str, head: str | None) -> str:
    """What a command prints here and now, its head only where the README shows no more."""
    argv = [sys.executable, "-m", "ds_doctor", *shlex.split(args)]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=60
    )
    assert done.returncode in (0, 1, 3), done.stderr
    text = done.stdout.replace(str(ROOT), "/home/you/ds-doctor")
    text = re.sub(r'("started_at": )"[^"]*"', r'\1"2026-11-29T23:30:00Z"', text)
    text = re.sub(r'("duration_m?s": )[0-9.]+', r"\g<1>0.2", text)
    if head is None:
        return text
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: int(head)], *(["...\n"] if len(lines) > int(head) else [])])


def test_what_the_readme_shows_is_what_is_printed(golden: Callable[[Path, str], None]) -> None:
    assert len(SHOWN.findall(README)) >= 4
    text = SHOWN.sub(lambda m: m[1] + shown(m["args"], m["head"]) + m[5], README)
    golden(ROOT / "README.md", text)


def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    commands = [
        line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ds-doctor ")
    ]
    assert len(commands) > 10
    shutil.copytree(ROOT / "fixtures" / "models" / "whole", tmp_path / "DeepSeek-V4.1-Flash")
    for command in commands:
        words = shlex.split(command, comments=True)
        argv = [sys.executable, "-m", "ds_doctor", *words[1:]]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert done.returncode in (0, 1, 3), (command, done.stderr)
        assert "Traceback" not in done.stderr, command
    assert (tmp_path / "host.json").exists() and (tmp_path / "report.txt").exists()


def test_the_rules_that_the_readme_names_exist() -> None:
    from support import doctor

    for name in re.findall(r"--(?:require|skip) ([a-z-]+)", README):
        assert name in doctor().catalogue.rule, name


def test_the_sites_file_of_the_readme_works(tmp_path: Path) -> None:
    (file,) = [b for b in blocks("toml") if "[rule.site-driver]" in b]
    (tmp_path / "site.toml").write_text(file, "utf-8")
    replay = ROOT / "fixtures" / "hosts" / "h200-x2" / "snapshot.json"
    argv = [
        "run",
        "--rules",
        str(tmp_path / "site.toml"),
        "--replay",
        str(replay),
        "--only",
        "site",
        "--only",
        "limits*",
        "-v",
    ]
    done = subprocess.run([sys.executable, "-m", "ds_doctor", *argv], capture_output=True, text=True, timeout=60)
    assert "site-driver: The driver is the one that we tested" in done.stdout, done.stdout + done.stderr
    assert not re.search(r"limits-open-files\b(?!-)", done.stdout)


def test_the_files_that_the_readme_names_exist() -> None:
    for path in re.findall(r"\]\(([\w./-]+)\)|`((?:tests|docs|checks|doctor|fixtures)/[\w./-]*)`", README):
        name = next(p for p in path if p)
        assert (ROOT / name).exists(), name


def test_the_plugin_of_the_readme_is_the_one_that_is_tested() -> None:
    (code,) = [b for b in blocks("python") if "acme-drained" in b]
    real = (ROOT / "tests" / "plugin" / "acme_doctor" / "motd.py").read_text("utf-8")
    for line in (
        "class Notice(msgspec.Struct, frozen=True, kw_only=True):",
        "def host_is_in_service(notice: Notice) -> Findings:",
    ):
        assert line in code and line in real


def test_make_knows_the_targets_of_the_readme() -> None:
    for target in sorted(set(re.findall(r"\bmake (\w+)", README)) - {"sure"}):
        done = subprocess.run(
            ["make", "-n", target], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "MAKEFLAGS": ""}
        )
        assert done.returncode == 0, (target, done.stderr)
