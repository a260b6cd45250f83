"""The rooms keep their walls: what each may import is read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCTOR = ROOT / "doctor" / "ds_doctor"
CHECKS = ROOT / "checks" / "ds_doctor_checks"
ALONE = DOCTOR / "probes" / "_nvml_child.py"  # runs in a process of its own
TOUCHES = {
    "os",
    "io",
    "subprocess",
    "socket",
    "ctypes",
    "pathlib",
    "shutil",
    "tempfile",
    "glob",
    "urllib",
    "http",
    "requests",
    "psutil",
    "platform",
}
NEVER = {"torch", "vllm", "sglang", "pynvml", "numpy", "transformers"}


def imports(path: Path) -> Iterator[str]:
    """Every module that a file imports, relative ones made absolute."""
    package = [*path.relative_to(DOCTOR.parent if DOCTOR in path.parents else CHECKS.parent).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            yield module
            yield from (f"{module}.{a.name}" for a in node.names)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py") if p != ALONE)


def own(names: Iterator[str]) -> set[str]:
    """The rooms of the framework among some imports."""
    return {n.split(".")[1] for n in names if n.startswith("ds_doctor.")}


@pytest.mark.parametrize("path", files(DOCTOR) + files(CHECKS), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_imports_what_it_diagnoses(path: Path) -> None:
    assert not {n.split(".")[0] for n in imports(path)} & NEVER


@pytest.mark.parametrize("path", files(DOCTOR / "probes"), ids=lambda p: p.name)
def test_a_probe_sees_the_machine_only_through_the_door(path: Path) -> None:
    names = list(imports(path))
    assert not {n.split(".")[0] for n in names} & TOUCHES
    assert own(iter(names)) <= {"api", "host", "manifest", "model", "probes", "proofs", "launch", "profile"}


@pytest.mark.parametrize("path", files(CHECKS), ids=lambda p: p.name)
def test_a_check_never_touches_the_host(path: Path) -> None:
    names = list(imports(path))
    allowed = {"os"} if path.name == "_data.py" else set()  # reads the vendor tables of its own package
    assert not {n.split(".")[0] for n in names} & TOUCHES - allowed
    assert own(iter(names)) <= {"api", "probes", "launch", "memory", "profile"}


@pytest.mark.parametrize(
    ("room", "may"),
    [
        ("model.py", set()),
        ("command.py", {"model"}),
        ("kept.py", set()),
        ("host.py", {"command", "kept", "launch", "model", "profile"}),
        ("profile.py", set()),
        ("proofs.py", set()),
        ("replay.py", {"command", "host", "model"}),
        ("rooted.py", {"command", "host", "model"}),
        ("pattern.py", set()),
        ("tables.py", set()),
        ("catalogue.py", {"model", "pattern"}),
        ("registry.py", {"host", "model"}),
        ("snapshot.py", {"host", "model", "registry"}),
        ("compiled.py", {"catalogue", "kept"}),
        ("site.py", {"catalogue", "model", "registry"}),
        ("gather.py", {"host", "model", "registry"}),
        ("engine.py", {"catalogue", "compiled", "model", "registry", "site"}),
    ],
)
def test_a_room_knows_only_the_rooms_below_it(room: str, may: set[str]) -> None:
    assert own(imports(DOCTOR / room)) - {""} <= may


@pytest.mark.parametrize("path", files(DOCTOR / "launch"), ids=lambda p: p.name)
def test_what_a_command_or_file_says_is_read_without_touching_the_host(path: Path) -> None:
    names = list(imports(path))
    assert not {n.split(".")[0] for n in names} & TOUCHES
    assert own(iter(names)) <= {"launch"}


@pytest.mark.parametrize("path", files(DOCTOR / "manifest"), ids=lambda p: p.name)
def test_what_a_list_of_checksums_says_is_read_without_touching_the_host(path: Path) -> None:
    names = list(imports(path))
    assert not {n.split(".")[0] for n in names} & TOUCHES
    assert own(iter(names)) <= {"manifest"}


@pytest.mark.parametrize("path", files(DOCTOR / "hashing"), ids=lambda p: p.name)
def test_what_hashes_files_knows_no_model(path: Path) -> None:
    names = list(imports(path))
    assert not {n.split(".")[0] for n in names} & TOUCHES - {"os", "io", "ctypes"}
    assert own(iter(names)) <= {"hashing"}


@pytest.mark.parametrize("path", files(DOCTOR / "explain"), ids=lambda p: p.name)
def test_explain_never_touches_the_host(path: Path) -> None:
    names = list(imports(path))
    assert not {n.split(".")[0] for n in names} & TOUCHES
    assert own(iter(names)) <= {"catalogue", "compiled", "explain", "model", "pattern"}


@pytest.mark.parametrize("path", files(DOCTOR / "memory"), ids=lambda p: p.name)
def test_the_arithmetic_of_memory_touches_nothing(path: Path) -> None:
    names = list(imports(path))
    allowed = {"os"} if path.name == "_data.py" else set()  # reads the tables of its own package
    assert not {n.split(".")[0] for n in names} & TOUCHES - allowed
    assert own(iter(names)) <= {"memory"}


def test_the_model_holds_no_io() -> None:
    assert not {n.split(".")[0] for n in imports(DOCTOR / "model.py")} & TOUCHES


def test_broad_excepts_stand_only_where_strangers_are_called() -> None:
    places = set()
    for path in files(DOCTOR) + files(CHECKS):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else "BaseException"
                if "BaseException" in caught or "Exception" in caught.replace("(", ",").replace(")", ",").split(","):
                    places.add(path.name)
    assert places <= {
        "engine.py",
        "gather.py",
        "registry.py",
        "__init__.py",
    }  # the last: main, one line for a fault of ours


@pytest.mark.parametrize("path", files(DOCTOR) + files(CHECKS), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_heading_stands_over_nothing(path: Path) -> None:
    lines = [line for line in path.read_text("utf-8").splitlines() if line.strip()]
    for line, below in zip(lines, [*lines[1:], "# -- the end", ""], strict=False):
        assert not (line.startswith("# -- ") and below.startswith("# -- ")), line
