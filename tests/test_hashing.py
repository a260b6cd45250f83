"""What is hashed is what stands on the disk, whatever way it is read; and what came between is said, with the file and the byte."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ds_doctor.hashing import Done, Job, blocks, buffers, files, hash_files, readers

MIB = 1 << 20
LONG_AGO = 1_700_000_000


def content(size: int, seed: int = 1) -> bytes:
    """Bytes that differ from block to block."""
    piece = hashlib.shake_128(b"%d" % seed).digest(min(size, 65_521))
    return (piece * (size // max(1, len(piece)) + 1))[:size]


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))  # so that a change in the same tick of the clock is one
    return path


def job(path: Path | str, *algorithms: str) -> Job:
    size = os.stat(path).st_size if os.path.isfile(path) else 0
    return Job(path=str(path), algorithms=algorithms or ("sha256",), size=size)


def one(path: Path | str, **how: object) -> Done:
    (done,) = hash_files([job(path)], **how)  # type: ignore[arg-type]
    return done


def forget(path: Path) -> None:
    """Out of the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def cached_pages(path: Path) -> int:
    """By cachestat, where the kernel has it (6.5)."""
    libc = ctypes.CDLL(None, use_errno=True)
    span, stat = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    fd = os.open(path, os.O_RDONLY)
    try:
        if libc.syscall(451, fd, span, stat, 0):
            pytest.skip("no cachestat here")
    finally:
        os.close(fd)
    return stat[0]


def on_a_disk(folder: Path) -> None:
    if os.major(folder.stat().st_dev) == 0:
        pytest.skip("temporary files are not on a disk of their own here")


# -- content -----------------------------------------------------------------------------------------------------------------


def test_a_file_has_the_digests_that_hashlib_gives_in_one_pass(tmp_path: Path) -> None:
    data = content(5 * MIB + 3)
    (done,) = hash_files([job(written(tmp_path / "a", data), "sha256", "md5", "git-sha1", "sha512")])
    assert done.problem is None and done.error is None and done.offset is None
    assert done.digests == {
        "sha256": hashlib.sha256(data).hexdigest(),
        "md5": hashlib.md5(data).hexdigest(),
        "git-sha1": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest(),
        "sha512": hashlib.sha512(data).hexdigest(),
    }
    assert done.bytes == len(data)
    assert done.identity == done.before
    assert done.identity is not None and done.identity.ino == os.stat(tmp_path / "a").st_ino


SIZES = [
    0,
    1,
    4095,
    4096,
    4097,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB,
    2 * MIB + 1,
    16 * MIB - 1,
    16 * MIB,
    16 * MIB + 5,
    35 * MIB,
]


