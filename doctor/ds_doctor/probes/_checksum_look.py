"""A look at what vouches for the model's files; never judges."""

from __future__ import annotations

from ..api import Host
from . import _folder_look
from .checksums import Checksums, ModelFile, Vouching


def look_at(host: Host) -> Vouching:
    """The files of the model that was asked for. Absent when none was."""
    looked = host.once(_folder_look.look_at)
    folder, root = looked.folder, looked.place.path or ""
    files = tuple(
        ModelFile(
            name=f.name, path=root if folder.layout == "file" else f"{root}/{f.name}", size=f.size, role="weights"
        )
        for f in folder.weights
    )
    return Vouching(root=root, layout="plain", files=files)


def counted(vouching: Vouching) -> Checksums:
    """The fact for a report."""
    return Checksums(
        layout=vouching.layout,
        files=len(vouching.files),
        bytes=sum(f.size for f in vouching.files),
        unseen=vouching.unseen,
    )
