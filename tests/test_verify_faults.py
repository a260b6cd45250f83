"""Every fault in every layout is found by `ds-doctor verify`, with the file named, and nothing else is said to be broken."""

from __future__ import annotations

from pathlib import Path

import pytest

import verify_builder as build
import verify_run as running
from verify_faults import ALL_IN, CONTENT, CORE, STRUCTURE, Fault, in_hub

LEVELS = {"fail": ("fail",), "warn": ("warn",), "note": ("note",), "odd": ("fail", "warn"), "unread": ("fail",)}


def pairs(faults: list[Fault], *layouts: str) -> list[object]:
    return [
        pytest.param(layout, fault, id=f"{layout.name}: {fault.name}")
        for layout in build.LAYOUTS
        for fault in faults
        if fault.where(layout) and (not layouts or layout.name in layouts)
        if faults is CONTENT or layout.name in ALL_IN or fault.name in CORE or fault.where is in_hub
    ]


def befall(
    shelf: Path, root: Path, layout: build.Layout, fault: Fault, *args: str
) -> tuple[build.Made, running.Said, set[str]]:
    made = build.take(shelf, layout, root / "x")
    touched = fault.act(made) or {made.victim}
    argv = ["verify", made.target, "--format", "json", *made.args, *args]
    return made, running.forked(argv, running.environment(root / "cache", made.env)), touched


def check(said: running.Said, fault: Fault, touched: set[str]) -> None:
    told = said.told()
    broken = said.results("fail", "error")
    assert not said.results("error"), told
    matching = {k: r for k, r in said.results(*LEVELS[fault.level]).items() if not fault.rules or k in fault.rules}
    assert matching, f"none of {sorted(fault.rules) or 'all rules'} is at {fault.level}\n{told}"
    assert any(running.speaks_of(r, touched) for r in matching.values()), f"no finding names {touched}\n{told}"
    strangers = [k for k, r in broken.items() if not running.speaks_of(r, touched)]
    assert not strangers, f"{strangers} fail without naming {touched}\n{told}"
    unread = fault.level == "unread" and set(broken) <= {"weights-unreadable", "weights-read-error"}
    assert said.status == (3 if unread else 1 if broken else 0), told
    assert said.report["exit_code"] == said.status, told
    assert (said.report["verdict"] == "fail") is (said.status == 1), told


@pytest.mark.parametrize(("layout", "fault"), pairs(STRUCTURE))
def test_a_fault_of_structure_is_found_and_its_file_named(
    layout: build.Layout, fault: Fault, shelf: Path, tmp_path: Path
) -> None:
    _, said, touched = befall(shelf, tmp_path, layout, fault)
    check(said, fault, touched)


@pytest.mark.parametrize(("layout", "fault"), pairs(CONTENT))
def test_changed_content_is_found_and_both_digests_are_told(
    layout: build.Layout, fault: Fault, shelf: Path, tmp_path: Path
) -> None:
    made, said, touched = befall(shelf, tmp_path, layout, fault)
    check(said, fault, touched)
    (name,) = touched
    file = said.file(name)
    assert file["status"] == "wrong", said.told()
    assert file["digest"] != file["expected"]
    finding = [running.names_in(r) for r in said.results("fail").values()]
    assert any(file["digest"] in t and file["expected"] in t for t in finding), said.told()
    if file["algorithm"] == "sha256":
        assert file["digest"] == build.sha256(made.real(name).read_bytes())
        whole = build.Made(layout, shelf / build.shelved(layout))
        assert file["expected"] == build.sha256(whole.real(name).read_bytes())


@pytest.mark.parametrize(("layout", "fault"), pairs(STRUCTURE, "sharded", "gguf split"))
def test_the_quick_part_alone_finds_it_too(layout: build.Layout, fault: Fault, shelf: Path, tmp_path: Path) -> None:
    _, said, touched = befall(shelf, tmp_path, layout, fault, "--quick")
    check(said, fault, touched)
    assert said.report["summary"]["hashed_files"] == 0
