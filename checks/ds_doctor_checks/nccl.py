"""NCCL: which copy would torch and the engines load, and does it fit torch and the other copies?"""

from __future__ import annotations

import re

from ds_doctor.api import Findings, NotApplicable, Undecided, check, found, not_applicable, undecided
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch
from ds_doctor.probes.nccl import NcclCopies
from ds_doctor.probes.nvml import Nvml
from ds_doctor.probes.python_env import Packages

from ._data import table
from ._nccl_copies import ENGINES, is_foreign, is_too_old, owns_wheel, pinned, used, version
from ._workers import visible_gpus, workers

# -- copies -----------------------------------------------------------------------------------------------------------


def _torch_with_nccl(copies: NcclCopies) -> None:
    """Leave where torch loads no libnccl file."""
    if copies.links == "unreadable":
        raise Undecided("torch-libraries-unreadable", python=copies.python or "?")
    if copies.links is None:
        raise NotApplicable("nccl-no-torch")
    if copies.links == "none":
        raise NotApplicable("nccl-torch-cpu")
    if copies.links == "static":
        raise NotApplicable("nccl-in-torch")


@check("nccl-missing")
def torch_finds_nccl(copies: NcclCopies) -> Findings:
    _torch_with_nccl(copies)
    if copies.torch is None:
        yield found("nccl-missing", library=copies.asked_by or "libtorch_cuda.so", python=copies.python or "python3")


@check("nccl-preloaded", "nccl-shadowed")
def torch_gets_its_own_nccl(copies: NcclCopies, packages: Packages | None) -> Findings:
    if copies.links in (None, "none"):
        raise NotApplicable("nccl-no-torch" if copies.links is None else "nccl-torch-cpu")
    own = copies.own if owns_wheel(packages) else None
    if own is not None and is_foreign(copies) and is_too_old(copies, packages):
        raise NotApplicable("nccl-too-old-says")
    for one in copies.copies:
        if one.real in copies.preloaded and (own is None or one.real != own.real):
            yield found(
                "nccl-preloaded",
                on=one.path,
                path=one.path,
                version=one.version or "?",
                how=next((h for h in one.found if "preload" in h.lower()), "LD_PRELOAD"),
                own=own.version or "?" if own else "?",
            )
    torch = copies.torch
    if torch and own and is_foreign(copies) and torch.real not in copies.preloaded:
        yield found(
            "nccl-shadowed",
            on=torch.path,
            path=torch.path,
            version=torch.version or "?",
            how=copies.torch_how or "?",
            own_path=own.path,
            own=own.version or "?",
        )


@check("nccl-two-copies", "nccl-so-path-broken")
def engines_use_the_nccl_of_torch(copies: NcclCopies, packages: Packages) -> Findings:
    if copies.links is None:
        raise NotApplicable("nccl-no-torch")
    for asked in copies.asked:
        engine = ENGINES[asked.variable]
        if engine not in packages.packages:
            continue
        if asked.trouble is not None:
            yield found(
                "nccl-so-path-broken", on=asked.variable, variable=asked.variable, path=asked.text, engine=engine
            )
        elif copies.torch is not None and asked.real != copies.torch.real:
            second = next((c for c in copies.copies if c.real == asked.real), None)
            yield found(
                "nccl-two-copies",
                on=asked.variable,
                variable=asked.variable,
                engine=engine,
                path=asked.text,
                version=(second.version if second else None) or "?",
                torch_path=copies.torch.path,
                torch_version=copies.torch.version or "?",
            )


# -- versions ---------------------------------------------------------------------------------------------------------


@check("nccl-too-old", "nccl-not-the-pinned")
def nccl_is_the_one_torch_was_built_with(copies: NcclCopies, packages: Packages) -> Findings:
    if copies.links == "unreadable":
        yield from _by_the_records(copies, packages)
        return
    _torch_with_nccl(copies)
    pin = pinned(packages)
    if pin is None:
        raise Undecided("nccl-pin-unknown")
    if copies.torch is None:
        raise NotApplicable("nccl-not-found")
    if copies.torch.version is None:
        raise Undecided("nccl-version-unread", path=copies.torch.path)
    has, want = version(copies.torch.version), version(pin[1])
    torch = packages.packages["torch"].version
    data = {
        "path": copies.torch.path,
        "how": copies.torch_how or "-",
        "version": copies.torch.version,
        "pinned": pin[1],
        "torch": torch,
        "wheel": pin[0],
    }
    if is_too_old(copies, packages):
        yield found("nccl-too-old", on=copies.torch.path, **data, python=packages.python)
    elif has != want and is_foreign(copies):
        yield not_applicable("nccl-not-the-pinned", "nccl-foreign-says")
    elif has != want:
        yield found("nccl-not-the-pinned", on=copies.torch.path, **data, python=packages.python)


