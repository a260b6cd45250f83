"""The memory family on a real host with GPUs: what fits, what does not, and a process that holds 100 GiB.

    python tests/device/memory_trial.py OUTDIR [--gib 100] [--doctor ds-doctor]

Writes the reports and a summary to OUTDIR and ends with 1 when something is not as it should be. Nothing is served: the
models are folders with real configurations and headers whose tensors are holes in a sparse file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GIB = 1 << 30
QWEN3_8B = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288,
    "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA_405B = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 16384, "num_hidden_layers": 126,
    "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip


def tensors(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden, inner, words = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    size = config.get("head_dim", hidden // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    yield "model.embed_tokens.weight", (words, hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield f"{at}.self_attn.q_proj.weight", (queries, hidden)
        yield f"{at}.self_attn.k_proj.weight", (keys, hidden)
        yield f"{at}.self_attn.v_proj.weight", (keys, hidden)
        yield f"{at}.self_attn.o_proj.weight", (hidden, queries)
        yield f"{at}.mlp.gate_proj.weight", (inner, hidden)
        yield f"{at}.mlp.up_proj.weight", (inner, hidden)
        yield f"{at}.mlp.down_proj.weight", (hidden, inner)
        yield f"{at}.input_layernorm.weight", (hidden,)
        yield f"{at}.post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (words, hidden)


def folder(where: Path, config: dict[str, Any]) -> Path:
    """A model folder whose one weight file is a header and a hole."""
    where.mkdir(parents=True)
    header: dict[str, Any] = {}
    end = 0
    for name, shape in tensors(config):
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with (where / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)
    (where / "config.json").write_text(json.dumps(config))
    (where / "generation_config.json").write_text("{}")
    (where / "tokenizer.json").write_text('{"version": "1.0"}')
    (where / "tokenizer_config.json").write_text("{}")
    return where


class Trial:
    def __init__(self, out: Path, doctor: list[str]) -> None:
        self.out = out
        self.doctor = doctor
        self.wrong: list[str] = []
        self.summary: dict[str, Any] = {}

    def run(self, name: str, *command: str) -> dict[str, dict[str, Any]]:
        """The results of the memory family by rule; the text report beside them."""
        start = time.monotonic()
        words = [*self.doctor, "run", "--format", "json", "--output", f"text={self.out / name}.txt", "--", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        seconds = round(time.monotonic() - start, 3)
        (self.out / f"{name}.json").write_text(done.stdout)
        results = {r["rule"]: r for r in json.loads(done.stdout)["results"] if r["family"] == "memory"}
        said = {r: [f["title"] for f in x["findings"]] for r, x in results.items() if x["findings"]}
        self.summary[name] = {"exit": done.returncode, "seconds": seconds, "found": said}
        print(f"== {name}: {' '.join(command)} ({seconds} s)")
        for rule, titles in said.items():
            print(f"   {results[rule]['status']:5} {rule}: {'; '.join(titles)}")
        for rule, result in results.items():
            if result["status"] in ("unknown", "error"):
                print(f"   {result['status']:5} {rule}: {result['reason']}")
        return results

    def expect(self, name: str, results: dict[str, dict[str, Any]], **statuses: str) -> None:
        for rule, want in statuses.items():
            got = results.get(rule.replace("_", "-"), {}).get("status")
            self.check(name, got == want, f"{rule} is {got}, not {want}")

    def check(self, name: str, right: bool, words: str) -> None:
        if not right:
            self.wrong.append(f"{name}: {words}")
            print(f"   WRONG {words}")


def hold(gpu: int, gib: float) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    words = [sys.executable, str(HERE / "hold_gpu_memory.py"), str(gpu), str(gib)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit("the memory could not be held")
    return process, json.loads(line)


def end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(30)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("out", type=Path)
    options.add_argument("--gib", type=float, default=100.0)
    options.add_argument("--doctor", default=shutil.which("ds-doctor") or f"{sys.executable} -m ds_doctor")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    trial = Trial(given.out, given.doctor.split())
    models = Path(tempfile.mkdtemp(prefix="memory-trial-"))
    try:
        small, large = str(folder(models / "qwen3-8b", QWEN3_8B)), str(folder(models / "llama-405b", LLAMA_405B))
        judge(trial, small, large, given.gib)
    finally:
        shutil.rmtree(models)
    trial.summary["wrong"] = trial.wrong
    (given.out / "summary.json").write_text(json.dumps(trial.summary, indent=1, ensure_ascii=False))
    print(f"{len(trial.wrong)} wrong" if trial.wrong else "all as it should be")
    sys.exit(1 if trial.wrong else 0)


def judge(trial: Trial, small: str, large: str, gib: float) -> None:
    fine = {"memory_weights": "pass", "memory_context": "pass"}
    found = trial.run("fits", "vllm", "serve", small)
    trial.expect("fits", found, **fine, memory_share_not_free="pass", memory_plan="note")
    found = trial.run("does-not-fit", "vllm", "serve", large)
    trial.expect("does-not-fit", found, memory_weights="fail", memory_plan="skip")
    found = trial.run("sglang-fits", "sglang", "serve", small)
    trial.expect("sglang-fits", found, memory_weights="pass", memory_plan="note")

    process, said = hold(0, gib)
    try:
        found = trial.run("held", "vllm", "serve", small)
        trial.expect("held", found, memory_share_not_free="fail")
        data = found["memory-share-not-free"]["findings"][0]["data"]
        trial.summary["cuda"] = said
        total, free = said["total"] / GIB, said["free"] / GIB
        trial.check("held", abs(data["total_gib"] - total) < 0.2, f"total {data['total_gib']}, CUDA says {total:.2f}")
        trial.check("held", abs(data["free_gib"] - free) < 0.5, f"free {data['free_gib']}, CUDA says {free:.2f}")
        trial.check("held", abs(data["held_gib"] - gib) < 1.5, f"held {data['held_gib']}, {gib} were taken")
        # In a container of its own PID namespace nobody may be named; then the amount is told all the same.
        named = f"pid {said['pid']}" in data["holders"] and "hold_gpu_memory.py" in data["holders"]
        at_home = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
        trial.summary["named"] = {"holders": data["holders"], "host_pid_namespace": at_home}
        trial.check("held", named or not at_home, f"the holder is not named: {data['holders']}")
        share = str(data["fits_share"])
        found = trial.run("held-lower-share", "vllm", "serve", small, "--gpu-memory-utilization", share)
        trial.expect("held-lower-share", found, memory_share_not_free="pass", memory_weights="pass")
        found = trial.run("held-sglang", "sglang", "serve", small)
        trial.expect("held-sglang", found, memory_weights="pass", memory_plan="note")
        free_gib = found["memory-plan"]["findings"][0]["data"]["free_gib"]
        trial.check("held-sglang", abs(free_gib - free) < 0.5, f"free {free_gib}, CUDA says {free:.2f}")
    finally:
        end(process)
    found = trial.run("free-again", "vllm", "serve", small)
    trial.expect("free-again", found, memory_share_not_free="pass")


if __name__ == "__main__":
    main()
