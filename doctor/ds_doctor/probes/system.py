"""The machine itself: kernel, distribution, virtual or not, inside a container or not; never judges."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from ..api import Host, Trouble, probe

FILE_LIMIT = 1 << 20
MOUNTS_LIMIT = 4 << 20
LOADER_LIMIT = 4 << 20

# ELF e_machine -> the name that `uname -m` gives it.
MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 22: "s390x"}
# Where glibc's dynamic loader lies: the path is part of each architecture's ABI.
LOADERS = {
    "x86_64": ("/lib64/ld-linux-x86-64.so.2",),
    "aarch64": ("/lib/ld-linux-aarch64.so.1",),
    "ppc64le": ("/lib64/ld64.so.2",),
    "riscv64": ("/lib/ld-linux-riscv64-lp64d.so.1",),
    "s390x": ("/lib/ld64.so.1",),
}
# DMI system vendor -> hypervisor, where the vendor sells nothing else or where the CPU says that it is virtual.
VENDORS = (
    ("qemu", "kvm"),
    ("amazon ec2", "kvm"),
    ("google", "kvm"),
    ("alibaba cloud", "kvm"),
    ("tencent cloud", "kvm"),
    ("huawei cloud", "kvm"),
    ("openstack", "kvm"),
    ("red hat", "kvm"),
    ("ovirt", "kvm"),
    ("nutanix", "kvm"),
    ("digitalocean", "kvm"),
    ("vmware", "vmware"),
    ("microsoft corporation", "hyper-v"),
    ("xen", "xen"),
    ("innotek", "virtualbox"),
    ("oracle", "kvm"),
    ("parallels", "parallels"),
)
# Vendors that also sell bare metal under the same name: only believed when the CPU says that it is virtual.
ALSO_METAL = ("amazon ec2", "alibaba cloud", "tencent cloud", "microsoft corporation", "oracle", "google", "nutanix")


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The machine: its operating system, container and hypervisor.

    `container` is docker, podman, kubernetes, containerd, lxc, wsl, another name that PID 1 gives, `unknown` (a
    container of some kind), or None on the host. `hypervisor`: a VM (kvm, firecracker, xen, hyper-v, wsl, vmware ...,
    unknown). Text that could not be read is empty, a number 0.
    """

    hostname: str
    kernel: str
    machine: str
    os_name: str
    glibc: str | None = None
    hypervisor: str | None = None
    container: str | None = None
    cpus: int = 0
    memory_total_mib: int = 0
    memory_available_mib: int = 0


def parse_os_name(text: str) -> str:
    """PRETTY_NAME of os-release, or NAME with VERSION_ID, or nothing."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            values[name] = value.strip().strip("\"'")
    return values.get("PRETTY_NAME") or f"{values.get('NAME', '')} {values.get('VERSION_ID', '')}".strip()


def parse_memory(text: str) -> tuple[int, int]:
    """(total, available) MiB of /proc/meminfo; 0 for what is not in it."""

    def mib(name: str) -> int:
        m = re.search(rf"^{name}:\s*([0-9]{{1,15}}) kB", text, re.M)
        return int(m[1]) >> 10 if m else 0

    return mib("MemTotal"), mib("MemAvailable")


def parse_cpu_list(text: str) -> int:
    """How many CPUs a list such as `0-3,8` names; 0 when it is no such list."""
    count = 0
    for part in text.strip().split(","):
        m = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if m is None:
            return 0
        count += max(0, int(m[2] or m[1]) - int(m[1])) + 1
    return count


def parse_glibc(loader: bytes, name: str = "") -> str | None:
    """The version that the dynamic loader carries in its banner or, before glibc 2.33, in its own file name."""
    m = re.search(rb"stable release version ([0-9]{1,2}\.[0-9]{1,3})", loader)
    if m:
        return m[1].decode()
    named = re.fullmatch(r"ld-([0-9]{1,2}\.[0-9]{1,3})\.so", name.rpartition("/")[2])
    return named[1] if named else None


def parse_machine(elf: bytes) -> str:
    """The machine that an ELF header is for."""
    if elf[:4] != b"\x7fELF" or len(elf) < 20 or elf[5] not in (1, 2):
        return ""
    return MACHINES.get(int.from_bytes(elf[18:20], "little" if elf[5] == 1 else "big"), "")


def _named_virtual(vendor: str, product: str, arm: bool) -> bool:
    if product in ("virtual machine", "google compute engine"):
        return True
    return arm and vendor == "amazon ec2" and bool(product) and "metal" not in product


def hypervisor_of(
    kernel: str, virtual: bool, vendor: str, product: str, xen: str, cmdline: str, arm: bool = False
) -> str | None:
    """Which hypervisor this machine runs under, as far as the kernel and the firmware tell."""
    if "microsoft" in kernel.lower():
        return "wsl"
    if xen.strip() == "xen" and virtual:
        return "xen"
    small = vendor.strip().lower()
    for name, kind in VENDORS:
        if small.startswith(name):
            if not virtual and name in ALSO_METAL:
                # Arm has no such CPU flag; there the product name is the only word.
                return kind if _named_virtual(name, product.strip().lower(), arm) else None
            return kind
    if not virtual:
        return None
    # Firecracker has no firmware tables; its documents boot every guest with these two.
    if not small and ("firecracker" in cmdline or {"reboot=k", "panic=1"} <= set(cmdline.split())):
        return "firecracker"
    return "unknown"


def parse_root_mount(mountinfo: str) -> tuple[str, str]:
    """(file system type, options) of what is mounted on /; the last one wins, as it does in the kernel."""
    kind, options = "", ""
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields, words = left.split(" "), right.split(" ")
        if dash and len(fields) > 4 and fields[4] == "/":
            kind, options = words[0], words[-1]
    return kind, options


_CGROUP = (
    ("kubernetes", re.compile(r"/kubepods|\bkubepods")),
    ("docker", re.compile(r"/docker[/-]|/docker/")),
    ("podman", re.compile(r"/libpod[-_]|libpod_parent")),
    ("lxc", re.compile(r"/lxc[./]|/lxc\.payload")),
    ("containerd", re.compile(r"cri-containerd|/containerd")),
)
_UPPER = (
    ("kubernetes", re.compile(r"/kubelet/")),
    ("docker", re.compile(r"/docker/(overlay2|rootfs|containerd)")),
    ("podman", re.compile(r"/containers/storage/")),
    ("containerd", re.compile(r"containerd")),
)


def container_of(
    files: Mapping[str, bool],
    env: Mapping[str, str],
    init_env: str,
    cgroup: str,
    root: tuple[str, str],
    host_pids: bool,
) -> str | None:
    """Which kind of container this process is in. `files`: /.dockerenv and /run/.containerenv; `host_pids`: the
    kernel's own threads are visible, as they are on a host and in a microVM that was made from an image."""
    overlay = root[0] in ("overlay", "fuse-overlayfs", "fuse.fuse-overlayfs", "aufs")
    given = re.search(r"(?:\A|\0)container=([A-Za-z0-9_.-]{1,40})", init_env)
    in_cgroup = next((name for name, pattern in _CGROUP if pattern.search(cgroup)), None)
    in_root = next((name for name, pattern in _UPPER if overlay and pattern.search(root[1])), None)
    signs = any(files.values()) or given is not None or in_cgroup is not None or in_root is not None
    if host_pids and not overlay and in_cgroup is None and given is None:
        return None
    if not signs and (host_pids or not overlay):
        return None
    if env.get("KUBERNETES_SERVICE_HOST") or "kubernetes" in (in_cgroup, in_root):
        return "kubernetes"
    if files.get("/.dockerenv"):
        return "docker"
    if files.get("/run/.containerenv"):
        return "podman"
    return (given[1] if given else None) or in_cgroup or in_root or "unknown"


