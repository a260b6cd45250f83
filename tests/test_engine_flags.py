"""The flags of an installed engine, read from its source: what is read, what is left open, and that nothing hostile hurts."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent
from ds_doctor.probes import _ast_eval
from ds_doctor.probes import _engine_source as source
from ds_doctor.probes._known_engines import KNOWN
from ds_doctor.probes.engine_flags import EngineFlags, Flag, engine_flags
from ds_doctor.probes.launch import parse
from ds_doctor_checks._flag_table import bundled, choose
from ds_doctor_checks._options import options

ENGINES = Path(__file__).parent.parent / "fixtures" / "engines"
Install = Callable[..., Host]


def read(tree: str | Path) -> EngineFlags:
    """The table of a tree of fixtures/engines, or of a folder like one."""
    root = ENGINES / tree if isinstance(tree, str) else tree
    engine = next(e for e in ("vllm", "sglang") if (root / e).is_dir())
    host = Host(env={})
    folder = f"{root}/{engine}"
    return source.table(host, engine, folder, source.version(host, engine, folder, ()))


def flag(table: EngineFlags, name: str) -> Flag:
    return next(f for f in table.flags if name in f.names)


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """A host with a virtual environment whose packages are a tree of fixtures/engines, asked for `command`."""

    def made(tree: str | Path, command: str, **env: str) -> Host:
        root = ENGINES / tree if isinstance(tree, str) else tree
        home = tmp_path / "env"
        if not home.exists():
            (home / "bin").mkdir(parents=True)
            (home / "bin" / "python").symlink_to("/usr/bin/env")
            (home / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
            (home / "lib" / "python3.12").mkdir(parents=True)
            (home / "lib" / "python3.12" / "site-packages").symlink_to(root)
        words = command.split()
        (home / "bin" / words[0]).write_text(f"#!{home}/bin/python\n")
        asked = Asked(command=(f"{home}/bin/{words[0]}", *words[1:]))
        (tmp_path / "home").mkdir(exist_ok=True)
        return Host(asked, {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin", **env})

    return made


def copied(tmp_path: Path, tree: str) -> Path:
    shutil.copytree(ENGINES / tree, tmp_path / tree)
    return tmp_path / tree


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", ["vllm-0.9", "vllm-0.31", "sglang-0.5.5", "sglang-0.5.21"])
def test_every_argument_of_an_engine_is_seen(tree: str) -> None:
    table = read(tree)
    assert table.complete, table.missed
    assert table.version is not None and table.version.startswith(tree.partition("-")[2])
    assert len(table.flags) > 15
    names = [n for f in table.flags for n in f.names if f.entries is None]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("tree", "name", "said"),
    [
        ("vllm-0.9", "--tensor-parallel-size", {"names": ("--tensor-parallel-size", "-tp"), "type": "int", "default": 1}),
        ("vllm-0.9", "--max-model-len", {"type": "human-int", "dest": "max_model_len"}),
        ("vllm-0.9", "--dtype", {"choices": ("auto", "bfloat16", "float", "float16", "float32", "half")}),
        ("vllm-0.9", "--distributed-executor-backend", {"choices": ("mp", "ray", "None"), "nullable": True}),
        ("vllm-0.9", "--enable-reasoning", {"kind": "pair", "deprecated": True, "negative": ("--no-enable-reasoning",)}),
        ("vllm-0.9", "--served-model-name", {"kind": "list", "nargs": "+", "nullable": True}),
        ("vllm-0.9", "--middleware", {"repeats": True, "nullable": True}),
        ("vllm-0.9", "--headless", {"entries": ("vllm serve",)}),
        ("vllm-0.9", "model_tag", {"positional": True, "kind": "optional"}),
        ("vllm-0.9", "--ssl-cert-reqs", {"type": "int", "default": 0}),
        # A registry that other modules fill by their decorators; and -O takes a level as well as JSON.
        ("vllm-0.9", "--reasoning-parser", {"choices": ("deepseek_r1",), "unsure": ()}),
        ("vllm-0.9", "-O", {"type": "function", "made": "CompilationConfig"}),
        ("vllm-0.31", "--tokenizer-mode", {"choices": None, "type": "str"}),
        ("vllm-0.31", "--max-model-len", {"type": "human-int-or-auto"}),
        ("vllm-0.31", "--kv-cache-memory-bytes", {"type": "human-int", "nullable": True}),
        ("vllm-0.31", "--hf-token", {"kind": "optional", "const": None}),
        ("vllm-0.31", "--hf-overrides", {"type": "json-or-str"}),
        ("vllm-0.31", "--limit-mm-per-prompt", {"type": "json", "made": "_parse_type"}),
        ("vllm-0.31", "--all2all-backend", {"choices": ("deepep_low_latency", "naive", "pplx", None)}),
        ("vllm-0.31", "--eplb-config", {"type": "config", "made": "EPLBConfig", "keys": ("window_size", "step_interval")}),
        ("vllm-0.31", "--rewritten-config", {"type": "config", "keys": None, "unsure": ("keys",)}),
        ("vllm-0.31", "--device-ids", {"type": "function", "made": "device_ids"}),
        ("vllm-0.31", "--lora-modules", {"kind": "list", "made": "lora_modules"}),
        ("vllm-0.31", "--allowed-origins", {"kind": "value", "type": "json", "default": ("*",)}),
        ("vllm-0.31", "--mm-processor-device", {"choices": ("auto", "cpu", "cuda")}),
        ("vllm-0.31", "--disable-custom-all-reduce", {"negative": ("--no-disable-custom-all-reduce", "--enable-custom-all-reduce")}),
        ("vllm-0.31", "--gpu-memory-utilization", {"names": ("--gpu-memory-utilization", "--device-memory-utilization")}),
        ("sglang-0.5.5", "--model", {"required": True, "dest": "model_path"}),
        ("sglang-0.5.5", "--attention-backend", {"choices": ("triton", "flashinfer", "fa3", "trtllm_mla")}),
        ("sglang-0.5.5", "--tool-call-parser", {"choices": ("deepseekv3", "qwen25")}),
        # What is added behind a test of the machine may be there: it is taken, and the list is not sure.
        ("sglang-0.5.5", "--quantization", {"choices": ("awq", "fp8", "gptq", "quark"), "unsure": ("choices",)}),
        ("sglang-0.5.5", "--enable-ep-moe", {"kind": "switch", "deprecated": True}),
        ("sglang-0.5.5", "--lora-paths", {"kind": "list", "nargs": "*", "made": "lora_paths"}),
        ("sglang-0.5.21", "--tp-size", {"names": ("--tensor-parallel-size", "--tp-size"), "dest": "tp_size"}),
        ("sglang-0.5.21", "--context-length", {"type": "human-int"}),
        ("sglang-0.5.21", "--model-impl", {"choices": ("auto", "sglang", "transformers")}),
        ("sglang-0.5.21", "--revision", {"type": "str", "nullable": True}),
        ("sglang-0.5.21", "--checksum", {"kind": "optional", "const": ""}),
        ("sglang-0.5.21", "--cuda-graph-bs", {"kind": "list", "type": "int"}),
        ("sglang-0.5.21", "--lora-paths", {"kind": "list", "nargs": "*", "made": "lora_paths"}),
        ("sglang-0.5.21", "--sampling-backend", {"unsure": ("choices",), "default": "flashinfer"}),
        ("sglang-0.5.21", "--kv-canary", {"choices": ("none", "partial", "all")}),
        ("sglang-0.5.21", "--monokernel-backend", {"kind": "value", "choices": ("amd",), "deprecated": True}),
        ("sglang-0.5.21", "--enable-nan-detection", {"refuses": "--enable-nan-detection was removed; use --crash-on-nan"}),
    ],
)  # fmt: skip
def test_an_argument_is_what_the_source_says(tree: str, name: str, said: dict[str, Any]) -> None:
    one = flag(read(tree), name)
    assert {k: getattr(one, k) for k in said} == said


def test_fields_that_are_no_argument_are_none() -> None:
    names = {n for f in read("sglang-0.5.21").flags for n in f.names}
    assert not names & {"--hidden", "--unmarked", "--shared-experts"}
    assert "--internal" not in {n for f in read("vllm-0.31").flags for n in f.names}


def test_the_fields_of_sglang_stand_in_the_order_of_its_constructor() -> None:
    first = [f.names[0] for f in read("sglang-0.5.21").flags[1:5]]
    assert first == ["--model-path", "--mem-fraction-static", "--load-format", "--context-length"]


def test_what_a_parser_does_to_words_first_is_read_from_its_class() -> None:
    assert set(read("vllm-0.9").ways) == {
        "underscores",
        "json-dots",
        "list-plus",
        "config-file",
        "model-refused",
        "optimization-level-dots",
    }
    new = {"enable-disable", "optimization-level", "model-first", "model-moved"}
    assert set(read("vllm-0.31").ways) == {"underscores", "json-dots", "list-plus", "config-file", *new}
    assert read("sglang-0.5.5").entries == ("sglang.launch_server",)
    assert read("sglang-0.5.21").entries == ("sglang serve", "sglang.launch_server")


def test_names_that_are_registered_are_found_and_unread_topics_are_open() -> None:
    old, new = read("vllm-0.9"), read("vllm-0.31")
    assert old.names["tool-call-parser"] == ("hermes", "internlm", "jamba")
    assert old.names["reasoning-parser"] == ("deepseek_r1",)
    assert new.names["tool-call-parser"] == ("deepseek_v3", "hermes")
    assert "reasoning-parser" in new.open_names and "reasoning-parser" not in new.names


def test_a_release_with_a_bundled_table_is_known_by_its_files() -> None:
    assert {e: k.release for e, k in KNOWN.items()} == {e: bundled(e).version for e in ("vllm", "sglang")}
    for known in KNOWN.values():
        assert len(known.digest) == 24 and len(known.files) == len(set(known.files)) > 20


def test_a_patched_release_is_read_and_its_own_release_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ds_doctor.probes import _known_engines

    root = copied(tmp_path, "vllm-0.31")
    files = ("engine/arg_utils.py", "config/cache.py")
    digest = source.digest(Host(env={}), f"{root}/vllm", files)
    assert digest is not None
    monkeypatch.setitem(_known_engines.KNOWN, "vllm", _known_engines.Known("0.31.0", digest, files))
    whole = read(root)
    assert (whole.release, whole.flags) == ("0.31.0", ())
    (root / "vllm" / "config" / "cache.py").write_text((root / "vllm/config/cache.py").read_text() + "\n")
    patched = read(root)
    assert patched.release is None and patched.flags


# -- what it is for ----------------------------------------------------------------------------------------------------


def test_a_command_is_judged_by_the_engine_that_is_installed(install: Install) -> None:
    host = install("vllm-0.9", "vllm serve M --enable-reasoning --reasoning-parser deepseek_r1 -O 3")
    table = engine_flags(host)
    launch = parse(host.asked.command)
    chosen = choose(launch, table)
    assert (chosen.version, chosen.installed, chosen.exact) == ("0.9.2", True, True)
    assert options(launch, table).errors == ()
    assert [e.word for e in options(launch, None).errors] == ["--enable-reasoning"]


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("vllm serve M --disable-log-requests", []),
        ("vllm serve M --enable-log-requests", ["unknown"]),
        ("vllm serve --model M", ["model-first"]),
        ("vllm serve M --dtype int8", ["choice"]),
        ("vllm serve M --reasoning-parser qwen3", ["choice"]),
        ("vllm serve M -O3", []),
        ("vllm serve M -O 3", []),
        ("vllm serve M --hf-overrides {", ["json"]),
        ("python -m vllm.entrypoints.openai.api_server --model M --headless", ["unknown"]),
    ],
)
def test_an_old_engine_refuses_what_it_refused_then(command: str, kinds: list[str]) -> None:
    assert [e.kind for e in options(parse(tuple(command.split())), read("vllm-0.9")).errors] == kinds


# -- where it stands ---------------------------------------------------------------------------------------------------


def test_no_command_and_no_engine_are_told_apart(install: Install) -> None:
    for host, reason in (
        (Host(Asked(), {}), "no-command"),
        (install("vllm-0.9", "vllm serve M"), None),
        (Host(Asked(command=("docker", "run", "vllm/vllm-openai", "M")), {}), "engine-in-container"),
    ):
        if reason is None:
            assert engine_flags(host).version == "0.9.2"
            continue
        with pytest.raises(Absent) as e:
            engine_flags(host)
        assert e.value.reason.id == reason
    with pytest.raises(Absent) as e:
        engine_flags(install("vllm-0.9", "sglang serve --model M"))
    assert e.value.reason.id == "engine-not-installed"


def test_a_checkout_that_is_installed_in_place_is_found(install: Install, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    root = ENGINES / "vllm-0.9"
    (site / "vllm-0.9.3.dev1+gabc.dist-info").mkdir()
    (site / "__editable___vllm_0_9_3_finder.py").write_text(f"MAPPING: dict[str, str] = {{'vllm': '{root}/vllm'}}\n")
    table = engine_flags(install(site, "vllm serve M"))
    assert (table.folder, len(table.flags)) == (f"{root}/vllm", len(read("vllm-0.9").flags))


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The engines whose source was really read."""
    done: list[str] = []
    whole = source._read

    def counted(host: Host, engine: str, folder: str) -> Any:
        done.append(engine)
        return whole(host, engine, folder)

    monkeypatch.setattr(source, "_read", counted)
    return done


