"""What the live memory of a host and a model's files tell: configurations, tensors by kind, the processes on a GPU."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weights_builder as build
from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent, Malformed, Trouble
from ds_doctor.probes import _config_look, _gpu_holders, _safetensors
from ds_doctor.probes.model_config import ModelConfig, model_config
from ds_doctor.probes.model_folder import model_folder
from ds_doctor.probes.nvml import Gpu, Holder, MigDevice
from probe_host import Tree, only_trouble

CONTAINER = "4f5e6d7c8b9a" + "0" * 52
POD = "8f3c2d1e-aaaa-bbbb-cccc-0123456789ab"


def look(path: Path | str, *command: str) -> ModelConfig:
    return model_config(Host(Asked(model=str(path), command=command), {}))


# -- configurations ------------------------------------------------------------------------------------------------


def test_a_folder_gives_its_configurations_and_its_tensors_by_kind(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", 3)
    build.small(folder, hidden_size=64, rope_scaling={"factor": 8.0})
    (folder / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4"}}')
    (folder / "tokenizer_config.json").write_text(
        '{"model_max_length": 1e30, "chat_template": "x", "added_tokens_decoder": {}}'
    )
    fact = look(folder)
    assert fact.config is not None and fact.config["rope_scaling"] == {"factor": 8.0} and fact.problem is None
    assert fact.quantisation == {"quantization": {"quant_algo": "NVFP4"}}
    assert fact.tokenizer == {"model_max_length": 1e30} and fact.has_chat_template
    assert fact.tensors is not None and (fact.tensors.count, fact.tensors.files, fact.tensors.files_unread) == (9, 3, 0)
    names = {k.name: (k.count, k.shape, k.dtype, k.bytes) for k in fact.tensors.kinds}
    assert names["model.layers.*.q_proj.weight"] == (3, (4, 8), "BF16", 3 * 64)


def test_both_probes_of_a_model_folder_read_each_file_once(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", 3)
    opened: list[str] = []

    class Counting(Host):
        def _open(self, path: str) -> int:
            opened.append(path)
            return super()._open(path)

    host = Counting(Asked(model=str(folder)), {})
    model_folder(host)
    before = len(opened)
    model_config(host)
    assert before and len(opened) == before


def test_the_reason_why_there_is_none_is_given_to_both(tmp_path: Path) -> None:
    host = Host(Asked(command=("vllm", "serve", "org/name")), {"HOME": str(tmp_path)})
    for probe in (model_folder, model_config):
        with pytest.raises(Absent, match="model-not-downloaded"):
            probe(host)


@pytest.mark.parametrize(
    ("text", "problem"),
    [(None, "missing"), ("", "empty"), ("[1]", "not-json"), ("<html>", "html"), ("{" * 5000, "not-json")],
)
def test_a_configuration_that_is_none_says_why(tmp_path: Path, text: str | None, problem: str) -> None:
    folder = build.sharded(tmp_path / "m")
    (folder / "config.json").unlink()
    if text is not None:
        (folder / "config.json").write_text(text)
    fact = look(folder)
    assert (fact.config, fact.problem) == (None, problem)


def test_a_path_without_anything_says_so(tmp_path: Path) -> None:
    assert look(tmp_path / "gone").problem == "path-missing"
    (tmp_path / "empty").mkdir()
    assert look(tmp_path / "empty").problem == "missing"


def test_a_config_json_alone_can_be_given(tmp_path: Path) -> None:
    build.small(tmp_path, hidden_size=64)
    fact = look(tmp_path / "config.json")
    assert fact.config is not None and fact.config["hidden_size"] == 64 and fact.tensors is None


def test_one_weight_file_brings_the_configuration_beside_it(tmp_path: Path) -> None:
    fact = look(build.single(tmp_path) / "model.safetensors")
    assert fact.config is not None and fact.tensors is not None and fact.weights_kind == "safetensors"


def test_a_gguf_file_has_its_own_configuration(tmp_path: Path) -> None:
    build.small(tmp_path)
    (tmp_path / "m.gguf").write_bytes(b"GGUF\3\0\0\0" + b"\0" * 100)
    fact = look(tmp_path / "m.gguf")
    assert (fact.config, fact.weights_kind, fact.weights_bytes) == (None, "gguf", 108)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ('{"num_hidden_layers": 9999999999999999999999}', "config-number"),
        ('{"text_config": {"hidden_size": -99999999999999999999}}', "config-number"),
        ('{"a": [' + ",".join(["1"] * 60_000) + "]}", "config-unbounded"),
        ('{"a":' * 40 + "1" + "}" * 40, "config-unbounded"),
    ],
)
def test_numbers_and_sizes_that_no_model_has_are_told(tmp_path: Path, config: str, reason: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(Malformed, match=reason):
        look(tmp_path)


def test_infinite_numbers_are_left_out_and_long_texts_cut(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"a": float("inf"), "b": [float("nan"), 1], "c": "x" * 10_000}))
    fact = look(tmp_path)
    assert fact.config is not None and (fact.config["a"], fact.config["b"]) == (None, [None, 1])
    assert len(fact.config["c"]) == 200 and msgspec.json.encode(fact)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_whatever_a_configuration_holds_becomes_a_fact_or_a_reason(raw: dict[str, Any]) -> None:
    only_trouble(_config_look.bounded, raw, "config.json")
    try:
        msgspec.json.encode(_config_look.bounded(raw, "config.json"))
    except Trouble:
        pass


# -- tensors -------------------------------------------------------------------------------------------------------


def test_a_layer_beyond_the_models_own_is_spare(tmp_path: Path) -> None:
    names = [
        "model.layers.0.e.1.w",
        "model.layers.1.e.0.w",
        "model.layers.2.e.7.w",
        "visual.blocks.5.w",
        "layers.2.w",
        "h.1.w",
    ]
    build.small(tmp_path, num_hidden_layers=2)
    (tmp_path / "model.safetensors").write_bytes(build.safetensors(names))
    fact = look(tmp_path)
    assert fact.tensors is not None
    assert {k.name: k.count for k in fact.tensors.kinds} == {
        "model.layers.*.e.*.w": 2, "model.layers.+.e.*.w": 1, "visual.blocks.*.w": 1, "layers.+.w": 1, "h.*.w": 1,
    }  # fmt: skip


def test_numbers_between_dots_are_one_kind_and_others_are_not() -> None:
    tensors, data = build.tensors_of(["a.0.b.17.w", "a.1.b.3.w", "a1.b", "a2.b", "c.7", "d\n.1.x", "d\n.2.x"])
    layout = _safetensors.parse(build.header(tensors))
    assert {name: count for (name, _, _), count in layout.kinds.items()} == {
        "a.*.b.*.w": 2, "a1.b": 1, "a2.b": 1, "c.7": 1, "d\n.*.x": 2,
    }  # fmt: skip
    assert sum(_config_look.size_of(k) * n for k, n in layout.kinds.items()) == len(data)


def test_a_million_made_up_tensors_are_bounded(tmp_path: Path) -> None:
    build.small(tmp_path)
    for number in (1, 2, 3, 4, 5):
        text = ",".join(
            f'"{number}x{i:x}":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}' for i in range(200_000)
        )
        where = tmp_path / build.shard(number, 5)
        where.write_bytes(build.raw(f"{{{text}}}".encode()))
        with where.open("r+b") as file:
            file.truncate(where.stat().st_size + 200_000)
    start = time.process_time()
    fact = look(tmp_path)
    assert time.process_time() - start < 10  # 2 s
    assert fact.tensors is not None and len(fact.tensors.kinds) == _config_look.KINDS_LIMIT
    assert fact.tensors.files + fact.tensors.files_unread == 5 and fact.tensors.files_unread
    assert fact.tensors.rest_count + _config_look.KINDS_LIMIT == fact.tensors.count
    assert len(msgspec.json.encode(fact)) < 500_000


def test_a_shard_that_is_not_there_makes_the_sum_a_part(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", 3)
    (folder / build.shard(2, 3)).unlink()
    fact = look(folder)
    assert fact.tensors is not None and (fact.tensors.files, fact.tensors.files_unread) == (2, 1)


# -- processes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cmdline", "command"),
    [
        (b"VLLM::EngineCore\0", "VLLM::EngineCore"),
        (b"sglang::scheduler_TP0 --x\0\0\0", "sglang::scheduler_TP0"),
        (
            b"/opt/venv/bin/python3.12\0-m\0sglang.launch_server\0--api-key\0s3cret\0",
            "python3.12 -m sglang.launch_server",
        ),
        (b"/usr/bin/python3\0/opt/venv/bin/vllm\0serve\0m\0", "python3 vllm"),
        (b"python\0-u\0train.py\0--token\0x\0", "python train.py"),
        (b"python\0-c\0import os; os.system('x')\0", "python"),
        (b"/usr/lib/xorg/Xorg\0vt1\0", "Xorg"),
        (b"", None),
    ],
)
def test_a_process_is_named_by_its_program_and_no_further_word(cmdline: bytes, command: str | None) -> None:
    assert _gpu_holders.command_of(cmdline) == command


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        (f"0::/system.slice/docker-{CONTAINER}.scope\n", "docker:4f5e6d7c8b9a"),
        (f"12:memory:/docker/{CONTAINER}\n", "docker:4f5e6d7c8b9a"),
        (f"0::/../docker-{CONTAINER}.scope\n", "docker:4f5e6d7c8b9a"),
        (f"0::/machine.slice/libpod-{CONTAINER}.scope/container\n", "podman:4f5e6d7c8b9a"),
        (
            f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n",
            f"pod:{POD}",
        ),
        (f"0::/kubepods/burstable/pod{POD}/{CONTAINER}\n", f"pod:{POD}"),
        (f"0::/system.slice/cri-containerd-{CONTAINER}.scope\n", "containerd:4f5e6d7c8b9a"),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", "slurm:4711"),
        ("0::/user.slice/user-0.slice/session-1.scope\n", None),
        ("", None),
    ],
)
def test_a_container_is_known_by_the_control_group(cgroup: str, container: str | None) -> None:
    assert _gpu_holders.container_of(cgroup) == container


def held(*pids: int) -> tuple[Gpu, ...]:
    return (Gpu(index=0, holders=tuple(Holder(pid=p, kind="compute", memory_mib=7) for p in pids)),)


def processes(root: Path) -> Tree:
    host = Tree(root)
    host.put("/proc/412/cmdline", b"VLLM::EngineCore\0")
    host.put("/proc/412/cgroup", f"0::/system.slice/docker-{CONTAINER}.scope\n")
    return host


def test_in_the_hosts_own_namespace_every_process_is_named(tmp_path: Path) -> None:
    host = processes(tmp_path)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/pid").symlink_to(_gpu_holders.HOST_NAMESPACE)
    (gpu,) = _gpu_holders.named(host, held(412, 413))
    one, gone = gpu.holders
    assert (one.command, one.container) == ("VLLM::EngineCore", "docker:4f5e6d7c8b9a")
    assert (gone.command, gone.container, gone.memory_mib) == (None, None, 7)


def test_elsewhere_a_number_is_believed_only_of_a_process_with_a_gpu_open(tmp_path: Path) -> None:
    host = processes(tmp_path)
    assert _gpu_holders.named(host, held(412))[0].holders[0].command is None
    (tmp_path / "proc/412/fd").mkdir()
    (tmp_path / "proc/412/fd/3").symlink_to("/dev/nvidia0")
    assert _gpu_holders.named(host, held(412))[0].holders[0].command == "VLLM::EngineCore"


def test_the_processes_of_a_mig_device_are_named_too(tmp_path: Path) -> None:
    host = processes(tmp_path)
    (tmp_path / "proc/412/fd").mkdir()
    (tmp_path / "proc/412/fd/3").symlink_to("/dev/nvidiactl")
    gpu = Gpu(index=0, mig=True, mig_devices=(MigDevice(uuid="MIG-1", holders=held(412)[0].holders),))
    assert _gpu_holders.named(host, (gpu,))[0].mig_devices[0].holders[0].command == "VLLM::EngineCore"