# -- asking --------------------------------------------------------------------------------------------------------


def _text(host: Host, path: str, limit: int = FILE_LIMIT) -> str:
    try:
        return host.text(path, limit)
    except Trouble:
        return ""


def _start(host: Host, path: str, size: int) -> bytes:
    try:
        return host.read_at(path, 0, size)
    except Trouble:
        return b""


def _there(host: Host, path: str) -> bool:
    try:
        return host.exists(path)
    except Trouble:
        return False


def _machine(host: Host) -> str:
    told = _text(host, "/proc/sys/kernel/arch").strip()  # since Linux 6.1
    return told or parse_machine(_start(host, "/bin/sh", 64))


def _glibc(host: Host, machine: str) -> str | None:
    for path in LOADERS.get(machine, ()):
        try:
            version = parse_glibc(b"", host.real(path)) or parse_glibc(host.read(path, LOADER_LIMIT))
        except Trouble:
            continue
        if version:
            return version
    return None


def _hypervisor(host: Host, kernel: str, machine: str) -> str | None:
    cpu = _start(host, "/proc/cpuinfo", 16384).decode("ascii", "replace")
    flags = re.search(r"^flags\s*:(.*)$", cpu, re.M)
    virtual = flags is not None and "hypervisor" in flags[1].split()
    vendor = _text(host, "/sys/class/dmi/id/sys_vendor")
    product = _text(host, "/sys/class/dmi/id/product_name")
    xen = _text(host, "/sys/hypervisor/type")
    cmdline = _text(host, "/proc/cmdline")
    return hypervisor_of(kernel, virtual, vendor, product, xen, cmdline, machine == "aarch64")


def _container(host: Host, kernel: str) -> str | None:
    files = {path: _there(host, path) for path in ("/.dockerenv", "/run/.containerenv")}
    root = parse_root_mount(_text(host, "/proc/self/mountinfo", MOUNTS_LIMIT))
    host_pids = _text(host, "/proc/2/comm").strip() == "kthreadd"
    cgroup = _text(host, "/proc/1/cgroup")
    inside = container_of(files, host.env, _text(host, "/proc/1/environ"), cgroup, root, host_pids)
    return "wsl" if inside is None and "microsoft" in kernel.lower() else inside


@probe
def system(host: Host) -> System:
    kernel = _text(host, "/proc/sys/kernel/osrelease").strip()
    machine = _machine(host)
    os_release = _text(host, "/etc/os-release") or _text(host, "/usr/lib/os-release")
    total, available = parse_memory(_text(host, "/proc/meminfo"))
    return System(
        hostname=(_text(host, "/proc/sys/kernel/hostname") or _text(host, "/etc/hostname")).strip()[:255],
        kernel=kernel[:255],
        machine=machine,
        os_name=parse_os_name(os_release)[:255],
        glibc=_glibc(host, machine),
        hypervisor=_hypervisor(host, kernel, machine),
        container=_container(host, kernel),
        cpus=parse_cpu_list(_text(host, "/sys/devices/system/cpu/online")),
        memory_total_mib=total,
        memory_available_mib=available,
    )
