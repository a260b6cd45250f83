"""Wrong usage and broken files get one clear line, the right exit status and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
    )


def one_line(done: subprocess.CompletedProcess[str], status: int, says: str) -> None:
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "--bogus"], "No such option"),
        (["bogus"], "No such command"),
        (["run", "--format", "yaml"], "yaml"),
        (["run", "--output", "json"], "FORMAT=PATH"),
        (["run", "--output", "yaml=x"], "FORMAT is one of"),
        (["run", "--output", "json=/none/x.json"], "the folder /none does not exist"),
        (["run", "--output", "json=/"], "is a folder"),
        (["run", "--only", "drivr"], "--only drivr: no rule, check or family has this name"),
        (["run", "--skip", "x*y"], "--skip x*y: no rule"),
        (["run", "--require", "nope"], "--require nope: no rule"),
        (["run", "--skip", "driver", "--require", "driver"], "left out by"),
        (["run", "--timeout", "0"], "--timeout 0: between 1 and 3600"),
        (["run", "--timeout", "soon"], "soon"),
        (["run", "--timeout", "nan"], "--timeout nan"),
        (["run", "--root", "/none"], "--root /none: does not exist"),
        (["run", "--root", "/etc/passwd"], "--root /etc/passwd: not a folder"),
        (["run", "--python", "/none/python"], "--python /none/python: does not exist"),
        (["run", "--python", "/etc/passwd"], "--python /etc/passwd: not an executable file"),
        (["run", "--python", "/bin/ls"], "--python: /bin/ls"),
        (["run", "--root", "/", "--replay", "x"], "exclude each other"),
        (["run", "--record", "x", "--replay", "x"], "exclude each other"),
        (["run", "--replay", "/none"], "--replay /none: No such file"),
        (["run", "--rules", "/none"], "--rules /none: No such file"),
        (["run", "--rules", "/"], "--rules /: not a regular file"),
        (["run", "vllm", "serve"], "the launch command goes after --"),
        (["run", "--lang", "fr"], "fr"),
        (["list", "bogus"], "bogus"),
        (["schema", "bogus"], "bogus"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(args: list[str], says: str) -> None:
    one_line(run(*args), 2, says)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "--strct"], "没有选项 --strct"),
        (["run", "--format", "yaml"], "--format 的值无效"),
        (["run", "--only", "drivr"], "没有名为此的规则"),
        (["run", "--timeout", "0"], "应在 1 到 3600 秒之间"),
        (["run", "--python", "/none/python"], "不存在"),
        (["run", "--output", "json=/"], "是一个目录"),
        (["list"], "缺少参数"),
    ],
)
def test_wrong_usage_is_told_in_chinese(args: list[str], says: str) -> None:
    one_line(run(*args, LC_ALL="zh_CN.UTF-8"), 2, says)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1, 2]", "no snapshot of ds-doctor"),
        (b"{}", "no snapshot of ds-doctor"),
        (
            b'{"schema": "ds-doctor.snapshot/9"}',
            "schema 'ds-doctor.snapshot/9'; this program reads ds-doctor.snapshot/1",
        ),
        (b'{"schema": "ds-doctor.snapshot/1"}', "missing required field"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (
            b'{"schema":"ds-doctor.snapshot/1","tool":{},"recorded_at":"","asked":{},"facts":{"modules":{"value":{"loaded":7}}}}',
            "facts.modules: Expected `array`",
        ),
    ],
)
def test_a_broken_snapshot_is_one_line_and_status_2(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "snapshot.json"
    file.write_bytes(content)
    one_line(run("run", "--replay", str(file)), 2, says)


RULE = """[rule.driver-nouveau]
"""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"schema = ", "not valid TOML"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"", "missing required field `schema`"),
        (b"schema = 2\n", "schema 2, this program reads schema 1"),
        (b"schema = 1\n[rule.nope]\nlevel = 'warn'\n", "rule.nope: there is no such rule"),
        (b"schema = 1\n[rule.driver-nouveau]\nlevel = 'loud'\n", "level"),
        (b"schema = 1\n[rule.driver-nouveau]\ncolour = 'red'\n", "colour"),
        (b"schema = 1\n[rule.driver-nouveau]\ntitle = { en = 'a {b}', zh = 'a' }\n", "blanks differ"),
        (b"schema = 1\n[rule.driver-nouveau]\ntitle = { en = 'a {b}', zh = 'a {b}' }\n", "unknown blank {b}"),
        (b"schema = 1\n" + b"a = " + b"[" * 50_000, "not valid TOML"),
    ],
)
def test_a_broken_rules_file_is_one_line_and_status_2(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "site.toml"
    file.write_bytes(content)
    one_line(run("run", "--rules", str(file)), 2, says)


def test_a_site_changes_a_level_and_turns_a_rule_off(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot.json"
    card = {
        "bdf": "0000:01:00.0",
        "device": "0x2335",
        "driver": "nouveau",
        "answers": True,
        "numa_node": None,
        "bridges": [],
    }
    facts = {"pci": {"value": {"gpus": [card], "switches": []}}}
    snapshot.write_text(
        json.dumps({"schema": "ds-doctor.snapshot/1", "tool": {}, "recorded_at": "", "asked": {}, "facts": facts})
    )
    site = tmp_path / "site.toml"

    def status(level: str) -> tuple[int, list[str]]:
        site.write_text(f"schema = 1\n[rule.driver-nouveau]\nlevel = '{level}'\n")
        done = run("run", "--replay", str(snapshot), "--rules", str(site), "--only", "driver", "--format", "json")
        results = {r["rule"]: r["status"] for r in json.loads(done.stdout)["results"]}
        return done.returncode, [results.get("driver-nouveau", "left out")]

    assert status("fail") == (1, ["fail"])
    assert status("warn")[1] == ["warn"]
    assert status("off")[1] == ["left out"]


def test_a_python_that_is_none_is_never_started(tmp_path: Path) -> None:
    for name in ("serve.sh", "python3"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho started >> {tmp_path}/{name}.mark\n")
        script.chmod(0o755)
        one_line(run("run", "--python", str(script)), 2, str(script))
    assert not (tmp_path / "serve.sh.mark").exists()


def test_a_snapshot_in_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    begun = time.monotonic()
    one_line(run("run", "--replay", str(tmp_path / "fifo")), 2, "not a regular file")
    assert time.monotonic() - begun < 5


def test_help_and_version_write_nothing_at_home(tmp_path: Path) -> None:
    for args in (["--help"], ["run", "--help"], ["--version"], ["schema", "report"]):
        assert run(*args, HOME=str(tmp_path), XDG_CACHE_HOME="").returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_home_costs_nothing() -> None:
    done = run("list", "rules", HOME="/proc", XDG_CACHE_HOME="")
    assert done.returncode == 0 and "driver-nouveau" in done.stdout


def test_the_reader_may_leave_early() -> None:
    done = subprocess.run(
        f"{sys.executable} -m ds_doctor list rules | head -1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""


def test_a_full_disk_is_told_and_never_ends_with_0() -> None:
    done = run("run", "--only", "driver-nouveau", "--output", "json=/dev/full")
    assert done.returncode in (1, 3)
    assert "No space left" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_locale_chooses_the_language(lang: str) -> None:
    done = run("run", "--only", "driver", LC_ALL={"en": "C.UTF-8", "zh": "zh_CN.UTF-8"}[lang])
    assert ("退出码" in done.stdout) == (lang == "zh")


def test_the_report_is_utf_8_under_any_locale() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", "--lang", "zh"],
        capture_output=True,
        timeout=60,
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
    )
    assert "退出码" in done.stdout.decode()


def test_bytes_that_are_no_unicode_in_the_environment_and_command_stay_out_of_the_json(tmp_path: Path) -> None:
    import json
    import os
    import subprocess
    import sys

    record = tmp_path / "snapshot.json"
    env = {**os.environb, b"NCCL_P2P_DISABLE": b"tr\xffue", b"CUDA_HOME": b"/a\xff", b"LD_LIBRARY_PATH": b"/q\xff"}
    words = ["run", "--format", "json", "--record", str(record), "--", "vllm", "serve", b"m\xff"]
    out = subprocess.run([sys.executable, "-m", "ds_doctor", *words], env=env, capture_output=True, check=False)
    assert b"Traceback" not in out.stderr
    values = [r for r in json.loads(out.stdout)["results"] if r["rule"] == "nccl-variable-value"]
    assert values[0]["findings"][0]["data"]["value"] in ("tr?ue", "tr\ufffdue")
    assert json.loads(record.read_bytes())["facts"]["environment"]["value"]["variables"]["CUDA_HOME"] == "/a\ufffd"
