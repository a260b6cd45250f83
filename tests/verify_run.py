"""Runs `ds-doctor verify` as users do, in a forked process of this Python (the installed program itself where a test says so), and reads what it says."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ds_doctor.cli
import ds_doctor.cli.commands
import ds_doctor.cli.verifying
import ds_doctor.report.verify_text
from ds_doctor.registry import load_plugin

load_plugin("built-in", "ds_doctor_checks")
SIGN = {"HF_HUB_CACHE", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "MODELSCOPE_CACHE", "HF_ENDPOINT", "VLLM_USE_MODELSCOPE"}


@dataclass
class Said:
    """What came out of one run."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        assert self.out.lstrip().startswith("{"), f"no JSON, exit {self.status}: {self.out[:300]} {self.err[:2000]}"
        made: dict[str, Any] = json.loads(self.out)
        return made

    def results(self, *statuses: str) -> dict[str, dict[str, Any]]:
        found = {r["rule"]: r for r in self.report["results"]}
        return {k: r for k, r in found.items() if not statuses or r["status"] in statuses}

    def status_of(self, rule: str) -> str | None:
        result = self.results().get(rule)
        return None if result is None else result["status"]

    def told(self) -> str:
        """Everything not in order, for a failing test's message."""
        lines = [f"exit {self.status} {self.err.strip()[:1500]}"]
        if self.out.lstrip().startswith("{"):
            for rule, r in self.results("fail", "warn", "note", "error", "unknown").items():
                lines.append(
                    f"{r['status']:7} {rule}: {r['title']} {[f.get('on') for f in r['findings']]} {r.get('reason') or ''}"
                )
            odd = [f for f in self.report.get("files", []) if f["status"] not in ("proven", "unproven", "not-hashed")]
            lines += [json.dumps(f) for f in odd[:5]]
        else:
            lines.append(self.out[:3000])
        return "\n".join(lines)

    def file(self, name: str) -> dict[str, Any]:
        found = [f for f in self.report["files"] if f["name"] == name]
        assert len(found) == 1, f"{name}: {len(found)} entries among {[f['name'] for f in self.report['files']]}"
        return dict(found[0])


@functools.cache
def compiled() -> dict[str, bytes]:
    """In a checkout the catalogue is compiled at the first run, which takes a second: once for all tests. In a wheel there is nothing to do."""
    with tempfile.TemporaryDirectory() as cache:
        (Path(cache) / "ds-doctor").mkdir(mode=0o700)
        forked(["verify", "/proc/self", "--quick"], {**os.environ, "XDG_CACHE_HOME": cache})
        return {
            p.name: p.read_bytes() for p in (Path(cache) / "ds-doctor").iterdir() if not p.name.startswith("proofs")
        }


def environment(cache: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in SIGN and not k.startswith(("HF_", "DS_DOCTOR"))}
    home = cache / "home"
    home.mkdir(parents=True, exist_ok=True)
    if not (cache / "ds-doctor").exists():
        (cache / "ds-doctor").mkdir(mode=0o700)
        for name, data in compiled().items():
            (cache / "ds-doctor" / name).write_bytes(data)
    made = {"XDG_CACHE_HOME": str(cache), "HOME": str(home), "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "200"}
    return kept | made | dict(env or {})


def forked(
    argv: list[str],
    env: Mapping[str, str],
    before: Callable[[], None] | None = None,
    timeout: float = 120,
    cwd: str | None = None,
) -> Said:
    """`ds-doctor ARGV` in a child that begins with everything imported; `before` runs in the child first."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        sys.stdout.flush()
        sys.stderr.flush()
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _child(argv, env, before, cwd, [nothing.fileno(), out.fileno(), err.fileno()])
        status = _wait(pid, timeout)
        seconds = time.monotonic() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Said(status, texts[0], texts[1], seconds)


def _child(
    argv: list[str], env: Mapping[str, str], before: Callable[[], None] | None, cwd: str | None, fds: list[int]
) -> None:
    try:
        os.setpgid(0, 0)
        for number, fd in enumerate(fds):
            os.dup2(fd, number)
        sys.stdin = os.fdopen(0, "r", closefd=False)
        sys.stdout = os.fdopen(1, "w", closefd=False, encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", closefd=False, encoding="utf-8")
        os.environ.clear()
        os.environ.update(env)
        if cwd is not None:
            os.chdir(cwd)
        if before is not None:
            before()
        ds_doctor.cli.main(argv)
    except SystemExit as e:
        sys.stdout.flush()
        os._exit(e.code if isinstance(e.code, int) else 1)
    except BaseException:  # noqa: BLE001 - a forked child must never come back into the tests
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(70)


def _wait(pid: int, timeout: float) -> int:
    end = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError(f"it was not done after {timeout} s")
        time.sleep(0.002)


def program(argv: list[str], env: Mapping[str, str], timeout: float = 120, **more: Any) -> Said:
    """The installed program."""
    began = time.monotonic()
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ds-doctor"), *argv],
        env=dict(env),
        timeout=timeout,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        **more,
    )
    return Said(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
        time.monotonic() - began,
    )


def settle() -> None:
    """What was written in this moment is not remembered, since it may still change within one tick of the file system's clock."""
    time.sleep(0.05)


def names_in(result: Mapping[str, Any]) -> str:
    """Everything that a result's findings say, as one text."""
    return json.dumps([result["title"], result["findings"]], ensure_ascii=False)


def speaks_of(result: Mapping[str, Any], names: Iterable[str]) -> bool:
    text = names_in(result)
    return any(n in text for n in names)


def digest_in(text: str) -> set[str]:
    return set(re.findall(r"\b[0-9a-f]{64}\b|\b[0-9a-f]{40}\b", text))
