"""Environment variables are read as vLLM, SGLang, torch and Python's HTTP clients read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.gather import ask
from ds_doctor.host import Asked
from ds_doctor.launch.variables import parse
from ds_doctor.probes.environment import Environment, environment
from ds_doctor.probes.launch import Deployment
from ds_doctor_checks import _alloc_conf as conf
from ds_doctor_checks import _environment as env
from ds_doctor_checks import _proxies
from ds_doctor_checks._hub import is_offline
from ds_doctor_checks.launch_environment import SERVES
from probe_host import Tree

# What torch 2.14.0+cu130 said to each, asked one at a time by torch._C._accelerator_setAllocatorSettings.
TORCH = {
    "expandable_segments:True": True,
    "expandable_segments:true": False,
    "expandable_segments:1": False,
    "max_split_size_mb:10": False,
    "max_split_size_mb:128": True,
    "max_split_size_mb:abc": False,
    "max_split_size_mb:-1": True,
    "garbage_collection_threshold:1.5": False,
    "garbage_collection_threshold:0": False,
    "garbage_collection_threshold:0.8": True,
    "backend:foo": False,
    "backend:native": True,
    "roundup_power2_divisions:4": True,
    "roundup_power2_divisions:3": False,
    "roundup_power2_divisions:[256:1,512:2]": True,
    "pinned_use_cuda_host_register:True": True,
    "expandable_segments": False,
    "expandable_segments=True": False,
    "expandable_segments:True;max_split_size_mb:64": False,
    " expandable_segments : True , max_split_size_mb : 64 ": True,
    "": True,
    "pinned_num_register_threads:4": True,
    "pinned_num_register_threads:3": False,
    "per_process_memory_fraction:0.5": True,
    "per_process_memory_fraction:1.5": False,
    "expandable_segments:False,": True,
}


@pytest.mark.parametrize("text", TORCH)
def test_allocator_settings_are_refused_as_torch_refuses_them(text: str) -> None:
    assert (conf.refusal(text) is None) is TORCH[text]


@given(st.text(max_size=60))
def test_no_allocator_setting_breaks_the_parser(text: str) -> None:
    conf.refusal(text)
    conf.unknown(text)
    conf.expandable(text)


# What the getters of vllm 0.33.0 envs.py did: raised, or were taken.
@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("VLLM_BATCH_INVARIANT", ["1", "0", " 1", "-1", "8"], ["true", "false", "yes", "", "1.5"]),
        ("VLLM_IMAGE_FETCH_TIMEOUT", ["30", "-1"], ["1.5", "30s", ""]),
        ("VLLM_LOG_STATS_INTERVAL", ["1.5", "inf"], ["abc", ""]),
        ("VLLM_WORKER_MULTIPROC_METHOD", ["spawn", "fork"], ["SPAWN", "forkserver", ""]),
        ("VLLM_FLOAT32_MATMUL_PRECISION", ["HIGH", "medium"], ["low"]),
        ("VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS", ["", "container, code_interpreter"], ["container,shell"]),
        ("VLLM_USE_MODELSCOPE", ["yes", "", "true"], []),
        ("VLLM_LOGGING_LEVEL", ["anything"], []),
    ],
)
def test_values_are_refused_as_vllm_refuses_them(name: str, taken: list[str], refused: list[str]) -> None:
    assert [v for v in taken if env.refusal("vllm", name, v) is not None] == []
    assert [v for v in refused if env.refusal("vllm", name, v) is None] == []


def test_every_variable_has_one_way_of_reading() -> None:
    for engine in env.ENGINES:
        names = [n for ns in env.table(f"env_{engine}")["kinds"].values() for n in ns.split()]
        assert len(names) == len(set(names)) > 200
        assert not set(names) & set(env.known(engine).gone)
    assert set(env.table("env_vllm")["instead"]) <= set(env.known("vllm").gone)


def test_no_known_variable_is_taken_for_a_slip_of_another() -> None:
    for engine in env.ENGINES:
        for name in (*env.known(engine).kinds, *env.known(engine).others, *env.known(engine).gone):
            assert env.is_read(name), name
    for name in env.table("env_common")["known"].split():
        if env.engine_of(name) is None:
            assert env.meant(name) is None, name


def test_what_a_service_link_sets_is_no_setting() -> None:
    assert all(env.is_service(n) for n in ("VLLM_SERVICE_HOST", "VLLM_PORT_8000_TCP_ADDR", "VLLM_SERVICE_PORT_HTTP"))
    assert not any(env.is_service(n) for n in ("VLLM_PORT", "VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_PORT"))


@pytest.mark.parametrize(
    ("given_", "offline"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
        ({"HF_HUB_OFFLINE": "on"}, "HF_HUB_OFFLINE"),
        ({"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "1"}, None),
        ({"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": "yes"}, "TRANSFORMERS_OFFLINE"),
        ({}, None),
    ],
)
def test_offline_mode_is_read_as_the_hub_client_reads_it(given_: dict[str, str], offline: str | None) -> None:
    assert is_offline(given_) == offline


def of(**variables: str) -> dict[str, env.Variable]:
    return {n: env.Variable(n, v, "environment") for n, v in variables.items()}


# What requests 2.34.2 get_environ_proxies gave for http://127.0.0.1:30000/x.
@pytest.mark.parametrize(
    ("variables", "straight"),
    [
        ({"http_proxy": "http://10.0.0.1:3128"}, False),
        ({"HTTP_PROXY": "http://10.0.0.1:3128"}, False),
        ({"ALL_PROXY": "http://10.0.0.1:3128"}, False),
        ({"https_proxy": "http://10.0.0.1:3128"}, True),
        ({"http_proxy": "", "HTTP_PROXY": "http://10.0.0.1:3128"}, True),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "localhost"}, False),
        ({"http_proxy": "http://10.0.0.1:3128", "NO_PROXY": "127.0.0.1"}, True),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "127.0.0.0/8"}, True),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "127.*"}, False),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "*"}, True),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "", "NO_PROXY": "127.0.0.1"}, True),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": "127.0.0.1:30000"}, False),
        ({"http_proxy": "http://10.0.0.1:3128", "no_proxy": ".local, 127.0.0.1"}, True),
    ],
)
def test_proxies_are_obeyed_as_requests_obeys_them(variables: dict[str, str], straight: bool) -> None:
    given_ = of(**variables)
    assert (_proxies.for_http(given_) is None or _proxies.bypassed(given_, "127.0.0.1")) is straight


@pytest.mark.parametrize(
    ("value", "usable"),
    [
        ("foo", True),
        ("http://", True),
        ("127.0.0.1:3128", True),
        ("socks5://127.0.0.1:1", True),
        ("http://user:pa@[::1]:3128/", True),
        ("httpp://127.0.0.1:1", False),
        ("socks://127.0.0.1:1", False),
        ("http://127.0.0.1:abc", False),
    ],
)
def test_proxies_are_unusable_where_httpx_raises(value: str, usable: bool) -> None:
    assert (list(_proxies.unusable(of(HTTPS_PROXY=value))) == []) is usable


def test_a_proxys_password_never_enters_the_fact() -> None:
    assert parse({"https_proxy": "http://me:secret@proxy:3128"})["https_proxy"] == "http://<hidden>@proxy:3128"


def test_a_unit_does_not_get_the_shells_environment(tmp_path) -> None:  # type: ignore[no-untyped-def]
    asked = Asked(command=("vllm",), deployment=Deployment(kind="systemd", name="v", source="v.service"))
    tree = Tree(tmp_path, {"HTTP_PROXY": "http://p:1", "PATH": "/bin", "VLLM_USE_V1": "1"}, asked)
    fact = ask(tree, Environment).fact
    assert fact.variables == {"PATH": "/bin"} and environment is not None


def test_the_engines_entries_are_those_that_evaluate_their_variables() -> None:
    assert "vllm serve" in SERVES and "vllm bench" not in SERVES