def test_a_table_is_worked_out_once(install: Install, parses: list[str], tmp_path: Path) -> None:
    root = copied(tmp_path, "vllm-0.9")
    first, second = engine_flags(install(root, "vllm serve M")), engine_flags(install(root, "vllm serve X"))
    assert first == second and parses == ["vllm"]
    new = root / "vllm" / "entrypoints" / "openai" / "cli_args.py"
    new.write_text(new.read_text().replace('"--host"', '"--hostess"'))
    assert flag(engine_flags(install(root, "vllm serve M")), "--hostess")
    assert parses == ["vllm", "vllm"]
    (root / "vllm" / "config").mkdir()
    (root / "vllm" / "config" / "__init__.py").write_text("")  # now shadows config.py
    assert not engine_flags(install(root, "vllm serve M")).complete
    assert len(parses) == 3


@pytest.mark.parametrize("spoilt", [b"", b"\0\1", b"[[[[", b'{"reader": 1}', b"{" * 100_000, "fifo", "folder", "link"])
def test_a_spoilt_cache_is_no_cache(install: Install, parses: list[str], tmp_path: Path, spoilt: bytes | str) -> None:
    engine_flags(install("vllm-0.9", "vllm serve M"))
    (kept,) = (tmp_path / "home" / ".cache" / "ds-doctor").iterdir()
    kept.unlink()
    if isinstance(spoilt, bytes):
        kept.write_bytes(spoilt)
    elif spoilt == "fifo":
        os.mkfifo(kept)
    elif spoilt == "folder":
        kept.mkdir()
    else:
        kept.symlink_to("/dev/zero")
    assert flag(engine_flags(install("vllm-0.9", "vllm serve M")), "--enable-reasoning")
    assert parses == ["vllm", "vllm"]


