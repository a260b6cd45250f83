"""The child that asks NVML, met for real: a fake libnvidia-ml.so.1 that answers, errs, hangs, dies or knows half."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Absent, Trouble, Unseen
from ds_doctor.probes import nvml as probe
from ds_doctor.replay import ReplayedHost, record
from ds_doctor.rooted import RootedHost

SOURCE = Path(__file__).parent / "nvml" / "fake.c"
CC = shutil.which("cc") or shutil.which("gcc")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    assert CC is not None
    subprocess.run([CC, "-w", "-shared", "-fPIC", "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    return folder


@pytest.fixture
def ask(library: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., probe.Nvml]:
    monkeypatch.setattr(probe, "_traces", lambda host: True)

    def ask(behaviour: str, **env: str) -> probe.Nvml:
        host = Host(env={**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": behaviour, **env})
        return probe.nvml(host)

    return ask


@needs_cc
@pytest.mark.parametrize("code", [18, 9, 4, 15, 26, 999])
def test_every_error_of_nvml_is_told_with_its_code(ask: Callable[..., probe.Nvml], code: int) -> None:
    said = ask(str(code))
    assert said.error == code
    assert said.gpus == ()
    assert said.detail


@needs_cc
def test_words_of_nvml_that_are_not_utf8_do_no_harm(ask: Callable[..., probe.Nvml]) -> None:
    assert "mismatch" in ask("18").detail


@needs_cc
def test_an_nvml_that_hangs_costs_its_time_limit_and_nothing_else(
    ask: Callable[..., probe.Nvml], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "CHILD_S", 0.7)
    start = time.monotonic()
    said = ask("hang")
    assert (said.error, said.timeout_s) == (-1, 0.7)
    assert time.monotonic() - start < 5


@needs_cc
def test_an_nvml_that_crashes_is_told_with_its_signal(ask: Callable[..., probe.Nvml]) -> None:
    said = ask("crash")
    assert (said.error, said.signal) == (-2, "SIGSEGV")


@needs_cc
def test_bindings_that_answer_bytes_or_text_give_the_same(
    ask: Callable[..., probe.Nvml], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pynvml

    text = ask("ok")
    (tmp_path / "pynvml.py").write_text(
        f"exec(compile(open({pynvml.__file__!r}).read(), 'pynvml', 'exec'), globals())\n"
        "def _as_bytes(function):\n"
        "    def wrapped(*args):\n"
        "        answer = function(*args)\n"
        "        return answer.encode('utf-8', 'surrogateescape') if isinstance(answer, str) else answer\n"
        "    return wrapped\n"
        "for _name in [n for n in globals() if n.startswith(('nvmlDeviceGet', 'nvmlSystemGet'))]:\n"
        "    globals()[_name] = _as_bytes(globals()[_name])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = ask("ok")
    assert answer.gpus[0].name == "NVIDIA H200" and answer.driver == "580.159.04"
    assert [msgspec.structs.replace(g, vbios=None) for g in answer.gpus] == [
        msgspec.structs.replace(g, vbios=None) for g in text.gpus
    ]


@needs_cc
def test_a_library_that_prints_does_not_garble_the_answer(ask: Callable[..., probe.Nvml]) -> None:
    assert len(ask("noise").gpus) == 2


@needs_cc
def test_a_lost_gpu_costs_itself_only(ask: Callable[..., probe.Nvml]) -> None:
    zero, one = ask("lost").gpus
    assert (zero.lost, zero.name) == (None, "NVIDIA H200")
    assert one.lost == 15


@needs_cc
def test_a_healthy_host_is_read_and_what_the_driver_lacks_costs_its_field_only(ask: Callable[..., probe.Nvml]) -> None:
    said = ask("ok")
    assert (said.error, said.driver, said.cuda) == (None, "580.159.04", "13.0")
    zero, one = said.gpus
    assert (zero.index, zero.name, zero.uuid, zero.bdf, zero.minor, zero.cc) == (
        0, "NVIDIA H200", "GPU-0", "0000:0a:00.0", 0, "9.0",
    )  # fmt: skip
    assert one.bdf == "0000:0b:00.0"
    # The second version of the call is missing: the first one's numbers, and no reserved part.
    assert (zero.memory_total_mib, zero.memory_free_mib, zero.memory_used_mib) == (143771, 143155, 616)
    assert zero.memory_reserved_mib is None
    assert (zero.persistence, zero.compute_mode, zero.ecc, zero.ecc_uncorrected) == (True, "default", True, 0)
    assert (zero.rows_pending, zero.rows_failed) == (True, False)
    assert (zero.mig, zero.fabric, zero.gsp_firmware, zero.vbios) == (None, None, None, None)
    assert [(n.link, n.active, n.remote_type, n.remote_bdf) for n in zero.nvlinks] == [
        (0, True, "gpu", "0000:0b:00.0"),
        (1, True, "gpu", "0000:0b:00.0"),
        (2, False, None, None),
        (3, True, "switch", None),
    ]
    (pair,) = said.pairs
    assert (pair.a, pair.b, pair.read, pair.write, pair.nvlink, pair.ancestor) == (0, 1, 0, 0, 5, 30)
    assert pair.links == 2


@needs_cc
def test_a_process_is_named_without_its_arguments(ask: Callable[..., probe.Nvml]) -> None:
    (holder,) = ask("ok").gpus[0].holders
    assert (holder.pid, holder.memory_mib, holder.name) == (4711, 1000, "python3")
    assert "secret" not in msgspec.json.encode(ask("ok")).decode()


@needs_cc
def test_a_poisoned_pythonpath_does_not_reach_the_child(ask: Callable[..., probe.Nvml], tmp_path: Path) -> None:
    for name in ("json.py", "ctypes.py", "sitecustomize.py", "pynvml.py"):
        (tmp_path / name).write_text("raise SystemExit(7)\n")
    assert ask("ok", PYTHONPATH=str(tmp_path)).error is None


def test_a_missing_library_is_code_12_with_the_loaders_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probe, "_traces", lambda host: True)
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"this is no library")
    said = probe.nvml(Host(env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}))
    assert said.error == 12
    assert "libnvidia-ml.so.1" in said.detail


def test_without_any_trace_of_nvidia_no_child_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_traces", lambda host: False)
    monkeypatch.setattr(Host, "run_own", lambda *a: pytest.fail("started"))
    with pytest.raises(Absent):
        probe.nvml(Host())


def test_under_another_root_nvml_is_not_seen(tmp_path: Path) -> None:
    with pytest.raises(Unseen):
        probe.nvml(RootedHost(str(tmp_path)))


@needs_cc
def test_a_recorded_answer_can_be_replayed_without_the_library(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_traces", lambda host: True)
    calls: dict[str, object] = {}
    live = probe.nvml(record(Host(env={**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": "ok"}), calls))
    again = probe.nvml(ReplayedHost(json.loads(json.dumps(calls)), {}))
    assert again == live


@given(st.text())
def test_any_text_of_the_child_is_a_fact_or_a_trouble(text: str) -> None:
    for said in (text, "{" + text, json.dumps({"gpus": [{"index": text}]})):
        try:
            probe.parse(said)
        except Trouble:
            pass


def test_a_deeply_nested_answer_is_a_trouble() -> None:
    with pytest.raises(Trouble):
        probe.parse('{"gpus":' + "[" * 100_000)
