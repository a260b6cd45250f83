"""Whole runs on hosts made of real files, libraries and mounts: the one rule that a fault is about speaks, and no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

ALARM = ("fail", "warn", "error")
# What the machine that runs the tests is itself: no GPU, few CPUs, perhaps no headers.
OURS = {"gpu-none", "limits-cpus", "cuda-no-python-header", "cuda-no-c-compiler", "limits-disk-low"}
CC = shutil.which("cc") or shutil.which("gcc")


def raised(argv: list[str], env: dict[str, str] | None = None) -> dict[str, str]:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert done.stderr == "", done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return {r["rule"]: r["status"] for r in results if r["status"] in ALARM and r["rule"] not in OURS}


def doctor(*words: str) -> list[str]:
    return [sys.executable, "-m", "ds_doctor", "run", "--format", "json", *words]


def put(root: Path, path: str, text: str = "") -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# -- another root: a GPU server's disk with its /proc and /sys ----------------------------------------------------------

VENV = "/opt/venv"
SITE = f"{VENV}/lib/python3.12/site-packages"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    for folder in ("etc", "usr/bin", "usr/lib", "proc", "sys", "dev", "run", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    put(tmp_path, "/etc/os-release", 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\n')
    driver(tmp_path, "580.159.04")
    bdf = "/sys/bus/pci/devices/0000:1b:00.0"
    for name, text in {"vendor": "0x10de", "device": "0x2335", "class": "0x030200"}.items():
        put(tmp_path, f"{bdf}/{name}", text + "\n")
    put(tmp_path, "/proc/driver/nvidia/gpus/0000:1b:00.0/information", "Model: NVIDIA H200\nDevice Minor: 0\n")
    put(tmp_path, f"{VENV}/pyvenv.cfg", "home = /usr/bin\nversion_info = 3.12.3\nuv = 0.9.1\n")
    put(tmp_path, f"{VENV}/bin/python", "")
    wheel(tmp_path, "torch", "2.11.0", "nvidia-nccl-cu13==2.28.9; platform_system == 'Linux'", "triton==3.6.0")
    wheel(tmp_path, "nvidia-nccl-cu13", "2.28.9")
    wheel(tmp_path, "triton", "3.6.0")
    put(tmp_path, f"{SITE}/torch/version.py", "__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\n")
    return tmp_path


def driver(root: Path, version: str) -> None:
    line = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (dvs@u22)\n"
    put(root, "/proc/driver/nvidia/version", line)


def wheel(root: Path, name: str, version: str, *requires: str) -> None:
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    put(root, f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\n")


def on(disk: Path, *words: str) -> dict[str, str]:
    return raised(doctor("--root", str(disk), "--python", f"{VENV}/bin/python", *words))


def test_a_sound_disk_raises_nothing(disk: Path) -> None:
    assert on(disk) == {}


def test_a_driver_of_12_cannot_run_a_torch_of_13(disk: Path) -> None:
    driver(disk, "550.54.15")
    assert on(disk) == {"driver-too-old": "fail"}


def test_torch_without_cuda_is_a_fault_where_the_bus_shows_a_gpu(disk: Path) -> None:
    put(disk, f"{SITE}/torch/version.py", "__version__ = '2.11.0+cpu'\ncuda: Optional[str] = None\n")
    assert on(disk) == {"cuda-torch-cpu-only": "fail"}


def test_two_nccl_wheels(disk: Path) -> None:
    wheel(disk, "nvidia-nccl-cu12", "2.27.5")
    assert on(disk) == {"nccl-two-wheels": "warn"}


def test_an_nccl_wheel_older_than_the_pin_is_told_by_the_records_alone(disk: Path) -> None:
    shutil.rmtree(disk / f"{SITE}/nvidia_nccl_cu13-2.28.9.dist-info".lstrip("/"))
    wheel(disk, "nvidia-nccl-cu13", "2.27.5")
    assert on(disk) == {"nccl-too-old": "fail"}


def test_torchvision_of_another_torch_though_it_pins_none(disk: Path) -> None:
    wheel(disk, "torchvision", "0.25.0", "numpy", "torch")
    assert on(disk) == {"cuda-torch-pin-broken": "fail"}


def test_torchvision_of_another_cuda(disk: Path) -> None:
    wheel(disk, "torchvision", "0.26.0+cu126", "torch (==2.11.0)")
    assert on(disk) == {"cuda-torch-pin-broken": "fail"}


def test_torchvision_of_this_torch_and_cuda_is_no_fault(disk: Path) -> None:
    wheel(disk, "torchvision", "0.26.0+cu130", "torch (==2.11.0)")
    assert on(disk) == {}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the folder is of that machine")
def test_libraries_of_another_driver_are_one_fault(disk: Path) -> None:
    library = next(Path(msgspec.__file__).parent.glob("_core*.so"))  # any library of this machine
    (disk / "usr/lib/x86_64-linux-gnu").mkdir()
    for name in ("libcuda", "libnvidia-ml"):
        shutil.copy(library, disk / f"usr/lib/x86_64-linux-gnu/{name}.so.570.86.15")
        (disk / f"usr/lib/x86_64-linux-gnu/{name}.so.1").symlink_to(f"{name}.so.570.86.15")
    assert on(disk, "--only", "driver")["driver-mismatch"] == "fail"
    assert "libcuda-mismatch" not in on(disk, "--only", "driver")


@pytest.mark.parametrize(
    "text",
    [
        '{"debug": "true"}',
        '{"log-driver": "json-file", "log-opts": {"max-size": 10}}',
        '{"insecure-registries": "10.0.0.1:5000"}',
        '{"runtime": {"nvidia": {"path": "nvidia-container-runtime"}}}',
        "{'debug': true}",
        '{"debug": true,}',
    ],
)
def test_a_daemon_json_that_dockerd_refuses(disk: Path, text: str) -> None:
    put(disk, "/etc/docker/daemon.json", text)
    assert on(disk, "--only", "docker-*") == {"docker-daemon-json-invalid": "fail"}


@pytest.mark.parametrize(
    "text",
    [
        '{"debug": true, "log-opts": {"max-size": "10m"}, "insecure-registries": ["a:1"], "dns": ["1.1.1.1"]}',
        '{"registry-mirror": ["https://a.b"], "exec-opt": []}',  # names of flags, which dockerd lets pass
        "{}",
    ],
)
def test_a_daemon_json_that_dockerd_takes(disk: Path, text: str) -> None:
    put(disk, "/etc/docker/daemon.json", text)
    assert on(disk, "--only", "docker-*") == {}


@pytest.mark.parametrize(
    "line", ["no-cgroups: true", "no-cgroups = True", 'no-cgroups = "true"', "environment = 'a=b'"]
)
def test_a_toolkit_configuration_that_cannot_be_read(disk: Path, line: str) -> None:
    put(disk, "/etc/nvidia-container-runtime/config.toml", f"[nvidia-container-cli]\n{line}\n")
    assert on(disk, "--only", "toolkit-*") == {"toolkit-config-invalid": "fail"}


def test_a_cdi_specification_of_another_driver(disk: Path) -> None:
    mount = "containerEdits:\n  mounts:\n  - hostPath: /usr/lib/libcuda.so.570.86.15\n    containerPath: /x\n"
    put(disk, "/etc/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n" + mount)
    assert on(disk, "--only", "cdi-*") == {"cdi-spec-stale-unused": "warn"}


# -- a live GPU host, made in a mount namespace of its own ----------------------------------------------------------------

# A tmpfs each for /dev, the driver's part of /proc and the kernel's of /sys; an NVML and a libcuda that gcc made.
HOST = r"""
set -e; D=$1; drv=$2; shift 2
mkdir -p $D/real $D/lib; mount --bind /dev $D/real; mount -t tmpfs -o mode=755 none /dev
for d in null zero urandom; do touch /dev/$d; mount --bind $D/real/$d /dev/$d; done
ln -s /proc/self/fd /dev/fd; mkdir /dev/shm; mount -t tmpfs -o size=${SHM:-32g} none /dev/shm
mknod -m 666 /dev/nvidiactl c 195 255; mknod -m 666 /dev/nvidia-uvm c 511 0
mount -t tmpfs none /proc/driver; mount -t tmpfs none /sys/bus/pci; mount -t tmpfs none /sys/module
mkdir -p /proc/driver/nvidia/gpus /sys/bus/pci/drivers/nvidia /sys/bus/pci/devices /sys/module/nvidia /sys/module/nvidia_uvm
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  $drv  Release Build  (dvs@u22)" >/proc/driver/nvidia/version
for i in 0 1; do
  mknod -m 666 /dev/nvidia$i c 195 $i; b=0000:0$(printf %X $((10 + i)) | tr A-Z a-z):00.0; d=/sys/bus/pci/devices/$b
  mkdir -p $d /proc/driver/nvidia/gpus/$b; ln -s ../../drivers/nvidia $d/driver
  echo 0x10de >$d/vendor; echo 0x2335 >$d/device; echo 0x030200 >$d/class; echo 0 >$d/numa_node
  printf "Model: NVIDIA H200\nDevice Minor: $i\n" >/proc/driver/nvidia/gpus/$b/information
  printf "0${i}00\t10de2335\t0\tnvidia\n" >>$D/pci
