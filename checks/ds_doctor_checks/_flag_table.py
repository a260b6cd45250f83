"""Which flag table a command is judged by: the installed engine's own, or the bundled one; it judges no command."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

from ds_doctor.probes.engine_flags import EngineFlags, Flag
from ds_doctor.probes.launch import Launch

from ._data import table

# What the parser of the bundled version does to words before argparse: EngineFlags.ways.
_WAYS = {
    "vllm": (
        *("underscores", "enable-disable", "json-dots", "list-plus", "config-file"),
        *("optimization-level", "model-first", "model-moved"),
    ),
    "sglang": ("config-file",),
}
# The tag of an image that names its release: `v0.33.0`, `v0.33.0-cu129`, `0.5.23-cu130-runtime`.
_TAG = re.compile(r"v?(\d+\.\d+(?:\.\d+)?(?:\.?(?:post|rc|dev)\d+)?)(?:[-_.+].*)?\Z")


class Chosen(NamedTuple):
    """`flags`: the table. `version`: that of the engine which the command would start, None: not known. `exact`: the table
    is that version's own and complete, so that what it lacks does not exist."""

    flags: EngineFlags
    version: str | None
    installed: bool
    exact: bool


def _stored(value: Any, flag: dict[str, Any]) -> Any:
    return None if value == "None" and (flag.get("nullable") or flag.get("kind") == "pair") else value


def _negative(names: list[str], kind: str) -> tuple[str, ...]:
    """The names of a pair that store false: the first one and its aliases store true."""
    if kind != "pair":
        return ()
    opposite = {"--no-" + n[2:] for n in names}
    for n in names[:1]:
        opposite |= {n.replace("--enable-", "--disable-", 1)} if n.startswith("--enable-") else set()
        opposite |= {n.replace("--disable-", "--enable-", 1)} if n.startswith("--disable-") else set()
    return tuple(n for n in names[1:] if n in opposite)


@functools.cache
def bundled(engine: str) -> EngineFlags:
    """The table of data/flags_<engine>.toml in the form that the probe gives."""
    data = table("flags_" + engine)
    flags = []
    for f in data["flag"]:
        names, kind = f["names"], f.get("kind", "value")
        default = _stored(f.get("default", False if kind in ("pair", "switch") else None), f)
        flags.append(
            Flag(
                names=tuple(names),
                dest=f.get("dest") or names[0].lstrip("-").replace("-", "_"),
                kind=kind,
                type=f.get("type", "str"),
                choices=tuple(_stored(c, f) for c in f["choices"]) if "choices" in f else None,
                default=tuple(default) if isinstance(default, list) else default,
                nargs=f.get("nargs"),
                negative=_negative(names, kind),
                nullable=f.get("nullable", False),
                repeats=f.get("repeats", False),
                required=f.get("required", False),
                positional=f.get("positional", False),
                deprecated=f.get("deprecated", False),
                made=f.get("made"),
            )
        )
    return EngineFlags(
        engine=engine,
        version=data["version"],
        folder="",
        flags=tuple(flags),
        ways=_WAYS[engine],
        entries=tuple(m["name"] for m in data["module"] if "last_seen" not in m),
        names={topic.replace("_", "-"): tuple(names) for topic, names in data.get("known", {}).items()},
    )


def image_version(image: str | None) -> str | None:
    """The engine's release that an image's tag names; None: it names none (`latest`, a digest, somebody's own tag)."""
    name, colon, tag = (image or "").partition("@")[0].rpartition(":")
    m = _TAG.match(tag) if colon and "/" not in tag else None
    known = name.rpartition("/")[2] in ("vllm-openai", "sglang", "vllm")
    return m[1] if m and known else None


def choose(launch: Launch, installed: EngineFlags | None) -> Chosen:
    """The table for a command. `installed` is the engine in the Python that the command would use here, which a container
    has nothing to do with."""
    engine = launch.engine or "vllm"
    ours = bundled(engine)
    if launch.container is not None:
        version = image_version(launch.container.image)
        return Chosen(ours, version, False, version is None or version == ours.version)
    if installed is None or installed.engine != engine:
        return Chosen(ours, None, False, True)
    if installed.release == ours.version:
        return Chosen(ours, installed.version, False, True)
    if installed.flags:
        return Chosen(installed, installed.version, True, installed.complete)
    return Chosen(ours, installed.version, False, installed.version == ours.version and installed.complete)
