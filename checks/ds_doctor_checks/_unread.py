"""What could not be read leaves a container rule unknown, with the file's name; it finds no fault."""

from __future__ import annotations

from collections.abc import Iterable

from ds_doctor.api import Findings, undecided
from ds_doctor.probes.cdi import Cdi
from ds_doctor.probes.docker import DaemonFile, Docker
from ds_doctor.probes.toolkit import Toolkit, ToolkitConfig


def daemon_json(docker: Docker, rule: str) -> Findings:
    """The daemon.json files that this rule could not look into."""
    return _files(docker.files, rule, "docker-daemon-json-invalid", "daemon-json-broken")


def config(toolkit: Toolkit, rule: str) -> Findings:
    """The same of the toolkit's config.toml files."""
    return _files(toolkit.configs, rule, "toolkit-config-invalid", "toolkit-config-broken")


def _files(files: Iterable[DaemonFile | ToolkitConfig], rule: str, owner: str, broken: str) -> Findings:
    """`owner` is the rule that speaks of broken files itself; the others cannot look into them."""
    for file in files:
        if file.error == "denied":
            yield undecided(rule, "file-denied", path=file.path)
        elif file.error == "too-large":
            yield undecided(rule, "file-too-large", path=file.path, limit_kib=1024)
        elif file.error == "unreadable":
            yield undecided(rule, "file-unreadable", path=file.path, error=file.detail)
        elif file.error is not None and rule != owner:
            yield undecided(rule, broken, path=file.path)


def specs(cdi: Cdi, rule: str) -> Findings:
    """The CDI specifications and folders that this rule could not look into."""
    for folder in cdi.denied:
        yield undecided(rule, "file-denied", path=folder)
    for spec in cdi.specs:
        if spec.error == "denied":
            yield undecided(rule, "file-denied", path=spec.path)
        elif spec.error is not None:
            yield undecided(rule, "cdi-file-broken", path=spec.path)
