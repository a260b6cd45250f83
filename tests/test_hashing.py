"""What is hashed is what stands on the disk, and whatever came between is said."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ds_doctor.hashing import Job, hash_files


def test_a_file_has_the_digests_that_hashlib_gives(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20000 + b"end"
    (tmp_path / "a").write_bytes(data)
    (done,) = hash_files([Job(path=str(tmp_path / "a"), algorithms=("sha256", "md5", "git-sha1"), size=len(data))])
    assert done.problem is None
    assert done.digests == {
        "sha256": hashlib.sha256(data).hexdigest(),
        "md5": hashlib.md5(data).hexdigest(),
        "git-sha1": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
    }
    assert done.bytes == len(data)
    assert done.identity == done.before