@pytest.mark.parametrize(
    "way", ["cached", "cold", "half cached", "warm", "not local", "no direct", "cannot look", "many"]
)
def test_every_way_of_reading_gives_the_same_content(tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [written(tmp_path / f"f{i}", content(size, i)) for i, size in enumerate(SIZES)]
    if way != "cached":
        for path in paths:
            forget(path)
    if way == "half cached":
        for path in paths:
            with open(path, "rb") as f:
                f.read(path.stat().st_size // 2)
    if way == "not local":
        monkeypatch.setattr(blocks.os, "major", lambda dev: 0)
    if way == "no direct":
        monkeypatch.setattr(blocks.Blocks, "_open_direct", lambda self: None)
    if way == "cannot look":
        monkeypatch.setattr(blocks.Blocks, "_cached", lambda self, at: None)
    dones = list(hash_files(map(job, paths), threads=20 if way == "many" else 2, warm=way == "warm"))
    assert {d.job.path: (d.problem, d.digests.get("sha256"), d.bytes) for d in dones} == {
        str(p): (None, hashlib.sha256(p.read_bytes()).hexdigest(), size) for p, size in zip(paths, SIZES, strict=True)
    }


@pytest.mark.parametrize("most", [1000, 4096, 300_001])
def test_reads_that_bring_less_than_was_asked_for_are_gone_on_with(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a", content(3 * MIB + 77))
    forget(path)

    def short(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        return os.preadv(fd, [into[0][:most]], at, flags)

    monkeypatch.setattr(readers, "preadv", short)
    assert one(path).digests["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("count", [1, 2, 3, 8, 16, 32])
def test_the_buffers_of_any_number_of_threads_fit_the_memory(count: int) -> None:
    shares = buffers.shares(count)
    sizes = {len(slot) for share in shares for slot in share.slots}
    assert len(shares) == count and len(sizes) == 1
    (size,) = sizes
    assert size & (size - 1) == 0 and blocks.WINDOW % size == 0 and size <= buffers.HUGE
    assert sum(len(share.whole) for share in shares) <= buffers.MEMORY
    assert all(len(share.slots) >= 2 and share.step <= len(share.whole) for share in shares)


def test_a_child_that_is_started_meanwhile_has_no_part_in_the_buffers() -> None:
    def not_for_children() -> int:
        return Path("/proc/self/smaps").read_text().count(" dc")

    before = not_for_children()
    share = buffers.shares(2)
    assert not_for_children() == before + 1
    del share


def test_an_algorithm_that_nobody_knows_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="crc7"):
        hash_files([job(written(tmp_path / "a", b"x"), "crc7")])
    with pytest.raises(ValueError, match="shake_128"):
        hash_files([job(tmp_path / "a", "shake_128")])


def test_no_files_give_nothing() -> None:
    assert list(hash_files([])) == []


def test_the_longest_file_is_begun_first(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"f{size}", content(size)) for size in (10, 3000, 5, 200)]
    assert [d.bytes for d in hash_files(map(job, paths), threads=1)] == [3000, 200, 10, 5]


# -- the page cache ----------------------------------------------------------------------------------------------------------


def test_the_page_cache_stays_as_it_was(tmp_path: Path) -> None:
    on_a_disk(tmp_path)
    here, away = (written(tmp_path / name, content(32 * MIB)) for name in ("here", "away"))
    forget(away)
    for path in (here, away):
        before = cached_pages(path)
        assert one(path).problem is None
        assert abs(cached_pages(path) - before) < 64, path


def test_it_is_warmed_where_that_is_wanted(tmp_path: Path) -> None:
    on_a_disk(tmp_path)
    path = written(tmp_path / "a", content(32 * MIB))
    forget(path)
    assert one(path, warm=True).problem is None
    assert cached_pages(path) == 32 * MIB // 4096


def test_what_cannot_be_read_directly_is_let_go_of_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_disk(tmp_path)
    path = written(tmp_path / "a", content(32 * MIB))
    forget(path)
    monkeypatch.setattr(blocks.Blocks, "_open_direct", lambda self: None)
    assert one(path).problem is None
    assert cached_pages(path) < 32 * MIB // 4096 // 4


# -- what changes while it is read -------------------------------------------------------------------------------------------


def during(path: Path, act: Callable[[], object]) -> Done:
    """Hashes one file and acts once, after the first blocks were read."""
    acted: list[int] = []

    def progress(read: int) -> None:
        if not acted:
            acted.append(read)
            act()

    done = one(path, progress=progress)
    assert acted
    return done


def append(path: Path) -> None:
    with open(path, "ab") as f:
        f.write(b"more")


def overwrite(path: Path) -> None:
    with open(path, "r+b") as f:
        f.write(b"other")


def replace(path: Path) -> None:
    written(path.with_name("new"), path.read_bytes())
    os.replace(path.with_name("new"), path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "grew": append,
    "overwritten": overwrite,
    "replaced": replace,
    "removed": os.unlink,
    "shrank": lambda path: os.truncate(path, 9 * MIB),
    "shrank below what was read": lambda path: os.truncate(path, 1),
    "emptied": lambda path: os.truncate(path, 0),
}


@pytest.mark.parametrize("state", ["cached", "cold"])
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_file_that_changes_while_it_is_read_is_said_to_have(tmp_path: Path, change: str, state: str) -> None:
    path = written(tmp_path / "a", content(40 * MIB))
    if state == "cold":
        forget(path)
    done = during(path, lambda: CHANGES[change](path))
    assert (done.problem, done.digests) == ("changed", {})
    assert done.before is not None and done.before.size == 40 * MIB
    assert done.identity is not None
    if change == "grew":
        assert done.identity.size == 40 * MIB + 4
    if change == "shrank":
        assert done.identity.size == 9 * MIB <= done.bytes < 40 * MIB  # a few blocks had been read ahead


def test_a_small_file_is_watched_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a", b"x" * 100)

    def grows(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        append(path)
        return os.preadv(fd, into, at, flags)

    monkeypatch.setattr(readers, "preadv", grows)
    assert one(path).problem == "changed"


def test_new_permissions_are_no_change_of_the_content(tmp_path: Path) -> None:
    path = written(tmp_path / "a", content(9 * MIB))
    told: list[int] = []

    def progress(read: int) -> None:
        told.append(read)
        if len(told) == 1:
            path.chmod(0o600)
            os.link(path, tmp_path / "b")

    done = one(path, progress=progress)
    assert done.problem is None
    assert done.digests["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sum(told) == 9 * MIB  # read twice, told once


def test_content_whose_time_was_set_back_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a", content(9 * MIB))

    def secretly() -> None:
        overwrite(path)
        os.utime(path, (LONG_AGO, LONG_AGO))

    done = during(path, secretly)
    assert done.problem is None
    assert done.digests["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_content_that_goes_on_changing_with_its_time_set_back_is_said_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a", content(9 * MIB))

    def restless(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        overwrite(path)
        os.utime(path, (LONG_AGO, LONG_AGO))
        return os.preadv(fd, into, at, flags)

    monkeypatch.setattr(readers, "preadv", restless)
    assert one(path).problem == "changed"


# -- what is no file, or refuses ---------------------------------------------------------------------------------------------


def test_what_is_no_file_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as s:
        os.chdir(tmp_path)
        s.bind("socket")
    opened: list[object] = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda *given, **more: (opened.append(given), plain(*given, **more))[1])
    names = [*(str(tmp_path / n) for n in ("fifo", "folder", "link", "socket")), "/dev/zero", "/dev/null"]
    begun = time.monotonic()
    assert {d.job.path: d.problem for d in hash_files(Job(path=n) for n in names)} == dict.fromkeys(names, "not-a-file")
    assert opened == [] and time.monotonic() - begun < 5


def test_a_fifo_that_takes_a_files_place_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a", b"x")
    plain = os.open

    def late(name: str, *given: int) -> int:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return plain(name, *given)

    monkeypatch.setattr(os, "open", late)
    assert one(path).problem == "not-a-file"


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    written(tmp_path / "file", b"x")
    for name in ("nothing", "dangling", "file/below", "nul\0", "half \ud800"):
        done = one(f"{tmp_path}/{name}")
        assert (done.problem, bool(done.error), done.offset, done.identity) == ("missing", True, None, None), name


def test_a_path_that_leads_nowhere_is_a_read_error_in_the_systems_words(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = one(tmp_path / "loop")
    assert (done.problem, done.error, done.offset) == ("read-error", "Too many levels of symbolic links", None)
    assert one(tmp_path / ("x" * 300)).error == "File name too long"


def test_a_name_that_is_no_utf8_is_a_name(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n name")
    with open(path, "wb") as f:
        f.write(b"x")
    done = one(path)
    assert (done.problem, done.job.path) == (None, path)


def test_a_file_of_somebody_else_is_denied_and_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "open", b"x").chmod(0o644)
    written(tmp_path / "closed", b"x").chmod(0)
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "below", b"x")
    (tmp_path / "folder").chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    names = ["open", "closed", "folder/below"]
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            came = {d.job.path: (d.problem, d.error) for d in hash_files(Job(path=n) for n in names)}
            os.write(write, repr(came).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as f:
        text = f.read().decode()
    os.waitpid(child, 0)
    (tmp_path / "folder").chmod(0o755)
    denied = ("denied", "Permission denied")
    assert eval(text) == {"open": (None, None), "closed": denied, "folder/below": denied}


# -- what cannot be read -----------------------------------------------------------------------------------------------------


def refusing(bad: dict[int, int], error: int = errno.EIO) -> Callable[..., int]:
    """A preadv that fails as a disk does for the byte of each inode: what stands before it is read."""

    def preadv(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        byte = bad.get(os.fstat(fd).st_ino)
        if byte is None or flags or not at <= byte < at + len(into[0]):
            return os.preadv(fd, into, at, flags)
        raise OSError(error, os.strerror(error))

    return preadv


@pytest.mark.parametrize("state", ["cached", "cold"])
@pytest.mark.parametrize("byte", [0, 5, 4096, 700_000, 17 * MIB + 4097, 20 * MIB + 6])
def test_a_read_error_names_the_byte_and_the_other_files_are_read(
    tmp_path: Path, byte: int, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [written(tmp_path / name, content(20 * MIB + 7)) for name in ("a", "bad", "c")]
    if state == "cold":
        for path in paths:
            forget(path)
    monkeypatch.setattr(readers, "preadv", refusing({paths[1].stat().st_ino: byte}))
    came = {Path(d.job.path).name: d for d in hash_files(map(job, paths))}
    assert came["a"].problem is came["c"].problem is None
    bad = came["bad"]
    assert (bad.problem, bad.error, bad.digests) == ("read-error", "Input/output error", {})
    assert bad.offset == byte // 4096 * 4096
    assert bad.bytes <= bad.offset


def test_the_kernels_own_refusal_is_a_read_error() -> None:
    done = one("/proc/self/mem")
    assert (done.problem, done.error, done.offset) == ("read-error", "Input/output error", 0)


def test_a_direct_read_that_the_disk_does_not_take_is_done_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a", content(20 * MIB + 7))
    forget(path)
    refused: list[int] = []

    def preadv(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        import fcntl

        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(at)
            raise OSError(errno.EINVAL, "Invalid argument")
        return os.preadv(fd, into, at, flags)

    monkeypatch.setattr(readers, "preadv", preadv)
    done = one(path)
    assert (done.problem, done.digests) == (None, {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()})


def test_a_file_that_its_server_no_longer_knows_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a", content(3 * MIB))
    monkeypatch.setattr(readers, "preadv", refusing({path.stat().st_ino: 2 * MIB}, errno.ESTALE))
    done = one(path)
    assert (done.problem, bool(done.error)) == ("changed", True)


# -- calling it off ----------------------------------------------------------------------------------------------------------


def threads_of_ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("hash-", "read-"))]


def until_gone(seconds: float = 10) -> list[str]:
    end = time.monotonic() + seconds
    while threads_of_ours() and time.monotonic() < end:
        time.sleep(0.01)
    return threads_of_ours()


def sparse(path: Path, size: int) -> Path:
    with open(path, "wb") as f:
        f.truncate(size)
    return path


def test_it_ends_when_it_is_called_off_and_unfinished_files_yield_nothing(tmp_path: Path) -> None:
    small, huge = written(tmp_path / "small", b"x"), sparse(tmp_path / "huge", 1 << 40)
    stop = threading.Event()
    came = hash_files([job(small), job(huge)], threads=2, stop=stop, progress=lambda n: n > 1 and stop.set())
    begun = time.monotonic()
    assert [d.job.path for d in came] in ([], [str(small)])
    assert time.monotonic() - begun < 5
    assert until_gone() == []


def test_a_reader_that_goes_away_calls_it_off(tmp_path: Path) -> None:
    small, huge = written(tmp_path / "small", b"x"), sparse(tmp_path / "huge", 1 << 40)
    came = hash_files([job(small), job(huge)], threads=2)
    assert next(came).job.path == str(small)
    came.close()  # type: ignore[attr-defined]
    assert until_gone() == []


@pytest.mark.parametrize("state", ["cached", "cold"])
def test_a_file_server_that_never_answers_does_not_keep_it_from_ending(
    tmp_path: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a", content(20 * MIB))
    if state == "cold":
        forget(path)
    stop, answer, asked = threading.Event(), threading.Event(), threading.Event()

    def hangs(fd: int, into: list[memoryview], at: int, flags: int = 0) -> int:
        if not flags:
            asked.set()
            answer.wait()
        return os.preadv(fd, into, at, flags)

    monkeypatch.setattr(readers, "preadv", hangs)
    threading.Thread(target=lambda: asked.wait() and stop.set()).start()
    begun = time.monotonic()
    assert list(hash_files([job(path)], stop=stop)) == []
    assert time.monotonic() - begun < 5
    answer.set()
    assert until_gone() == []


def test_no_thread_is_left_at_the_end(tmp_path: Path) -> None:
    path = written(tmp_path / "a", content(20 * MIB))
    forget(path)
    assert len(list(hash_files([job(path)] * 5, threads=3))) == 5
    assert until_gone() == []


@pytest.mark.parametrize("granted", [0, 1, 3])
def test_a_limit_of_threads_only_makes_it_slower(tmp_path: Path, granted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [written(tmp_path / f"f{i}", content(5 * MIB, i)) for i in range(4)]
    for path in paths:
        forget(path)
    plain, left = threading.Thread.start, [granted]

    def start(self: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        plain(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert sorted(d.digests["sha256"] for d in hash_files(map(job, paths), threads=4)) == sorted(
        hashlib.sha256(p.read_bytes()).hexdigest() for p in paths
    )


def test_a_fault_in_the_callers_own_word_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda given: None)
    path = written(tmp_path / "a", content(5 * MIB))
    with pytest.raises(RuntimeError, match="broke"):
        list(hash_files([job(path)], progress=lambda read: 1 // 0))
    until_gone()


# -- many, large, and the memory ---------------------------------------------------------------------------------------------


def test_the_progress_adds_up(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"f{i}", content(size, i)) for i, size in enumerate(SIZES)]
    told: list[int] = []
    list(hash_files(map(job, paths), progress=told.append))
    assert sum(told) == sum(SIZES)


def test_a_hundred_thousand_small_files_are_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"f{i}", b"%d" % i) for i in range(500)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    count = sum(d.problem is None for d in hash_files([job(p) for p in paths] * 200))
    assert count == 100_000
    assert time.monotonic() - begun < 120
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 << 10
    )  # KiB: the jobs, what came of them, the buffers


PEAK = """
import sys
from ds_doctor.hashing import Job, hash_files
paths = sys.argv[2:]
assert all(d.problem is None for d in hash_files([Job(path=p) for p in paths], threads=int(sys.argv[1])))
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.parametrize("threads", [2, 32])
@pytest.mark.parametrize("state", ["cached", "cold"])
def test_hashing_stays_under_64_mib_resident(tmp_path: Path, threads: int, state: str) -> None:
    paths = [written(tmp_path / f"f{i}", content(6 * MIB, i)) for i in range(31)]
    paths.append(sparse(tmp_path / "sparse", 400 * MIB))
    if state == "cold":
        for path in paths:
            forget(path)
    given = [sys.executable, "-c", PEAK, str(threads), *map(str, paths)]
    assert int(subprocess.run(given, capture_output=True, text=True, check=True).stdout) <= 64


def test_the_processors_of_this_process_are_counted() -> None:
    assert 1 <= files.processors() <= (os.cpu_count() or 1)
