"""The Python that the engine will use, read from its files and never imported: interpreter, packages, torch; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ..api import Absent, Denied, Host, Malformed, Trouble, probe
from . import fatbin
from ._interpreter import Interpreter, interpreter

METADATA_HEAD = 32 << 10  # bytes; the fields stand before the first blank line, the description after it
FOLDER_LIMIT = 20_000  # distributions; more is not a Python environment
# Whose METADATA is read: what the engines pin and what pins them. The others give name and version only.
MATTERS = re.compile(
    r"(torch|torchvision|torchaudio|triton|pytorch-triton|vllm|sglang|nvidia-.+|flashinfer-.+|flash-attn|flash-attn-\d|sgl-kernel"
    r"|sglang-kernel|sgl-deep-gemm|deep-gemm|deep-ep|xformers|transformers|xgrammar|cupy-.+|jax-cuda\d+-.+|cuda-python|cuda-toolkit)\Z"
)


class Package(msgspec.Struct, frozen=True, kw_only=True):
    """One installed distribution (normalised name). `requires`: its Requires-Dist lines without extras."""

    name: str
    version: str
    folder: str  # the *.dist-info folder
    requires: tuple[str, ...] = ()


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter and what is installed for it. `how` says where the interpreter came from (option, command,
    VIRTUAL_ENV, CONDA_PREFIX, PATH); `site` are its package folders in the order of sys.path; `broken` are dist-info
    folders without readable METADATA; `leftovers` folders such as `~orch` that an interrupted pip left. `missing` is a
    VIRTUAL_ENV or CONDA_PREFIX that is set and holds no Python."""

    python: str
    how: str
    version: str
    prefix: str
    site: tuple[str, ...]
    packages: dict[str, Package]
    doubled: dict[str, tuple[str, ...]] = {}  # name -> versions, when one site folder holds several dist-infos of it
    broken: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    missing: str | None = None
    venv: bool = False


class TorchBuild(msgspec.Struct, frozen=True, kw_only=True):
    """The torch of the engine's Python, from its files.

    torch/version.py of that Python. `cuda` is None for a build without CUDA; `arches` what torch's libraries were
    compiled for (sm_90, compute_90 for PTX), None when it could not be read. `known_arches` and `named_arches` are what its
    cpp_extension.py accepts in TORCH_CUDA_ARCH_LIST; empty when that is not set or the file could not be read.
    """

    version: str
    folder: str
    cuda: str | None = None
    hip: str | None = None
    git: str | None = None
    arches: tuple[str, ...] | None = None
    known_arches: tuple[str, ...] = ()
    named_arches: dict[str, str] = {}


# -- parsers -------------------------------------------------------------------------------------------------------