def test_another_reader_s_table_and_another_folder_s_are_not_taken(
    install: Install, parses: list[str], tmp_path: Path
) -> None:
    engine_flags(install("vllm-0.9", "vllm serve M"))
    (kept,) = (tmp_path / "home" / ".cache" / "ds-doctor").iterdir()
    said = json.loads(kept.read_bytes())
    for change in ({"reader": "0"}, {"folder": "/elsewhere"}, {"files": {}}):
        kept.write_text(json.dumps({**said, **change, "flags": []}))
        assert engine_flags(install("vllm-0.9", "vllm serve M")).flags
    assert len(parses) == 4


@pytest.mark.parametrize("home", ["/proc", "", "relative", "/dev/null"])
def test_without_a_cache_directory_it_reads_every_time(install: Install, parses: list[str], home: str) -> None:
    for _ in range(2):
        assert engine_flags(install("vllm-0.9", "vllm serve M", HOME=home)).flags
    assert len(parses) == 2


def test_a_table_that_took_too_long_is_not_kept(
    install: Install, parses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_ast_eval, "STEPS", 50)
    assert not engine_flags(install("vllm-0.9", "vllm serve M")).complete
    monkeypatch.undo()
    assert engine_flags(install("vllm-0.9", "vllm serve M")).complete


