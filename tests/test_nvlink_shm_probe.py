"""/dev/shm is read as it is mounted, also for real: a private mount of 1 MiB, one that is full, one that is read-only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.host import Host
from ds_doctor.model import Unseen
from ds_doctor.probes.shm import family_of, parse_mount, shm
from ds_doctor.rooted import RootedHost
from probe_host import Tree, only_trouble

MOUNT = "25 24 0:23 / /dev/shm rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs rw,size=65536k,inode64\n"


def test_the_topmost_mount_counts() -> None:
    above = "30 25 0:27 / /dev/shm ro,relatime - tmpfs shm rw,size=1024k\n"
    assert parse_mount(MOUNT) == ("tmpfs", ("rw", "nosuid", "nodev", "noexec", "relatime", "size=65536k", "inode64"))
    assert parse_mount(MOUNT + above) == ("tmpfs", ("ro", "relatime", "rw", "size=1024k"))
    assert parse_mount("1 1 8:1 / / rw - ext4 /dev/sda1 rw\n") is None


def test_files_belong_to_the_programs_that_make_such_names() -> None:
    names = {
        "nccl-LNPZ0f": "nccl-", "psm_21af": "psm_", "sem.mp-x": "sem.", "torch_1_2_3": "torch_", "vllm_offload_x.mmap": "vllm",
        "VLLM_OBJECT_STORAGE_SHM_BUFFER_1": "vllm", "sglang_loads_x.shm": "sglang", "sgl_shm_mm_1_a": "sglang",
        "multi_tokenizer_args_1": "sglang", "cuda.shm.0.1": "cuda.shm", "PostgreSQL.1": "other",
    }  # fmt: skip
    assert {n: family_of(n) for n in names} == names


def test_leftovers_are_counted_by_what_they_really_take(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/self/mountinfo", MOUNT)
    tree.put("/dev/shm/nccl-a", b"x" * 20000)
    tree.put("/dev/shm/nccl-b", b"x" * 5000)
    tree.put("/dev/shm/other", b"")
    with open(tmp_path / "dev/shm/psm_sparse", "wb") as f:
        f.truncate(1 << 30)
    os.mkfifo(tmp_path / "dev/shm/psm_fifo")
    os.symlink("/nowhere", tmp_path / "dev/shm/dangling")
    got = shm(tree)
    by = {f.family: f for f in got.left}
    assert by["nccl-"].files == 2 and by["nccl-"].bytes >= 25000 and by["nccl-"].example == "nccl-a"
    assert by["psm_"].files == 1 and by["psm_"].bytes < 1 << 20
    assert got.own_mount and got.fs_type == "tmpfs" and got.writable


def test_a_missing_folder_is_said_and_a_file_in_its_place_too(tmp_path: Path) -> None:
    assert not shm(Tree(tmp_path)).present
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/shm").write_text("")
    assert not shm(Tree(tmp_path)).present


def test_under_another_root_nobody_looks(tmp_path: Path) -> None:
    with pytest.raises(Unseen):
        shm(RootedHost(str(tmp_path)))


def test_this_machines_own_is_read() -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("this machine has no /dev/shm")
    got = shm(Host())
    space = os.statvfs("/dev/shm")
    assert got.size == space.f_blocks * space.f_frsize


def mounted(options: str, before: str = "true") -> dict[str, Any]:
    """What the probe says inside a mount namespace of its own where /dev/shm is a tmpfs with these options."""
    probe = (
        "import msgspec; from ds_doctor.host import Host; from ds_doctor.probes.shm import shm;"
        "print(msgspec.json.encode(shm(Host())).decode())"
    )
    script = f"mount -t tmpfs -o {options} tmpfs /dev/shm && {before} && exec {sys.executable} -c '{probe}'"
    try:
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"this user may not mount: {done.stderr.strip()[:80]}")
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_a_real_mount_of_one_mib_is_seen() -> None:
    said = mounted("size=1m")
    assert said["size"] == said["free"] == 1 << 20
    assert said["fs_type"] == "tmpfs" and said["writable"]


def test_a_real_mount_that_is_full_is_seen() -> None:
    said = mounted("size=1m", "head -c 900000 /dev/zero > /dev/shm/psm_left")
    assert said["free"] < 200_000
    assert said["left"][0]["family"] == "psm_" and said["left"][0]["bytes"] >= 900_000


def test_a_real_mount_without_limit_says_zero() -> None:
    assert mounted("size=0")["size"] == 0


def test_a_real_read_only_mount_is_seen() -> None:
    said = mounted("size=1m,ro")
    assert said["read_only"] and said["writable"] is False


@given(st.text(max_size=200))
def test_no_mount_table_breaks_the_parser(text: str) -> None:
    only_trouble(parse_mount, text)
    only_trouble(parse_mount, f"a b c / /dev/shm {text}")


def test_a_mere_folder_has_the_type_of_what_it_lies_on(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = "1 0 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/l\n"
    tree.put("/proc/self/mountinfo", root)
    (tmp_path / "dev/shm").mkdir(parents=True)
    got = shm(tree)
    assert (got.fs_type, got.own_mount) == ("overlay", False)
    tree.put("/proc/self/mountinfo", root + "2 1 0:5 / /dev rw,nosuid - devtmpfs udev rw,size=4k\n")
    assert shm(tree).fs_type == "devtmpfs"
    (tmp_path / "proc/self/mountinfo").unlink()
    assert shm(tree).fs_type is None


def test_a_link_to_where_old_systems_keep_it_is_followed(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.put("/proc/self/mountinfo", MOUNT.replace("/dev/shm", "/run/shm"))
    (tmp_path / "run/shm").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/shm").symlink_to("/run/shm")
    got = shm(tree)
    assert (got.fs_type, got.own_mount, got.present) == ("tmpfs", True, True)
