"""What went wrong in other doctors, each seen right here."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ds_doctor.probes import environment

AUDIT = """
import os, sys
def watch(event, args):
    if event.startswith("socket.") and event != "socket.__new__":
        print("NETWORK", event, args, file=sys.stderr)
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        print("WRITES", args[0], file=sys.stderr)
    if event in ("os.mkdir", "os.rename", "os.remove", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate"):
        print("CHANGES", event, args, file=sys.stderr)
sys.addaudithook(watch)
"""


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize(
    "args", [["--help"], ["run", "--help"], ["run"], ["run", "--format", "json"], ["list", "rules"]]
)
def test_it_touches_neither_network_nor_files(tmp_path: Path, args: list[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    quiet = {"HOME": str(home), "XDG_CACHE_HOME": "", "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    # The first start from a checkout keeps the compiled catalogue in the program's own cache; a wheel brings it along.
    run("list", "rules", **quiet)
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    done = run(*args, **quiet)
    assert [line for line in done.stderr.splitlines() if line.startswith(("NETWORK", "WRITES", "CHANGES"))] == []
    assert {str(p.relative_to(home)) for p in home.rglob("*") if p.is_dir()} <= {".cache", ".cache/ds-doctor"}


def test_a_hung_nvidia_smi_does_not_hang_the_run(tmp_path: Path) -> None:
    hung = tmp_path / "nvidia-smi"
    hung.write_text("#!/bin/sh\nsleep 1000\n")
    hung.chmod(0o755)
    begun = time.monotonic()
    done = run("run", "--timeout", "10", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode in (0, 1, 3)
    assert time.monotonic() - begun < 12


def test_redaction_touches_values_and_never_names() -> None:
    env = {
        "HF_TOKEN": "hf_abcdefghijklmnop",
        "VLLM_API_KEY": "sk-1",
        "HF_ENDPOINT": "https://user:pass@mirror.example/x",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    assert environment.parse(env) == {
        "CUDA_VISIBLE_DEVICES": "0",
        "HF_ENDPOINT": "https://<hidden>@mirror.example/x",
        "HF_TOKEN": "<hidden>",
        "VLLM_API_KEY": "<hidden>",
    }
    words = [
        "HF_TOKEN=hf_x",
        "vllm",
        "serve",
        "m",
        "--api-key",
        "sk-1",
        "--hf-token=hf_2",
        "--port",
        "80",
        "--auth-file",
    ]
    assert environment.redact(words) == (
        "HF_TOKEN=<hidden>", "vllm", "serve", "m", "--api-key", "<hidden>", "--hf-token=<hidden>", "--port", "80", "--auth-file",
    )  # fmt: skip


def test_no_secret_reaches_a_report_or_snapshot(tmp_path: Path) -> None:
    secret = "hf_thisIsNoOnesToken0123456789"
    file = tmp_path / "snapshot.json"
    argv = [
        "run",
        "--format",
        "json",
        "--record",
        str(file),
        "--",
        f"HF_TOKEN={secret}",
        "vllm",
        "serve",
        "x",
        "--api-key",
        secret,
    ]
    done = run(*argv, HF_TOKEN=secret, HUGGING_FACE_HUB_TOKEN=secret, VLLM_API_KEY=secret)
    assert json.loads(done.stdout)["target"]["command"][0] == "HF_TOKEN=<hidden>"
    assert secret not in done.stdout + done.stderr + file.read_text()


def test_a_slow_probe_shows_progress_on_a_terminal_and_nothing_in_a_log(tmp_path: Path) -> None:
    package = tmp_path / "slow_doctor"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import time, msgspec\nfrom ds_doctor.api import *\n"
        "class Slow(msgspec.Struct): x: int = 0\n"
        "@probe\ndef slow(host: Host) -> Slow:\n    time.sleep(3.5)\n    return Slow()\n"
        "@check('slow-rule')\ndef judge(slow: Slow): yield from ()\n"
    )
    text = "{ en = 'x', zh = 'x' }"
    (package / "rules.toml").write_text(
        f"schema = 1\n[rule.slow-rule]\nlevel='fail'\nstanding='vendor'\nhealthy={text}\ntitle={text}\nwhy={text}\n"
        f"fix=[{{ say = {text} }}]\nsources=['x']\n"
    )
    (tmp_path / "slow_doctor-1.dist-info").mkdir()
    (tmp_path / "slow_doctor-1.dist-info" / "entry_points.txt").write_text("[ds_doctor.checks]\nslow = slow_doctor\n")
    argv = [sys.executable, "-m", "ds_doctor", "run", "--only", "slow-rule"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TERM": "xterm"}

    mine, theirs = pty.openpty()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    while child.poll() is None or select.select([mine], [], [], 0)[0]:
        if select.select([mine], [], [], 0.1)[0]:
            try:
                seen += os.read(mine, 65536)
            except OSError:
                break
    os.close(mine)
    assert b"waiting for slow" in seen
    assert child.wait() == 0
    assert subprocess.run(argv, capture_output=True, env=env, timeout=60).stderr == b""


def test_an_error_on_the_screen_never_ends_with_0(tmp_path: Path) -> None:
    (tmp_path / "bad-1.dist-info").mkdir()
    (tmp_path / "bad-1.dist-info" / "entry_points.txt").write_text("[ds_doctor.checks]\nbad = no_such_package\n")
    done = run("run", "--only", "driver-nouveau", PYTHONPATH=str(tmp_path))
    assert "ERROR" in done.stdout and done.returncode in (1, 3)


def test_the_variables_in_front_of_a_command_are_judged() -> None:
    argv = ["run", "--format", "json", "--only", "arch-list-invalid", "--"]
    done = run(*argv, "TORCH_CUDA_ARCH_LIST=nonsense", "vllm", "serve", "/none", TORCH_CUDA_ARCH_LIST="9.0")
    report = json.loads(done.stdout)
    assert report["target"]["engine"] == "vllm"
    assert [r["status"] for r in report["results"]] != ["pass"]
