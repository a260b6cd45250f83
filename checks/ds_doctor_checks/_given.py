"""What the command gives for a parameter, by the parameter's name; judges nothing."""

from __future__ import annotations

from ds_doctor.probes.launch import Launch, option
from ds_doctor.probes.launch import has as given

# Other spellings of a parameter (vllm 0.33.0 engine/arg_utils.py, sglang 0.5.23 arg_groups/fields).
ALIASES = {
    "dist_init_addr": ("--dist-init-addr", "--nccl-init-addr"),
    "node_rank": ("--node-rank", "-r"),
    "data_parallel_address": ("--data-parallel-address", "-dpa"),
    "data_parallel_rpc_port": ("--data-parallel-rpc-port", "-dpp"),
    "data_parallel_size": ("--data-parallel-size", "-dp", "--dp-size", "--dp"),
}


def flags(name: str) -> tuple[str, ...]:
    return ALIASES.get(name, ("--" + name.replace("_", "-"),))


def value(launch: Launch, name: str) -> str | None:
    """The text given for a parameter (`tensor_parallel_size`); None where the command does not give it."""
    return option(launch.arguments, flags(name))


def has(launch: Launch, *names: str) -> bool:
    """Whether one of the parameters is given, with or without a value."""
    return any(given(launch.arguments, flags(name)) for name in names)


def number(launch: Launch, name: str) -> int | None:
    """A parameter that is a whole number; None where it is not given or is none."""
    text = value(launch, name)
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 8 else None
