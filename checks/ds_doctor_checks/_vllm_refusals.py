"""All that vLLM refuses of a command's values between its parser and the first process, in its own order."""

from __future__ import annotations

from collections.abc import Mapping

from ._launch_refusal import Refusal
from ._options import Options
from ._vllm_engine import between
from ._vllm_fields import single
from ._vllm_parallel import parallel
from ._vllm_serving import serving
from ._vllm_view import View


def refusals(made: Options, environment: Mapping[str, str], serve: bool = True) -> list[Refusal]:
    """Each check that the command does not pass; the first one is that at which the engine ends."""
    v = View(made, environment, serve)
    found = list(serving(v))
    values = list(single(v))
    # A size that is no size at all makes what is computed from it meaningless.
    broken = {d for r in values for d in r.about}
    sizes = {"tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "data_parallel_size"}
    sizes |= {"decode_context_parallel_size", "nnodes"}
    return [*found, *values, *(() if broken & sizes else parallel(v)), *between(v)]
