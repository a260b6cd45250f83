"""The host and the target in a few words, out of the facts that were gathered anyway; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..catalogue import Catalogue
from ..host import Asked
from ..model import Lang, Outcome, Reason, Result
from ..probes.kernel_module import KernelModule
from ..probes.launch import Launch
from ..probes.model_folder import ModelFolder
from ..probes.nvml import Nvml, Pair
from ..probes.python_env import Packages, TorchBuild
from ..probes.system import System
from .document import GpuDoc, HostDoc, ServiceDoc, TargetDoc, clean, result_doc, show

if TYPE_CHECKING:  # an answer of `explain` needs no engine
    from ..engine import Verdicts

T = TypeVar("T")
ALWAYS: tuple[type, ...] = (System, Launch)  # gathered whatever is judged: cheap, and the report's head needs them
LONGEST = 120  # characters of one of the host's words
_ANCESTOR = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}  # the names of nvidia-smi topo -m


def get(outcomes: Mapping[type, Outcome], fact: type[T]) -> T | None:
    """A fact that was gathered, or None."""
    outcome = outcomes.get(fact)
    value: T | None = outcome.fact if outcome is not None else None
    return value


def _short(text: str | None) -> str | None:
    """As it stands in the head: whatever a file or driver said, one word or a few, and nothing that steers a terminal."""
    return None if text is None else show(text)[:LONGEST]


def host_doc(outcomes: Mapping[type, Outcome]) -> HostDoc:
    """What the report's head shows; what was not gathered stays empty."""
    system = get(outcomes, System)
    nvml = get(outcomes, Nvml)
    module = get(outcomes, KernelModule)
    python = get(outcomes, Packages)
    torch = get(outcomes, TorchBuild)
    gpus = nvml.gpus if nvml else ()
    return HostDoc(
        hostname=_short(system.hostname) if system else None,
        os=_short(system.os_name) if system else None,
        kernel=_short(system.kernel) if system else None,
        machine=_short(system.machine) if system else None,
        hypervisor=_short(system.hypervisor) if system else None,
        container=_short(system.container) if system else None,
        driver=_short((nvml.driver if nvml else None) or (module.version if module else None)),
        cuda=_short(nvml.cuda) if nvml else None,
        python_version=_short(python.version) if python else None,
        torch=_short(torch.version) if torch else None,
        gpus=tuple(
            GpuDoc(
                index=g.index,
                name=_short(g.name) or "",
                uuid=_short(g.uuid) or "",
                cc=_short(g.cc) or "",
                memory_total_mib=g.memory_total_mib,
                memory_free_mib=g.memory_free_mib,
            )
            for g in gpus
        ),
        links=links(nvml) if nvml else (),
    )


def links(nvml: Nvml) -> tuple[tuple[str, ...], ...]:
    """The link matrix as `nvidia-smi topo -m` names it: NV18, PIX, PXB, PHB, NODE, SYS."""
    cells = {(p.a, p.b): _meet(nvml, p) for p in nvml.pairs}
    index = [g.index for g in nvml.gpus]
    return tuple(tuple("X" if a == b else cells.get((min(a, b), max(a, b)), "?") for b in index) for a in index)


def _meet(nvml: Nvml, pair: Pair) -> str:
    if pair.links:
        return f"NV{pair.links}"
    if pair.nvlink == 0:  # they meet in a switch: as many links as each has
        active = [sum(k.active for k in g.nvlinks) for g in nvml.gpus if g.index in (pair.a, pair.b)]
        fewest = min(active, default=0)
        if fewest:
            return f"NV{fewest}"
    return _ANCESTOR.get(pair.ancestor, "?") if pair.ancestor is not None else "?"


def target_doc(
    asked: Asked,
    outcomes: Mapping[type, Outcome],
    words: Catalogue | None = None,
    lang: Lang = "en",
    service: str | None = None,
) -> TargetDoc:
    """What was judged besides the host; `service`: the one of several that it is about."""
    python = get(outcomes, Packages)
    launch = get(outcomes, Launch)
    folder = get(outcomes, ModelFolder)
    return TargetDoc(
        command=tuple(clean(w) for w in asked.command),
        engine=launch.engine if launch else None,
        python=clean(python.python if python else asked.python),
        model=clean((folder.path if folder else None) or asked.model or (launch.model if launch else None)),
        root=clean(asked.root),
        file=clean(asked.deployment.source) if asked.deployment is not None else None,
        service=clean(service),
        unread=_unread(launch, words, lang),
    )


def _unread(launch: Launch | None, words: Catalogue | None, lang: Lang) -> tuple[str, ...]:
    """What of the command is not understood, in words."""
    if launch is None or words is None:
        return ()
    return tuple(clean(words.explain(Reason(u.id, u.data), lang)) for u in launch.unread)


def targets_doc(asked: Sequence[Asked], outcomes: Mapping[type, Outcome]) -> TargetDoc:
    """Of several services of one file only what they share: the rest stands with each of them."""
    one = target_doc(asked[0], outcomes)
    return TargetDoc(python=one.python, root=one.root, file=one.file)


def service_name(asked: Asked) -> str:
    """The service's name; empty for what is no service of a file."""
    return asked.deployment.name if asked.deployment is not None else ""


def service_doc(
    asked: Asked,
    outcomes: Mapping[type, Outcome],
    verdicts: Verdicts,
    own: Iterable[Result],
    words: Catalogue,
    lang: Lang,
) -> ServiceDoc:
    """One service of the file; `own`: its results that differ from another service's."""
    target = target_doc(asked, outcomes, words, lang, service_name(asked))
    deployment = asked.deployment
    source = " ".join(w for w in (deployment.source, deployment.where) if w) if deployment is not None else ""
    return ServiceDoc(
        name=clean(service_name(asked)),
        kind=deployment.kind if deployment is not None else "",
        source=clean(source),
        command=target.command,
        engine=target.engine,
        model=target.model,
        verdict=verdicts.verdict,
        unread=target.unread,
        results=tuple(
            result_doc(r, words, lang, r.rule in verdicts.required, target)
            for r in own
            if r.status not in ("pass", "skip")
        ),
    )
