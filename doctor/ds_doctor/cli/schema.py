"""`ds-doctor schema`: the JSON Schema of what the program writes; made from the types that write it."""

from __future__ import annotations

import click
import msgspec

from ..report.answer import Answer
from ..report.document import Report
from ..report.fit import FitDoc
from ..report.verify import VerifyDoc
from ..snapshot import Snapshot
from . import put
from .lang import t

KINDS = {"report": Report, "explain": Answer, "fit": FitDoc, "verify": VerifyDoc, "snapshot": Snapshot}


@click.command("schema", help=t("Print the JSON Schema of what the program writes.", "输出本程序所写 JSON 的 Schema。"))
@click.argument("what", type=click.Choice(list(KINDS)))
def command(what: str) -> int:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(KINDS[what])}
    put(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n")
    return 0
