"""What the findings on both engines' values share: the flags' names as the user wrote them, and the engine's environment."""

from __future__ import annotations

from ds_doctor.probes.engine_flags import EngineFlags
from ds_doctor.probes.environment import Environment
from ds_doctor.probes.launch import Launch

from ._flag_table import choose
from ._options import Options


def around(launch: Launch, environment: Environment | None) -> dict[str, str]:
    """What the engine's process would see of this environment: inside a container, only what is handed in."""
    outside = {} if launch.container or environment is None else environment.variables
    return {**outside, **launch.environment}


class Names:
    """The flags of the options, as the user wrote them or as the engine's table names them first."""

    def __init__(self, launch: Launch, installed: EngineFlags | None, made: Options) -> None:
        self.made = made
        self.names = {f.dest: f.names[0] for f in choose(launch, installed).flags.flags}

    def of(self, dest: str) -> str:
        given = self.made.of(dest)
        return given.word if given is not None else self.names.get(dest, "--" + dest.replace("_", "-"))
