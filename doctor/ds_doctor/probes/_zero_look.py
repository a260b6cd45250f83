"""A look for long runs of zeros in weight files: the end, the holes, a few samples, and where a run begins and ends; never judges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod

import msgspec

from ..api import Host, Malformed, Trouble
from . import _folder_look, _gguf, _safetensors
from ._said import SAID, clean
from ._weight_file import PARSED
from .model_folder import WeightFile
from .zero_runs import ZeroRun, ZeroRuns

PAGE = 4096  # bytes of a sample; the smallest thing that a file system leaves out
WHOLE = 1 << 20  # bytes of tensor data that are read whole instead of sampled
BLOCK = 64 << 10  # bytes read to find a run's very first and last byte
SAMPLES = 4  # of a file beside its end, where the file system names no hole
INSIDE = 16  # samples that must all be zero within a run
RUNS = 100  # kept
RUNS_OF_FILE = 8  # looked into
BUDGET_S = 1.0  # for all files together: what a slow network file system may cost
SHORTEST = 64  # bytes of a run in a small file

# Tensors of zeros that published checkpoints hold: biases, zero points, the second factor of a new adapter, masks, scales.
_NOT_A_MATRIX = re.compile(r"bias|zero|lora_?(embedding_)?b\b|mask|scale|g_idx|running_|inv_freq|cache", re.IGNORECASE)
_FLOATS = re.compile(r"B?F\d|GGML\Z")
_NORM = re.compile(r"norm\w*(\.weight)?\Z")
_PACKED = re.compile(
    r"(?:weight|qweight|weight_packed|_blocks)\Z"
)  # whole numbers that are weights: AWQ, GPTQ, NVFP4, MXFP4


class Matrix(msgspec.Struct, frozen=True):
    """A weight matrix: its name, its place in the file, the bytes of one row (of the last dimension). `norm`: it is a norm's
    weight instead, which counts only as what a run of zeros over whole matrices breaks off in."""

    name: str
    begin: int
    end: int
    row: int
    norm: bool = False


class _File:
    """One file that is looked into; offsets are those of the file."""

    def __init__(self, host: Host, path: str, begin: int, size: int) -> None:
        self.host = host
        self.path = path
        self.begin = begin
        self.size = size

    def read(self, begin: int, end: int) -> bytes:
        begin, end = max(begin, self.begin), min(end, self.size)
        return self.host.read_at(self.path, begin, end - begin) if end > begin else b""

    def is_zero(self, at: int, length: int = PAGE) -> bool:
        """Whether the sample there holds nothing but zeros; False for one outside the data."""
        at = max(self.begin, min(at, self.size - length))
        data = self.read(at, at + length)
        return bool(data) and not data.strip(b"\0")


def look_at(host: Host) -> ZeroRuns:
    """The runs of zeros in the model's weight files."""
    folder = host.once(_folder_look.look_at).folder
    if folder.path is None or folder.layout not in ("folder", "file"):
        return ZeroRuns()
    latest = host.time_left_s() - BUDGET_S
    runs: list[ZeroRun] = []
    blind: list[str] = []
    seen = 0
    unseen = folder.weights_unseen
    paths = _paths(host, folder.path, folder.layout, folder.weights)
    for file in folder.weights:
        if file.kind in ("pytorch", "pytorch-legacy", "header-not-parsed"):
            blind.append(file.name)
        if file.kind not in ("safetensors", "gguf") or file.header_bytes is None:
            continue
        if host.time_left_s() < max(latest, 0.5) or file.name not in paths:
            unseen += 1
            continue
        try:
            runs += _of_file(host, paths[file.name], file)
            seen += 1
        except (Trouble, _safetensors.HeaderError, _gguf.TooLong):
            unseen += 1
    return ZeroRuns(files=seen, runs=tuple(runs[:RUNS]), unseen=unseen, blind=tuple(blind[:5]))


def _paths(host: Host, path: str, layout: str, files: tuple[WeightFile, ...]) -> dict[str, str]:
    """Where each file lies: a name as it is shown need not be the name as it is."""
    place = host.once(_folder_look.look_at).place.path or path
    if layout == "file":
        return {f.name: place for f in files}
    real = {clean(n): f"{place}/{n}" for n in host.names(place)}
    return {f.name: real.get(f.name, f"{place}/{f.name}") for f in files}


def _of_file(host: Host, path: str, file: WeightFile) -> Iterator[ZeroRun]:
    # A GGUF file's header is counted from its first byte, a safetensors file's behind its length.
    begin = (file.header_bytes or 0) + (0 if file.kind == "gguf" else _safetensors.LENGTH_BYTES)
    one = _File(host, path, begin, min(file.size, file.expected_size or file.size))
    if one.size <= begin:
        return
    holes = host.holes(path) if file.size >= PAGE else []
    found = _small(one) if one.size - begin <= WHOLE else _large(one, holes)
    if not found:
        return
    matrices = _matrices(host, path, file)
    for run_begin, run_end in found[:RUNS_OF_FILE]:
        stored = not any(b < run_end and e > run_begin for b, e in holes)
        run = described(file, begin, one.size, (run_begin, run_end), matrices, not stored)
        if run.matrices or run.cut is not None or run.cut_end is not None:
            yield run


