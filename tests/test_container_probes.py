"""The facts about Docker, the toolkit, CDI, Kubernetes, the account and temporary folders, read from real files."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ds_doctor.host import Host
from ds_doctor.model import Absent, Trouble
from ds_doctor.probes import account, cdi, docker, kubernetes, toolkit
from ds_doctor.replay import ReplayedHost, record
from ds_doctor.rooted import RootedHost

# As nvidia-ctk 1.18 writes it, shortened.
SPEC = """\
---
cdiVersion: 0.5.0
containerEdits:
    deviceNodes:
        - path: /dev/nvidia-uvm
        - hostPath: /dev/nvidiactl
          path: /dev/nvidiactl
    env:
        - NVIDIA_CTK_LIBCUDA_DIR=/usr/lib/x86_64-linux-gnu
        - NVIDIA_VISIBLE_DEVICES=void
    hooks:
        - args:
            - nvidia-cdi-hook
            - create-symlinks
            - --link
            - libcuda.so.1::/usr/lib/x86_64-linux-gnu/libcuda.so
          hookName: createContainer
          path: /usr/bin/nvidia-cdi-hook
    mounts:
        - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
          hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04
          options:
            - ro
            - nosuid
        - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.2
          hostPath: "/usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.2"
devices:
    - containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
      name: "0"
    - name: GPU-26d3f2a2-0000-0000-0000-000000000000
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
    - containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
      name: all
