"""The repair that `verify` names is carried out, by the real client against a hub of our own, and then the folder is whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

import verify_builder as build
import verify_faults as faults
import verify_hub as hub
import verify_repos as repos
import verify_run as running

DAMAGE: dict[str, Callable[[build.Made], object]] = {
    "missing": faults.unlink,
    "half": faults.cut(lambda n: n // 2),
    "one byte more": faults.append(b"x"),
    "flipped bit": faults.flip(lambda n: n // 2),
    "HTML page": faults.write(faults.HTML),
    "LFS pointer": faults.write(faults.LFS),
    "empty": faults.write(b""),
    "reserved": faults.zeros_from(0.5, sparse=True),
}
CONFIG: dict[str, Callable[[build.Made], object]] = {
    "config cut": faults.shorten("config.json"),
    "config changed": faults.changed_config,
    "no config": faults.put("config.json", None),
    "tokenizer cut": faults.shorten("tokenizer.json"),
    "index cut": faults.shorten(repos.INDEX),
}


@pytest.fixture(scope="module")
def server(shelf: Path) -> Iterator[ThreadingHTTPServer]:
    made = hub.serve({build.ID: {build.OLD: str(shelf / "src/old"), build.COMMIT: str(shelf / "src/new")}})
    yield made
    made.shutdown()


def commands(said: running.Said) -> list[str]:
    """What a person would paste: the commands of everything that failed, in order, each once. Where no layout tells the repository's name, a sentence
    has it as ORG/NAME."""
    found: list[str] = []
    for result in said.results("fail").values():
        for step in result["fix"]:
            in_words = re.findall(r"hf download ORG/NAME [^;,()（]*--local-dir [^;,()（]*", step.get("say", ""))
            for text in [step["run"]] if step.get("run") else [w.strip() for w in in_words]:
                text = text.replace("ORG/NAME", build.ID)
                if text not in found and "--local-dir DIR" not in text:
                    found.append(text)
    return found


def verify(made: build.Made, env: dict[str, str]) -> running.Said:
    return running.program(["verify", made.target, "--format", "json", *made.args], env)


CASES = [
    ("hub", f) for f in ("missing", "half", "flipped bit", "LFS pointer", "no config", "index cut", "config changed")
]
CASES += [("local", f) for f in ("missing", "reserved", "flipped bit", "HTML page", "config cut")]
CASES += [
    ("hub id", "one byte more"),
    ("hub-by-file", "empty"),
    ("hub-shared", "flipped bit"),
    ("hub", "tokenizer cut"),
]


@pytest.mark.parametrize(("layout", "fault"), CASES)
def test_the_named_repair_makes_the_folder_whole(
    layout: str, fault: str, shelf: Path, tmp_path: Path, server: ThreadingHTTPServer
) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    (DAMAGE | CONFIG)[fault](made)
    env = running.environment(tmp_path / "cache", made.env) | hub.settings(server)
    env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = verify(made, env)
    assert said.status == 1, said.told()
    steps = commands(said)
    assert any("hf download" in s and build.ID in s and build.COMMIT in s for s in steps), (steps, said.told())
    for step in steps:
        done = subprocess.run(["bash", "-c", step], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    again = verify(made, env)
    assert again.status == 0, (steps, again.told())
    assert not again.results("fail", "warn"), (steps, again.told())


@pytest.mark.parametrize("layout", ["modelscope", "modelscope new"])
def test_modelscope_repairs_name_the_one_file(layout: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    faults.cut(lambda n: n // 2)(made)
    said = verify(made, running.environment(tmp_path / "cache"))
    steps = " && ".join(commands(said))
    assert "modelscope download" in steps and build.ID in steps and made.victim in steps, said.told()


def test_where_the_source_is_not_known_no_command_is_made_up(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    faults.cut(lambda n: n // 2)(made)
    said = verify(made, running.environment(tmp_path / "cache"))
    assert said.status == 1
    assert not [s for s in commands(said) if "download" in s], said.told()
    assert any(made.victim in str(r["fix"]) + r["title"] for r in said.results("fail").values())
