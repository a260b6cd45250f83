"""The launch command is read for engine, workers and container through every wrapper people write around it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent
from ds_doctor.probes.launch import Launch, bytes_of, launch, parse


def of(text: str) -> Launch:
    import shlex

    return parse(tuple(shlex.split(text)))


@pytest.mark.parametrize(
    ("text", "engine", "tp"),
    [
        ("vllm serve m -tp 2", "vllm", 2),
        ("vllm serve m --tensor-parallel-size=4", "vllm", 4),
        ("vllm serve m --tensor_parallel_size 4", "vllm", 4),
        ("vllm serve m -tp=8", "vllm", 8),
        ("vllm serve m -tp 2 -tp 4", "vllm", 4),
        ("vllm serve m", "vllm", None),
        ("vllm serve m -tp", "vllm", None),
        ("vllm serve m -tp 0", "vllm", None),
        ("vllm serve m -tp two", "vllm", None),
        ("/opt/venv/bin/vllm serve m -tp 2", "vllm", 2),
        ("/opt/venv/bin/python3.12 -m vllm.entrypoints.openai.api_server --model m -tp 2", "vllm", 2),
        ("python3 -u -m sglang.launch_server --model-path m --tp 2", "sglang", 2),
        ("sglang serve --model-path m --tp-size=4", "sglang", 4),
        ("python /opt/venv/bin/vllm serve m -tp 2", "vllm", 2),
        ("CUDA_VISIBLE_DEVICES=0,1 NCCL_DEBUG=INFO vllm serve m -tp 2", "vllm", 2),
        ("env -u HTTP_PROXY A=b vllm serve m -tp 2", "vllm", 2),
        ("sudo -u llm env A=b vllm serve m -tp 2", "vllm", 2),
        ("numactl --cpunodebind=0 --membind=0 vllm serve m -tp 2", "vllm", 2),
        ("numactl -N 0 -m 0 vllm serve m -tp 2", "vllm", 2),
        ("taskset -c 0-7 vllm serve m -tp 2", "vllm", 2),
        ("timeout -k 5 60 vllm serve m -tp 2", "vllm", 2),
        ("nohup vllm serve m -tp 2", "vllm", 2),
        ("bash -lc 'exec vllm serve m -tp 2'", "vllm", 2),
        ("docker run --gpus all vllm/vllm-openai:latest --model m -tp 2", "vllm", 2),
        ("docker run --gpus all vllm/vllm-openai@sha256:0 m -tp 2", "vllm", 2),
        ("docker run -itd --rm -v /a:/b -p 1:1 lmsysorg/sglang:latest sglang serve --model-path m --tp 4", "sglang", 4),
        ("docker run --entrypoint python3 lmsysorg/sglang -m sglang.launch_server --tp 2", "sglang", 2),
        ("docker run --entrypoint bash vllm/vllm-openai -lc 'vllm serve m -tp 2'", "vllm", 2),
        ("docker container run img vllm serve m -tp 2", "vllm", 2),
        ("podman run --rm img vllm serve m -tp 2", "vllm", 2),
        ("python train.py --tp 2", None, 2),
        ("bash -c 'cd /x && vllm serve m -tp 2'", "vllm", 2),
        ("bash start.sh", None, None),
        ("", None, None),
    ],
)
def test_engine_and_tensor_parallel_size_are_found(text: str, engine: str | None, tp: int | None) -> None:
    got = of(text)
    assert (got.engine, got.tensor_parallel) == (engine, tp)


def test_the_model_is_the_option_or_the_first_word_behind_serve() -> None:
    assert of("vllm serve org/m -tp 2").model == "org/m"
    assert of("vllm serve --model org/m").model == "org/m"
    assert of("python -m sglang.launch_server --model-path /m").model == "/m"
    assert of("docker run vllm/vllm-openai org/m --port 1").model == "org/m"
    # vLLM's module ignores a positional and serves its default model.
    assert of("python -m vllm.entrypoints.openai.api_server org/m").model is None


def test_the_container_tells_its_shared_memory() -> None:
    got = of(
        "docker run --gpus all --shm-size 2g --ipc=host --memory=16g -e A_TOKEN=x -eNCCL_DEBUG=INFO img vllm serve m"
    )
    assert got.container is not None
    assert (got.container.shm_size, got.container.ipc, got.container.memory) == (2 << 30, "host", 16 << 30)
    assert got.container.image == "img"
    assert got.environment == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize(
    ("options", "mount", "mib"),
    [
        ("-v /dev/shm:/dev/shm", "/dev/shm", None),
        ("--volume=/dev/shm:/dev/shm:rw", "/dev/shm", None),
        ("--mount type=bind,source=/dev/shm,target=/dev/shm", "/dev/shm", None),
        ("-v cache:/dev/shm/", "cache", None),
        ("--tmpfs /dev/shm:rw,size=16g", "tmpfs", 16384),
        ("--tmpfs /dev/shm", "tmpfs", None),
        ("--mount type=tmpfs,destination=/dev/shm,tmpfs-size=1073741824", "tmpfs", 1024),
        ("-v /dev/shm:/host-shm --tmpfs /tmp --shm-size 2g", None, 2048),
        ("--shm-size $SHM", "?", None),
        ("--shm-size 0", None, None),
        ("-v", None, None),
    ],
)
def test_what_is_mounted_over_shared_memory_is_seen(options: str, mount: str | None, mib: int | None) -> None:
    container = parse((*f"docker run --rm {options}".split(), "img", "vllm", "serve", "m")).container
    assert container is not None and container.shm_mount == mount
    assert container.shm_size == (None if mib is None else mib << 20)


def test_the_container_tells_its_gpus() -> None:
    def gpus(text: str) -> tuple[str, ...] | None:
        container = of(text).container
        assert container is not None
        return container.gpus

    assert gpus("""docker run --gpus '"device=0,2"' img vllm serve m""") == ("0", "2")
    assert gpus("docker run --gpus device=GPU-1 img vllm serve m") == ("GPU-1",)
    assert gpus("podman run --device nvidia.com/gpu=1 img vllm serve m") == ("1",)
    assert gpus("podman run --device nvidia.com/gpu=all img vllm serve m") is None
    assert gpus("docker run --gpus all img vllm serve m") is None


def test_what_stands_behind_the_image_belongs_to_the_engine() -> None:
    got = of("docker run vllm/vllm-openai:latest --model m --shm-size 16g --ipc=host")
    assert got.container is not None
    assert got.container.shm_size is None and got.container.ipc is None


def test_every_probe_sees_the_variables_in_front_of_the_command(tmp_path: Path) -> None:
    kept = tmp_path / "snapshot.json"
    words = [
        "run",
        "--only",
        "nccl",
        "--only",
        "visible-*",
        "--record",
        str(kept),
        "--",
        "env",
        "NCCL_P2P_DISABLED=1",
        "vllm",
        "serve",
        "m",
    ]
    subprocess.run(
        [sys.executable, "-m", "ds_doctor", *words], capture_output=True, check=False, env={"PATH": "/usr/bin"}
    )
    facts = json.loads(kept.read_text())["facts"]
    assert facts["nccl_config"]["value"]["settings"]["NCCL_P2P_DISABLED"]["value"] == "1"
    assert facts["environment"]["value"]["variables"]["NCCL_P2P_DISABLED"] == "1"


def test_what_stands_in_front_of_docker_does_not_reach_the_container() -> None:
    assert of("NCCL_DEBUG=INFO docker run img vllm serve m").environment == {}
    assert of("NCCL_DEBUG=INFO vllm serve m").environment == {"NCCL_DEBUG": "INFO"}


def test_secrets_stay_outside() -> None:
    got = of("HF_TOKEN=hf_abc VLLM_API_KEY=k vllm serve m --api-key sk-1 --hf-token=hf_2 --download-dir http://u:p@h/x")
    assert not any(s in str(got) for s in ("hf_abc", "sk-1", "hf_2", "u:p"))
    assert "--max-num-batched-tokens 8192" in " ".join(of("vllm serve m --max-num-batched-tokens 8192").argv)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64m", 64 << 20),
        ("2g", 2 << 30),
        ("2GB", 2 << 30),
        ("10.5GiB", 10.5 * (1 << 30)),
        ("67108864", 1 << 26),
        ("x", None),
    ],
)
def test_sizes_are_read_as_docker_reads_them(text: str, size: float | None) -> None:
    assert bytes_of(text) == size


def test_without_a_command_the_fact_is_absent() -> None:
    with pytest.raises(Absent):
        launch(Host(env={}))
    assert launch(Host(Asked(command=("vllm", "serve", "m")), env={})).engine == "vllm"


WORDS = st.sampled_from(
    ["docker", "run", "env", "sudo", "bash", "-c", "-lc", "vllm", "serve", "-tp", "2", "-e", "--shm-size", "A=b", "python", "-m",
     "sglang.launch_server", "'", "vllm serve m", "--", "-", "=", "-tp=", "timeout", "nice", "-n", "vllm/vllm-openai", "--ipc"]
)  # fmt: skip


@given(st.lists(st.one_of(WORDS, st.text(max_size=12)), max_size=14))
def test_any_words_at_all_are_read_without_an_error(words: list[str]) -> None:
    parse(tuple(words))


@pytest.mark.parametrize(
    "command, model",
    [
        ("vllm serve /m --port 1", "/m"),
        ("/opt/venv/bin/vllm serve org/name", "org/name"),
        ("vllm serve --model /m", "/m"),
        ("vllm serve --port 1", None),
        ("HF_HOME=/x vllm serve /m", "/m"),
        ("env A=b vllm serve /m", "/m"),
        ("python -m vllm.entrypoints.openai.api_server --model=/m", "/m"),
        ("python3 -m sglang.launch_server --model-path /m --tp 2", "/m"),
        ("python3 -m sglang.launch_server --model_path=/m", "/m"),
        ("docker run --gpus all vllm/vllm-openai --model /m", "/m"),
        ("sudo docker run image --model /m", "/m"),
        ("nvidia-smi", None),
        ("", None),
    ],
)
def test_the_model_of_a_command_is_found(command: str, model: str | None) -> None:
    assert parse(tuple(command.split())).model == model


@given(st.lists(st.text(max_size=8) | st.sampled_from(["--model", "serve", "vllm", "=", "--", "A=b", "env"])))
def test_any_command_is_parsed(words: list[str]) -> None:
    parse(tuple(words))