kind: nvidia.com/gpu
"""
PATHS = {
    "/dev/nvidia-uvm",
    "/dev/nvidiactl",
    "/usr/bin/nvidia-cdi-hook",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
    "/usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.2",
    "/dev/nvidia0",
}
DEVICES = ("0", "GPU-26d3f2a2-0000-0000-0000-000000000000", "all")


def put(root: Path, path: str, text: str | bytes = "") -> Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def daemon(root: Path, text: str | bytes) -> docker.DaemonFile:
    put(root, "/etc/docker/daemon.json", text)
    return docker.docker(RootedHost(str(root))).files[0]


# -- daemon.json ---------------------------------------------------------------------------------------------------


def test_a_machine_without_docker_has_no_docker_fact(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        docker.docker(RootedHost(str(tmp_path)))


def test_a_daemon_json_tells_its_runtimes_mirrors_and_options(tmp_path: Path) -> None:
    put(tmp_path, "/usr/bin/nvidia-container-runtime")
    put(tmp_path, "/usr/bin/dockerd")
    (tmp_path / "data").mkdir()
    file = daemon(
        tmp_path,
        json.dumps(
            {
                "runtimes": {
                    "nvidia": {"path": "nvidia-container-runtime", "args": []},
                    "old": {"path": "/opt/old"},
                    "shim": {"runtimeType": "io.containerd.x.v1"},
                },
                "default-runtime": "nvidia",
                "registry-mirrors": ["https://me:sec/ret@m.example.com"],
                "features": {"cdi": True},
                "exec-opts": ["native.cgroupdriver=cgroupfs"],
                "data-root": "/data",
            }
        ),
    )
    assert file.error is None
    assert {n: r.found for n, r in file.runtimes.items()} == {"nvidia": True, "old": False, "shim": None}
    assert (file.default_runtime, file.cdi, file.cgroup_driver, file.data_root_there) == (
        "nvidia",
        True,
        "cgroupfs",
        True,
    )
    assert file.mirrors == ("https://<hidden>@m.example.com",)
    assert docker.docker(RootedHost(str(tmp_path))).kinds == ("root",)


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  // comment\n  "debug": true\n}\n', 2, 3),
        ('{"a": NaN}', None, None),
        ("{'a': 1}", 1, 2),
        ('{"a": 1} trailing', 1, 10),
        (b'{"a": "\xff"}', 1, 8),
        (b'{\n"a": "\xff"}', 2, 7),
    ],
)
def test_what_is_not_json_tells_the_place(
    tmp_path: Path, text: str | bytes, line: int | None, column: int | None
) -> None:
    file = daemon(tmp_path, text)
    assert (file.error, file.line, file.column) == ("syntax", line, column)


def test_a_comma_after_the_last_entry_is_placed_at_the_comma_or_behind_it(tmp_path: Path) -> None:
    file = daemon(tmp_path, '{\n  "debug": true,\n}\n')
    # Python 3.13 points at the comma, older ones at what follows it.
    assert (file.error, file.line, file.column) in (("syntax", 2, 16), ("syntax", 3, 1))


@pytest.mark.parametrize(
    "text", ["[]", "null", '"x"', '{"registry-mirrors": "https://m"}', '{"runtimes": []}', '{"runtimes": {"a": 1}}']
)
def test_json_of_another_shape_is_a_fault_that_dockerd_also_finds(tmp_path: Path, text: str) -> None:
    assert daemon(tmp_path, text).error == "shape"


@pytest.mark.parametrize("text", ["", " \n", "{}", b"\xef\xbb\xbf{}", "{}".encode("utf-16")])
def test_what_dockerd_takes_is_no_fault(tmp_path: Path, text: str | bytes) -> None:
    assert daemon(tmp_path, text).error is None


def test_a_daemon_json_of_a_gigabyte_is_refused_at_once(tmp_path: Path) -> None:
    path = put(tmp_path, "/etc/docker/daemon.json")
    os.truncate(path, 1 << 30)
    start = time.monotonic()
    file = docker.docker(RootedHost(str(tmp_path))).files[0]
    assert file.error == "too-large"
    assert time.monotonic() - start < 1


def test_a_pipe_or_a_folder_in_place_of_daemon_json_does_not_hang(tmp_path: Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    os.mkfifo(tmp_path / "etc/docker/daemon.json")
    assert docker.docker(RootedHost(str(tmp_path))).files[0].error == "unreadable"
    os.unlink(tmp_path / "etc/docker/daemon.json")
    (tmp_path / "etc/docker/daemon.json").mkdir()
    assert docker.docker(RootedHost(str(tmp_path))).files[0].error == "unreadable"


def test_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    assert daemon(tmp_path, "[" * 200_000).error in ("unreadable", "syntax", "shape")
    assert daemon(tmp_path, '{"a":' * 100_000 + "1" + "}" * 100_000).error in ("unreadable", None)


def test_a_dangling_link_is_no_file(tmp_path: Path) -> None:
    put(tmp_path, "/usr/bin/dockerd")
    (tmp_path / "etc/docker").mkdir(parents=True)
    (tmp_path / "etc/docker/daemon.json").symlink_to("/nowhere")
    assert docker.docker(RootedHost(str(tmp_path))).files == ()


def test_a_file_that_may_not_be_read_is_denied() -> None:
    refused = {"trouble": "denied", "reason": {"id": "file-denied", "data": {"path": "/etc/docker/daemon.json"}}}
    host = ReplayedHost({'read ["/etc/docker/daemon.json"]': refused}, {})
    assert docker.docker(host).files[0].error == "denied"


def test_a_home_that_may_not_be_searched_is_no_sign_of_docker_or_the_toolkit() -> None:
    def denied(path: str) -> dict[str, object]:
        return {"trouble": "denied", "reason": {"id": "file-denied", "data": {"path": path}}}

    daemon_json = "/root/.config/docker/daemon.json"
    config = "/root/.config/nvidia-container-runtime/config.toml"
    calls = {f'{op} ["{path}"]': denied(path) for op in ("read", "stat") for path in (daemon_json, config)}
    host = ReplayedHost(calls, {"HOME": "/root", "XDG_CONFIG_HOME": "/root/.config"})
    with pytest.raises(Absent):
        docker.docker(host)
    with pytest.raises(Absent):
        toolkit.toolkit(host)


def test_the_kinds_of_docker_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "run/user").mkdir(parents=True)
    put(tmp_path, "/var/snap/docker/current/config/daemon.json", "{}")
    fact = docker.docker(RootedHost(str(tmp_path)))
    assert fact.kinds == ("snap",)
    assert [f.kind for f in fact.files] == ["snap"]
    put(tmp_path, "/home/u/.config/docker/daemon.json", "{}")
    put(tmp_path, "/run/user/1000/docker.sock")
    host = RootedHost(str(tmp_path))
    host.env = {"HOME": "/home/u", "XDG_RUNTIME_DIR": "/run/user/1000"}
    fact = docker.docker(host)
    assert fact.kinds == ("rootless", "snap")
    assert fact.sockets == ("/run/user/1000/docker.sock",)


# -- versions ------------------------------------------------------------------------------------------------------

STATUS = """\
Package: zlib1g
Status: install ok installed
Version: 1:1.3.dfsg-3

