"""Hostile folders cost bounded time and memory and come out as one clear line each; a file that changes under the reading is told as such."""

from __future__ import annotations

import errno
import json
import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import verify_builder as build
import verify_faults as faults
import verify_repos as repos
import verify_run as running

PROGRAM = str(Path(sys.executable).parent / "ds-doctor")


def verify(path: object, cache: Path, *args: str, **more: Any) -> running.Said:
    return running.forked(["verify", str(path), "--format", "json", *args], running.environment(cache), **more)


def plain(shelf: Path, tmp_path: Path, layout: str = "sharded") -> build.Made:
    return build.take(shelf, layout, tmp_path / "x")


def sane(said: running.Said) -> None:
    assert "Traceback" not in said.err and "it broke" not in said.err, said.err
    assert said.status in (0, 1, 2, 3), said.told()
    if said.status != 2:
        assert not said.results("error"), said.told()
    else:
        assert len(said.err.strip().splitlines()) == 1, said.err


MEASURE = """
import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
"""


def measured(argv: list[str], env: dict[str, str], timeout: float = 120) -> tuple[int, int, float]:
    """Exit status, peak of resident memory in KiB, and seconds of the installed program. A small process starts it: a child's peak begins with what
    its parent had."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", MEASURE, PROGRAM, *argv],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=True,
    )
    status, peak = map(int, done.stdout.split())
    return status, peak, time.monotonic() - began


# ---- headers ----

HEADERS: dict[str, bytes] = {
    "2^60": struct.pack("<Q", 1 << 60) + b"{}" * 50,
    "2^63": struct.pack("<Q", 1 << 63) + b"{}" * 50,
    "2^64 - 1": b"\xff" * 8 + b"{}" * 50,
    "100 MB and nothing": struct.pack("<Q", 100_000_000) + b"{",
    "deep": struct.pack("<Q", 1_000_000) + b'{"a":' * 200_000,
    "deep lists": struct.pack("<Q", 1_000_000) + b"[" * 1_000_000,
    "a number of a million digits": struct.pack("<Q", 1_000_012) + b'{"a":{"b":' + b"9" * 1_000_000 + b"}}",
    "surrogates": struct.pack("<Q", 64) + b'{"\\ud800":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}    ',
    "NUL in a name": struct.pack("<Q", 64) + b'{"a\\u0000":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}   ',
    "floats": struct.pack("<Q", 64) + b'{"a":{"dtype":"F32","shape":[1e308],"data_offsets":[0,1e999]}}  ',
    "not UTF-8": struct.pack("<Q", 16) + b'{"\xff\xfe":\x80}       ',
    "the same key twice": struct.pack("<Q", 112)
    + (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    ).ljust(112)
    + b"x",
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_hostile_header_is_one_line_about_its_file(name: str, shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)
    made.real(made.victim).write_bytes(HEADERS[name])
    said = verify(made.folder, tmp_path / "c")
    sane(said)
    assert said.seconds < 20
    if name not in ("NUL in a name", "surrogates", "the same key twice"):  # the library takes them; the index does not
        assert any(running.speaks_of(r, [made.victim]) for r in said.results("fail").values()), said.told()
    assert said.status == 1


def big_header(path: Path, count: int) -> None:
    """A valid header of `count` tensors."""
    tensors = {
        f"model.layers.{n:08}.mlp.experts.weight_scale_inv": {
            "dtype": "F32",
            "shape": [1],
            "data_offsets": [n * 4, n * 4 + 4],
        }
        for n in range(count)
    }
    text = json.dumps(tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\1\2\3\4" * count)


def test_a_header_of_100_mb_costs_bounded_memory_and_time(tmp_path: Path) -> None:
    """The library's own limit is 100 MB; a header of that size is refused or read, and never costs a gigabyte."""
    build.lay(tmp_path / "m", repos.small())
    path = tmp_path / "m" / "model.safetensors"
    with path.open("wb") as f:
        f.write(struct.pack("<Q", 99_999_992))
        f.write(b'{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}' + b" " * (99_999_992 - 53) + b"}")
        f.write(b"\1" * 8)
    status, peak, seconds = measured(["verify", str(tmp_path / "m")], running.environment(tmp_path / "c"))
    assert status in (0, 1)
    assert peak < 300 * 1024, f"{peak >> 10} MiB"
    assert seconds < 60


