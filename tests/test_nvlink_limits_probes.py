"""Limits, control groups, memory and disks are read as the kernel writes them, and nothing they hold breaks the reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Asked, Host, Space
from ds_doctor.model import Malformed, Unseen
from ds_doctor.probes import cgroup as cg
from ds_doctor.probes import disk, limits
from ds_doctor.replay import ReplayedHost
from ds_doctor.rooted import RootedHost
from probe_host import Tree, only_trouble
from support import FIXTURES


def replayed(probe: str) -> ReplayedHost:
    calls = json.loads((FIXTURES / "probes" / probe / "h200-x2" / "calls.json").read_text())
    return ReplayedHost(calls["calls"], {})


def test_the_limits_of_the_h200_host_are_read() -> None:
    got = limits.limits(replayed("limits"))
    assert got.open_files == limits.Limit(soft=20000, hard=20000)
    assert got.locked_memory == limits.Limit() and got.address_space == limits.Limit()
    assert got.processes == limits.Limit(soft=1031199, hard=1031199)
    assert got.stack == limits.Limit(soft=8388608)
    assert got.cpus is None and got.ipc_lock is None and got.rdma == ()


def test_the_memory_of_the_h200_host_is_read() -> None:
    got = limits.memory(replayed("memory"))
    assert (got.total_mib, got.available_mib, got.swap_total_mib) == (257811, 257216, 0)


def test_memory_without_memavailable_counts_free_and_cached() -> None:
    got = limits.parse_meminfo("MemTotal: 8192 kB\nMemFree: 2048 kB\nCached: 1024 kB\n")
    assert (got.total_mib, got.available_mib) == (8, 3)


def test_this_process_has_limits_and_memory() -> None:
    import os
    import resource

    got = limits.limits(Host())
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert got.open_files is not None
    assert got.open_files.soft == (None if soft == resource.RLIM_INFINITY else soft)
    assert got.cpus == len(os.sched_getaffinity(0))
    assert limits.memory(Host()).total_mib > 0


def test_capabilities_and_cpus_are_read_from_status() -> None:
    assert limits.parse_status("CapEff:\t0000000000004000\nCpus_allowed_list:\t0-3,8\n") == (5, 1 << 14)
    assert limits.parse_status("nothing") == (None, None)


def test_rdma_devices_are_seen(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/self/limits", "Max open files            1024                 4096                 files     \n")
    tree.put("/sys/class/infiniband/mlx5_0/node_type")
    tree.put("/dev/infiniband/uverbs0")
    tree.put("/dev/infiniband/rdma_cm")
    assert limits.limits(tree).rdma == ("mlx5_0", "uverbs0")


def test_under_another_root_there_is_no_process(tmp_path: Path) -> None:
    for probe in (limits.limits, limits.memory, cg.cgroup, disk.disk):
        with pytest.raises(Unseen):
            probe(RootedHost(str(tmp_path)))


# -- control groups --------------------------------------------------------------------------------------------------

V2 = "30 25 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def v2(tmp_path: Path, path: str) -> Tree:
    tree = Tree(tmp_path)
    tree.put("/proc/self/cgroup", f"0::{path}\n")
    tree.put("/proc/self/mountinfo", V2)
    return tree


def test_the_tightest_limit_of_a_group_and_its_parents_counts(tmp_path: Path) -> None:
    tree = v2(tmp_path, "/kubepods.slice/pod1/c1")
    top = "/sys/fs/cgroup/kubepods.slice"
    tree.put(f"{top}/pod1/c1/memory.max", "34359738368\n")
    tree.put(f"{top}/pod1/c1/memory.events", "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\n")
    tree.put(f"{top}/pod1/c1/cpu.max", "max 100000\n")
    tree.put(f"{top}/pod1/memory.max", "17179869184\n")
    tree.put(f"{top}/pod1/memory.current", "1073741824\n")
    tree.put(f"{top}/pod1/memory.stat", "anon 1\nfile 2\ninactive_file 4096\n")
    tree.put(f"{top}/pod1/cpu.max", "400000 100000\n")
    tree.put(f"{top}/memory.max", "max\n")
    tree.put(f"{top}/pids.max", "4096\n")
    tree.put(f"{top}/pids.current", "100\n")
    got = cg.cgroup(tree)
    assert (got.version, got.memory_limit, got.memory_limit_at) == (2, 16 << 30, f"{top}/pod1")
    assert (got.memory_used, got.memory_cache) == (1 << 30, 4096)
    assert (got.cpus, got.pids_limit, got.pids_used, got.oom_kills) == (4.0, 4096, 100, 2)


def test_in_a_container_the_group_is_the_mounts_root(tmp_path: Path) -> None:
    tree = v2(tmp_path, "/")
    tree.put("/sys/fs/cgroup/memory.max", "8589934592\n")
    assert cg.cgroup(tree).memory_limit == 8 << 30


def test_a_path_above_the_namespace_is_not_followed(tmp_path: Path) -> None:
    tree = v2(tmp_path, "/../../other")
    tree.put("/sys/fs/cgroup/memory.max", "1024\n")
    tree.put("/other/memory.max", "1\n")
    assert cg.cgroup(tree).memory_limit == 1024


def test_version_one_of_docker_is_read(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/self/cgroup", "9:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:pids:/docker/abc\n0::/\n")
    tree.put(
        "/proc/self/mountinfo",
        "40 30 0:35 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
        "41 30 0:36 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
        "42 30 0:37 /docker/abc /sys/fs/cgroup/pids ro,nosuid - cgroup cgroup rw,pids\n",
    )
    tree.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n")
    tree.put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n")
    tree.put("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    tree.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
    tree.put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    tree.put("/sys/fs/cgroup/pids/pids.max", "max\n")
    got = cg.cgroup(tree)
    assert (got.version, got.memory_limit, got.memory_used) == (1, 2 << 30, 1 << 20)
    assert (got.cpus, got.pids_limit, got.oom_kills) == (1.5, None, 1)


def test_version_one_without_a_limit_says_so(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/self/cgroup", "9:memory:/\n")
    tree.put("/proc/self/mountinfo", "40 30 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n")
    tree.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    got = cg.cgroup(tree)
    assert got.memory_limit is None and got.seen


def test_this_process_is_in_a_group() -> None:
    assert cg.cgroup(Host()).version in (0, 1, 2)


# -- disks -----------------------------------------------------------------------------------------------------------


def test_every_library_finds_its_folder_by_its_own_variables() -> None:
    assert disk.roles({"HOME": "/h"}) == {
        "hf-home": "/h/.cache/huggingface",
        "hf-hub": "/h/.cache/huggingface/hub",
        "vllm-cache": "/h/.cache/vllm",
        "triton-cache": "/h/.triton/cache",
        "tmp": "/tmp",
    }
    got = disk.roles(
        {"HOME": "/h", "HF_HOME": "~/hf", "XDG_CACHE_HOME": "/x", "TMPDIR": "/t/", "TRITON_CACHE_DIR": "rel"}, "/m"
    )
    assert got["hf-home"] == "/h/hf" and got["vllm-cache"] == "/x/vllm" and got["tmp"] == "/t" and got["model"] == "/m"
    assert "triton-cache" not in got
    assert disk.roles({}) == {"tmp": "/tmp"}


def test_a_folder_that_is_not_there_yet_is_judged_by_its_parent(tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"HOME": "/root"}, Asked(command=("HF_HOME=/data/hf", "vllm", "serve", "/models/m")))
    tree.put("/proc/self/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /data rw - xfs /dev/sdb rw\n")
    tree.put("/root/.x")
    tree.put("/data/x")
    tree.put("/models/m/config.json")
    tree.put("/tmp/x")
    tree.spaces["/data"] = Space(size=100, free=7, files=0, files_free=0, read_only=True, no_exec=False)
    places = {p.role: p for p in disk.disk(tree).places}
    assert (places["hf-home"].at, places["hf-home"].free, places["hf-home"].fs_type) == ("/data", 7, "xfs")
    assert places["hf-home"].read_only and places["hf-home"].files_free is None and not places["hf-home"].exists
    assert places["vllm-cache"].at == "/root" and places["vllm-cache"].fs_type == "ext4"
    assert places["model"].exists


def test_a_containers_folders_are_not_the_hosts(tmp_path: Path) -> None:
    tree = Tree(
        tmp_path, {"HOME": "/root"}, Asked(command=("docker", "run", "-e", "HF_HOME=/in", "img", "vllm", "serve", "/m"))
    )
    tree.put("/tmp/x")
    assert all(p.path not in ("/in", "/m") for p in disk.disk(tree).places)


# -- hostile input ---------------------------------------------------------------------------------------------------

LINES = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["Max open files  1 2 files", "Max open files unlimited ٣ files", "0::/a", "9:memory:/", V2, "MemTotal: 1 kB",
                         "1 2 3 / /dev/shm a -", "a b c d /dev/shm e - tmpfs x y", "Cpus_allowed_list:\t9-1", "CapEff:\tzz"]),
    ),
    max_size=12,
).map("\n".join)  # fmt: skip


@given(LINES)
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (
        limits.parse_limits, limits.parse_status, limits.parse_meminfo, limits.count_list, cg.parse_self, cg.parse_mounts,
        cg.number, cg.parse_cpu_max, disk.parse_types,
    ):  # fmt: skip
        only_trouble(parse, text)
    only_trouble(cg.field, text, "oom_kill")


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=60))
def test_no_path_breaks_the_walk_up_the_groups(root: str, point: str, path: str) -> None:
    assert cg.levels(root, point, path)


def test_a_file_without_limits_is_malformed() -> None:
    with pytest.raises(Malformed):
        limits.parse_limits("\ufffd" * 1000)
