"""`ds-doctor schema`: the JSON Schema of what the program writes; made from the types that write it."""

from __future__ import annotations

import click
import msgspec

from ..report.document import Report
from ..snapshot import Snapshot
from . import put
from .lang import t

KINDS = {"report": Report, "snapshot": Snapshot}


@click.command("schema", help=t("Print the JSON Schema of a report or snapshot.", "输出报告或快照的 JSON Schema。"))
@click.argument("what", type=click.Choice(list(KINDS)))
def command(what: str) -> int:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(KINDS[what])}
    put(msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n")
    return 0
