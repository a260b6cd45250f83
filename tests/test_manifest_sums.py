"""Lists of checksums in lines: what the real tools write is read back name by name, and nothing is read that is not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ds_doctor.manifest import NotAManifest, parse

A, B = "a" * 64, "b" * 64
MD5, SHA1, SHA512 = "1" * 32, "2" * 40, "3" * 128
STRANGE = [
    "model-00001-of-00002.safetensors",
    "with space",
    " lead",
    "#hash",
    "*star",
    "a) = b",
    "\\lead",
    "back\\slash",
    "cr\rx",
    "t\tab ",
    "new\nline",
    os.fsdecode(b"\xff\xfe"),
    "模型.bin",
    "sub/x",
]


def entries(text: str | bytes, name: str = "SHA256SUMS", **more: object) -> dict[str, dict[str, str]]:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return {e.name: e.digests for e in parse(data, name, **more).entries}  # type: ignore[arg-type]


def problems(text: str, name: str = "SHA256SUMS") -> list[tuple[str, int | None]]:
    return [(p.id, p.line) for p in parse(text.encode(), name).problems]


def why_not(data: bytes, name: str = "SHA256SUMS") -> str:
    with pytest.raises(NotAManifest) as caught:
        parse(data, name)
    return caught.value.why


# -- the real writers


WRITERS = {  # command: names that it cannot write so that they can be read
    "sha256sum": [],
    "sha256sum -b": [],
    "sha256sum --tag": [],
    "sha256sum -z": [],
    "sha256sum -z --tag": [],
    "sha512sum": [],
    "sha1sum --tag": [],
    "md5sum": [],
    "cksum -a sha256": [],
    "shasum -a 256": [],
    "shasum -b -a 512": [],
    "shasum --tag -a 384": [],
    "openssl dgst -sha256": ["new\nline"],
    "openssl dgst -c -sha256": ["new\nline"],
    "openssl dgst -r -sha512": [],
    "busybox sha256sum": ["new\nline"],
    "rhash --sha256": ["new\nline", "\\lead", "back\\slash"],
    "rhash --sha256 --bsd": ["new\nline", "\\lead", "back\\slash"],
    "rhash --sha256 --uppercase": ["new\nline", "\\lead", "back\\slash"],
}


@pytest.mark.parametrize("command", WRITERS)
def test_what_a_writer_writes_is_read_back(command: str, tmp_path: Path) -> None:
    names = [n for n in STRANGE if n not in WRITERS[command]]
    for name in names:
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.fsencode(name))
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    done = subprocess.run(
        [*words, "--", *(f"./{n}" if "/" in n else n for n in names)], cwd=tmp_path, capture_output=True
    )
    if done.returncode:
        pytest.skip(f"{command}: {done.stderr.decode(errors='replace')[:100]}")
    manifest = parse(done.stdout, "SUMS")
    assert (manifest.problem_count, len(manifest.entries)) == (0, len(names))
    for entry in manifest.entries:
        [(algorithm, digest)] = entry.digests.items()
        assert hashlib.new(algorithm, os.fsencode(entry.name)).hexdigest() == digest
