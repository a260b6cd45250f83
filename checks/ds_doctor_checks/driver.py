"""GPU driver: is one loaded, is it whole, and does it run the CUDA that PyTorch was built for?"""

from __future__ import annotations

from ds_doctor.api import Findings, check, found
from ds_doctor.probes.kernel_module import Modules


@check("driver-nouveau")
def nouveau_leaves_the_gpu_alone(modules: Modules) -> Findings:
    if "nouveau" in modules.loaded and "nvidia" not in modules.loaded:
        yield found("driver-nouveau")
