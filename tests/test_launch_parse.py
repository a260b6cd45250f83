"""A launch command is read as the shell, the wrappers, docker and the engine would take it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec
import pytest

from ds_doctor.launch.command import parse
from support import FIXTURES

COMMANDS = [json.loads(line) for line in (FIXTURES / "launch" / "parse.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("one", COMMANDS, ids=lambda one: one["line"][:80])
def test_a_command_is_read_as_it_would_run(one: dict[str, Any]) -> None:
    got = json.loads(msgspec.json.encode(parse(shlex.split(one["line"]))))
    for name, wanted in one["expect"].items():
        value = got[name]
        if name == "unread":
            value = [u["id"] for u in value]
        elif name == "container":
            value = {n: (value or {}).get(n) for n in wanted}
        assert value == wanted, name


def test_no_secret_of_a_command_is_kept() -> None:
    for one in COMMANDS:
        assert b"secretsecret" not in msgspec.json.encode(parse(shlex.split(one["line"])))