Package: docker-ce
Status: install ok installed
Architecture: amd64
Version: 5:29.2.1-1~ubuntu.24.04~noble
Description: Docker
 Version: 1.2.3 of nothing

Package: nvidia-container-toolkit
Status: deinstall ok config-files
Version: 1.14.0-1

Package: nvidia-container-toolkit-base
Status: install ok installed
Version: 1.17.8-1
"""


def test_versions_come_from_the_package_database(tmp_path: Path) -> None:
    put(tmp_path, docker.DPKG_STATUS, STATUS)
    put(tmp_path, "/usr/bin/dockerd")
    put(tmp_path, "/usr/bin/nvidia-ctk")
    host = RootedHost(str(tmp_path))
    assert docker.docker(host).version == "29.2.1"
    fact = toolkit.toolkit(host)
    assert (fact.version, fact.ctk, fact.hook) == ("1.17.8", "/usr/bin/nvidia-ctk", None)


def test_the_pieces_of_a_package_database_may_be_cut_anywhere() -> None:
    data = STATUS.encode()
    for size in (1, 7, 64, 1000):
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        assert docker.parse_dpkg(pieces, ["docker-ce", "nvidia-container-toolkit"]) == {
            "docker-ce": "29.2.1-1~ubuntu.24.04~noble"
        }


def test_without_a_package_database_the_toolkit_is_asked(tmp_path: Path) -> None:
    ctk = put(
        tmp_path, "nvidia-ctk", "#!/bin/sh\necho 'NVIDIA Container Toolkit CLI version 1.18.2'\necho 'commit: 1'\n"
    )
    ctk.chmod(ctk.stat().st_mode | stat.S_IXUSR)
    fact = toolkit.toolkit(Host(env={"PATH": f"{tmp_path}:/bin:/usr/bin"}))
    assert fact.version == "1.18.2"


def test_a_toolkit_that_hangs_costs_its_version_only(tmp_path: Path) -> None:
    ctk = put(tmp_path, "nvidia-ctk", "#!/bin/sh\nsleep 60\n")
    ctk.chmod(0o755)
    start = time.monotonic()
    fact = toolkit.toolkit(Host(env={"PATH": f"{tmp_path}:/bin:/usr/bin"}))
    assert fact.version is None
    assert time.monotonic() - start < 5


# -- config.toml ---------------------------------------------------------------------------------------------------


def test_a_toolkit_config_is_flat_with_dotted_keys(tmp_path: Path) -> None:
    text = """\
