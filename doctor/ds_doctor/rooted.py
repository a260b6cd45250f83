"""The door to the files below another root: a mounted disk, a host's / seen from a pod; nothing is run there."""

from __future__ import annotations

import errno
import os
from typing import Any

from .command import Output
from .host import Asked, Host
from .model import Unseen

KERNELS = ("proc", "sys", "dev", "run")  # folders of the root that the running system fills


class RootedHost(Host):
    """The files below another root (a mounted disk, a host's / seen from a pod). Links stay inside; nothing is run."""

    live = False
    remembers = False

    def __init__(self, root: str, asked: Asked | None = None) -> None:
        super().__init__(asked, env={})
        self.root = os.path.realpath(root)
        self.empty = {top for top in KERNELS if not self._shows(top)} if not self.live else set()

    def _shows(self, top: str) -> bool:
        try:
            return bool(os.listdir(f"{self.root}/{top}"))
        except OSError as e:
            return e.errno not in (errno.ENOENT, errno.ENOTDIR)

    def _call(self, op: str, *args: Any) -> Any:
        if op != "real" and self.empty.intersection(str(args[0]).split("/", 2)[1:2]):
            raise Unseen("not-under-root")  # a disk or an image: what the kernel would show is not in it
        return super()._call(op, *args)

    def _inside(self, path: str, last: bool = True) -> str:
        return self.root + self._resolve(path, last)

    def _resolve(self, path: str, last: bool = True) -> str:
        todo = [p for p in path.split("/") if p]
        done: list[str] = []
        links = 0
        while todo:
            part = todo.pop(0)
            if part == ".":
                continue
            if part == "..":
                done[-1:] = []
                continue
            here = "/".join([self.root, *done, part])
            if (todo or last) and os.path.islink(here):
                links += 1
                if links > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.readlink(here)
                if target.startswith("/"):
                    done = []
                todo = [p for p in target.split("/") if p] + todo
                continue
            done.append(part)
        return "/" + "/".join(done)

    def _real(self, path: str) -> str:
        return self._resolve(path)

    def _may(self, path: str, what: str) -> bool:
        raise Unseen("not-under-root")

    def _run(self, argv: list[str], timeout_s: float) -> Output:
        raise Unseen("not-under-root")