def test_a_header_of_many_tensors_is_read(tmp_path: Path) -> None:
    build.lay(tmp_path / "m", repos.small())
    big_header(tmp_path / "m" / "model.safetensors", 40_000)
    said = verify(tmp_path / "m", tmp_path / "c")
    assert said.status == 0, said.told()


INDEXES: dict[str, bytes] = {
    "deep": b'{"weight_map":' + b'{"a":' * 200_000,
    "cut": b'{"weight_map": {"a": "model-00001-of-00003.safetensors",',
    "values of other types": b'{"weight_map": {"a": 1, "b": null, "c": ["x"], "d": {"e": 1}}}',
    "a list": b"[]",
    "names with controls": b'{"weight_map": {"a\\u001b[31m": "model\\u001b[2J-\\n.safetensors"}}',
    "NUL": b'{"weight_map": {"a": "x\\u0000y.safetensors"}}',
    "absolute": b'{"weight_map": {"a": "/etc/passwd"}}',
    "up": b'{"weight_map": {"a": "../../../../etc/passwd"}}',
    "itself": b'{"weight_map": {"a": "model.safetensors.index.json"}}',
    "a folder": b'{"weight_map": {"a": "."}}',
    "empty name": b'{"weight_map": {"a": ""}}',
    "long name": b'{"weight_map": {"a": "' + b"x" * 100_000 + b'"}}',
    "surrogates": b'{"weight_map": {"a": "\\ud800.safetensors"}}',
}


@pytest.mark.parametrize("name", INDEXES)
def test_a_hostile_index_is_told(name: str, shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)
    (made.folder / repos.INDEX).write_bytes(INDEXES[name])
    said = verify(made.folder, tmp_path / "c")
    sane(said)
    assert said.status == 1, said.told()
    assert said.seconds < 20
    text = running.forked(["verify", str(made.folder)], running.environment(tmp_path / "c"))
    assert "\x1b" not in text.out, "escape sequences reach the terminal"
    assert max(map(len, text.out.splitlines())) < 2000


# ---- folders ----


