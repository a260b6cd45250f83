"""The documented deployment routes, each judged as a command on two hosts: the rules that decide, with every text filled."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import FIXTURES, lay_over, read_case, take_out, tomllib

HOME = FIXTURES / "launch"
ROUTES = tomllib.loads((HOME / "routes.toml").read_text("utf-8"))["route"]
HOSTS = ("h200", "rtx-4090")
LEVELS = ("fail", "warn", "note")
SHOWN = ("s0-3", "s3-2", "s3-4")  # whose reports are kept


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The recorded host with two H200, and a recording of two RTX 4090 made from it."""
    folder = tmp_path_factory.mktemp("hosts")
    whole = json.loads((FIXTURES / "hosts" / "h200-x2" / "snapshot.json").read_bytes())
    (folder / "h200.json").write_text(json.dumps(whole))
    case = read_case(FIXTURES / "hosts" / "variants" / "healthy-two-rtx-4090.toml")
    values: dict[str, Any] = {name: kept["value"] for name, kept in whole["facts"].items() if "value" in kept}
    for path in case.unset:
        take_out(values, path)
    for name, value in case.facts.items():
        values[name] = lay_over(values.get(name, {}), value)
    for name, value in values.items():
        whole["facts"][name] = {**whole["facts"].get(name, {}), "value": value}
    (folder / "rtx-4090.json").write_text(json.dumps(whole))
    return {host: folder / f"{host}.json" for host in HOSTS}


def run(recording: Path, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """What the user sees: the command's own variables stand before it, as in a shell."""
    words = [*more, "--replay", str(recording), "--", "env", *shlex.split(command)]
    env = {**os.environ, "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", "run", *words],
        capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("route", ROUTES, ids=lambda r: r["id"])
def test_a_route_is_judged_by_the_rules_that_decide(
    route: dict[str, Any], host: str, recordings: dict[str, Path]
) -> None:
    done = run(recordings[host], route["command"], "--format", "json")
    assert done.stderr == ""
    said = json.loads(done.stdout)
    results = {r["rule"]: r for r in said["results"]}
    assert not [r for r in results.values() if r["status"] == "error"]
    families = ("launch", "memory", "profile")
    loud = {n: r["status"] for n, r in results.items() if r["status"] in LEVELS and r["family"] in families}
    assert loud == route[host]
    assert "{" not in "".join(r["title"] + r.get("why", "") for r in results.values() if r["status"] in LEVELS)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("route", [r for r in ROUTES if r["id"] in SHOWN], ids=lambda r: r["id"])
def test_a_routes_report_reads_as_kept(
    route: dict[str, Any], lang: str, recordings: dict[str, Path], golden: Callable[[Path, str], None]
) -> None:
    done = run(recordings["rtx-4090"], route["command"], "--lang", lang, "--only", "launch", "--only", "memory")
    text = "\n".join(line for line in done.stdout.splitlines() if not line.startswith(("Time", "耗时", "ds-doctor ")))
    golden(HOME / "routes" / f"{route['id']}.{lang}.txt", text.replace(str(recordings["rtx-4090"]), "SNAPSHOT") + "\n")
