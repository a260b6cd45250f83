"""The child process that meets NVML, and may hang or die of it: prints what NVML says as one JSON line; never judges.

Started as `python -I -S _nvml_child.py FOLDER...` where the folders are where pynvml may lie. Needs nothing of ds_doctor.
A getter that fails costs its own field: it is left out. Only GPU-wide trouble (15 lost, 16 reset required) is told.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # importing typing would cost more than the rest of this file
if TYPE_CHECKING:
    from typing import Any

    Said = dict[str, Any]

PR_SET_PDEATHSIG, SIGKILL = 1, 9  # linux/prctl.h, signal(7)
LINKS = 64  # more than any GPU has; NVML's own constant was 18 once and is 36 now, so ask until it refuses
GPU_WIDE = (15, 16)  # NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED
RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, from R565 on
NVLINK_SPEED = 164  # NVML_FI_DEV_NVLINK_GET_SPEED, scope: the link; MB/s
COMPUTE_MODES = {0: "default", 1: "exclusive-thread", 2: "prohibited", 3: "exclusive-process"}
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host-vgpu", 4: "host-vsga"}
HOLDERS = {"Compute": "compute", "Graphics": "graphics", "MPSCompute": "mps"}
REMOTE = {0: "gpu", 1: "npu", 2: "switch"}
NOT_AVAILABLE = (1 << 64) - 1


def main(folders: list[str]) -> Said:
    sys.path += folders  # behind the standard library: nothing there may shadow it
    import ctypes

    # Ended with the parent, also when that ends early: nobody else would end a child that hangs in the driver.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as e:
        return {"error": 12, "detail": str(e)}
    try:
        import pynvml
    except Exception as e:  # noqa: BLE001 - whatever the bindings' import raises means the same: they are of no use
        return {"error": -3, "detail": f"{type(e).__name__}: {e}"}
    nvml = Nvml(pynvml)
    start = time.monotonic()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as e:
        return {"error": e.value, "detail": nvml.words(e), "seconds": round(time.monotonic() - start, 3)}
    said: Said = {"seconds": round(time.monotonic() - start, 3)}
    said["driver"] = nvml.text("nvmlSystemGetDriverVersion")
    cuda = nvml.get("nvmlSystemGetCudaDriverVersion")
    if isinstance(cuda, int) and cuda > 0:
        said["cuda"] = f"{cuda // 1000}.{cuda % 1000 // 10}"
    handles: list[Any] = []
    said["gpus"] = [nvml.gpu(i, handles) for i in range(nvml.get("nvmlDeviceGetCount") or 0)]
    said["pairs"] = nvml.pairs(handles)
    for pair in said["pairs"]:
        pair["links"] = direct_links(said["gpus"], pair["a"], pair["b"])
    said["excluded"] = nvml.excluded()
    return said


class Nvml:
    """The getters, each of which may fail without costing more than its own answer."""

    def __init__(self, pynvml: Any) -> None:
        self.pynvml = pynvml
        self.lost: int | None = None  # the GPU-wide error that a getter of the GPU at hand gave

    def get(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """The getter's answer, or None where this card, driver or version of the bindings has none."""
        try:
            return getattr(self.pynvml, name)(*args, **kwargs)
        except self.pynvml.NVMLError as e:
            if e.value in GPU_WIDE:
                self.lost = e.value
        except Exception:  # noqa: BLE001 - bindings of many ages over drivers of many ages; it costs one answer only
            pass
        return None

    def code(self, name: str, *args: Any) -> tuple[Any, int | None]:
        """The getter's answer and NVML's return code (None: the bindings do not have it)."""
        try:
            return getattr(self.pynvml, name)(*args), 0
        except self.pynvml.NVMLError as e:
            return None, e.value
        except Exception:  # noqa: BLE001 - as in get
            return None, None

    def text(self, name: str, *args: Any) -> str | None:
        return as_text(self.get(name, *args))

    def words(self, error: Any) -> str:
        """NVML's own words for an error, as bytes or str; those of the bindings where the library gives none."""
        return as_text(self.get("nvmlErrorString", error.value)) or str(error)

    # -- one GPU -----------------------------------------------------------------------------------------------------

    def gpu(self, index: int, handles: list[Any]) -> Said:
        self.lost = None
        said: Said = {"index": index}
        handle, code = self.code("nvmlDeviceGetHandleByIndex", index)
        if handle is None:
            said["lost"] = code
            return said
        handles.append((index, handle))
        for part in (self.identity, self.memory, self.modes, self.health, self.pcie):
            part(handle, said)
        said["nvlinks"] = self.nvlinks(handle)
        said["fabric"] = self.fabric(handle)
        said["holders"] = self.holders(handle)
        if self.lost is not None:
            said["lost"] = self.lost
        return {k: v for k, v in said.items() if v is not None}

    def identity(self, handle: Any, said: Said) -> None:
        said["name"] = self.text("nvmlDeviceGetName", handle)
        said["uuid"] = self.text("nvmlDeviceGetUUID", handle)
        said["bdf"] = bdf(getattr(self.get("nvmlDeviceGetPciInfo", handle), "busId", None))
        said["minor"] = self.get("nvmlDeviceGetMinorNumber", handle)
        cc = self.get("nvmlDeviceGetCudaComputeCapability", handle)
        if cc:
            said["cc"] = f"{cc[0]}.{cc[1]}"
        said["vbios"] = self.text("nvmlDeviceGetVbiosVersion", handle)
        said["gsp_firmware"] = self.text("nvmlDeviceGetGspFirmwareVersion", handle)

    def memory(self, handle: Any, said: Said) -> None:
        two = getattr(self.pynvml, "nvmlMemory_v2", None)
        memory = self.get("nvmlDeviceGetMemoryInfo", handle, version=two) if two else None
        if memory is not None:
            said["memory_reserved_mib"] = memory.reserved >> 20
        else:
            memory = self.get("nvmlDeviceGetMemoryInfo", handle)  # here `used` holds the reserved part, too
        if memory is not None:
            said["memory_total_mib"] = memory.total >> 20
            said["memory_free_mib"] = memory.free >> 20
            said["memory_used_mib"] = memory.used >> 20

    def modes(self, handle: Any, said: Said) -> None:
        said["persistence"] = flag(self.get("nvmlDeviceGetPersistenceMode", handle))
        said["compute_mode"] = COMPUTE_MODES.get(self.get("nvmlDeviceGetComputeMode", handle))
        said["virtualization"] = VIRTUALIZATION.get(self.get("nvmlDeviceGetVirtualizationMode", handle))
        mig = self.get("nvmlDeviceGetMigMode", handle)
        if mig:
            said["mig"], said["mig_pending"] = bool(mig[0]), bool(mig[1])
            if mig[0]:
                said["mig_devices"] = self.mig_devices(handle)
                said["mig_uuids"] = [device["uuid"] for device in said["mig_devices"]]

    def mig_devices(self, handle: Any) -> list[Said]:
        devices = []
        for i in range(self.get("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            device = self.get("nvmlDeviceGetMigDeviceHandleByIndex", handle, i)
            uuid = self.text("nvmlDeviceGetUUID", device) if device is not None else None
            if uuid:
                said: Said = {"uuid": uuid, "name": self.text("nvmlDeviceGetName", device)}
                self.memory(device, said)
                said["holders"] = self.holders(device)
                devices.append({k: v for k, v in said.items() if v is not None})
        return devices

    def health(self, handle: Any, said: Said) -> None:
        ecc = self.get("nvmlDeviceGetEccMode", handle)
        if ecc:
            said["ecc"], said["ecc_pending"] = bool(ecc[0]), bool(ecc[1])
            if ecc[0]:
                # 1: uncorrected; 0: volatile, since the driver was loaded
                said["ecc_uncorrected"] = self.get("nvmlDeviceGetTotalEccErrors", handle, 1, 0)
        rows = self.get("nvmlDeviceGetRemappedRows", handle)
        if rows:
            said["rows_pending"], said["rows_failed"] = bool(rows[2]), bool(rows[3])
        for value in self.get("nvmlDeviceGetFieldValues", handle, [RECOVERY_ACTION]) or ():
            if value.nvmlReturn == 0:
                said["recovery_action"] = value.value.uiVal
        reasons = self.get("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if reasons is None:  # its name before driver 535
            reasons = self.get("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        said["clocks_event_reasons"] = reasons

    def pcie(self, handle: Any, said: Said) -> None:
        said["pcie_gen"] = self.get("nvmlDeviceGetCurrPcieLinkGeneration", handle)
        said["pcie_gen_max"] = self.get("nvmlDeviceGetMaxPcieLinkGeneration", handle)
        said["pcie_width"] = self.get("nvmlDeviceGetCurrPcieLinkWidth", handle)
        said["pcie_width_max"] = self.get("nvmlDeviceGetMaxPcieLinkWidth", handle)

    def nvlinks(self, handle: Any) -> list[Said]:
        links: list[Said] = []
        for link in range(LINKS):
            state, code = self.code("nvmlDeviceGetNvLinkState", handle, link)
            if code != 0:
                break
            said: Said = {"link": link, "active": bool(state)}
            if state:
                remote = self.get("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
                said["remote_type"] = REMOTE.get(remote, "unknown")
                if remote == 0:
                    peer = self.get("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
                    said["remote_bdf"] = bdf(getattr(peer, "busId", None))
            links.append(said)
        if links:
            fields = [(NVLINK_SPEED, said["link"]) for said in links]
            for said, value in zip(links, self.get("nvmlDeviceGetFieldValues", handle, fields) or (), strict=False):
                if value.nvmlReturn == 0 and said["active"]:
                    said["speed_mbps"] = value.value.uiVal
        return links

    def fabric(self, handle: Any) -> Said | None:
        import ctypes

        for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
            struct = getattr(self.pynvml, name, None)
            if struct is not None:
                info = struct()
                if self.get("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info)) is not None:
                    return as_fabric(info)
        struct = getattr(self.pynvml, "c_nvmlGpuFabricInfo_t", None)
        if struct is not None:
            info = struct()
            if self.get("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info)) is not None:
                return as_fabric(info)
        return None

    def holders(self, handle: Any) -> list[Said]:
        holders: list[Said] = []
        for kind in ("Compute", "Graphics", "MPSCompute"):
            for version in ("_v3", "_v2", ""):
                found = self.get(f"nvmlDeviceGet{kind}RunningProcesses{version}", handle)
                if found is not None:
                    holders += [self.holder(HOLDERS[kind], p) for p in found[:64]]
                    break
        return holders

    def holder(self, kind: str, process: Any) -> Said:
        said: Said = {"pid": process.pid, "kind": kind}
        used = process.usedGpuMemory
        if isinstance(used, int) and used != NOT_AVAILABLE:
            said["memory_mib"] = used >> 20
        name = self.text("nvmlSystemGetProcessName", process.pid)
        if name:
            said["name"] = name.split()[0].rpartition("/")[2]  # never the arguments: they may hold secrets
        return said

    # -- what is between them ------------------------------------------------------------------------------------------

    def pairs(self, handles: list[Any]) -> list[Said]:
        pairs: list[Said] = []
        for i, (a, one) in enumerate(handles):
            for b, other in handles[i + 1 :]:
                said: Said = {"a": a, "b": b}
                # Numbers: the bindings define NVML_P2P_CAPS_INDEX_READ as a tuple by mistake. One direction: both are the
                # same path, and each question takes 1.7 ms (measured on 2x H200), which 8 GPUs ask of 28 pairs.
                for index, name in enumerate(("read", "write", "nvlink")):
                    status = self.get("nvmlDeviceGetP2PStatus", one, other, index)
                    if status is not None:
                        said[name] = status
                ancestor = self.get("nvmlDeviceGetTopologyCommonAncestor", one, other)
                if ancestor is not None:
                    said["ancestor"] = ancestor
                pairs.append(said)
        return pairs

    def excluded(self) -> list[str]:
        found: list[str] = []
        for i in range(self.get("nvmlGetExcludedDeviceCount") or 0):
            info = self.get("nvmlGetExcludedDeviceInfoByIndex", i)
            name = bdf(getattr(getattr(info, "pciInfo", None), "busId", None))
            if name:
                found.append(name)
        return found


def direct_links(gpus: list[Said], a: int, b: int) -> int:
    """The active NVLinks that lead from one GPU straight to the other."""
    peer = gpus[b].get("bdf")
    return sum(n["active"] and n.get("remote_bdf") == peer for n in gpus[a].get("nvlinks", ()) if peer)


def as_text(value: object) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


def bdf(bus_id: object) -> str | None:
    """`00000000:1B:00.0` -> `0000:1b:00.0`, the name that sysfs uses."""
    text = as_text(bus_id)
    if not text or ":" not in text:
        return None
    domain, _, rest = text.lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}"


def flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def as_fabric(info: Any) -> Said:
    raw = bytes(info.clusterUuid)  # 16 bytes, all zero where the GPU is in no cluster
    return {
        "state": info.state,
        "status": info.status,
        "clique": info.cliqueId,
        "cluster": raw.hex() if raw.strip(b"\0") else "",
        "health_mask": getattr(info, "healthMask", None),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1:])) + "\n")
    sys.stdout.flush()
    os._exit(0)  # taking Python and NVML apart in good order would only cost time, and could still crash