def _small(file: _File) -> list[tuple[int, int]]:
    """All runs of a file that is read whole, the longest first."""
    data = file.read(file.begin, file.size)
    found = [m.span() for m in re.finditer(rb"\0{%d,}" % SHORTEST, data)]
    # A short file's end counts also where it is shorter than that.
    tail = len(data.rstrip(b"\0"))
    if tail < len(data) and (tail, len(data)) not in found:
        found.append((tail, len(data)))
    found.sort(key=lambda s: s[0] - s[1])
    return [(file.begin + b, file.begin + e) for b, e in found]


def _large(file: _File, holes: list[list[int]]) -> list[tuple[int, int]]:
    """The runs that the end, the holes and the samples of a file lead to, the longest first."""
    data = file.size - file.begin
    starts = [file.size - PAGE]
    largest = sorted(holes, key=lambda h: h[0] - h[1])[:RUNS_OF_FILE]
    starts += [(b + e) // 2 for b, e in largest if e - b >= PAGE]
    starts += [file.begin + data * n // (SAMPLES + 1) for n in range(1, SAMPLES + 1)]
    found: list[tuple[int, int]] = []
    for at in starts:
        if any(b <= at < e for b, e in found) or not file.is_zero(at):
            continue
        run = _extent(file, max(file.begin, min(at, file.size - PAGE)))
        if _is_run(file, *run):
            found.append(run)
    return sorted(set(found), key=lambda s: s[0] - s[1])


def _extent(file: _File, at: int) -> tuple[int, int]:
    """The run around a sample of zeros, up to its very first and last byte, as far as samples tell."""
    zero, other, step = at, at - PAGE, PAGE
    while other > file.begin and file.is_zero(other):
        zero, step = other, step * 2
        other -= step
    other = max(other, file.begin)
    while zero - other > BLOCK:
        middle = (zero + other) // 2
        zero, other = (middle, other) if file.is_zero(middle) else (zero, middle)
    before = file.read(other, zero)
    begin = other + len(before.rstrip(b"\0"))
    zero, other, step = at + PAGE, at + PAGE, PAGE
    while other < file.size and file.is_zero(other):
        zero, step = other + PAGE, step * 2
        other += step
    other = min(other + PAGE, file.size)
    while other - zero > BLOCK:
        middle = (zero + other) // 2
        zero, other = (middle, other) if file.is_zero(middle) else (zero, middle)
    after = file.read(zero, other)
    end = zero + len(after) - len(after.lstrip(b"\0"))
    return begin, min(end, file.size)


def _is_run(file: _File, begin: int, end: int) -> bool:
    """Whether samples all over it are zero: the search leapt over most of it."""
    step = max(PAGE, (end - begin - PAGE) // INSIDE)
    return all(file.is_zero(at, min(PAGE, end - at)) for at in range(begin, end, step))


def _matrices(host: Host, path: str, file: WeightFile) -> list[Matrix]:
    length = file.header_bytes or 0
    if file.kind == "gguf":
        return matrices_of(_gguf.parse(lambda at, count: host.read_at(path, at, count), file.size).places, length)
    if length > PARSED:
        raise Malformed("file-too-large", path=path, limit_kib=PARSED >> 10)
    header = host.read_at(path, _safetensors.LENGTH_BYTES, length)
    return matrices_of(_safetensors.places(header), _safetensors.LENGTH_BYTES + length)


def matrices_of(places: Sequence[_safetensors.Place], data_begin: int) -> list[Matrix]:
    """Those of the tensors that are weight matrices or norms, in the order of their bytes."""
    return [
        Matrix(
            clean(p.name, SAID),
            data_begin + p.begin,
            data_begin + p.end,
            (p.end - p.begin) // prod(p.shape[:-1]),
            len(p.shape) == 1,
        )
        for p in places
        if (is_matrix(p.name, p.dtype, p.shape) or is_norm(p.name, p.dtype, p.shape)) and p.end > p.begin
    ]


def is_matrix(name: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is a weight matrix, which training leaves nowhere at zero."""
    if sum(d > 1 for d in shape) < 2 or _NOT_A_MATRIX.search(name):
        return False
    return bool(_FLOATS.match(dtype) or _PACKED.search(name))


def is_norm(name: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is the weight of a norm, which is nowhere half zero."""
    return (
        len(shape) == 1 and bool(_NORM.search(name)) and not _NOT_A_MATRIX.search(name) and bool(_FLOATS.match(dtype))
    )


def described(
    file: WeightFile, data_begin: int, size: int, run: tuple[int, int], matrices: list[Matrix], hole: bool
) -> ZeroRun:
    """The run with what lies in it."""
    begin, end = run
    inside = [m for m in matrices if begin <= m.begin and m.end <= end and not m.norm]
    breaks = [m for m in matrices if inside or not m.norm]
    return ZeroRun(
        file=file.name,
        size=size,
        data_begin=data_begin,
        begin=begin,
        end=end,
        hole=hole,
        matrices=len(inside),
        matrix_bytes=sum(m.end - m.begin for m in inside),
        first=tuple(m.name for m in inside[:3]),
        cut=next((m.name for m in breaks if m.begin < begin < m.end and _is_in_a_row(m, begin)), None),
        cut_end=next((m.name for m in breaks if m.begin < end < m.end and _is_in_a_row(m, end)), None),
    )


def _is_in_a_row(matrix: Matrix, at: int) -> bool:
    # A number may end, or begin, with bytes of zero: a few bytes around a row's edge are still its edge.
    off = (at - matrix.begin) % matrix.row
    edge = min(8, matrix.row // 8)
    return edge < off < matrix.row - edge
