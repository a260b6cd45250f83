"""The report says everything that it must, in both languages, within the width, and as its schema says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from ds_doctor import engine
from ds_doctor.catalogue import blanks
from ds_doctor.model import STATUSES, Finding, Reason, Result
from ds_doctor.report import document, render, words
from ds_doctor.report.layout import cells, table, wrap
from support import FIXTURES, doctor


def report(lang: str, results: list[Result], strict: bool = False) -> document.Report:
    verdicts = engine.conclude(results, [], set(), strict)
    host = document.HostDoc(
        hostname="node1",
        os="Ubuntu 24.04",
        kernel="6.8.0",
        driver="580.159.04",
        cuda="13.0",
        gpus=tuple(
            document.GpuDoc(
                index=i, name="NVIDIA H200", uuid="", cc="9.0", memory_total_mib=143771, memory_free_mib=143000
            )
            for i in range(2)
        ),
        links=(("X", "NV18"), ("NV18", "X")),
    )
    return document.build(
        verdicts,
        doctor().catalogue,
        lang,
        version="0.1.0",
        host=host,
        target=document.TargetDoc(command=("vllm", "serve")),
        started_at="2026-11-29T00:00:00Z",
        duration_s=0.5,
    )


def every_status() -> list[Result]:
    def one(status: str, **more: object) -> Result:
        return msgspec.convert(
            {"rule": "driver-nouveau", "check": "c", "family": "driver", "status": status, **more}, Result
        )

    finding = (Finding("driver-nouveau"),)
    reason = Reason("command-timed-out", {"command": "nvidia-smi", "timeout_s": 10})
    return [
        one("pass"),
        *(one(s, findings=finding) for s in ("fail", "warn", "note")),
        *(one(s, reason=reason) for s in ("skip", "unknown", "error")),
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_text_fits_80_cells_but_for_commands_and_addresses(lang: str) -> None:
    text = render("text", report(lang, every_status()), lang, verbose=True)
    for line in text.splitlines():
        assert cells(line) <= 80 or "$ " in line or "https://" in line, line


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_text_shows_verdict_host_gpus_links_faults_reasons_and_exit_status(lang: str) -> None:
    text = render("text", report(lang, every_status()), lang)
    first = text.splitlines()[0]
    assert words.word("verdict.fail", lang) in first
    for part in (
        "node1",
        "NVIDIA H200",
        "NV18",
        "driver-nouveau",
        "nvidia-smi",
        "$ vllm serve",
        "https://docs.nvidia.com",
    ):
        assert part in text
    assert words.word("exit.1", lang) in text
    assert "\x1b" not in text


def test_color_only_repeats_what_the_words_say() -> None:
    import re

    plain = render("text", report("en", every_status()), "en")
    painted = render("text", report("en", every_status()), "en", color=True)
    assert painted != plain and re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_quiet_says_nothing_when_all_is_well() -> None:
    assert render("text", report("en", [every_status()[0]]), "en", quiet=True) == ""
    assert "FAIL" in render("text", report("en", every_status()), "en", quiet=True)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_json_is_what_the_schema_says(lang: str) -> None:
    schema = json.loads(
        subprocess.run(
            [sys.executable, "-m", "ds_doctor", "schema", "report"], capture_output=True, text=True, check=True
        ).stdout
    )
    jsonschema.Draft202012Validator.check_schema(schema)
    document_ = json.loads(render("json", report(lang, every_status()), lang))
    jsonschema.validate(document_, schema)
    assert list(document_["counts"]) == list(STATUSES)
    assert [r["status"] for r in document_["results"]] == ["pass", "fail", "warn", "note", "skip", "unknown", "error"]


def test_a_live_report_is_what_the_schema_says() -> None:
    def out(*args: str) -> dict[str, object]:
        done = subprocess.run([sys.executable, "-m", "ds_doctor", *args], capture_output=True, text=True, timeout=60)
        return dict(json.loads(done.stdout))

    jsonschema.validate(out("run", "--format", "json"), out("schema", "report"))


def test_a_snapshot_is_what_its_schema_says_and_gives_the_results_of_the_live_run(tmp_path: Path) -> None:
    def out(*args: str) -> dict[str, Any]:
        done = subprocess.run([sys.executable, "-m", "ds_doctor", *args], capture_output=True, text=True, timeout=60)
        return dict(json.loads(done.stdout))

    def results(report_: dict[str, Any]) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k != "duration_ms"} for r in report_["results"]]

    kept = tmp_path / "host.json"
    live = out("run", "--format", "json", "--record", str(kept))
    again = out("run", "--format", "json", "--replay", str(kept))
    assert results(again) == results(live)
    assert {k: again[k] for k in ("host", "target", "counts", "verdict", "exit_code")} == {
        k: live[k] for k in ("host", "target", "counts", "verdict", "exit_code")
    }
    schema = out("schema", "snapshot")
    jsonschema.Draft202012Validator.check_schema(schema)
    for path in [kept, *(FIXTURES / "hosts").glob("*/snapshot.json")]:
        jsonschema.validate(json.loads(path.read_text("utf-8")), schema)


@pytest.mark.parametrize(
    ("statuses", "strict", "required", "verdict", "exit_code"),
    [
        (["pass"], False, False, "pass", 0),
        (["pass", "note"], False, False, "pass", 0),
        (["pass", "warn"], False, False, "warn", 0),
        (["pass", "warn"], True, False, "warn", 1),
        (["pass", "fail"], False, False, "fail", 1),
        (["pass", "error"], False, False, "unknown", 3),
        (["fail", "error"], False, False, "fail", 1),
        (["skip"], False, False, "unknown", 3),
        (["skip", "unknown"], False, False, "unknown", 3),
        ([], False, False, "unknown", 3),
        (["pass", "unknown"], False, False, "pass", 0),
        (["pass", "unknown"], False, True, "unknown", 3),
        (["pass", "skip"], False, True, "unknown", 3),
        (["pass", "warn"], False, True, "warn", 0),
    ],
)
def test_the_exit_status_says_what_the_results_come_to(
    statuses: list[str], strict: bool, required: bool, verdict: str, exit_code: int
) -> None:
    results = [Result(rule=f"r{i}", check="c", family="f", status=s) for i, s in enumerate(statuses)]
    must = {results[-1].rule} if required else set()
    got = engine.conclude(results, [], must, strict)
    assert (got.verdict, got.exit_code) == (verdict, exit_code)


def test_every_fault_names_a_command_that_verifies_its_fix() -> None:
    doc = document.result_doc(
        msgspec.convert({"rule": "weights-none", "check": "c", "family": "weights", "status": "fail"}, Result),
        doctor().catalogue,
        "en",
        False,
        document.TargetDoc(),
    )
    assert doc.verify is None, "where nothing was found there is nothing to verify"
    for name, rule in doctor().catalogue.rule.items():
        blanks_of = {b: "1" for b in blanks(f"{rule.title.en} {rule.why.en} {rule.verify or ''}")}
        for step in rule.fix:
            blanks_of |= {b: "1" for b in blanks(step.say.en if step.say else step.run or "")}
        fault = Result(
            rule=name, check="c", family="f", status="fail", findings=(Finding(name, None, blanks_of),), duration_ms=0
        )
        said = document.result_doc(fault, doctor().catalogue, "en", False, document.TargetDoc(model="/my models/x"))
        assert said.verify, name
        if rule.verify is None:
            assert said.verify == f"ds-doctor run --only {name} --model '/my models/x'"


def test_the_list_of_facts_says_what_each_is_before_what_its_fields_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ds_doctor", "list", "facts", "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(done.stdout)
    assert {"nvml", "loader", "torch_build"} <= {r["fact"] for r in rows}
    for row in rows:
        assert row["holds"][:1] not in ("", "`") and len(row["holds"]) <= 130, row


def test_wrapping_counts_chinese_characters_as_two_cells() -> None:
    for text in ("驱动版本过旧，无法运行 CUDA 13.0 编译的 PyTorch。", "one two three four five six seven", "a" * 50):
        for width in (10, 20, 33):
            lines = wrap(text, width)
            assert "".join("".join(lines).split()) == "".join(text.split())
            assert all(cells(line) <= width + 2 or " " not in line for line in lines)
    assert not any(
        line.endswith("（")
        for width in range(8, 40)
        for line in wrap("虚拟机（firecracker）与容器（docker）" * 5, width)
    )
    assert not any(line.startswith(("，", "。")) for line in wrap("驱动版本过旧，无法运行。" * 9, 23))


def test_a_table_aligns_wide_characters() -> None:
    lines = table([["名称", "x"], ["ab", "y"]])
    assert [cells(line[: line.index(c)]) for line, c in zip(lines, "xy", strict=True)] == [6, 6]


def test_every_word_of_the_report_exists_in_both_languages() -> None:
    from ds_doctor.catalogue import blanks

    for key, (en, zh) in words.WORDS.items():
        assert en and zh, key
        assert blanks(en) == blanks(zh), key


def test_strange_data_never_breaks_the_json() -> None:
    finding = Finding(
        "driver-nouveau", on="gpu\udcff", data={"x": float("nan"), "y": ("a\udc80", {"k\udcff": 1}), "z": object}
    )
    result = Result(rule="driver-nouveau", check="c", family="driver", status="fail", findings=(finding,))
    json.loads(render("json", report("en", [result]), "en"))
    render("text", report("en", [result]), "en").encode()
