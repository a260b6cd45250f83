"""`ds-doctor explain` answers or is silent: options, exit statuses, JSON, and what it sees on the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support import FIXTURES

HOSTS = FIXTURES / "hosts"
WHOLE = str(HOSTS / "h200-x2" / "snapshot.json")
BROKEN = str(HOSTS / "h200-x2-two-faults" / "snapshot.json")


def explain(*words: str, stdin: str | bytes | None = None, lang: str = "C.UTF-8") -> subprocess.CompletedProcess[bytes]:
    data = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", "explain", *words],
        input=data if data is not None else b"",
        capture_output=True,
        timeout=60,
        env={**os.environ, "LC_ALL": lang},
    )


def answer(*words: str, stdin: str | None = None) -> dict[str, Any]:
    done = explain(*words, "--format", "json", stdin=stdin)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give a text"),
        (("",), "the text is empty"),
        (("  ", " "), "the text is empty"),
        (("-", "text"), "- stands alone"),
        (("--log", "/nowhere/vllm.log"), "--log /nowhere/vllm.log: No such file or directory"),
        (("--log", "/"), "is a folder"),
        (("x", "--top", "0"), "--top"),
        (("x", "--no-here", "--replay", "f"), "--no-here and --replay exclude each other"),
        (("x", "--timeout", "0"), "between 1 and 3600 seconds"),
        (("x", "--format", "xml"), "--format"),
        (("x", "--nothere"), "No such option"),
        (("driver-too-old", "--replay", "/nowhere"), "No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_status_two(words: tuple[str, ...], says: str) -> None:
    done = explain(*words)
    assert done.returncode == 2
    assert done.stdout == b""
    told = done.stderr.decode()
    assert told.startswith("ds-doctor: ") and told.count("\n") == 1 and says in told


@pytest.mark.parametrize("text", ["how do I bake bread", "the weather is nice today", "今天天气很好", "zzz qqq", "🙂"])
def test_what_is_not_known_is_one_calm_line_and_status_one(text: str) -> None:
    done = explain(text)
    assert (done.returncode, done.stderr) == (1, b"")
    assert done.stdout.decode() == "no known failure is recognised in this text\n"
    assert answer(text)["matches"] == []


@pytest.mark.parametrize(
    "data", [b"\x00\xff" * 5000, b"\x1b[31m" * 1000, b"{" * 100_000, b"\n" * 100_000, b"\x1f\x8b junk"]
)
def test_rubbish_is_not_known_and_breaks_nothing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    for done in (explain("-", "--no-here", stdin=data), explain("--log", str(path), "--no-here")):
        assert done.returncode == 1, done.stderr
        assert b"Traceback" not in done.stderr


def test_arguments_that_are_no_text_are_read_as_they_are() -> None:
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"ds_doctor", b"explain", b"--no-here", b"\xff\xfe \x80"],
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_rule_is_explained_by_its_id_with_the_numbers_of_the_host() -> None:
    found = answer("libcuda-compat-older", "--replay", BROKEN)["matches"]
    assert [m["rule"] for m in found] == ["libcuda-compat-older"]
    here = found[0]["causes"][0]["here"]
    assert here["status"] == "found"
    assert "580.95.05" in here["title"] and "580.95.05" in found[0]["title"]


def test_a_rule_that_is_kept_is_ruled_out() -> None:
    [match] = answer("libcuda-compat-older", "--replay", WHOLE)["matches"]
    assert match["causes"][0]["here"]["status"] == "ruled_out"
    text = explain("libcuda-compat-older", "--replay", WHOLE).stdout.decode()
    assert "ruled out here" in text and "FOUND HERE" not in text


def test_what_nobody_can_see_cannot_be_told() -> None:
    [match] = answer("weights-checksum-mismatch", "--replay", WHOLE)["matches"]
    assert match["causes"][0]["here"]["status"] == "unknown"


def test_without_looking_nothing_is_said_of_the_host() -> None:
    found = answer("libcuda-compat-older", "--no-here")
    assert found["looked_here"] is False
    assert found["matches"][0]["causes"][0]["here"] is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_answer_is_as_its_schema_says(lang: str) -> None:
    schema = json.loads(
        subprocess.run([sys.executable, "-m", "ds_doctor", "schema", "explain"], capture_output=True).stdout
    )
    for words in (("shm-too-small", "--replay", BROKEN), ("nothing at all",)):
        jsonschema.validate(answer(*words, "--lang", lang), schema)


def test_secrets_are_not_repeated() -> None:
    secret = "hf_abcdefghijklmnopqrstuvwx"
    for form in ("json", "text"):
        done = explain(f"shm-too-small HF_TOKEN={secret} https://me:hunter22@host/", "--no-here", "--format", form)
        assert secret.encode() not in done.stdout and b"hunter22" not in done.stdout