#accept-nvidia-visible-devices-as-volume-mounts = false
disable-require = true
[nvidia-container-cli]
environment = ["TOKEN=secret"]
no-cgroups = true
[nvidia-container-runtime]
mode = "legacy"
runtimes = ["runc", "crun"]
[nvidia-container-runtime.modes.cdi]
spec-dirs = ["/etc/cdi"]
"""
    put(tmp_path, "/etc/nvidia-container-runtime/config.toml", text)
    config = toolkit.toolkit(RootedHost(str(tmp_path))).configs[0]
    assert config.error is None
    assert config.values == {
        "disable-require": True,
        "nvidia-container-cli.environment": ["TOKEN"],
        "nvidia-container-cli.no-cgroups": True,
        "nvidia-container-runtime.mode": "legacy",
        "nvidia-container-runtime.runtimes": ["runc", "crun"],
        "nvidia-container-runtime.modes.cdi.spec-dirs": ["/etc/cdi"],
    }


def test_yaml_in_a_toolkit_config_tells_the_line(tmp_path: Path) -> None:
    put(tmp_path, "/etc/nvidia-container-runtime/config.toml", "[nvidia-container-cli]\nno-cgroups: true\n")
    config = toolkit.toolkit(RootedHost(str(tmp_path))).configs[0]
    assert (config.error, config.line, config.text) == ("syntax", 2, "no-cgroups: true")


def test_a_hostile_toolkit_config_is_no_crash(tmp_path: Path) -> None:
    path = put(tmp_path, "/etc/nvidia-container-runtime/config.toml", "a = " + "[" * 50_000)
    assert toolkit.toolkit(RootedHost(str(tmp_path))).configs[0].error in ("unreadable", "syntax")
    path.write_bytes(b"a = 1\nb = \xff\n")
    assert toolkit.toolkit(RootedHost(str(tmp_path))).configs[0].line == 2
    os.truncate(path, 1 << 30)
    assert toolkit.toolkit(RootedHost(str(tmp_path))).configs[0].error == "too-large"


# -- CDI -----------------------------------------------------------------------------------------------------------


def test_a_specification_in_yaml_is_understood() -> None:
    parsed = cdi.parse_yaml(SPEC)
    assert parsed.kind == "nvidia.com/gpu"
    assert parsed.devices == DEVICES
    assert set(parsed.paths) == PATHS
    assert cdi.drivers_in(parsed.paths) == ("580.159.04",)


def test_a_specification_without_indented_lists_is_understood() -> None:
    text = (
        "cdiVersion: 0.5.0\ncontainerEdits:\n  mounts:\n  - containerPath: /c\n    hostPath: /h1\n  - hostPath: /h2\n"
        "    containerPath: /d\n  hooks:\n  - hookName: createContainer\n    path: /hook\ndevices:\n- containerEdits:\n"
        "    deviceNodes:\n    - path: /dev/a\n      hostPath: /host/a\n  name: all\n- name: '0'\nkind: nvidia.com/gpu\n"
    )
    parsed = cdi.parse_yaml(text)
    assert (parsed.kind, parsed.devices) == ("nvidia.com/gpu", ("all", "0"))
    assert set(parsed.paths) == {"/h1", "/h2", "/hook", "/host/a"}


def test_the_same_specification_in_json_is_understood() -> None:
    edits = {
        "deviceNodes": [{"path": "/dev/nvidia0"}],
        "mounts": [{"hostPath": "/h", "containerPath": "/c"}],
        "hooks": [{"hookName": "createContainer", "path": "/hook"}],
    }
    text = json.dumps(
        {"kind": "nvidia.com/gpu", "devices": [{"name": "0", "containerEdits": edits}], "containerEdits": {}}
    )
    parsed = cdi.parse_json(text.encode())
    assert parsed is not None
    assert (parsed.devices, set(parsed.paths)) == (("0",), {"/dev/nvidia0", "/h", "/hook"})


def test_paths_that_are_gone_are_counted(tmp_path: Path) -> None:
    put(tmp_path, "/etc/cdi/nvidia.yaml", SPEC)
    put(tmp_path, "/etc/cdi/readme.txt", "no specification")
    for path in PATHS - {"/dev/nvidiactl", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"}:
        put(tmp_path, path)
    (spec,) = cdi.cdi(RootedHost(str(tmp_path))).specs
    assert (spec.paths, spec.missing_count) == (6, 2)
    assert set(spec.missing) == {"/dev/nvidiactl", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"}


def test_hostile_specifications_are_no_crash(tmp_path: Path) -> None:
    put(tmp_path, "/etc/cdi/a.json", "[" * 100_000)
    put(tmp_path, "/etc/cdi/b.yaml", b"\xff\xfe\x00junk")
    os.truncate(put(tmp_path, "/etc/cdi/c.yaml"), 1 << 30)
    os.mkfifo(tmp_path / "etc/cdi/d.yaml")
    errors = [s.error for s in cdi.cdi(RootedHost(str(tmp_path))).specs]
    assert errors == ["syntax", "syntax", "too-large", "unreadable"]


# -- Kubernetes ----------------------------------------------------------------------------------------------------


def test_a_node_tells_its_handlers_and_plugins(tmp_path: Path) -> None:
    put(tmp_path, "/var/lib/kubelet/device-plugins/nvidia-gpu.sock")
    put(
        tmp_path,
        "/etc/containerd/config.toml",
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"\n'
        '  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n'
        '    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]\n'
        "#  [runtimes.commented]\n  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia-cdi']\n"
        "  enable_cdi = true\n",
    )
    put(tmp_path, "/etc/crio/crio.conf.d/99-nvidia.conf", '[crio.runtime.runtimes.nvidia]\nruntime_path = "x"\n')
    fact = kubernetes.kubernetes(RootedHost(str(tmp_path)))
    assert fact.plugins == ("nvidia-gpu.sock",)
    first, second = fact.configs
    assert (first.handlers, first.default, first.cdi) == (("nvidia", "nvidia-cdi"), "nvidia", True)
    assert (second.engine, second.handlers) == ("crio", ("nvidia",))


@pytest.mark.parametrize(
    ("kubelet", "config", "part"),
    [
        ("/var/lib/kubelet", "/etc/containerd/config.toml", "/opt/parts/nvidia.toml"),
        ("/var/snap/microk8s/common/var/lib/kubelet", "/var/snap/microk8s/current/args/containerd.toml", None),
        (
            "/var/lib/kubelet",
            "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
            "/var/lib/rancher/k3s/agent/etc/containerd/config-v3.toml.d/99-nvidia.toml",
        ),
        ("/var/lib/k0s/kubelet", "/etc/k0s/containerd.toml", "/run/k0s/containerd-cri.toml"),
        ("/var/lib/kubelet", "/etc/crio/conf.d/99-nvidia.toml", None),
    ],
)
def test_the_nvidia_handler_is_found_where_each_distribution_keeps_it(
    tmp_path: Path, kubelet: str, config: str, part: str | None
) -> None:
    handler = '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes."nvidia"]\n'
    (tmp_path / kubelet[1:] / "plugins" / "gpu.nvidia.com").mkdir(parents=True)
    if part is None:
        put(tmp_path, config, handler)
    else:
        pattern = part.rpartition("/")[0] + "/*.toml" if "k0s" not in part else part
        put(tmp_path, config, f'version = 3\nimports = [\n  "{pattern}", # all of them\n]\n')
        put(tmp_path, part, handler + f'imports = ["{config}"]\n')
    fact = kubernetes.kubernetes(RootedHost(str(tmp_path)))
    assert any("nvidia" in c.handlers for c in fact.configs)
    assert len({c.path for c in fact.configs}) == len(fact.configs)
    assert fact.drivers == ("gpu.nvidia.com",) and fact.plugins == ()


def test_imports_are_read_as_containerd_reads_them() -> None:
    text = "version = 3\nimports = ['/a/*.toml', \"b.toml\"]\n#imports = ['/c']\n"
    assert kubernetes.parse_imports(text) == ["/a/*.toml", "b.toml"]
    assert kubernetes.parse_imports("version = 2\n") == []


def test_a_machine_without_kubelet_is_no_node(tmp_path: Path) -> None:
    with pytest.raises(Absent):
        kubernetes.kubernetes(RootedHost(str(tmp_path)))


# -- account and temporary folders ---------------------------------------------------------------------------------


def test_this_user_is_found_in_the_list_of_users() -> None:
    fact = account.account(Host(env={"USER": "x"}))
    assert fact.uid == os.geteuid()
    assert fact.from_environment


def test_a_user_is_found_by_number_only() -> None:
    text = "root:x:0:0:root:/root:/bin/sh\nbad line\nx:y:\u0664\u0662:1\nserve:x:1000:1000::/:/bin/sh\n"
    assert account.parse_passwd(text, 1000) == "serve"
    assert account.parse_passwd(text, 42) is None


def test_sources_of_users_are_listed_without_actions() -> None:
    assert account.parse_services("passwd: files sss [NOTFOUND=return] ldap # x\n") == ("files", "sss", "ldap")
    assert account.parse_services("") == ("files",)


def test_temporary_folders_are_asked_in_pythons_order(tmp_path: Path) -> None:
    host = Host(env={"TMPDIR": str(tmp_path), "TMP": "/nowhere/at/all", "TEMP": "relative"})
    folders = account.temp(host).folders
    assert [(f.path, f.source) for f in folders[:3]] == [
        (str(tmp_path), "TMPDIR"),
        ("/nowhere/at/all", "TMP"),
        ("/tmp", "default"),
    ]
    assert folders[0].there and folders[0].writable and not folders[0].read_only
    assert not folders[1].there


# -- all of them ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(some.binary(max_size=300), some.text(max_size=300))
def test_no_content_breaks_a_parser(data: bytes, text: str) -> None:
    docker.parse_daemon(data, "/p", "root")
    docker.parse_daemon(text.encode("utf-8", "surrogatepass"), "/p", "root")
    docker.parse_dpkg([data, data], ["docker-ce"])
    docker.release_of(text)
    toolkit.parse_config(data, "/p", "root")
    toolkit.parse_config(text.encode("utf-8", "surrogatepass"), "/p", "root")
    toolkit.parse_version(text)
    cdi.parse_yaml(text)
    cdi.parse_json(data)
    kubernetes.parse_config(text, "/p", "containerd")
    account.parse_passwd(text, 0)
    account.parse_services(text)


_ANY = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(["runtimes", "path", "features", "cdi", "exec-opts", "registry-mirrors", "default-runtime", "data-root", "devices", "containerEdits", "mounts", "hostPath", "kind", "name"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(_ANY)
def test_no_json_of_any_shape_breaks_a_parser(value: object) -> None:
    data = json.dumps(value).encode()
    docker.parse_daemon(data, "/p", "root")
    cdi.parse_json(data)


def test_a_fact_can_always_be_written_down() -> None:
    text = r'{"runtimes": {"\ud800": {"path": "\ud800"}}, "exec-opts": ["native.cgroupdriver=\ud800"], "data-root": "\ud800"}'
    msgspec.json.encode(docker.parse_daemon(text.encode(), "/p", "root"))
    msgspec.json.encode(docker.parse_daemon(rb'{"runtimes": {"\ud800": 1}}', "/p", "root"))
    msgspec.json.encode(cdi.parse_json(rb'{"kind": "\ud800", "devices": [{"name": "\ud800"}]}'))


def test_long_lines_and_many_lines_cost_no_time() -> None:
    start = time.monotonic()
    account.parse_services("\n" * 1_000_000)
    kubernetes.parse_config("[" + "a." * 500_000 + "\n" + "[ " * 500_000, "/p", "containerd")
    cdi.parse_yaml("\n".join("  " * n + "mounts:" for n in range(1000)))
    cdi.parse_yaml("- " * 500_000)
    toolkit.parse_version("version " * 100_000)
    docker.without_secret("://" * 300_000)
    assert time.monotonic() - start < 5


def test_every_probe_answers_on_this_machine_and_can_be_replayed() -> None:
    for ask in (docker.docker, toolkit.toolkit, cdi.cdi, kubernetes.kubernetes, account.account, account.temp):
        calls: dict[str, object] = {}
        env = {"PATH": "/usr/bin:/bin", "HOME": "/root"}
        try:
            live = ask(record(Host(env=env), calls))
        except Trouble as t:
            with pytest.raises(type(t)):
                ask(ReplayedHost(calls, env))
            continue
        assert ask(ReplayedHost(calls, env)) == live


@pytest.mark.parametrize(
    ("text", "size"), [('"16G"', 16 << 30), ("67108864", 64 << 20), ('"lots"', None), ("true", None), ("null", None)]
)
def test_the_daemons_own_default_of_shared_memory_is_read(text: str, size: int | None) -> None:
    data = f'{{"default-shm-size": {text}}}'.encode()
    assert docker.parse_daemon(data, "/p", "root").shm_size == size


@pytest.mark.parametrize(
    "key", ["default_runtime", "registryMirrors", "Runtimes", "registry_mirrors", "Default-Runtime"]
)
def test_an_option_under_a_name_that_dockerd_does_not_know_is_a_fault(key: str) -> None:
    file = docker.parse_daemon(json.dumps({key: "x"}).encode(), "/p", "root")
    assert file.error == "shape" and key in file.detail


def test_options_that_are_not_in_our_list_are_no_fault() -> None:
    text = b'{"hosts": ["fd://"], "experimental": true, "metrics-addr": "x", "bip": "10.0.0.1/24", "features": {"cdi": true}}'
    assert docker.parse_daemon(text, "/p", "root").error is None


def test_runtimes_that_flags_of_the_service_declare_are_seen(tmp_path: Path) -> None:
    put(tmp_path, "/usr/bin/dockerd")
    put(
        tmp_path,
        "/etc/systemd/system/docker.service.d/override.conf",
        "[Service]\nExecStart=\n#ExecStart=dockerd --add-runtime=old=/x\n"
        "ExecStart=/usr/bin/dockerd --host=fd:// --add-runtime=nvidia=/usr/bin/nvidia-container-runtime\n",
    )
    put(tmp_path, "/etc/default/docker", "DOCKER_OPTS=\"--add-runtime 'kata=/opt/kata'\"\n")
    assert docker.docker(RootedHost(str(tmp_path))).flag_runtimes == ("kata", "nvidia")