def normal(name: str) -> str:
    """A distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_dist_name(name: str) -> tuple[str, str] | None:
    """(normalised name, version) of a folder such as nvidia_nccl_cu13-2.28.9.dist-info, or None when it is not one."""
    if name.endswith(".dist-info"):
        stem, dash, version = name[: -len(".dist-info")].rpartition("-")
        return (normal(stem), version) if dash and stem and version else None
    if name.endswith(".egg-info"):
        m = re.match(r"(.+?)-(\d[^-]*)(?:-py[\d.]+)?(?:-[^-]+)?\Z", name[: -len(".egg-info")])
        return (normal(m[1]), m[2]) if m else None
    return None


def parse_requires(text: str) -> tuple[str, ...]:
    """The Requires-Dist lines of a METADATA that apply without an extra."""
    lines = []
    for line in text.splitlines():
        if not line.strip():
            break
        field, _, value = line.partition(":")
        if field.lower() == "requires-dist" and not re.search(r";.*\bextra\s*==", value):
            lines.append(value.strip())
    return tuple(lines)


_SET = re.compile(r"""^(__version__|cuda|hip|rocm|git_version)\s*(?::[^=\n]*)?=\s*(?:(['"])([^'"\n]*)\2|None)""", re.M)


def parse_torch_version(text: str) -> tuple[str, str | None, str | None, str | None]:
    """(version, cuda, hip, git) out of torch/version.py. Malformed when there is no version in it."""
    got = {m[1]: m[3] for m in _SET.finditer(text)}
    version = got.get("__version__")
    if not version:
        raise Malformed("no-torch-version")
    return version, got.get("cuda") or None, got.get("hip") or got.get("rocm") or None, got.get("git_version") or None


def parse_arch_names(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """(architectures, names) that `_get_cuda_arch_flags` of this cpp_extension.py accepts, in the file's order."""
    m = re.search(r"supported_arches\s*=\s*\[([^\]]*)\]", text)
    known = tuple(re.findall(r"""['"](\d{1,2}\.\d[a-z]?)['"]""", m[1])) if m else ()
    named = dict(re.findall(r"""\(\s*['"]([A-Z][A-Za-z+]+)['"],\s*['"](\d[\d.;a-z]*(?:\+PTX)?)['"]\s*\)""", text))
    return known, named


# -- probes --------------------------------------------------------------------------------------------------------


@probe
def packages(host: Host) -> Packages:
    python = interpreter(host)
    found: dict[str, Package] = {}
    doubled: dict[str, tuple[str, ...]] = {}
    broken: list[str] = []
    leftovers: list[str] = []
    for folder in python.site:
        try:
            names = host.names(folder)
        except Trouble:
            continue
        here: dict[str, list[str]] = {}
        dists = [n for n in names if n.endswith((".dist-info", ".egg-info"))]
        if len(dists) > FOLDER_LIMIT:
            raise Malformed("folder-too-large", path=folder, limit=FOLDER_LIMIT)
        leftovers.extend(f"{folder}/{n}" for n in names if n.startswith("~"))
        for name in dists:
            parsed = parse_dist_name(name)
            if parsed is None or name.startswith("~"):
                continue
            here.setdefault(parsed[0], []).append(parsed[1])
            package, whole = _package(host, f"{folder}/{name}", *parsed)
            if not whole:
                broken.append(package.folder)
            found.setdefault(package.name, package)
        doubled.update({n: tuple(v) for n, v in here.items() if len(v) > 1})
    for package in _conda(host, python):
        found.setdefault(package.name, package)
    return Packages(
        python=python.path,
        how=python.how,
        version=python.version,
        prefix=python.prefix,
        site=python.site,
        packages=found,
        doubled=doubled,
        broken=tuple(broken),
        leftovers=tuple(leftovers),
        missing=python.missing,
        venv=python.venv,
    )


def _package(host: Host, folder: str, name: str, version: str) -> tuple[Package, bool]:
    """The package, and whether its METADATA is whole; only that of packages that matter is read."""
    if not MATTERS.match(name):
        return Package(name=name, version=version, folder=folder), True
    file = folder + "/METADATA" if folder.endswith(".dist-info") else folder + "/PKG-INFO"
    try:
        text = host.read_at(file, 0, METADATA_HEAD).decode("utf-8", "replace")
    except Denied:
        return Package(name=name, version=version, folder=folder), False
    except Trouble:
        # An egg-info may be one file, and conda's often is.
        return Package(name=name, version=version, folder=folder), folder.endswith(".egg-info")
    whole = bool(re.search(r"^Version:\s*\S", text, re.M))
    return Package(name=name, version=version, folder=folder, requires=parse_requires(text)), whole


def _conda(host: Host, python: Interpreter) -> Iterator[Package]:
    """conda's own records, for packages that left no dist-info; its pytorch is called torch everywhere else."""
    try:
        names = host.names(f"{python.prefix}/conda-meta")
    except Trouble:
        return
    for name in names:
        parts = name[: -len(".json")].rsplit("-", 2) if name.endswith(".json") else []
        if len(parts) == 3:
            called = "torch" if parts[0] == "pytorch" else normal(parts[0])
            if MATTERS.match(called):
                yield Package(name=called, version=parts[1], folder=f"{python.prefix}/conda-meta/{name}")


@probe
def torch_build(host: Host) -> TorchBuild:
    python = interpreter(host)
    denied: Denied | None = None
    for site in python.site:
        try:
            text = host.text(f"{site}/torch/version.py", 1 << 16)
        except Denied as e:
            denied = e
            continue
        except Absent:
            continue
        folder = f"{site}/torch"
        version, cuda, hip, git = parse_torch_version(text)
        known, named = _arch_names(host, folder) if host.env.get("TORCH_CUDA_ARCH_LIST") else ((), {})
        return TorchBuild(
            version=version,
            cuda=cuda,
            folder=folder,
            hip=hip,
            git=git,
            arches=_arches(host, folder) if cuda else None,
            known_arches=known,
            named_arches=named,
        )
    if denied is not None:
        raise denied
    raise Absent("no-torch", python=python.path)


def _arches(host: Host, folder: str) -> tuple[str, ...] | None:
    try:
        return fatbin.arches(host, f"{folder}/lib/libtorch_cuda.so")
    except Trouble:
        return None


def _arch_names(host: Host, folder: str) -> tuple[tuple[str, ...], dict[str, str]]:
    # One module up to torch 2.11 at least; a package later on.
    for file in ("utils/cpp_extension.py", "utils/_cpp_extension/_jit.py"):
        try:
            known, named = parse_arch_names(host.text(f"{folder}/{file}", 1 << 20))
        except Trouble:
            continue
        if known:
            return known, named
    return (), {}
