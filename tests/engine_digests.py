"""Prints the entry of _known_engines.py for an installed engine: `python tests/engine_digests.py .../site-packages/vllm`."""

from __future__ import annotations

import sys

from ds_doctor.host import Host
from ds_doctor.probes import _engine_source as source
from ds_doctor.probes._known_engines import Known


def entry(folder: str) -> tuple[str, Known]:
    """(engine, its entry) of the package in a folder."""
    engine = folder.rstrip("/").rpartition("/")[2]
    host = Host()
    watched = source.Watched(host)
    source._read(watched, engine, folder)
    files = tuple(sorted(p[len(folder) + 1 :] for p, m in watched.seen.items() if m is not None and p.endswith(".py")))
    release = source.version(host, engine, folder, ())
    return engine, Known(release or "", source.digest(host, folder, files) or "", files)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(entry(given.rstrip("/")))
