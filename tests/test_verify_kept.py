"""What was proven is remembered while the file is the same, trusted only where it may be, and never half written."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import verify_builder as build
import verify_repos as repos
import verify_run as running


def verify(made: build.Made, cache: Path, *args: str, env: dict[str, str] | None = None) -> running.Said:
    argv = ["verify", made.target, "--format", "json", *made.args, *args]
    running.settle()
    return running.forked(argv, running.environment(cache, {**made.env, **(env or {})}))


def hows(said: running.Said) -> dict[str, str]:
    return {f["name"]: f["how"] for f in said.report["files"]}


def kept(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "ds-doctor").rglob("*") if p.is_file() and p.name.startswith("proofs"))


LAYOUTS = ["hub", "hub folder", "hub id", "local", "sums gnu", "manifest hub info", "sharded"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_second_run_reads_nothing_and_says_the_same(layout: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    first = verify(made, tmp_path / "c")
    second = verify(made, tmp_path / "c")
    assert second.status == first.status == 0
    assert set(hows(second).values()) == {"cache"}, second.told()
    assert second.report["summary"]["hashed_bytes"] == 0
    assert second.report["summary"]["cached_files"] == second.report["summary"]["files"]
    for key in ("verdict", "exit_code", "counts", "layout", "repo", "revision"):
        assert second.report[key] == first.report[key]
    same = [
        {f["name"]: (f["digest"], f["expected"], f["status"], f["algorithm"]) for f in s.report["files"]}
        for s in (first, second)
    ]
    assert same[0] == same[1]


def test_no_cache_reads_everything_again(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    assert set(hows(verify(made, tmp_path / "c", "--no-cache")).values()) == {"hashed"}


def change(how: str, path: Path) -> None:
    was = path.stat()
    if how == "touched":
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns + 1))
    elif how == "rewritten with its times put back":
        data = bytearray(path.read_bytes())
        data[-9] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    elif how == "replaced by a copy with its times":
        shutil.copy2(path, path.with_name("copy"))
        os.replace(path.with_name("copy"), path)
    elif how == "longer":
        with path.open("ab") as f:
            f.write(b"x")


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("touched", 0),
        ("rewritten with its times put back", 1),
        ("replaced by a copy with its times", 0),
        ("longer", 1),
    ],
)
@pytest.mark.parametrize("layout", ["hub", "sums gnu", "local"])
def test_any_change_of_a_file_has_it_read_again(
    layout: str, how: str, status: int, shelf: Path, tmp_path: Path
) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    assert verify(made, tmp_path / "c").status == 0
    change(how, made.real(made.victim))
    said = verify(made, tmp_path / "c")
    assert said.status == status, said.told()
    assert hows(said)[made.victim] == "hashed", said.told()
    assert hows(said)[made.layout.weights[0]] == "cache"


def test_a_file_of_the_same_name_in_another_folder_is_not_taken_for_it(shelf: Path, tmp_path: Path) -> None:
    one, two = (build.take(shelf, "hub", tmp_path / n) for n in ("one", "two"))
    verify(one, tmp_path / "c")
    assert set(hows(verify(two, tmp_path / "c")).values()) == {"hashed"}


def test_a_wrong_file_stays_wrong_in_the_second_run(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    data = bytearray(made.real(made.victim).read_bytes())
    data[-9] ^= 1
    made.real(made.victim).write_bytes(data)
    first, second = verify(made, tmp_path / "c"), verify(made, tmp_path / "c")
    assert (first.status, second.status) == (1, 1)
    assert second.file(made.victim)["digest"] == build.sha256(bytes(data))


def test_a_new_list_is_compared_without_reading_again(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    verify(made, tmp_path / "c")
    (tmp_path / "list").write_text(build.gnu(repos.sharded(seed=9)))
    said = verify(made, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 1, said.told()
    (tmp_path / "list").write_text(build.gnu(repos.sharded()))
    said = verify(made, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 0, said.told()
    assert hows(said)[made.victim] == "cache"


def test_another_algorithm_has_the_file_read(shelf: Path, tmp_path: Path) -> None:
    """A digest that was never made is not known."""
    made = build.take(shelf, "sharded", tmp_path / "x")
    verify(made, tmp_path / "c")
    (tmp_path / "list").write_text(build.mixed(repos.sharded()))
    said = verify(made, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 0, said.told()
    assert said.file(made.victim)["status"] == "proven"
    assert hows(said)[made.victim] == "hashed"


# ---- what must not be trusted ----


def forge(path: Path, old: str, new: str) -> None:
    data = path.read_bytes()
    assert old.encode() in data, "the digest does not stand in the cache as text"
    path.write_bytes(data.replace(old.encode(), new.encode()))


def test_a_cache_that_was_edited_is_not_trusted(shelf: Path, tmp_path: Path) -> None:
    """Wrong content, and a cache that says that it has the right digest."""
    made = build.take(shelf, "hub", tmp_path / "x")
    right = build.sha256(made.real(made.victim).read_bytes())
    data = bytearray(made.real(made.victim).read_bytes())
    data[-9] ^= 1
    made.real(made.victim).write_bytes(data)
    assert verify(made, tmp_path / "c").status == 1
    for path in kept(tmp_path / "c"):
        if build.sha256(bytes(data)).encode() in path.read_bytes():
            forge(path, build.sha256(bytes(data)), right)
    said = verify(made, tmp_path / "c")
    assert said.status == 1, said.told()
    assert hows(said)[made.victim] == "hashed"


def test_a_cache_of_another_machine_or_user_is_not_trusted(shelf: Path, tmp_path: Path) -> None:
    """The whole cache folder copied from elsewhere but for its secret is worth nothing."""
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    verify(build.take(shelf, "hub", tmp_path / "y"), tmp_path / "d")  # a cache with a secret of its own
    for path in kept(tmp_path / "c"):
        if path.suffix == ".json":
            shutil.copy2(path, tmp_path / "d" / "ds-doctor" / path.name)
    assert hows(verify(made, tmp_path / "d"))[made.victim] == "hashed"


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o622])
def test_a_cache_that_others_may_write_is_not_trusted(mode: int, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    for path in kept(tmp_path / "c"):
        path.chmod(mode)
    assert hows(verify(made, tmp_path / "c"))[made.victim] == "hashed"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_a_cache_that_another_user_wrote_is_not_trusted(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    for path in kept(tmp_path / "c"):
        os.chown(path, 65534, 65534)
    said = verify(made, tmp_path / "c")
    assert said.status == 0
    assert hows(said)[made.victim] == "hashed"


def test_what_is_kept_is_for_its_user_alone(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    assert kept(tmp_path / "c")
    for path in kept(tmp_path / "c"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("how", ["cut", "empty", "noise", "folder", "fifo", "other json", "huge", "loop"])
def test_a_broken_cache_costs_a_run_and_no_verdict(how: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    verify(made, tmp_path / "c")
    for path in kept(tmp_path / "c"):
        data = path.read_bytes()
        path.unlink()
        if how == "cut":
            path.write_bytes(data[: len(data) // 2])
        elif how == "folder":
            path.mkdir()
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "huge":
            path.write_bytes(b"")
            os.truncate(path, 1 << 40)
        elif how == "loop":
            path.symlink_to(path.name)
        else:
            path.write_bytes({"empty": b"", "noise": os.urandom(999), "other json": b'{"a": [1, null]}'}[how])
    said = verify(made, tmp_path / "c")
    assert said.status == 0, said.told()
    assert said.report["summary"]["proven_files"] == 13
    assert "Traceback" not in said.err


@pytest.mark.parametrize("how", ["read-only", "no HOME", "HOME is gone", "a file in its place"])
def test_without_a_place_to_remember_it_works_all_the_same(how: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    env = running.environment(tmp_path / "c", made.env)
    if how == "read-only":
        (tmp_path / "c" / "ds-doctor").chmod(0o500)
    elif how == "no HOME":
        del env["HOME"], env["XDG_CACHE_HOME"]
    elif how == "HOME is gone":
        env |= {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    else:
        (tmp_path / "f").write_text("")
        env["XDG_CACHE_HOME"] = str(tmp_path / "f")
    said = running.forked(["verify", made.target, "--format", "json"], env)
    assert said.status == 0, said.told()
    assert said.report["summary"]["proven_files"] == 13


# ---- killed, and two at once ----


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files of 24 MiB with a list of their checksums: some tenths of a second of work."""
    folder = tmp_path_factory.mktemp("large") / "m"
    build.lay(folder, repos.small())
    lines = []
    block = random.Random(5).randbytes(1 << 20)
    for number in range(1, 9):
        name = f"part-{number}.safetensors"
        text = b'{"w%d":{"dtype":"U8","shape":[25165824],"data_offsets":[0,25165824]}}' % number
        text += b" " * (-len(text) % 8)
        data = len(text).to_bytes(8, "little") + text + block * 24
        (folder / name).write_bytes(data)
        lines.append(f"{build.sha256(data)}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_killed_at_any_moment_and_run_again_it_says_the_same(
    number: signal.Signals, large: Path, tmp_path: Path
) -> None:
    env = running.environment(tmp_path / "c")
    rnd = random.Random(int(number))
    for _ in range(6):
        child = subprocess.Popen(
            [str(Path(sys.executable).parent / "ds-doctor"), "verify", str(large), "--format", "json"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(rnd.uniform(0.05, 0.9))
        child.send_signal(number)
        began = time.monotonic()
        _, err = child.communicate(timeout=20)
        assert time.monotonic() - began < 5, "it did not end when it was told to"
        assert b"Traceback" not in err, err.decode()
        assert child.returncode in (0, -number, 128 + number), (child.returncode, err.decode())
        for path in (tmp_path / "c" / "ds-doctor").iterdir():
            assert not path.name.startswith("proofs") or path.stat().st_size > 0
    said = running.program(["verify", str(large), "--format", "json"], env)
    assert said.status == 0, said.told()
    assert said.status_of("weights-checksum-mismatch") == "pass"
    again = running.program(["verify", str(large), "--format", "json"], env)
    assert {f["how"] for f in again.report["files"]} == {"cache"}, again.told()


def test_what_was_read_before_it_was_stopped_is_not_read_again(large: Path, tmp_path: Path) -> None:
    """With one thread and eight files, a run that is stopped late has kept most of them."""
    env = running.environment(tmp_path / "c")
    argv = [str(Path(sys.executable).parent / "ds-doctor"), "verify", str(large), "--threads", "1"]
    whole = running.program([*argv[1:], "--no-cache"], env).seconds
    for part in (0.9, 0.8, 0.7, 0.95, 0.6):
        child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * part)
        child.send_signal(signal.SIGINT)
        if child.wait(timeout=20) == 0:  # it was done before
            for path in kept(tmp_path / "c"):
                path.unlink()
            continue
        said = running.program(["verify", str(large), "--format", "json"], env)
        assert said.status == 0
        if [h for h in hows(said).values() if h == "cache"]:
            return
    pytest.fail("after five stopped runs nothing was remembered")


def test_two_at_once_do_not_disturb_each_other(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    env = running.environment(tmp_path / "c", made.env)
    said: list[running.Said] = []
    running.settle()

    def one() -> None:
        said.append(running.program(["verify", made.target, "--format", "json"], env))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [s.status for s in said] == [0] * 4, [s.err for s in said]
    assert set(hows(verify(made, tmp_path / "c")).values()) == {"cache"}


def test_it_writes_nothing_into_the_model(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")

    def state() -> list[tuple[str, int, int]]:
        return sorted((str(p), p.lstat().st_mtime_ns, p.lstat().st_ino) for p in (tmp_path / "x").rglob("*"))

    before = state()
    verify(made, tmp_path / "c")
    assert state() == before
