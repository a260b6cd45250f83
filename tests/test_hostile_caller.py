"""A caller may close streams, poison import paths, take the folder away, set tiny limits or interrupt: one line, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DOCTOR = f"{sys.executable} -m ds_doctor"
ONE_RULE = (
    "run --only shm-over-memory-limit"  # passes or is skipped on any machine: what the exit status says is the stream's
)


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def one_line(done: subprocess.CompletedProcess[str], says: str) -> None:
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("words", [ONE_RULE, "list rules", "schema report", "--help", "--version"])
def test_a_report_that_cannot_be_written_is_told_and_never_ends_with_0(words: str) -> None:
    for where, says in ((">/dev/full", "No space left"), (">&-", "Bad file descriptor")):
        done = shell(f"{DOCTOR} {words} {where}")
        one_line(done, says)
        assert done.returncode == 3


def test_a_fault_keeps_its_status_when_the_report_is_lost(tmp_path: Path) -> None:
    done = shell(f"{DOCTOR} run --only weights --model {tmp_path}/none >/dev/full")
    assert done.returncode == 1
    one_line(done, "No space left")


def test_closed_streams_cost_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "report.txt"
    done = shell(f"{DOCTOR} run --output text={file} <&- >&- 2>&-")
    assert done.returncode in (1, 3)
    assert "exit status" in file.read_text()
    assert shell(f"{DOCTOR} run --bogus 2>&-").returncode == 2


def test_every_text_is_utf_8_under_any_encoding() -> None:
    env = {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "ascii"}
    assert "检查" in shell(f"{DOCTOR} --help", **env).stdout
    assert "哈希" in shell(f"{DOCTOR} list rules", **env).stdout
    assert "参见" in shell(f"{DOCTOR} run --bogus", **env).stderr


NAMES = ("click", "msgspec", "rich", "elftools", "queue", "threading", "fnmatch", "typing", "subprocess", "selectors")


def test_modules_of_a_stranger_on_pythonpath_or_in_the_current_folder_are_not_ours(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a stranger')\n")
    for name in ("checks", "doctor", "packaging", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a stranger')\n")
    script = "import ds_doctor.cli; ds_doctor.cli.main()"  # as the console script does
    for words in ("run", "run --only shm", "list rules"):
        argv = [sys.executable, "-c", script, *words.split()]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)}
        )
        assert done.stderr == ""
        assert "shm" in done.stdout


def test_a_broken_installation_is_one_line(tmp_path: Path) -> None:
    package = tmp_path / "ds_doctor"
    import ds_doctor

    subprocess.run(["cp", "-r", os.path.dirname(ds_doctor.__file__), str(package)], check=True)
    (tmp_path / "msgspec.py").write_text(
        ""
    )  # in the folder that holds ds_doctor, as a bad --target installation has it
    done = subprocess.run(
        [sys.executable, "-S", "-m", "ds_doctor", "run"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 3
    one_line(done, "it broke: AttributeError: module 'msgspec' has no attribute 'Struct'")


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    def gone(words: str) -> subprocess.CompletedProcess[str]:
        return shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {DOCTOR} {words}")

    assert gone(ONE_RULE).stderr == ""
    for words in ("run --output json=x", "run --record x", "run --python ./x"):
        done = gone(words)
        assert done.returncode == 2
        one_line(done, "the current folder cannot be used")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", ""], "--model: the value is empty"),
        (["--python", ""], "--python: the value is empty"),
        (["--record", ""], "--record: the value is empty"),
        (["--rules", ""], "--rules: the value is empty"),
        (["--output", "json=-"], "--output -: give a file"),
        (["--record", "-"], "--record -: give a file"),
        (["--output", "json=TMP/x", "--output", "text=TMP/../TMP_NAME/x"], "this file is written already"),
        (["--output", "json=TMP/x", "--record", "TMP/x"], "this file is written already"),
        (["--replay", "x", "--model", "y"], "--model and --replay exclude each other"),
        (["--replay", "x", "--python", "y"], "--python and --replay exclude each other"),
        (["--replay", "TMP/none", "--", "vllm"], "No such file or directory"),
        (["vllm", "--only", "shm", "--", "serve"], "unexpected argument 'vllm'"),
        (["--python", "/etc/passwd/x"], "--python /etc/passwd/x: Not a directory"),
        (["--python", "no-such-python"], "no such program on PATH"),
    ],
)
def test_options_that_cannot_mean_what_was_meant_are_one_line(words: list[str], says: str, tmp_path: Path) -> None:
    words = [w.replace("TMP_NAME", tmp_path.name).replace("TMP", str(tmp_path)) for w in words]
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", *words], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done, says)


def test_options_of_the_launch_command_are_its_own(tmp_path: Path) -> None:
    words = ["run", "--only", "weights", "--", "vllm", "serve", str(tmp_path / "none"), "--only", "x", "--", "--root"]
    done = subprocess.run([sys.executable, "-m", "ds_doctor", *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "")
    assert "serve" in done.stdout and "--root" in done.stdout


def test_no_words_show_the_help_and_one_line() -> None:
    done = shell(DOCTOR)
    assert done.returncode == 2 and done.stdout.startswith("Usage: ds-doctor")
    one_line(done, "give a command")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_at_once_and_leaves_no_command_behind(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n: > {pids}/$$\nexec sleep 60\n")
    python.chmod(0o755)
    run = subprocess.Popen(
        [sys.executable, "-m", "ds_doctor", "run", "--only", "cuda", "--python", str(python)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 15
    while not list(pids.iterdir()):
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(0.2)  # every probe that asks the interpreter has started it
    run.send_signal(number)
    out, err = run.communicate(timeout=10)
    assert (run.returncode, out, err) == (status, b"", b"")
    until = time.monotonic() + 2
    while alive := [p for p in pids.iterdir() if _runs(p.name)]:
        assert time.monotonic() < until, alive
        time.sleep(0.02)


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_without_a_thread_to_be_had_the_host_is_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from ds_doctor import engine
    from ds_doctor.gather import Gathering
    from ds_doctor.host import Host
    from support import doctor

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    checks = doctor().checks
    gathering = Gathering(Host(), time.monotonic() + 20)
    gathering.want(engine.wanted(checks))
    facts = gathering.collect()
    assert not [o.reason for o in facts.values() if o.trouble in ("broken", "timed-out")]
    results = engine.judge(checks, facts, doctor().catalogue, set(doctor().catalogue.rule))
    assert not [r for r in results if r.status == "error"]
    assert {r.status for r in results} > {"pass", "skip"}


@pytest.mark.parametrize("variable", ["CUDA_HOME", "TORCH_CUDA_ARCH_LIST", "CUDAARCHS", "NCCL_DEBUG", "VIRTUAL_ENV"])
def test_a_value_reaches_the_terminal_without_control_characters_and_in_sane_length(variable: str) -> None:
    for value in ("\x1b]0;owned\x07\x1b[2J", "x" * 100_000):
        out = subprocess.run(
            [sys.executable, "-m", "ds_doctor", "run", "-v"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, variable: value},
        ).stdout
        assert out and "\x1b" not in out and "\x07" not in out
        assert len(out) < 150_000


def test_an_interpreter_that_hangs_is_named_also_when_the_whole_time_is_short(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    words = [
        "run",
        "--only",
        "cuda",
        "--python",
        str(python),
        "--timeout",
        "2",
        "--record",
        str(tmp_path / "facts.json"),
    ]
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "ds_doctor", *words], capture_output=True, timeout=60)
    assert time.monotonic() - begun < 4
    packages = json.loads((tmp_path / "facts.json").read_text())["facts"]["packages"]
    assert (packages["reason"]["id"], packages["reason"]["data"]["command"]) == ("command-timed-out", "python3")


def test_words_of_the_host_and_the_launch_command_steer_no_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\x9b5m\u202e" + "x" * 5000
    facts = {"system": {"value": {"hostname": evil, "os_name": evil, "kernel": evil, "machine": evil}}}
    asked = {"command": ["vllm", "serve", evil[:20]], "model": evil[:20]}
    snapshot = {"schema": "ds-doctor.snapshot/1", "tool": {}, "recorded_at": "", "asked": asked, "facts": facts}
    (tmp_path / "s.json").write_text(json.dumps(snapshot))
    argv = [sys.executable, "-m", "ds_doctor", "run", "--replay", str(tmp_path / "s.json")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.stderr == "" and "serve" in done.stdout
    assert not {c for c in done.stdout if not c.isprintable() and c != "\n"}
    assert max(map(len, done.stdout.splitlines())) < 500
