"""Which models the engine of the command knows, read from the source in its Python and never imported; never judges.

What the source does not show is named in `missed`: what is not in an incomplete list proves nothing.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe


class EngineModels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The models of one installed engine. `folder` is its package; `version` None where its metadata does not say.

    `architectures`: class names of its own registry; `previous`: those that it had, with the last version that did;
    `outside`: those that a plugin brings, with the plugin's address. `configs`: the model types that it has configurations
    of its own for; `mentioned`: further class names that its configuration code speaks of, and may replace by others.
    `float16_refused`: the model types that it refuses to run in float16.
    `transformers`: the version installed beside it (None: none is there), and `model_types`, which that one knows.
    `plugins`: installed distributions that may register further models.
    `missed`: the parts that could not be read whole: registry, configs, transformers.
    """

    of_command: ClassVar[bool] = True

    engine: str
    version: str | None
    folder: str
    architectures: frozenset[str] = frozenset()
    previous: dict[str, str] = {}
    outside: dict[str, str] = {}
    configs: frozenset[str] = frozenset()
    mentioned: frozenset[str] = frozenset()
    float16_refused: tuple[str, ...] = ()
    transformers: str | None = None
    model_types: frozenset[str] = frozenset()
    plugins: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()


@probe
def engine_models(host: Host) -> EngineModels:
    """Absent: no command, none of an engine, one inside a container, or the engine is not installed in its Python."""
    if not host.asked.command and host.asked.launch is None:
        raise Absent("no-command")
    from . import _engine_registry

    return _engine_registry.models(host)
