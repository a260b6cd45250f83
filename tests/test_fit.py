"""`ds-doctor fit`: whole answers as they are printed, what it takes and refuses, and that nothing hostile costs more than a line."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ds_doctor.report import fit_words
from ds_doctor.report.layout import cells
from support import FIXTURES

RECORDING = str(FIXTURES / "hosts/h200-x2/snapshot.json")
CASES: dict[str, list[str]] = {
    "deepseek-v4.1-flash-on-8-h200": ["deepseek-ai/DeepSeek-V4.1-Flash", "--gpus", "8xH200"],
    "deepseek-r1-with-sglang": ["deepseek-ai/DeepSeek-R1", "--gpus", "8xH200", "--engine", "sglang", "--concurrency", "4"],
    "qwen3-32b-on-2-rtx-4090": ["Qwen/Qwen3-32B", "--gpus", "2xRTX4090"],
    "qwen3.5-27b-fp8-long": ["Qwen/Qwen3.5-27B-FP8", "--gpus", "2xRTX5090", "--max-model-len", "128K", "--max-num-seqs", "16"],
    "llama-70b-on-a-recorded-host": ["meta-llama/Llama-3.3-70B-Instruct", "--replay", RECORDING, "--max-model-len", "32k"],
    "gpt-oss-120b-anywhere": ["openai/gpt-oss-120b", "--engine-version", "0.11.0", "--kv-cache-dtype", "fp8"],
}  # fmt: skip
# Where a GPU is, its answer would take the place of the fewest GPUs of each kind.
HAS_GPU = os.path.exists("/dev/nvidiactl")


def fit(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", "fit", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **env},
    )


def document(*args: str) -> dict[str, Any]:
    done = fit(*args, "--format", "json")
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["exit_code"] == done.returncode
    return result


@pytest.mark.parametrize("form", ["en", "zh", "json"])
@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_printed_as_it_was_read(name: str, form: str, golden: Callable[[Path, str], None]) -> None:
    if HAS_GPU and not {"--gpus", "--replay"} & set(CASES[name]):
        pytest.skip("this host has GPUs of its own")
    done = fit(*CASES[name], *(["--format", "json"] if form == "json" else ["--lang", form]))
    assert done.stderr == ""
    text = re.sub(r'("name": "ds-doctor",\s+"version": )"[^"]+"', r'\1"0"', done.stdout)
    golden(FIXTURES / "fit" / f"{name}.{form if form == 'json' else form + '.txt'}", text)
    if form != "json":
        assert max(cells(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("name", CASES)
def test_the_json_of_a_fit_is_as_its_schema_says(name: str) -> None:
    schema = json.loads(
        subprocess.run([sys.executable, "-m", "ds_doctor", "schema", "fit"], capture_output=True).stdout
    )
    found = document(*CASES[name])
    jsonschema.validate(found, schema)
    assert found["schema"] == "ds-doctor.fit/1"
    for key in (
        "weights_gib_per_gpu", "weights_gib_total", "kv_bytes_per_token_per_gpu", "kv_bytes_per_token", "kv_gib_available", "kv_tokens",
        "concurrency", "max_model_len_largest", "verdict", "reasons", "host_memory_gib", "shm_mib", "assumptions",
    ):  # fmt: skip
        assert key in found


def test_every_word_of_a_fit_is_in_both_languages() -> None:
    for key, (english, chinese) in fit_words.WORDS.items():
        blanks = {re.sub(r"[{}]", "", b) for b in re.findall(r"{\w+}", english)}
        assert blanks == {re.sub(r"[{}]", "", b) for b in re.findall(r"{\w+}", chinese)}, key
        assert english and chinese


@pytest.mark.parametrize(
    ("word", "length"), [("32k", 32000), ("32K", 32768), ("1.5K", 1536), ("8192", 8192), ("16,384", 16384)]
)
def test_lengths_are_read_as_vllm_reads_them(word: str, length: int) -> None:
    found = document("Qwen/Qwen3-32B", "--gpus", "2xH100", "--max-model-len", word)
    assert found["setting"]["max_model_len"] == length


def test_auto_takes_the_longest_request_that_fits_for_sure() -> None:
    found = document("Qwen/Qwen2.5-14B-Instruct", "--gpus", "A100-40GB", "--max-model-len", "auto")
    assert found["verdict"] == "fits"
    assert 16384 < found["setting"]["max_model_len"] <= 32768


@pytest.mark.parametrize(
    ("gpus", "count", "total"),
    [("8xH200", 8, 139.8), ("2xRTX4090", 2, 23.52), ("4090", 1, 23.52), ("A100-40GB", 1, 39.49), ("2x24GiB", 2, 24.0)],
)
def test_gpus_are_named_as_people_name_them(gpus: str, count: int, total: float) -> None:
    found = document("Qwen/Qwen3-8B", "--gpus", gpus)
    assert [(g["count"], g["total_gib"]) for g in found["gpus"]] == [(count, total)]


def test_a_recorded_host_brings_its_free_memory(tmp_path: Path) -> None:
    kept = json.loads(Path(RECORDING).read_text("utf-8"))
    kept["facts"]["nvml"]["value"]["gpus"][1]["memory_free_mib"] = 40_000
    (tmp_path / "s.json").write_text(json.dumps(kept))
    found = document("Qwen/Qwen3-8B", "--replay", str(tmp_path / "s.json"))
    assert found["verdict"] == "no"
    assert [r["id"] for r in found["reasons"]] == ["free"]
    assert sorted(g["free_gib"] for g in found["gpus"])[0] == 39.06


def test_what_would_help_does_fit() -> None:
    for args in (
        ["Qwen/Qwen3-32B", "--gpus", "2xRTX4090"],
        ["Qwen/Qwen3-8B", "--gpus", "L4", "--max-model-len", "128k"],
    ):
        found = document(*args)
        assert found["verdict"] != "fits"
        assert found["changes"]
        for change in found["changes"]:
            flags = [w for f in change["flags"] for w in f.split()]
            gpus = args[2] if change["gpus"] <= 2 else f"{change['gpus']}xRTX4090"
            again = document(args[0], "--gpus", gpus, *flags, *([] if "--max-model-len" in flags else args[3:]))
            assert again["verdict"] == change["verdict"], change


def test_sizes_that_heads_cannot_be_divided_by_are_refused_as_the_engine_does() -> None:
    found = document("Qwen/Qwen2.5-7B-Instruct", "--gpus", "8xH100", "--tp", "8")
    assert (found["verdict"], found["reasons"][0]["id"]) == ("no", "heads")
    seven = document("Qwen/Qwen2.5-7B-Instruct", "--gpus", "7xH100", "--tp", "7")  # 28 heads, but 4 KV heads
    assert (seven["verdict"], seven["reasons"][0]["id"]) == ("no", "shape")
    assert document("Qwen/Qwen2.5-7B-Instruct", "--gpus", "8xH100")["setting"]["tp"] == 4


@pytest.mark.skipif(HAS_GPU, reason="this host has GPUs of its own")
def test_parallel_sizes_without_gpus_are_kept() -> None:
    found = document("Qwen/Qwen3-32B", "--tp", "4", "--pp", "2")
    assert (found["setting"]["tp"], found["setting"]["pp"]) == (4, 2)
    assert {s["count"] for s in found["sets"]} == {8}


@pytest.mark.skipif(HAS_GPU, reason="this host has GPUs of its own")
def test_every_set_that_is_named_can_be_given() -> None:
    for one in document("Qwen/Qwen3-32B")["sets"]:
        again = document("Qwen/Qwen3-32B", "--gpus", one["gpus"])
        assert (again["verdict"], again["gpus"][0]["name"]) == ("fits", one["name"])


def test_a_hub_id_is_found_by_its_name_with_a_suffix() -> None:
    found = document("RedHatAI/Qwen2.5-72B-Instruct-quantized.w4a16", "--gpus", "H100")
    assert found["model"]["id"] == "Qwen/Qwen2.5-72B-Instruct"
    assert 36 < found["weights_gib_total"] < 42


def folder(path: Path, **tensors: tuple[str, list[int], int]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(
        json.dumps(
            {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 2048}
        )
    )  # fmt: skip
    header, at = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header).encode()
    with open(path / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(data)) + data)
        f.truncate(8 + len(data) + at)
    return path


def test_a_folder_is_weighed_by_its_tensors(tmp_path: Path) -> None:
    big = 1 << 30
    where = folder(tmp_path / "m", **{"model.layers.0.mlp.up_proj.weight": ("BF16", [big // 4, 2], big)})
    found = document(str(where), "--gpus", "1xH100")
    assert found["weights_gib_per_gpu"] == 1.0
    assert any(a["id"] == "weights-tensors" for a in found["assumptions"])
    assert document(str(where / "config.json"), "--gpus", "1xH100")["weights_gib_per_gpu"] == 0.0


def test_a_model_in_the_hub_cache_is_used_offline(tmp_path: Path) -> None:
    repo = tmp_path / "hub/models--some--model"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs/main").write_text("0" * 40)
    (repo / "snapshots").mkdir()
    folder(repo / "snapshots" / ("0" * 40), **{"lm_head.weight": ("BF16", [256, 64], 32768)})
    done = fit("some/model", "--gpus", "1xT4", "--format", "json", HF_HUB_CACHE=str(tmp_path / "hub"))
    assert json.loads(done.stdout)["model"]["read_from"] == "hub-cache", done.stderr


# -- what cannot be worked out -------------------------------------------------------------------------------------


def refused(done: subprocess.CompletedProcess[str], status: int, says: str) -> None:
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("ds-doctor: ") and done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr
    assert len(done.stderr) < 500


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (["nobody/unheard-of", "--gpus", "H100"], 3, "not bundled"),
        (["Qwen/Qwen3-8B-GGUF", "--gpus", "H100"], 3, "not bundled"),
        (["/no/such/model"], 2, "no such file"),
        (["Qwen/Qwen3-8B", "--gpus", "H900"], 2, "--gpus H900"),
        (["Qwen/Qwen3-8B", "--gpus", "0xH100"], 2, "--gpus"),
        (["Qwen/Qwen3-8B", "--gpus", "99999xH100"], 2, "--gpus"),
        (["Qwen/Qwen3-8B", "--gpus", "2xH100", "--tp", "4"], 2, "takes 4 GPUs, there are 2"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--tp", "0"], 2, "--tp 0"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--max-model-len", "many"], 2, "--max-model-len many"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--max-model-len", "9" * 400], 2, "--max-model-len"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--gpu-memory-utilization", "1.5"], 2, "from 0 to 1"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--gpu-memory-utilization", "nan"], 2, "from 0 to 1"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--engine-version", "new"], 2, "--engine-version new"),
        (["Qwen/Qwen3-8B", "--gpus", "H100", "--replay", "x"], 2, "exclude each other"),
        (["Qwen/Qwen3-8B", "--replay", "/none"], 2, "--replay /none"),
        (["Qwen/Qwen3-8B", "--concurrency", "-3"], 2, "--concurrency"),
        ([""], 2, "MODEL is empty"),
        ([], 2, "MODEL"),
    ],
)
def test_what_makes_no_sense_is_one_line(args: list[str], status: int, says: str) -> None:
    refused(fit(*args), status, says)


SOUND = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000, "intermediate_size": 11008}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a config.json"),
        ("{", "not a config.json"),
        ("[1, 2]", "no object"),
        ('"x"', "no object"),
        ("\x00\xff", "not a config.json"),
        ("[" * 100_000, "not a config.json"),
        ('{"text_config": ' * 5000 + "{}" + "}" * 5000, "m.json"),
        (json.dumps({**SOUND, "num_hidden_layers": 10**18}), "num_hidden_layers"),
        (json.dumps({**SOUND, "num_hidden_layers": -1}), "num_hidden_layers"),
        (json.dumps({**SOUND, "num_hidden_layers": 0}), "num_hidden_layers"),
        (json.dumps({**SOUND, "hidden_size": "wide"}), "hidden_size"),
        (json.dumps({**SOUND, "hidden_size": 1e300}), "hidden_size"),
        (json.dumps({**SOUND, "vocab_size": True}), "vocab_size"),
        (json.dumps({**SOUND, "num_attention_heads": 0}), "num_attention_heads"),
        (json.dumps({**SOUND, "intermediate_size": [1] * 3 + ["x"]}), "intermediate_size"),
        (json.dumps({**SOUND, "num_key_value_heads": 10**30}), "num_key_value_heads"),
        ('{"hidden_size": ' + "9" * 5000 + "}", ""),
        (json.dumps({"model_type": "llama", "architectures": ["X"]} | {"hidden_size": None}), ""),
    ],
)
def test_a_configuration_that_no_model_has_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(text.encode("latin-1"))
    begun = time.monotonic()
    refused(fit(str(path), "--gpus", "8xH200"), 2, says)
    assert time.monotonic() - begun < 10


def test_a_pipe_a_device_and_a_huge_file_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(fit(str(tmp_path / "pipe")), 2, "not a regular file")
    refused(fit("/dev/zero"), 2, "not a regular file")
    with open(tmp_path / "huge.json", "wb") as f:
        f.truncate(100 << 20)
    refused(fit(str(tmp_path / "huge.json")), 2, "larger than 8 MiB")
    (tmp_path / "empty").mkdir()
    refused(fit(str(tmp_path / "empty")), 2, "no config.json")


def test_a_header_with_a_million_tensors_takes_bounded_time_and_memory(tmp_path: Path) -> None:
    names = {f"layers.{i % 2}.experts.{i}.w": ("I8", [1], 1) for i in range(1_000_000)}
    where = folder(tmp_path / "m", **names)  # type: ignore[arg-type]
    done = subprocess.run(
        [
            sys.executable, "-c",
            "import resource, subprocess, sys;"
            "r = subprocess.run([sys.executable, '-m', 'ds_doctor', 'fit', *sys.argv[1:]], timeout=60);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(r.returncode)",
            str(where), "--gpus", "H100",
        ],
        capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert done.returncode in (0, 2, 3), done.stderr
    assert int(done.stderr.splitlines()[-1]) < 700_000


def test_planning_imports_neither_probes_nor_the_report_of_run() -> None:
    code = (
        "import sys; from ds_doctor.cli.fitting import Request, fit;"
        "fit(Request(model='Qwen/Qwen3-8B', gpus='H100'));"
        "print([m for m in sys.modules if m.startswith(('ds_doctor.probes', 'ds_doctor.engine', 'rich'))], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"HOME": "/nonexistent"})
    assert done.stderr.strip() == "[]", done.stderr