done
mount --bind $D/pci /proc/bus/pci/devices
eval "$SETUP"
exec "$@"
"""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    probe = "mount -t tmpfs none /proc/driver && mount -t tmpfs none /sys/bus/pci && mount -t tmpfs none /dev"
    probe += " && mknod /dev/x c 195 0 && test -e /proc/bus/pci/devices"
    if CC is None or subprocess.run(["unshare", "-m", "sh", "-c", probe], capture_output=True).returncode:
        pytest.skip("needs a C compiler and the right to mount")
    folder = tmp_path_factory.mktemp("driver")
    source = (Path(__file__).parent / "nvml" / "fake.c").read_text()
    source = source.replace("*on = link != 2; return link < 4", "*on = 1; return link < 18").replace(
        "index == 2 ? 5 : 0", "0"
    )  # NVLink whole
    (folder / "nvml.c").write_text(source)
    (folder / "cuda.c").write_text("int cuInit(unsigned f) { return 0; }\n")
    for name, file in (("libnvidia-ml.so", "nvml.c"), ("libcuda.so", "cuda.c")):
        target = folder / f"{name}.580.159.04"
        subprocess.run([CC, "-w", "-shared", "-fPIC", "-o", str(target), str(folder / file)], check=True)
        (folder / f"{name}.1").symlink_to(target.name)
    return folder


@pytest.mark.parametrize(
    ("setup", "env", "wants"),
    [
        ("", {}, {}),
        ("", {"CUDA_VISIBLE_DEVICES": "7"}, {"visible-none": "fail"}),
        ("", {"CUDA_VISIBLE_DEVICES": "1,0", "NCCL_DEBUG": "INFO", "NCCL_P2P_LEVEL": "NVL"}, {}),
        ("", {"NCCL_P2P_DISABLE": "1"}, {"nccl-p2p-disabled": "warn"}),
        ("", {"NCCL_SOCKET_IFNAME": "ens99"}, {"nccl-interface-missing": "fail"}),
        ("", {"SHM": "64m"}, {"shm-too-small": "fail"}),
        ("rm /dev/nvidia-uvm", {}, {"device-node-missing": "fail"}),
        ("mount --bind /dev/null /dev/nvidiactl", {"FAKE_NVML": "9"}, {"device-node-wrong": "fail"}),
        ("", {"FAKE_NVML": "crash"}, {"nvml-crashed": "fail"}),
        ("", {"FAKE_NVML": "lost"}, {"gpu-lost": "fail"}),
        ("rm -r /sys/bus/pci/devices/*/driver", {}, {}),  # the driver's own list says that the GPUs are its
    ],
)
def test_a_live_host_raises_its_fault_alone(
    libraries: Path, tmp_path: Path, setup: str, env: dict[str, str], wants: dict[str, str]
) -> None:
    home = {"HOME": "/root", "PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(libraries), "FAKE_NVML": "0"}
    argv = ["unshare", "-m", "sh", "-c", HOST, "sh", str(tmp_path), "580.159.04", *doctor()]
    assert raised(argv, {**home, **env, "SETUP": setup}) == wants
