"""What NVML says of the driver and every GPU, asked in a child process that may hang or die; never judges.

Units are in the names: MiB, Mbit/s, watts. A getter that the card does not support gives None.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, Malformed, TimedOut, Trouble, Unseen, probe
from .pci import numa_node, nvidia_functions

CHILD = "_nvml_child.py"
CHILD_S = 15.0  # initialising NVML takes seconds where persistence is off and many GPUs wake up
# What is there wherever NVML could have something to say: the driver, WSL's GPU, a Jetson's GPU.
TRACES = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/nvmap")


class NvLink(msgspec.Struct, frozen=True, kw_only=True):
    """One NVLink of a GPU: its number, whether it is active, its speed, and what is at the other end."""

    link: int
    active: bool
    speed_mbps: int | None = None  # megabytes per second and direction, as NVML gives it
    remote_bdf: str | None = None
    remote_type: str | None = None  # gpu, switch, npu, unknown


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """nvmlDeviceGetGpuFabricInfoV: state 0 not supported, 1 not started, 2 in progress, 3 completed."""

    state: int
    status: int = 0  # an NVML return code, 0 is success
    clique: int = 0
    cluster: str = ""
    health_mask: int | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds memory of a GPU (the PID as NVML gives it). What /proc tells of it is there only where it is
    certainly that process: `command` is its program (with the module or script that a Python runs, nothing else: further
    words may hold secrets), `container` what its control group names (docker:<id>, podman:<id>, containerd:<id>,
    pod:<uid>)."""

    pid: int
    kind: str  # compute, graphics, mps (a client of the MPS server)
    memory_mib: int | None = None
    name: str | None = None
    command: str | None = None
    container: str | None = None


class MigDevice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a GPU in MIG mode, with memory of its own."""

    uuid: str
    name: str = ""
    memory_total_mib: int | None = None
    memory_free_mib: int | None = None
    memory_used_mib: int | None = None
    memory_reserved_mib: int | None = None
    holders: tuple[Holder, ...] = ()


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as NVML numbers them. `lost`: the NVML error that a getter of it gave (15 GPU is lost, 16 reset required)."""

    index: int
    name: str = ""
    uuid: str = ""
    bdf: str = ""  # 0000:1b:00.0, small letters, four-digit domain: the name sysfs uses
    minor: int | None = None
    cc: str = ""  # compute capability, "9.0"
    memory_total_mib: int | None = None
    memory_free_mib: int | None = None
    memory_used_mib: int | None = None
    memory_reserved_mib: int | None = None
    persistence: bool | None = None
    compute_mode: str | None = None  # default, exclusive-thread, prohibited, exclusive-process
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_uuids: tuple[str, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()
    ecc: bool | None = None
    ecc_pending: bool | None = None
    ecc_uncorrected: int | None = None  # volatile: since the driver was loaded
    rows_pending: bool | None = None  # row remapping waits for a reset
    rows_failed: bool | None = None  # row remapping failed
    recovery_action: int | None = None  # what the driver asks for: nvmlDeviceGpuRecoveryAction_t, 0 is nothing
    vbios: str | None = None
    virtualization: str | None = None  # none, passthrough, vgpu, host-vgpu, host-vsga
    numa_node: int | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    clocks_event_reasons: int | None = None
    gsp_firmware: str | None = None
    nvlinks: tuple[NvLink, ...] = ()
    fabric: Fabric | None = None
    holders: tuple[Holder, ...] = ()
    lost: int | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two GPUs a < b: P2P status from a to b (0 ok, 1 chipset, 2 GPU, 3 IOH, 4 disabled by regkey, 5 not supported,
    6 unknown) and their nearest common ancestor (0 internal, 10 one switch, 20 several switches,
    30 host bridge, 40 same NUMA node, 50 system)."""

    a: int
    b: int
    read: int | None = None
    write: int | None = None
    nvlink: int | None = None
    ancestor: int | None = None
    links: int = 0  # active NVLinks between the two directly; 0 where they meet in a switch


class Nvml(msgspec.Struct, frozen=True, kw_only=True):
    """What NVML says of the driver and the GPUs.

    `error` is None when NVML answers; otherwise its return code (9 driver not loaded, 12 library not found,
    18 driver/library version mismatch, 4 no permission, 15 GPU lost, 999 unknown), -1 when the child gave no answer in
    `timeout_s`, -2 when it died of `signal`, -3 when the bindings could not be used. `detail` is NVML's or the
    system's own text.
    """

    slow: ClassVar[bool] = True  # the child is started before the other probes are asked

    error: int | None = None
    detail: str = ""
    signal: str | None = None
    timeout_s: float | None = None
    seconds: float | None = None  # how long nvmlInit took
    driver: str | None = None  # version of the user-space library, "580.159.04"
    cuda: str | None = None  # the newest CUDA that the driver knows, "13.0"
    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[Pair, ...] = ()
    excluded: tuple[str, ...] = ()


def parse(text: str) -> Nvml:
    """The child's JSON line. Malformed when there is none; what NVML's own library printed before it is passed over."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    try:
        return msgspec.json.decode(lines[-1].encode(), type=Nvml)
    except (IndexError, msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        raise Malformed("nvml-child-garbled") from None


def _traces(host: Host) -> bool:
    """Whether there is anything that NVML could know of: starting the child for nothing costs more than all else."""
    for path in TRACES:
        try:
            if host.exists(path):
                return True
        except Trouble:
            return True
    try:
        return bool(nvidia_functions(host))
    except Absent:
        return False
    except Trouble:
        return True


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@probe
def nvml(host: Host) -> Nvml:
    if not host.live:
        raise Unseen("not-under-root")
    if not _traces(host):
        raise Absent("no-nvidia-trace")
    timeout_s = min(CHILD_S, max(0.5, host.time_left_s() - 0.5))  # to be told before the engine stops waiting
    try:
        output = host.run_own(CHILD, timeout_s)
    except TimedOut:
        return Nvml(error=-1, timeout_s=round(timeout_s, 1))
    if output.status < 0:
        return Nvml(error=-2, signal=_signal(-output.status))
    if output.status > 0:
        return Nvml(error=-3, detail=(output.err.strip().splitlines() or [f"exit status {output.status}"])[-1][:200])
    said = parse(output.out)
    gpus = tuple(
        msgspec.structs.replace(g, numa_node=numa_node(host, g.bdf)) if g.bdf and g.numa_node is None else g
        for g in said.gpus
    )
    if any(g.holders or g.mig_devices for g in gpus):
        from ._gpu_holders import named

        gpus = named(host, gpus)
    return msgspec.structs.replace(said, gpus=gpus)
