"""What a check or probe does wrong costs its own rules only, and the run ends in time whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.command import run_command
from ds_doctor.host import Host
from ds_doctor.model import Absent, Denied, Malformed, TimedOut

RULE = """
[rule.{name}]
level = "fail"
standing = "vendor"
healthy = {{ en = "x", zh = "x" }}
title = {{ en = "x", zh = "x" }}
why = {{ en = "x", zh = "x" }}
fix = [{{ say = {{ en = "x", zh = "x" }} }}]
sources = ["x"]
"""

BODY = """
import os, re, signal, subprocess, threading, time
import msgspec
from ds_doctor.api import *
class Raises(msgspec.Struct): x: int = 0
class Hangs(msgspec.Struct): x: int = 0
class Exits(msgspec.Struct): x: int = 0
class Lies(msgspec.Struct): x: int = 0
class Hung(msgspec.Struct): x: int = 0
class Dies(msgspec.Struct): x: int = 0
class Fine(msgspec.Struct): x: int = 0
@probe
def raises(host: Host) -> Raises: raise ZeroDivisionError("a probe's own fault")
@probe
def hangs(host: Host) -> Hangs:
    while True: time.sleep(3600)
@probe
def exits(host: Host) -> Exits: raise SystemExit(7)
@probe
def lies(host: Host) -> Lies: return 42
@probe
def hung(host: Host) -> Hung: return Hung(x=host.run(["sh", "-c", "sleep 1000 & sleep 1000"], timeout_s=1).status)
@probe
def dies(host: Host) -> Dies: return Dies(x=host.run(["sh", "-c", "kill -SEGV $$"]).status)
@probe
def fine(host: Host) -> Fine: return Fine()
@check("bad-raises")
def c1(f: Raises): yield found("bad-raises")
@check("bad-hangs")
def c2(f: Hangs): yield found("bad-hangs")
@check("bad-exits")
def c3(f: Exits): yield found("bad-exits")
@check("bad-lies")
def c4(f: Lies): yield found("bad-lies")
@check("bad-hung")
def c5(f: Hung): yield found("bad-hung")
@check("bad-dies")
def c6(f: Dies):
    if f.x == -signal.SIGSEGV: yield found("bad-dies")
@check("bad-check-raises")
def c7(f: Fine): raise KeyError("a check's own fault")
@check("bad-check-loops")
def c8(f: Fine):
    while True: pass
@check("bad-check-nonsense")
def c9(f: Fine): yield "nonsense"
@check("bad-check-foreign")
def c10(f: Fine): yield found("driver-nouveau")
@check("bad-fine")
def c11(f: Fine): yield from ()
"""
NAMES = [
    "bad-raises", "bad-hangs", "bad-exits", "bad-lies", "bad-hung", "bad-dies",
    "bad-check-raises", "bad-check-loops", "bad-check-nonsense", "bad-check-foreign", "bad-fine",
]  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "bad_doctor").mkdir()
    (folder / "bad_doctor" / "__init__.py").write_text(BODY)
    (folder / "bad_doctor" / "rules.toml").write_text("schema = 1\n" + "".join(RULE.format(name=n) for n in NAMES))
    (folder / "bad_doctor-1.dist-info").mkdir()
    (folder / "bad_doctor-1.dist-info" / "entry_points.txt").write_text("[ds_doctor.checks]\nbad = bad_doctor\n")
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", "--format", "json", "--only", "bad*", "--timeout", "6"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    seconds = time.monotonic() - begun
    assert "Traceback" not in done.stderr, done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    out["seconds"], out["status"] = seconds, done.returncode
    return out


def result(report: dict[str, Any], rule: str) -> tuple[str, str]:
    r = next(r for r in report["results"] if r["rule"] == rule)
    return r["status"], r["reason"] or ""


def test_the_run_ends_in_time(report: dict[str, Any]) -> None:
    assert report["seconds"] < 9


@pytest.mark.parametrize(
    ("rule", "status", "says"),
    [
        ("bad-raises", "unknown", "the probe raises failed with an error: ZeroDivisionError: a probe's own fault"),
        ("bad-hangs", "unknown", "did not answer within"),
        ("bad-exits", "unknown", "the probe exits failed with an error: SystemExit: 7"),
        ("bad-lies", "unknown", "the probe gave int, not Lies"),
        ("bad-hung", "unknown", "sh did not answer within 1 s"),
        ("bad-dies", "fail", ""),
        ("bad-check-raises", "error", "the check c7 failed with an error: KeyError"),
        ("bad-check-loops", "error", "the check c8 did not finish within"),
        ("bad-check-nonsense", "error", "yielded str, not a finding"),
        ("bad-check-foreign", "error", "spoke of 'driver-nouveau', which is not among its rules"),
        ("bad-fine", "pass", ""),
    ],
)
def test_each_fault_costs_its_own_rule(report: dict[str, Any], rule: str, status: str, says: str) -> None:
    got, reason = result(report, rule)
    assert got == status
    assert says in reason


def test_every_rule_has_exactly_one_status(report: dict[str, Any]) -> None:
    assert sorted(r["rule"] for r in report["results"]) == sorted(NAMES)
    assert sum(report["counts"].values()) == len(NAMES)


def test_a_check_that_holds_the_interpreter_itself_is_ended_by_the_kernel(tmp_path: Path) -> None:
    body = """