def test_a_loop_of_links_ends(shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)
    (made.folder / "loop").symlink_to(".")
    (made.folder / "up").symlink_to("..")
    (made.folder / "a").symlink_to("b")
    (made.folder / "b").symlink_to("a")
    (made.folder / "root").symlink_to("/")
    said = verify(made.folder, tmp_path / "c")
    sane(said)
    assert said.status == 0, said.told()
    assert said.seconds < 10
    assert len(said.report["files"]) < 30


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 files beside a model, in a few folders; made of links of one file, which is quicker."""
    folder = tmp_path_factory.mktemp("crowd") / "m"
    build.lay(folder, repos.sharded())
    (folder / "f").mkdir()
    first = folder / "f" / "0"
    first.write_bytes(b"x")
    for number in range(1, 100_000):
        if number % 1000 == 0:
            (folder / f"f{number // 10_000}").mkdir(exist_ok=True)
            first = folder / f"f{number // 10_000}" / f"first-{number}"
            first.write_bytes(b"x")
        else:
            os.link(first, folder / (f"f{number // 10_000}" if number >= 1000 else "f") / str(number))
    return folder


def test_100000_files_cost_bounded_time_and_memory(crowded: Path, tmp_path: Path) -> None:
    status, peak, seconds = measured(["verify", str(crowded), "--quick"], running.environment(tmp_path / "c"))
    assert status == 0
    assert seconds < 60, seconds
    assert peak < 300 * 1024, f"{peak >> 10} MiB"


def test_100000_weight_files_are_answered(tmp_path: Path) -> None:
    """Names that all look like weights, of which none is one: bounded, and one line for each kind of fault."""
    folder = tmp_path / "m"
    build.lay(folder, repos.small())
    first = folder / "w0.safetensors"
    first.write_bytes(b"")
    for number in range(1, 20_000):
        if number % 1000 == 0:
            first = folder / f"w{number}.safetensors"
            first.write_bytes(b"")
        else:
            os.link(first, folder / f"w{number}.safetensors")
    said = running.forked(["verify", str(folder)], running.environment(tmp_path / "c"), timeout=120)
    assert said.status in (1, 3), said.out[:2000]
    assert len(said.out) < 100_000
    assert "Traceback" not in said.err


ODD_NAMES = [
    b"new\nline.safetensors",
    b"invalid-\xff\xfe.safetensors",
    b"esc\x1b[31m.safetensors",
    b"-rf.safetensors",
    b" spaces .safetensors",
    b"quote'\".safetensors",
    "中文.safetensors".encode(),
    b"a" * 240 + b".safetensors",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_odd_names_are_read_shown_and_kept(name: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    build.lay(folder, repos.small())
    path = os.path.join(os.fsencode(folder), name)
    with open(path, "wb") as f:
        f.write(repos.safetensors(list(repos.shapes())))
    said = verify(folder, tmp_path / "c", "--write-manifest", str(tmp_path / "list"))
    sane(said)
    assert said.status == 0, said.told()
    weights = [f for f in said.report["files"] if f["role"] == "weights"]
    assert len(weights) == 1 and weights[0]["digest"] == build.sha256(repos.safetensors(list(repos.shapes())))
    json.dumps(said.report).encode()
    text = running.forked(["verify", str(folder), "-v"], running.environment(tmp_path / "c"))
    assert "\x1b" not in text.out
    again = verify(folder, tmp_path / "d", "--manifest", str(tmp_path / "list"))
    assert again.status == 0, again.told()
    assert [f["status"] for f in again.report["files"] if f["role"] == "weights"] == ["proven"], again.told()
    os.truncate(path, 9000)
    for manifest in ((), ("--manifest", str(tmp_path / "list"))):
        assert verify(folder, tmp_path / "d", *manifest).status == 1


def test_a_folder_name_that_is_not_utf8_is_taken(tmp_path: Path) -> None:
    folder = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"m\xff\n\x1b"))
    build.lay(Path(folder), repos.sharded())
    said = verify(folder, tmp_path / "c")
    sane(said)
    assert said.status == 0, said.told()
    assert set(f["how"] for f in verify(folder, tmp_path / "c").report["files"]) == {"cache"}


@pytest.mark.parametrize("what", ["FIFO", "socket", "device"])
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", repos.INDEX, "SHA256SUMS", "README.md"])
def test_what_is_no_file_is_never_waited_for(name: str, what: str, shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)
    path = made.folder / name
    path.unlink(missing_ok=True)
    {"FIFO": os.mkfifo, "socket": faults.bind, "device": lambda p: p.symlink_to("/dev/zero")}[what](path)  # type: ignore[operator]
    said = verify(made.folder, tmp_path / "c", timeout=30)
    sane(said)
    assert said.seconds < 15
    if name in ("config.json", repos.INDEX):
        assert said.status == 1, said.told()


@pytest.mark.parametrize("what", ["FIFO", "socket", "device", "null", "proc"])
def test_a_path_that_is_no_model_is_answered_at_once(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    if what == "FIFO":
        os.mkfifo(path)
    elif what == "socket":
        faults.bind(path)
    else:
        path.symlink_to({"device": "/dev/zero", "null": "/dev/null", "proc": "/proc/self/fd"}[what])
    said = verify(path, tmp_path / "c", timeout=30)
    sane(said)
    assert said.status in (1, 2)


@pytest.mark.parametrize("path", ["", "/nonexistent/model", "no/such-model", "a" * 5000, "models--a--b", "~nobody/x"])
def test_a_path_that_is_not_there_is_wrong_usage(path: str, tmp_path: Path) -> None:
    said = running.forked(["verify", path], running.environment(tmp_path / "c"), cwd=str(tmp_path))
    assert said.status == 2, (said.out, said.err)
    assert len(said.err.strip().splitlines()) == 1
    assert "Traceback" not in said.err


def test_a_folder_of_python_objects_is_never_unpickled(shelf: Path, tmp_path: Path) -> None:
    """ModelScope's own index, and weights, are pickles that run what they like when they are read as such."""
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % str(tmp_path / "owned").encode()
    made = plain(shelf, tmp_path, "modelscope")
    for name in (".msc", ".mdl", ".mv", "pytorch_model.bin", "training_args.bin", "x.pt", "x.pkl"):
        (made.folder / name).write_bytes(evil)
    said = verify(made.folder, tmp_path / "c")
    sane(said)
    assert not (tmp_path / "owned").exists()


