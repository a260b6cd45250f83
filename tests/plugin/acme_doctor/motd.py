"""The notice of Acme's operators: a host that is being drained says so in a file."""

from __future__ import annotations

import msgspec

from ds_doctor.api import Findings, Host, check, found, probe


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The words of the notice, one line each."""

    lines: tuple[str, ...]


def parse(text: str) -> Notice:
    return Notice(lines=tuple(line.strip() for line in text.splitlines() if line.strip()))


@probe
def notice(host: Host) -> Notice:
    return parse(host.text(host.env.get("ACME_NOTICE", "/etc/acme/notice")))


@check("acme-drained")
def host_is_in_service(notice: Notice) -> Findings:
    for line in notice.lines:
        if line.startswith("DRAINED"):
            yield found("acme-drained", since=line.partition(" ")[2] or "?")
