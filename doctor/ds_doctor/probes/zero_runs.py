"""Long runs of zero bytes in the weight files: ranges that were never written, tensors that hold nothing; never judges.

A file whose space was reserved before its download died has the right size and a whole header. It is looked at in a few places
only (the file's end, its holes, some samples), so that 48 shards of 10 GiB cost some hundred small reads. How it looks is in
the module that the probe imports when a model was given.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe


class ZeroRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of zero bytes in one file: offsets in the file, `data_begin` and `size` those of the file's tensor data.

    `hole`: no data is stored for (a part of) it. `matrices`: weight matrices that lie in it from their first byte to their
    last, `first` their names; `matrix_bytes` what they take. `cut`: the matrix within which it begins, `cut_end`: the one
    within which it ends, named only where that is not between two rows: rows of zeros are padding, half a row is not."""

    file: str
    size: int
    data_begin: int
    begin: int
    end: int
    hole: bool = False
    matrices: int = 0
    matrix_bytes: int = 0
    first: tuple[str, ...] = ()
    cut: str | None = None
    cut_end: str | None = None


class ZeroRuns(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of zeros that were met, at most `RUNS` of them.

    `files`: weight files that were looked into; `unseen`: those that were not for want of time, `blind`: files of a format whose tensors are not known here."""

    of_command: ClassVar[bool] = True

    files: int = 0
    runs: tuple[ZeroRun, ...] = ()
    unseen: int = 0
    blind: tuple[str, ...] = ()


@probe
def zero_runs(host: Host) -> ZeroRuns:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _zero_look

    return _zero_look.look_at(host)
