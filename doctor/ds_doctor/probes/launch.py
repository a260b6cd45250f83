"""The launch command as a fact: what was asked for, typed; how it is read stands in the launch room."""

from __future__ import annotations

from ..api import Absent, Host, probe
from ..host import Asked
from ..launch.command import parse
from ..launch.structs import Container, Deployment, Gpus, Launch, Mount, Port, Ulimit, Unread
from ..launch.words import ASSIGNMENT, OPEN, bytes_of, has, option

__all__ = [
    "ASSIGNMENT", "OPEN", "Container", "Deployment", "Gpus", "Launch", "Mount", "Port", "Ulimit", "Unread", "asked_launch", "bytes_of", "deployment",
    "has", "launch", "option", "parse",
]  # fmt: skip


def asked_launch(asked: Asked) -> Launch:
    """What was asked to be launched: the service of a file, or the command. Without either an empty one."""
    return asked.launch or parse(asked.command)


@probe
def launch(host: Host) -> Launch:
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    return asked_launch(host.asked)


@probe
def deployment(host: Host) -> Deployment:
    if host.asked.deployment is None:
        raise Absent("no-deployment-file")
    return host.asked.deployment
