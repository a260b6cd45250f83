"""What a launch command loads beside its model: LoRA adapters and the drafter of speculative decoding; never judges."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from ..api import Absent, Host, Trouble, probe
from . import _volumes as volumes
from . import launch as launches
from .launch import Launch

LIMIT = 64  # of one command
CONFIG_LIMIT = 1 << 20  # bytes of an adapter_config.json
ADAPTERS = {"vllm": "--lora-modules", "sglang": "--lora-paths"}
DRAFTERS = {
    "vllm": ("--speculative-config", "-sc", "--speculative-model"),
    "sglang": ("--speculative-draft-model-path", "--speculative-draft-model"),
}
# What either engine would look for on the Hub where no such path is there.
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*\Z")


class Companion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of them. `kind`: lora or draft; `given` as the command has it, `name` an adapter's. `path` on this host (None: not to
    be told, as inside an image or a volume). `there`: whether something stands at `path`; None where that cannot be seen or
    where it may come from the Hub instead. `config`: adapter_config.json as an object; `problem` why there is none: missing,
    unreadable, not-json."""

    kind: str
    given: str
    name: str = ""
    path: str | None = None
    there: bool | None = None
    config: dict[str, Any] | None = None
    problem: str | None = None


class Companions(msgspec.Struct, frozen=True, kw_only=True):
    """What the launch command loads beside its model: LoRA adapters and a drafter, in the order given."""

    of_command: ClassVar[bool] = True

    items: tuple[Companion, ...] = ()


@probe
def companions(host: Host) -> Companions:
    """Absent: no command, or none of an engine. Without companions the fact is empty."""
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    asked = launches.launch(host)
    if asked.engine is None:
        raise Absent("no-engine-command")
    items = [
        *(_companion(host, asked, "lora", path, name) for name, path in adapters(asked)),
        *(_companion(host, asked, "draft", path) for path in drafter(asked)),
    ]
    return Companions(items=tuple(items[:LIMIT]))


def _given(arguments: tuple[str, ...], flag: str) -> list[str]:
    """The words behind the last such flag, up to the next option."""
    words: list[str] = []
    for i, word in enumerate(arguments):
        head, equals, value = word.partition("=")
        if head.replace("_", "-") != flag:
            continue
        words = [value] if equals else []
        for after in () if equals else arguments[i + 1 :]:
            if after.startswith("-"):
                break
            words.append(after)
    return words[:LIMIT]


def adapters(asked: Launch) -> Iterator[tuple[str, str]]:
    """(name, path) of each adapter: `name=path` or an object of JSON; SGLang also takes the path alone."""
    for word in _given(asked.arguments, ADAPTERS[asked.engine or "vllm"]):
        if word.lstrip().startswith("{"):
            try:
                said = json.loads(word)
            except ValueError:
                continue
            name, path = said.get("name", said.get("lora_name")), said.get("path", said.get("lora_path"))
            if isinstance(path, str):
                yield str(name), path
        elif "=" in word:
            name, _, path = word.partition("=")
            yield name, path
        elif asked.engine == "sglang":
            yield word, word


def drafter(asked: Launch) -> Iterator[str]:
    flags = DRAFTERS[asked.engine or "vllm"]
    value = launches.option(asked.arguments, flags)
    if value is None:
        return
    if value.lstrip().startswith("{"):
        try:
            said = json.loads(value)
        except ValueError:
            return
        if said.get("method") in ("custom_class", "ngram", "suffix") or said.get("model") in ("ngram", "[ngram]"):
            return
        value = said.get("model")
    if isinstance(value, str) and "://" not in value:
        yield value


def _companion(host: Host, asked: Launch, kind: str, given: str, name: str = "") -> Companion:
    inside = asked.container is not None
    written = given
    if written.startswith("~/") and not inside:
        written = host.env.get("HOME", "").rstrip("/") + written[1:]
    if not written.startswith("/") and not inside:
        if asked.folder is None and host.asked.deployment is not None:
            return Companion(kind=kind, given=given, name=name)
        written = posixpath.join(asked.folder or host.real("."), written)
    outside = volumes.outside(host, asked, written)
    if outside.path is None:
        return Companion(kind=kind, given=given, name=name)
    path = posixpath.normpath(outside.path)
    try:
        host.stat(path)
    except Absent:
        local = given.startswith(("/", "./", "../", "~")) or not _HUB_ID.match(given)
        # What a manifest mounts lies on the node that it will run on, which need not be this host.
        on_node = asked.container is not None and asked.container.program == "kubernetes"
        there = False if local and not on_node else None
        return Companion(kind=kind, given=given, name=name, path=path, there=there)
    except Trouble:
        return Companion(kind=kind, given=given, name=name, path=path)
    config, problem = _adapter(host, path) if kind == "lora" else (None, None)
    return Companion(kind=kind, given=given, name=name, path=path, there=True, config=config, problem=problem)


def _adapter(host: Host, path: str) -> tuple[dict[str, Any] | None, str | None]:
    try:
        text = host.read(f"{path}/adapter_config.json", CONFIG_LIMIT)
    except Absent:
        return None, "missing"
    except Trouble:
        return None, "unreadable"
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None, "not-json"
    return (said, None) if isinstance(said, dict) else (None, "not-json")