# -- hostile source ----------------------------------------------------------------------------------------------------

ARGUMENTS = "vllm/engine/arg_utils.py"
HOSTILE: dict[str, bytes] = {
    "10 MB": b"# " + b"x" * (10 << 20),
    "syntax": b"def f(:\n",
    "sums": b"x = 1" + b"+1" * 200_000,
    "signs": b"x = " + b"-" * 200_000 + b"1",
    "brackets": b"x = " + b"[" * 100_000,
    "attributes": b"x = a" + b".a" * 200_000,
    "not text": bytes(range(256)) * 20,
    "empty": b"",
    "a cycle": b"from vllm.entrypoints.openai.cli_args import make_arg_parser as AsyncEngineArgs\nAsyncEngineArgs.x()\n",
    "itself": b"class AsyncEngineArgs(AsyncEngineArgs):\n    @staticmethod\n    def add_cli_args(p):\n"
    b"        return AsyncEngineArgs.add_cli_args(p)\n",
    "a lambda of itself": b"f = lambda p: f(f(p))\nclass AsyncEngineArgs:\n    add_cli_args = f\n",
    "endless": b"class AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n        while True:\n"
    b"            p.add_argument('--x')\n",
    "doubling": b"x = ['a']\n" + b"x += x\n" * 200 + b"class AsyncEngineArgs:\n    @staticmethod\n"
    b"    def add_cli_args(p):\n        p.add_argument('--x', choices=x)\n",
    "a large number": b"class AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n"
    b"        p.add_argument('--x', default=10**10**10, choices=['a' * 10**10], nargs=1 << 10**9)\n",
    "nested loops": b"R = range(10000)\nclass AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n"
    b"        for a in R:\n            for b in R:\n                for c in R:\n                    d = a\n",
    "many arguments": b"class AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n"
    + b"".join(b"        p.add_argument('--x%d')\n" % i for i in range(50_000)),
    "100,000 arguments": b"class AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n"
    b"        for i in range(10):\n            for j in range(10000):\n                p.add_argument(f'--x{i}-{j}')\n",
    "odd arguments": b"class AsyncEngineArgs:\n    @staticmethod\n    def add_cli_args(p):\n"
    b"        p.add_argument()\n        p.add_argument(*who)\n        p.add_argument('--a', **who)\n"
    b"        p.add_argument(3)\n        p.add_argument('--b', action=who)\n        p.add_argument('--c', nargs=who)\n"
    b"        who(p)\n",
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_source_gives_an_incomplete_table_in_bounded_time(what: str, tmp_path: Path) -> None:
    root = copied(tmp_path, "vllm-0.9")
    (root / ARGUMENTS).write_bytes(HOSTILE[what])
    start = time.monotonic()
    table = read(root)
    assert time.monotonic() - start < 20  # 4 s is its own limit; a shared machine stutters
    if what not in ("doubling", "a large number"):
        assert not table.complete
        assert 0 < len(table.missed) <= 40 and all(len(m) <= 200 for m in table.missed)
    assert len(table.flags) <= 2 * 3000  # of each of its two parsers
    # And nothing that it does not know is refused for certain.
    assert what in ("doubling", "a large number") or not choose(parse(("vllm", "serve", "M")), table).exact


@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "device", "missing", "out"])
def test_a_file_that_is_none_is_missed(kind: str, tmp_path: Path) -> None:
    root = copied(tmp_path, "sglang-0.5.21")
    place = root / "sglang" / "srt" / "arg_groups" / "fields" / "memory.py"
    place.unlink()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "loop":
        place.symlink_to(place.name)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "out":
        place.symlink_to("/etc/hostname")
    table = read(root)
    assert not table.complete and flag(table, "--model-path")


def test_an_engine_without_source_has_no_table_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    table = read(tmp_path)
    assert (table.flags, table.complete, table.version) == ((), False, None)
    chosen = choose(parse(("vllm", "serve", "M")), table)
    assert not chosen.exact and not chosen.installed