def test_an_archive_that_claims_to_be_huge_is_read_by_its_directory_alone(shelf: Path, tmp_path: Path) -> None:
    """A zip of 40 KB that would unpack to gigabytes."""
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", b"\x80\x02}.")
        z.writestr("archive/data/0", bytes(64 << 20))
    build.lay(tmp_path / "m", repos.small() | {"pytorch_model.bin": out.getvalue()})
    status, peak, seconds = measured(["verify", str(tmp_path / "m")], running.environment(tmp_path / "c"))
    assert status in (0, 1)
    assert peak < 90 * 1024 and seconds < 20


def test_bounded_memory_while_hashing(tmp_path: Path) -> None:
    """At most 64 MiB resident, whatever the size of the files."""
    folder = tmp_path / "m"
    build.lay(folder, repos.small())
    for number in range(1, 5):
        text = b'{"w%d":{"dtype":"U8","shape":[134217728],"data_offsets":[0,134217728]}}' % number
        text += b" " * (-len(text) % 8)
        with (folder / f"part-{number}.safetensors").open("wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            for _ in range(128):
                f.write(b"\1\2\3\4" * (1 << 18))
    status, peak, _ = measured(["verify", str(folder)], running.environment(tmp_path / "c"))
    assert status == 0
    assert peak <= 64 * 1024, f"{peak >> 10} MiB"


# ---- while it is read ----


def on_first_read(path: Path, act: Callable[[], None], fail: bool = False) -> Callable[[], None]:
    """In the child: the first read of that file's content runs `act`, or all fail as on a bad disk. The look at the structure reads with pread, the
    hashing with preadv."""

    def before() -> None:
        want = os.stat(path)
        done: list[int] = []
        real = os.preadv

        def read(fd: int, *args: Any) -> int:
            s = os.fstat(fd)
            if (s.st_dev, s.st_ino) == (want.st_dev, want.st_ino):
                if fail:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                if not done:
                    done.append(1)
                    act()
            return real(fd, *args)

        os.preadv = read  # type: ignore[assignment]
        for name, module in list(sys.modules.items()):
            if name.startswith("ds_doctor"):
                for key, value in list(vars(module).items()):
                    if value is real:
                        setattr(module, key, read)

    return before


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def grow(path: Path) -> None:
    with path.open("ab") as f:
        f.write(b"x" * 100)


def rewrite(path: Path) -> None:
    time.sleep(0.02)
    with path.open("r+b") as f:
        f.seek(-9, os.SEEK_END)
        f.write(b"y")


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.replace(copy, path)


@pytest.mark.parametrize("how", [shrink, grow, rewrite], ids=lambda f: f.__name__)
def test_a_file_that_changes_while_it_is_read_is_told_as_such(
    how: Callable[[Path], None], shelf: Path, tmp_path: Path
) -> None:
    made = build.take(shelf, "sums gnu", tmp_path / "x")
    path = made.folder / made.victim
    said = verify(made.folder, tmp_path / "c", before=on_first_read(path, lambda: how(path)))
    assert said.status == 1, said.told()
    changing = said.results("fail").get("weights-changing")
    assert changing and running.speaks_of(changing, [made.victim]), said.told()
    assert said.file(made.victim)["status"] == "changed", said.told()
    assert said.file(made.layout.weights[0])["status"] == "proven"
    later = verify(made.folder, tmp_path / "c")  # and what was read meanwhile is not remembered
    assert later.file(made.victim)["how"] == "hashed", later.told()


def test_a_read_error_names_the_file_and_where_and_the_others_are_read(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sums gnu", tmp_path / "x")
    path = made.folder / made.victim
    said = verify(made.folder, tmp_path / "c", before=on_first_read(path, lambda: None, fail=True))
    assert said.status == 3, said.told()
    failed = said.results("fail")["weights-read-error"]
    assert running.speaks_of(failed, [made.victim]), said.told()
    assert "offset" in json.dumps(failed["findings"]), said.told()
    assert said.file(made.victim)["status"] == "unread"
    assert {said.file(n)["status"] for n in made.layout.weights if n != made.victim} == {"proven"}


def test_a_read_error_beside_a_wrong_file_is_damage(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sums gnu", tmp_path / "x")
    faults.flip(lambda n: n // 2, made.layout.weights[0])(made)
    path = made.folder / made.victim
    said = verify(made.folder, tmp_path / "c", before=on_first_read(path, lambda: None, fail=True))
    assert said.status == 1, said.told()


@pytest.mark.parametrize("name", [repos.shard(2), "config.json", repos.INDEX])
def test_a_file_that_may_not_be_read_is_exit_3_for_weights(name: str, shelf: Path, tmp_path: Path) -> None:
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="verify-"))
    try:
        folder.chmod(0o755)
        build.lay(folder / "m", repos.sharded())
        (folder / "m" / name).chmod(0)
        (folder / "c" / "ds-doctor").mkdir(parents=True)
        for path in ("c", "c/ds-doctor"):
            os.chown(folder / path, os.getuid() or 65534, os.getgid() or 65534)

        def become() -> None:
            if os.getuid():
                return
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        said = verify(folder / "m", folder / "c", before=become)
        assert said.status == (3 if name.endswith("safetensors") else said.status), said.told()
        assert said.status in (1, 3), said.told()
        assert any(running.speaks_of(r, [name]) for r in said.results("fail").values()), said.told()
    finally:
        shutil.rmtree(folder)


def test_few_open_files_are_enough(shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    assert verify(made.folder, tmp_path / "c", before=before).status == 0


def test_a_reader_that_goes_away_is_no_traceback(shelf: Path, tmp_path: Path) -> None:
    made = plain(shelf, tmp_path)
    done = subprocess.run(
        ["bash", "-c", f"{PROGRAM} verify {made.folder} --format json | head -c 1"],
        env=running.environment(tmp_path / "c"),
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr


def fifo_instead(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder_gone(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("how", [Path.unlink, fifo_instead, replace, folder_gone], ids=lambda f: f.__name__)
def test_a_file_that_is_gone_or_another_when_its_turn_comes_is_told(
    how: Callable[[Path], object], shelf: Path, tmp_path: Path
) -> None:
    """The longest is read first; this is the shortest shard, and it is not what it was when the folder was listed."""
    made = build.take(shelf, "sums gnu", tmp_path / "x")
    first, last = made.folder / repos.shard(1), made.folder / repos.shard(3)
    said = verify(
        made.folder,
        tmp_path / "c",
        "--threads",
        "1",
        before=on_first_read(first, lambda: how(last) and None),
        timeout=60,
    )
    sane(said)
    file = said.file(last.name)
    if how is replace:  # by the same content: its digest is right
        assert said.status == 0 or file["status"] == "changed", said.told()
    else:
        assert said.status in (1, 3), said.told()
        assert file["status"] in ("unread", "changed"), said.told()
        assert any(running.speaks_of(r, [last.name]) for r in said.results("fail").values()), said.told()