import re
import msgspec
from ds_doctor.api import *
class Held(msgspec.Struct): x: int = 0
@probe
def held(host: Host) -> Held: return Held()
@check("bad-held")
def never_returns(f: Held):
    re.match("(a+)+$", "a" * 60 + "b")
    yield from ()
"""
    (tmp_path / "bad_doctor").mkdir()
    (tmp_path / "bad_doctor" / "__init__.py").write_text(body)
    (tmp_path / "bad_doctor" / "rules.toml").write_text("schema = 1\n" + RULE.format(name="bad-held"))
    (tmp_path / "bad_doctor-1.dist-info").mkdir()
    (tmp_path / "bad_doctor-1.dist-info" / "entry_points.txt").write_text("[ds_doctor.checks]\nbad = bad_doctor\n")
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", "--only", "bad-held", "--timeout", "1"],
        capture_output=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == -signal.SIGALRM  # never 0: nothing was vouched for


def test_a_command_that_forks_and_sleeps_is_killed_with_its_children(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    begun = time.monotonic()
    with pytest.raises(TimedOut):
        run_command(["sh", "-c", f"sleep 300 & echo $! > {mark}; wait"], 0.5, os.environ)
    assert time.monotonic() - begun < 3
    time.sleep(0.1)
    stat = Path(f"/proc/{int(mark.read_text())}/stat")
    # Gone, or dead and not yet reaped by the init process of this machine.
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in ("Z", "X")


def test_a_grandchild_that_keeps_the_pipe_does_not_hold_the_run() -> None:
    begun = time.monotonic()
    output = run_command(["sh", "-c", "echo done; sleep 300 &"], 10, os.environ)
    assert (output.status, output.out) == (0, "done\n")
    assert time.monotonic() - begun < 3


def test_a_flood_of_output_is_cut() -> None:
    output = run_command(["sh", "-c", "head -c 50000000 /dev/zero"], 20, os.environ, limit=1 << 20)
    assert output.cut and len(output.out) <= (1 << 20) + (1 << 16)


def test_a_command_that_kills_itself_is_a_negative_status() -> None:
    assert run_command(["sh", "-c", "kill -SEGV $$"], 5, os.environ).status == -signal.SIGSEGV


def test_what_cannot_be_run_is_a_narrow_error(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        run_command([str(tmp_path / "none")], 5, os.environ)
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(Denied):
        run_command([str(tmp_path / "text")], 5, os.environ)
    (tmp_path / "text").chmod(0o755)
    with pytest.raises(Malformed):
        run_command([str(tmp_path / "text")], 5, os.environ)


def test_a_fifo_where_a_file_should_be_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    begun = time.monotonic()
    with pytest.raises(Malformed) as e:
        Host().read(str(tmp_path / "fifo"))
    assert e.value.reason.id == "not-a-file" and time.monotonic() - begun < 1


def test_a_file_of_a_gigabyte_is_refused_at_once(tmp_path: Path) -> None:
    big = tmp_path / "daemon.json"
    with open(big, "wb") as f:
        f.truncate(1 << 30)
    begun = time.monotonic()
    with pytest.raises(Malformed) as e:
        Host().read(str(big))
    assert e.value.reason.id == "file-too-large" and time.monotonic() - begun < 2


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty", "/", "/etc/\0", "/none", "/etc/passwd/x"])
def test_the_door_refuses_with_a_narrow_error(path: str) -> None:
    with pytest.raises((Absent, Denied, Malformed)):
        Host().read(path)
