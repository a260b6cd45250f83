"""What is kept of hashed files: it holds while the file is the same, and counts for nothing when anybody touched it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

import weights_builder as build
from ds_doctor import proofs
from ds_doctor.proofs import Identity, Proofs, Record, decode, encode

KEY = bytes(range(32))
SAME = Identity(1, 2, 3, 4)


@given(some.dictionaries(some.text(min_size=1), some.integers(0, 2**62)), some.text(min_size=1))
def test_records_come_back_as_they_were_kept(paths: dict[str, int], folder: str) -> None:
    records = Proofs()
    for path, at in paths.items():
        records.add(path, Record(SAME, {"sha256": "ab"}, at))
    back = decode(KEY, folder, encode(KEY, folder, records.all()))
    assert back.all() == records.all()


@given(some.binary(max_size=400))
def test_rubbish_in_the_place_of_a_record_is_no_record(data: bytes) -> None:
    assert not decode(KEY, "/m", data).all()


@given(some.integers(0, 10_000), some.integers(1, 255))
def test_a_byte_changed_anywhere_breaks_the_seal(where: int, flip: int) -> None:
    records = Proofs()
    records.add("/m/a", Record(SAME, {"sha256": "ab" * 32}, 7))
    data = bytearray(encode(KEY, "/m", records.all()))
    data[where % len(data)] ^= flip
    assert not decode(KEY, "/m", bytes(data)).all()


def test_records_of_another_folder_or_key_count_for_nothing() -> None:
    records = Proofs()
    records.add("/m/a", Record(SAME, {"sha256": "ab"}, 7))
    data = encode(KEY, "/m", records.all())
    assert decode(KEY, "/m", data).find("/m/a", SAME)
    assert not decode(KEY, "/n", data).all()
    assert not decode(bytes(32), "/m", data).all()
    assert not decode(None, "/m", data).all()


@pytest.mark.parametrize("field", range(4))
def test_a_file_that_changed_in_any_way_is_not_the_one_that_was_hashed(field: int) -> None:
    records = Proofs()
    records.add("/m/a", Record(SAME, {"sha256": "ab"}, 7))
    numbers = [1, 2, 3, 4]
    numbers[field] += 1
    assert records.find("/m/a", Identity(*numbers)) is None


def test_digests_of_the_same_file_stand_beside_each_other() -> None:
    records = Proofs()
    records.add("/m/a", Record(SAME, {"sha256": "ab"}, 7))
    records.add("/m/a", Record(SAME, {"md5": "cd"}, 8))
    found = records.find("/m/a", SAME)
    assert found is not None and found.digests == {"sha256": "ab", "md5": "cd"}


# -- with the program ---------------------------------------------------------------------------------------------


Ran = subprocess.CompletedProcess[str]


def program(cache: Path, *words: str) -> Ran:
    env = {**os.environ, "XDG_CACHE_HOME": str(cache), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "ds_doctor", *words], capture_output=True, text=True, env=env, timeout=60
    )


def verify(model: Path, cache: Path, *more: str) -> tuple[Ran, dict[str, dict[str, object]]]:
    ran = program(cache, "verify", str(model), "--format", "json", *more)
    return ran, {f["name"]: f for f in json.loads(ran.stdout)["files"]}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return build.hub(tmp_path / "hub")


def test_the_second_run_hashes_nothing(model: Path, tmp_path: Path) -> None:
    first, files = verify(model, tmp_path)
    assert first.returncode == 0 and {f["how"] for f in files.values()} == {"hashed"}
    second, files = verify(model, tmp_path)
    assert second.returncode == 0 and {f["how"] for f in files.values()} == {"cache"}
    assert {f["status"] for f in files.values()} == {"proven"}
    third, files = verify(model, tmp_path, "--no-cache")
    assert third.returncode == 0 and {f["how"] for f in files.values()} == {"hashed"}


def test_a_run_says_that_the_content_was_proven_earlier(model: Path, tmp_path: Path) -> None:
    rule = ["run", "--model", str(model), "--only", "weights-checksum-mismatch"]
    ran = program(tmp_path, *rule)
    assert ran.returncode == 3 and "ds-doctor verify" in ran.stdout
    verify(model, tmp_path)
    ran = program(tmp_path, *rule)
    assert ran.returncode == 0 and "3 weight files were proven earlier" in " ".join(ran.stdout.split())


def test_a_bit_flipped_under_a_restored_time_is_found(model: Path, tmp_path: Path) -> None:
    verify(model, tmp_path)
    shard = (model / build.shard(2, 3)).resolve()
    before = shard.stat()
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    ran, files = verify(model, tmp_path)
    assert ran.returncode == 1 and files[build.shard(2, 3)]["status"] == "wrong"
    rule = ["run", "--model", str(model), "--only", "weights-checksum-mismatch"]
    assert program(tmp_path, *rule).returncode == 1  # known from then on, without hashing


def _flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])


def _forge(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"at"', b'"at"').replace(b'"sha256":"', b'"sha256":"0'))


def _open(path: Path) -> None:
    path.chmod(0o666)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def _away(path: Path) -> None:
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("harm", [_flip, _forge, _open, _cut, _away])
def test_a_record_that_was_tampered_with_is_not_trusted(model: Path, tmp_path: Path, harm: object) -> None:
    if harm is _away and os.geteuid() != 0:
        pytest.skip("needs root to give a file away")
    verify(model, tmp_path)
    (kept,) = (tmp_path / "ds-doctor").glob("proofs-*.json")
    harm(kept)  # type: ignore[operator]
    ran, files = verify(model, tmp_path)
    assert ran.returncode == 0 and {f["how"] for f in files.values()} == {"hashed"}


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(model: Path, tmp_path: Path) -> None:
    (tmp_path / "ds-doctor").write_text("a file in the place of the folder")
    for _ in range(2):
        ran, files = verify(model, tmp_path)
        assert ran.returncode == 0 and not ran.stderr and {f["how"] for f in files.values()} == {"hashed"}


def test_the_key_is_for_its_owner_alone(model: Path, tmp_path: Path) -> None:
    verify(model, tmp_path)
    key = tmp_path / "ds-doctor" / proofs.KEY
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == proofs.KEY_BYTES
