"""Record the host one stands on for fixtures/: the facts as `run --record` keeps them, and each probe's calls.

    python tests/record_host.py OUTDIR [--python PATH] [--model PATH]

OUTDIR gets snapshot.json (facts) and calls.json (one entry a probe: the calls it made and what it gave). The host's
name and the serial numbers of its GPUs are replaced; read the files before committing them all the same.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from ds_doctor import __version__, probes, snapshot
from ds_doctor.gather import gather
from ds_doctor.host import Asked, Host
from ds_doctor.model import Outcome
from ds_doctor.probes import environment
from ds_doctor.registry import fact_name, probe_of
from ds_doctor.replay import record

CALL_LIMIT = 60_000  # bytes of one recorded answer; the bodies of libraries stay where they are


def every_fact() -> list[type]:
    """The facts of all built-in probes."""
    facts = []
    for info in pkgutil.iter_modules(probes.__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{probes.__name__}.{info.name}")
        for thing in list(vars(module).values()):
            if isinstance(thing, type) and issubclass(thing, msgspec.Struct):
                try:
                    one = probe_of(thing)
                except LookupError:
                    continue
                if one.ask.__module__ == module.__name__:
                    facts.append(one.fact)
    return sorted(set(facts), key=fact_name)


def scrub(text: str) -> str:
    """GPU UUIDs become numbered ones, the host's name `node1`."""
    import socket

    seen: dict[str, str] = {}

    def number(m: re.Match[str]) -> str:
        return seen.setdefault(m[0], f"GPU-{len(seen):08x}-0000-0000-0000-000000000000")

    text = re.sub(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", number, text)
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", "node1", text) if len(socket.gethostname()) > 3 else text


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("outdir", type=Path)
    options.add_argument("--python")
    options.add_argument("--model")
    given = options.parse_args()
    given.outdir.mkdir(parents=True, exist_ok=True)
    asked = Asked(python=given.python, model=given.model)
    outcomes: dict[type, Outcome] = {}
    kept: dict[str, Any] = {}
    for fact in every_fact():
        calls: dict[str, Any] = {}
        host = record(Host(asked), calls)
        outcomes.update(gather(host, [fact], 30))
        small = {k: v for k, v in calls.items() if len(msgspec.json.encode(v)) <= CALL_LIMIT}
        outcome = outcomes[fact]
        kept[fact_name(fact)] = {"left_out": sorted(set(calls) - set(small)), "calls": small, "outcome": outcome}
        print(
            f"{fact_name(fact):20} {outcome.duration_ms:8.1f} ms  {outcome.trouble or 'ok'} {outcome.reason or ''}",
            file=sys.stderr,
        )
    env = environment.parse(dict(Host().env))
    body = {"env": env, "asked": asked, "probes": kept}
    (given.outdir / "snapshot.json").write_text(
        scrub(snapshot.write(outcomes, asked, __version__, "recorded").decode())
    )
    (given.outdir / "calls.json").write_text(
        scrub(msgspec.json.format(msgspec.json.encode(body), indent=1).decode()) + "\n"
    )


if __name__ == "__main__":
    main()
