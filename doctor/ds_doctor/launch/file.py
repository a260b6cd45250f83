"""The text of a file to the services in it: Compose, Kubernetes, systemd or a shell script, told apart by what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .problem import Problem
from .structs import Deployment, Service

LIMIT = 4 << 20  # bytes; a manifest of a megabyte is a rarity
MOST = 64  # services of one file that are judged
# Helm and other templates: what stands between the braces is filled in before Kubernetes sees it.
_TEMPLATE = re.compile(
    r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Capabilities|Files|Template)\b|/\*|(?:include|if|range|with|template|define|end"
    r"|else|toYaml|tpl|printf|default|required|lookup|quote)\b|\$\w*\s*:?=|\$\.)"
)


def services(data: bytes, source: str, name: str, known: Mapping[str, str]) -> tuple[Service, ...]:
    """Every service of the file that would start an engine, or at least asks for GPUs.

    `source`: the file as the user named it; `name`: its last part; `known`: the variables of the environment in which it
    would be used. Problem with one reason for what cannot be read.
    """
    if not data.strip():
        raise Problem("launch-file-empty")
    if b"\0" in data[:8192]:
        raise Problem("launch-file-binary")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Problem("launch-file-binary") from None
    every = _read(text, source, name, known)
    wanted = [s for s in every if s.launch.engine is not None]
    if not wanted:
        wanted = [s for s in every if _on_gpus(s)]
    if not wanted:
        raise Problem("launch-file-no-engine", services=[s.name for s in every][:8], count=len(every))
    if len(wanted) > MOST:
        raise Problem("launch-file-too-many", count=len(wanted), limit=MOST)
    return _named_apart(wanted)


def _named_apart(wanted: list[Service]) -> tuple[Service, ...]:
    """The services with names of their own: two of the same name get their place behind it."""
    import msgspec

    names = [s.name for s in wanted]
    got: list[Service] = []
    for i, service in enumerate(wanted):
        if names.count(service.name) > 1:
            got.append(msgspec.structs.replace(service, name=f"{service.name}#{names[: i + 1].count(service.name)}"))
        else:
            got.append(service)
    return tuple(got)


def _on_gpus(service: Service) -> bool:
    container, pod = service.launch.container, service.deployment.pod
    return bool(
        (container is not None and (container.asked_gpus or container.runtime == "nvidia"))
        or (pod is not None and pod.claims)
    )


def _read(text: str, source: str, name: str, known: Mapping[str, str]) -> list[Service]:
    from .unit import is_unit

    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending == "service" or (is_unit(text) and ending not in ("yml", "yaml", "json", "sh")):
        from .unit import services as of_unit

        return of_unit(text, source, name.removesuffix(".service"))
    if ending in ("sh", "bash", "slurm", "sbatch") or re.match(r"#!.*sh\b", text):
        return _of_script(text, source, name, known)
    if ending in ("yml", "yaml", "json") or re.search(r"^(apiVersion|services|kind|version)\s*:|^\s*[{\[]", text, re.M):
        return _of_documents(text, source, known)
    if re.match(r"(?:\s*#[^\n]*\n|\s*ARG [^\n]*\n)*\s*FROM\s+\S+", text):
        raise Problem("launch-file-dockerfile")
    return _of_script(text, source, name, known)


def _of_documents(text: str, source: str, known: Mapping[str, str]) -> list[Service]:
    from . import compose, manifest
    from .documents import documents

    template = _TEMPLATE.search(text)
    if template is not None:
        raise Problem(
            "launch-file-template", line=text.count("\n", 0, template.start()) + 1, text=template[0].strip()[:40]
        )
    got: list[Service] = []
    understood = 0
    for document in documents(text):
        if document is None:
            continue
        for one in _flat(document):
            if compose.is_compose(one):
                understood += 1
                got += compose.services(one, source, known)
            elif manifest.is_manifest(one):
                understood += 1
                got += manifest.services(one, source)
    if not understood:
        raise Problem("launch-file-unknown")
    return got


def _flat(document: Any) -> list[Any]:
    """A document, or those of a list at the top (JSON files with several objects)."""
    return [d for d in document if isinstance(d, dict)] if isinstance(document, list) else [document]


def _of_script(text: str, source: str, name: str, known: Mapping[str, str]) -> list[Service]:
    from .command import Found, launch_of
    from .script import found_in

    if len(text) > 1 << 20:
        raise Problem("launch-script-too-long", limit_kib=1024)
    found = Found(known)
    found.folder = known.get("PWD")
    got = []
    for one, inner in found_in(text, found):
        launch = launch_of(inner)
        got.append(
            Service(
                name=f"{name}:{one.line}",
                command=tuple(one.words),
                launch=launch,
                deployment=Deployment(kind="script", name=name, source=source, where=f"line {one.line}"),
            )
        )
    if not got and found.unread:
        raise Problem(found.unread[0].id, **found.unread[0].data)
    return got
