"""Every parser of every probe, fed anything: it gives a value or a narrow trouble, and nothing else happens."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor import probes
from ds_doctor.model import Trouble
from ds_doctor.probes._safetensors import HeaderError
from ds_doctor.probes._shard_index import NotAnIndex

NARROW = (Trouble, HeaderError, NotAnIndex)
LINES = st.lists(
    st.sampled_from(
        [
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build", "Max open files 20000 20000 files", "MemTotal: 1 kB",
            "[nvidia-container-cli]", "no-cgroups: true", 'kind: "nvidia.com/gpu"', "- hostPath: /usr/lib/libcuda.so.580.1", "home = /usr/bin",
            "Metadata-Version: 2.1", "Name: torch", "Version: 2.11.0+cu130", "Requires-Dist: nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'",
            "cuda: Optional[str] = '13.0'", "tmpfs /dev/shm tmpfs rw,nosuid,size=65536k 0 0", "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw", "0::/a/b",
            "NCCL_SOCKET_IFNAME=^docker,=eth0", "195 nvidia", "{", "}", "[", '{"runtimes": {"nvidia": {}}}', "#!/usr/bin/env python3", "\x00", "\N{BYTE ORDER MARK}",
        ]
    )
    | st.text(max_size=40)
)  # fmt: skip
TEXT = LINES.map("\n".join) | st.text(max_size=300)
BYTES = TEXT.map(lambda t: t.encode("utf-8", "surrogatepass")) | st.binary(max_size=300)


def parsers() -> list[tuple[str, Callable[[Any], Any], str]]:
    found = []
    for info in pkgutil.iter_modules(probes.__path__):
        if info.name == "_nvml_child":  # a script of its own
            continue
        module = importlib.import_module(f"{probes.__name__}.{info.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("parse") or function.__module__ != module.__name__:
                continue
            first, *rest = inspect.signature(function).parameters.values()
            if first.annotation in ("str", "bytes") and all(p.default is not p.empty for p in rest):
                found.append((f"{info.name}.{name}", function, first.annotation))
    return found


@pytest.mark.parametrize(
    ("name", "parse", "kind"), parsers(), ids=lambda v: v if isinstance(v, str) and "." in v else ""
)
@given(data=st.data())
def test_a_parser_survives_anything(name: str, parse: Callable[[Any], Any], kind: str, data: st.DataObject) -> None:
    given_ = data.draw(TEXT if kind == "str" else BYTES)
    try:
        parse(given_)
    except NARROW as e:
        assert str(e), name


@pytest.mark.parametrize(
    "nested", ["[" * 100_000, '{"a":' * 100_000, "a = " + "[" * 100_000, "- " * 100_000, "(" * 100_000]
)
def test_no_parser_breaks_on_deep_nesting(nested: str) -> None:
    for name, parse, kind in parsers():
        try:
            parse(nested if kind == "str" else nested.encode())
        except NARROW:
            continue
        except RecursionError:
            pytest.fail(f"{name} broke on deep nesting")


def test_there_are_parsers_to_test() -> None:
    assert len(parsers()) > 25
