"""Who may read the model: the user that will serve it, the modes of its files and of the folders above them; never judges.

Access control lists are noticed, not read. How it looks is in the module that the probe imports when a model was given.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..api import Absent, Host, probe
from .model_folder import Names


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the user may not read, or a folder (`what`: search or list) that it may not enter or list.

    `shown`: the file's name in the model's folder, or the folder's path; `path`: as it stands on the disk; `mode` as chmod
    writes it; `files`: how many of the model's files it keeps from the user."""

    what: str
    shown: str
    path: str
    mode: str
    uid: int
    gid: int
    files: int = 1


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What stands in the way of the user that will serve the model.

    `user`: it, as it was given; `source`: option, container, pod, unit (None: nobody says); `uid` and `gids`: what that is on this host. `problem`: user-unknown (no such name here), image-user (a name
    of the image's own), other-namespace (its numbers are not those of this host).

    `files`: of the model, as far as an engine reads them. `blocked`: the first of `blocked_count` things in the user's way;
    `unsure`: files and folders whose mode forbids it while an access control list, or a group that is not known here, may
    allow it. `private`: files that others than owner and group may not read, `public`: how many they may read; both empty where
    a folder above keeps others out anyway."""

    of_command: ClassVar[bool] = True

    user: str | None = None
    source: str | None = None
    uid: int | None = None
    gids: tuple[int, ...] = ()
    problem: str | None = None
    files: int = 0
    blocked: tuple[Blocked, ...] = ()
    blocked_count: int = 0
    unsure: Names = Names()
    private: Names = Names()
    public: int = 0


@probe
def model_access(host: Host) -> ModelAccess:
    if host.asked.model is None and not host.asked.command:
        raise Absent("no-model-given")
    from . import _model_place

    host.once(_model_place.find)  # most launch commands name a model that is not here: no more is imported for it
    from . import _access_look

    return _access_look.look_at(host)
