"""A host that answers any one question with junk breaks no probe, no check and no report, and slows none of them down."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ds_doctor import engine, snapshot
from ds_doctor.command import Output
from ds_doctor.gather import ask
from ds_doctor.host import Asked, Space, Stat
from ds_doctor.model import Absent, Denied, Malformed, Outcome, TimedOut, Trouble
from ds_doctor.registry import fact_name
from ds_doctor.replay import ReplayedHost, _key
from ds_doctor.report import document, host, render
from record_host import every_fact
from support import FIXTURES, Case, case_outcomes, doctor

RECORDINGS = sorted((FIXTURES / "probes").glob("*/h200-x2/recording.json"))
KINDS = ("file", "directory", "link", "fifo", "socket", "character", "block", "unknown")
NAMES = (
    ["\udcff"],
    ["a\nb"],
    ["0", "-1", "9" * 30, "0000:00:00.0", "²"],
    ["9" * 5000],
    [str(i) for i in range(20_000)],
)
MOST = 40  # questions of one probe; the loader asks hundreds of one kind
VALUES = ("", "\udcff", "a\nb", "\0", "/" * 5000, "9" * 5000, ":::", "~", "-1", "²", "(((", "," * 1000, "\x1b[2J", "=")


class Hostile(ReplayedHost):
    """The recorded host; to one question it gives another answer."""

    def __init__(self, said: dict[str, Any], question: str = "", answer: Any = None, **env: str) -> None:
        super().__init__(said["calls"], {**said["env"], **env}, msgspec.convert(said["asked"], Asked))
        self.question, self.answer = question, answer

    def _call(self, op: str, *args: Any) -> Any:
        if _key(op, args) != self.question:
            return super()._call(op, *args)
        if isinstance(self.answer, Trouble):
            raise self.answer
        return self.answer


def texts(text: str) -> Iterator[str]:
    yield from (
        "",
        "\0" * 5000,
        "[" * 100_000,
        '{"a":' * 50_000,
        "a = " + "[" * 50_000,
        "- " * 20_000,
        "9" * 6000,
        "null",
        "[{}]",
    )
    yield random.Random(0).randbytes(2000).decode("latin-1")
    yield from (text[: len(text) // 2], text * 2, text.replace(":", ""), text.replace("\n", " "), text.upper())
    for number in ("-1", "9" * 25, "9" * 5000, "nan", "0", "²", "null", "[]", '"x"'):
        yield re.sub(r"\d+", number, text)[:2_000_000]
    yield re.sub(r'"[^"]*"', "null", text)
    yield re.sub(r"\w+", "\x1b[31mx", text)


def answers(op: str, recorded: dict[str, Any]) -> Iterator[Any]:
    yield from (kind("x", path="/x") for kind in (Absent, Denied, TimedOut, Malformed))
    value = recorded.get("value")
    if op in ("read", "read_at"):
        yield from (t.encode("utf-8", "surrogateescape") for t in texts(recorded.get("text", "a 1\n")))
        yield b"\xff\xfe\x00"
    elif op in ("run", "run_own"):
        yield from (
            Output(status=s, out=t, err="\x1b") for t in texts((value or {}).get("out", "x")) for s in (0, 1, -11)
        )
    elif op == "names":
        yield from NAMES
    elif op in ("stat", "lstat"):
        for kind in KINDS:
            yield Stat(kind=kind, mode=0o777, uid=9, gid=9, size=2**63, blocks=0, mtime=-1e12, dev=0, ino=0, rdev=2**40)
    elif op == "space":
        yield from (Space(size=n, free=n, files=n, files_free=n, read_only=True, no_exec=True) for n in (0, -1, 2**70))
    elif op in ("link", "real"):
        yield from ("", "/", "..", "\udcff", "a\nb", "/" * 5000)


def hosts(said: dict[str, Any]) -> Iterator[tuple[str, Hostile]]:
    calls = list(said["calls"].items())
    for question, recorded in random.Random(0).sample(calls, min(len(calls), MOST)):
        for answer in answers(question.split()[0], recorded):
            yield f"{question} <- {str(answer)[:80]!r}", Hostile(said, question, answer)
    for variable in said["env"]:
        for value in VALUES:
            yield f"{variable}={value[:80]!r}", Hostile(said, **{variable: value})


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.parent.parent.name)
def test_junk_in_the_place_of_any_answer_costs_that_fact_only(path: Path) -> None:
    (fact,) = [f for f in every_fact() if fact_name(f) == path.parent.parent.name]
    checks = [c for c in doctor().checks if any(w.fact is fact for w in c.wants)]
    rules = {rule for c in checks for rule in c.rules}
    whole = case_outcomes(Case(says="", expect={}, base="h200-x2"), doctor().checks, host.ALWAYS)
    seen = set()
    for what, strange in hosts(json.loads(path.read_text("utf-8"))):
        begun = time.monotonic()
        outcome = ask(strange, fact)
        assert outcome.trouble != "broken", f"{what}: {outcome.reason}"
        if repr(outcome) not in seen:
            seen.add(repr(outcome))
            _judged({**whole, fact: outcome}, checks, rules, what)
            kept = snapshot.write({fact: outcome}, Asked(), "0", "")
            snapshot.outcomes(snapshot.read(kept, what), [fact], what)
        assert time.monotonic() - begun < 5, what


def _judged(facts: dict[type, Outcome], checks: list[engine.Check], rules: set[str], what: str) -> None:
    results = engine.judge(checks, facts, doctor().catalogue, rules)
    assert not [r.reason for r in results if r.status == "error"], what
    report = document.build(
        engine.conclude(results, [], set(), False),
        doctor().catalogue,
        "en",
        version="0",
        host=host.host_doc(facts),
        target=host.target_doc(Asked(), facts),
        started_at="",
        duration_s=0,
    )
    text = render("text", report, "en", verbose=True)
    assert not {c for c in text if not c.isprintable() and c != "\n"}, what
    assert max(map(len, text.splitlines())) < 10_000, what
    render("json", report, "en").encode()
