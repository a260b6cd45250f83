"""CUDA_VISIBLE_DEVICES is read as the driver reads it: what cuInit and cuDeviceGetCount gave on 2x H200, driver 580.159.04."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_doctor.probes.nvml import Gpu
from ds_doctor_checks._gpus import visible

A = "GPU-9efd3f63-bf5d-4255-3c7e-669153b68e5d"
B = "GPU-cd06c06c-074a-3c95-6bf4-a31a37119cef"
GPUS = (Gpu(index=0, name="NVIDIA H200", uuid=A), Gpu(index=1, name="NVIDIA H200", uuid=B))

# value -> the GPUs that the driver showed, in its order
MEASURED = {
    "": [], "0": [0], "1,0": [1, 0], "0,0": [], "0,1,0": [], "-1": [], "0,-1": [0], "0,-1,1": [0], "7": [], "0,2,1": [0],
    "0,7,0": [0], "7,7": [], "1gpu0": [1], "all": [], " 0": [0], "0, 1": [0, 1], "0 ,1": [0, 1], " ": [], ",": [],
    "0,": [0], ",0": [], "0,,1": [0], "+1": [1], "01": [1], "0x1": [0], "1.5": [1], "0,a,1": [0], "0;1": [0],
    A: [0], f"{B},{A}": [1, 0], A[:5]: [0], f"{A},{A}": [], f"{A[:5]},{A}": [], "GPU-": [], A.upper(): [0], A[4:]: [],
    f"{A},0": [0], f"{A},1": [0], f"0,{B}": [0], f"1,{A}": [1], f"{A},xx": [0], f"{A},GPU-ffffffff": [0],
    f"GPU-ffffffff,{A}": [], f" {A}": [], f"{A}, {B}": [0], "none": [], "void": [], "NoDevFiles": [],
    "99999999999": [], "4294967296": [0], f"{A},-1,{B}": [0], "2,0": [],
}  # fmt: skip


@pytest.mark.parametrize("value", MEASURED, ids=repr)
def test_the_visible_gpus_are_those_that_the_driver_showed(value: str) -> None:
    # The one that starts with a digit of a bare UUID: strtol would read "9", which is no GPU here.
    left = visible(GPUS, {"CUDA_VISIBLE_DEVICES": value})
    assert [g.index for g in left.gpus] == MEASURED[value]


def test_without_the_variable_all_gpus_are_visible() -> None:
    assert visible(GPUS, {}).gpus == GPUS


def test_indices_of_unlike_cards_are_sure_only_in_bus_order() -> None:
    unlike = (GPUS[0], Gpu(index=1, name="NVIDIA A10", uuid=B))
    assert not visible(unlike, {"CUDA_VISIBLE_DEVICES": "1"}).sure
    assert visible(unlike, {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}).sure
    assert visible(unlike, {"CUDA_VISIBLE_DEVICES": B}).sure


@given(st.text(alphabet="0123456789,-+ GPUMIGabcdef/.\x00", max_size=40) | st.text())
def test_any_value_leaves_some_of_the_gpus_each_once(value: str) -> None:
    left = visible(GPUS, {"CUDA_VISIBLE_DEVICES": value})
    assert len({g.index for g in left.gpus}) == len(left.gpus)
    assert set(left.gpus) <= set(GPUS)
