"""Profiles: the built-in one is right in itself, a user's own is found, and a broken one is told in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ds_doctor import profile
from support import FIXTURES

FOLDER = Path(__file__).parent.parent / "checks" / "ds_doctor_checks" / "profiles"
OWN = """schema = 1
name = "mine"
models = ["me/Model"]
sources = ["https://example.org"]
[engine.vllm]
min_version = "0.30.0"
[[setting]]
engine = "vllm"
level = "warn"
flags = ["--enforce-eager"]
says = { en = "slow here", zh = "此处很慢" }
source = "measured"
"""
COMMAND = ("--", "vllm", "serve", "me/Model", "--enforce-eager")


def run(*words: str, home: Path | None = None, lang: str = "C.UTF-8") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LANG": lang, "LC_ALL": lang} | ({"XDG_CONFIG_HOME": str(home)} if home else {})
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", *words], capture_output=True, text=True, timeout=60, env=env
    )


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda p: p.stem)
def test_a_built_in_profile_is_right_and_known_by_its_name(path: Path) -> None:
    from ds_doctor_checks._profiles import BUILT_IN

    one = profile.read(path.read_bytes(), path.name)
    assert one.name == path.stem and one.name in BUILT_IN
    assert all(s.source and s.says.zh for s in one.setting)


@pytest.mark.parametrize(
    ("model", "model_type", "is_it"),
    [
        ("deepseek-ai/DeepSeek-V4.1-Flash", None, True),
        ("deepseek-ai/deepseek-v4.1-flash", None, True),
        ("/models/DeepSeek-V4.1-Flash/", None, True),
        ("./models/DeepSeek-V4.1-Flash", None, True),
        ("/models/anything", "deepseek_v41", True),
        ("/models/DeepSeek-V4.1-Flash", "qwen3", False),
        ("deepseek-ai/DeepSeek-V4-Flash", None, False),
        ("DeepSeek-V4.1-Flash-AWQ", None, False),
        (None, None, False),
    ],
)
def test_a_profile_knows_its_model(model: str | None, model_type: str | None, is_it: bool) -> None:
    one = profile.read((FOLDER / "deepseek-v4.1-flash.toml").read_bytes(), "x")
    assert profile.matches(one, model, model_type) is is_it


@pytest.mark.parametrize("where", ["a file", "a name"])
def test_a_users_own_profile_is_used(where: str, tmp_path: Path) -> None:
    folder = tmp_path / "ds-doctor" / "profiles"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(OWN)
    given = str(folder / "mine.toml") if where == "a file" else "mine"
    snapshot = str(FIXTURES / "hosts" / "h200-x2" / "snapshot.json")
    words = ("--replay", snapshot, "--profile", given, "--only", "profile", "--format", "json")
    done = run(*words, *COMMAND, home=tmp_path)
    bad = next(r for r in json.loads(done.stdout)["results"] if r["rule"] == "profile-setting-bad")
    assert bad["status"] == "warn" and bad["title"] == "--enforce-eager (mine): slow here"
    done = run(*words, "--lang", "zh", *COMMAND, home=tmp_path)
    assert "此处很慢" in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema = 2\n", "schema 2"),
        ("", "schema None"),
        ("schema = 1\nname = 'x'\n", "models"),
        (OWN + "nonsense = 1\n", "nonsense"),
        ("schema = = 1", "not valid TOML"),
        (OWN.replace('flags = ["--enforce-eager"]\n', ""), "either flags or variable"),
        (OWN.replace('"mine"', '"Mine and yours"'), "name 'Mine and yours'"),
        ("a = " + "[" * 5000, "not valid TOML"),
    ],
)
def test_a_broken_profile_is_told_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    done = run("--profile", str(path))
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and done.stderr.count("\n") == 1 and "p.toml" in done.stderr


def test_a_profile_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    done = run("--profile", "nope", home=tmp_path)
    assert done.returncode == 2 and "deepseek-v4.1-flash" in done.stderr and done.stderr.count("\n") == 1


def test_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_bytes(b"schema = 1\n# \xff\n")
    done = run("--profile", str(tmp_path / "p.toml"))
    assert done.returncode == 2 and "not UTF-8" in done.stderr


def test_a_profile_survives_a_snapshot() -> None:
    one = profile.read((FOLDER / "deepseek-v4.1-flash.toml").read_bytes(), "x")
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(one)), profile.Profile) == one