def _by_the_records(copies: NcclCopies, packages: Packages) -> Findings:
    """Where torch's libraries cannot be read, the wheels' records still tell that the installed NCCL is too old."""
    rules = ("nccl-too-old", "nccl-not-the-pinned")
    pin = pinned(packages)
    wheels = [p for n, p in packages.packages.items() if re.match(r"nvidia-nccl-cu\d+\Z", n)]
    wheel = wheels[0] if len(wheels) == 1 and pin is not None and wheels[0].name == pin[0] else None
    if wheel is None or pin is None or wheel.name in packages.doubled or version(wheel.version) == version(pin[1]):
        raise Undecided("torch-libraries-unreadable", python=copies.python or "?")
    rule = rules[0] if version(wheel.version)[:2] < version(pin[1])[:2] else rules[1]
    yield found(
        rule,
        on=wheel.folder,
        path=wheel.folder,
        how="METADATA",
        version=wheel.version,
        pinned=pin[1],
        torch=packages.packages["torch"].version,
        wheel=pin[0],
        python=packages.python,
    )


@check("nccl-known-bad")
def nccl_has_no_known_hang(
    copies: NcclCopies, packages: Packages, nvml: Nvml | None, environment: Environment | None, launch: Launch | None
) -> Findings:
    ours = used(copies, packages)
    if not ours:
        raise NotApplicable("nccl-not-found")
    count: int | None = None
    if nvml is not None and nvml.error is None:
        count = workers(launch, len(visible_gpus(nvml, environment, launch))).count
    for copy in ours:
        if copy.version is None:
            yield undecided("nccl-known-bad", "nccl-version-unread", path=copy.path)
            continue
        for bad in table("nccl")["bad"]:
            if version(bad["from"]) <= version(copy.version) < version(bad["until"]):
                if count is None:
                    yield undecided("nccl-known-bad", "nccl-gpu-count-unknown")
                elif count >= bad["min_gpus"]:
                    yield found(
                        "nccl-known-bad",
                        on=copy.path,
                        version=copy.version,
                        until=bad["until"],
                        issue=bad["source"],
                        python=packages.python,
                    )


# -- packages ---------------------------------------------------------------------------------------------------------


@check("nccl-two-wheels", "nccl-leftover-metadata", "nccl-wheel-overwritten")
def one_nccl_wheel_is_installed(packages: Packages, copies: NcclCopies) -> Findings:
    wheels = {n: p for n, p in packages.packages.items() if re.match(r"nvidia-nccl-cu\d+\Z", n)}
    if not wheels:
        raise NotApplicable("nccl-no-wheel")
    file, python = copies.own, packages.python
    in_force = file.version if file and file.version else "?"
    doubled = [n for n in wheels if n in packages.doubled]
    if len(wheels) > 1:
        names = ", ".join(f"{n} {p.version}" for n, p in sorted(wheels.items()))
        yield found("nccl-two-wheels", wheels=names, names=" ".join(sorted(wheels)), version=in_force, python=python)
    for name in doubled:
        versions = ", ".join(packages.doubled[name])
        yield found("nccl-leftover-metadata", on=name, wheel=name, versions=versions, version=in_force, python=python)
    if len(wheels) > 1 or doubled:
        return  # which of them the file belongs to is what the other two rules speak of
    (wheel,) = wheels.values()
    if file is None or file.version is None or not file.read:
        yield undecided("nccl-wheel-overwritten", "nccl-version-unread", path=file.path if file else wheel.folder)
    elif version(file.version) != version(wheel.version):
        yield found(
            "nccl-wheel-overwritten",
            on=file.path,
            wheel=wheel.name,
            said=wheel.version,
            version=file.version,
            path=file.path,
            python=python,
        )


# -- settings ---------------------------------------------------------------------------------------------------------

# They ask for the environment so that nothing passes where it cannot be seen (--root): it is where most settings stand.
