"""A log is read whatever wrote or compressed it, in constant memory, and says on which line it shows what."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ds_doctor.catalogue import parse
from ds_doctor.cli import Usage, logs
from ds_doctor.explain import reading
from ds_doctor.explain.index import Index, build
from ds_doctor.explain.scan import Hit
from ds_doctor.explain.text import BLOCK, blocks

RULES = """
schema = 1
[cause.bad-thing]
match = ['something went badly wrong', 'quoted "word" failed']
standing = "reported"
title = { en = "T", zh = "T" }
why = { en = "W", zh = "W" }
fix = [{ say = { en = "Mend it.", zh = "修。" } }]
sources = ["https://example.org"]
"""
LINE = "(EngineCore_0 pid=77) ERROR 05-20 20:12:25 [core.py:1] [rank0]: Something went badly WRONG here"
HEALTHY = "INFO 05-20 20:12:25 [core.py:1] all is well\n"


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(build(parse(RULES.encode(), "rules")))


def hits(index: Index, pieces: Iterator[bytes] | list[bytes], fast: bool | None = False) -> list[Hit]:
    one = reading(index, fast)
    for _ in one.read(0, pieces):
        pass
    return sorted(h for found in one.scan.hits.values() for h in found)


def lines(index: Index, data: bytes) -> list[int]:
    return [h.line for h in hits(index, [data])]


def test_the_line_is_counted_and_quoted(index: Index) -> None:
    [hit] = hits(index, [(HEALTHY * 41 + LINE + "\n" + HEALTHY).encode()])
    assert (hit.line, hit.text) == (42, LINE)


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_pieces_may_be_of_any_size(index: Index, size: int) -> None:
    data = (HEALTHY * 9000 + LINE + "\n" + HEALTHY * 3).encode()
    if size == 1:
        data = data[-5000:]
    found = hits(index, [data[i : i + size] for i in range(0, len(data), size)])
    assert [h.line for h in found] == [data[: data.index(b"Something")].count(b"\n") + 1]


@pytest.mark.parametrize("fast", [False, True])
def test_a_match_over_the_cut_of_a_long_line_is_found(index: Index, fast: bool) -> None:
    if fast:
        pytest.importorskip("hyperscan")
    for before in range(BLOCK - 60, BLOCK + 10, 7):
        data = b"x" * before + b" something went badly wrong " + b"y" * BLOCK
        assert [h.line for h in hits(index, [data], fast)][:1] == [1], before


@pytest.mark.parametrize(
    "wrapped",
    [
        LINE.replace("badly", "\x1b[1;31mbadly\x1b[0m").encode(),
        f"loading:  1%\rloading: 99%\r{LINE}".encode(),
        json.dumps({"log": LINE + "\n", "stream": "stderr", "time": "2026-05-20T20:12:25Z"}).encode(),
        json.dumps({"MESSAGE": LINE, "_SYSTEMD_UNIT": "vllm.service", "PRIORITY": "3"}).encode(),
        json.dumps({"MESSAGE": list(LINE.encode()), "__CURSOR": "s=1"}).encode(),
        json.dumps({"log": 'quoted "word" failed\n', "stream": "stdout"}).encode(),
        b"2026-05-20T20:12:25.123Z stderr F " + LINE.encode(),
        b"\xff\xfe broken \x80 bytes \x00 " + LINE.encode(),
        "前缀：".encode("gb18030") + LINE.encode(),
    ],
)
def test_wrappings_do_not_hide_it(index: Index, wrapped: bytes) -> None:
    assert lines(index, HEALTHY.encode() * 3 + wrapped + b"\n" + HEALTHY.encode()) == [4]


@pytest.mark.parametrize("code", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])
def test_other_encodings_are_read(index: Index, code: str) -> None:
    data = (HEALTHY * 3 + LINE + "\n").encode(code)
    assert lines(index, data) == [4]
    assert [h.line for h in hits(index, [data[i : i + 3] for i in range(0, len(data), 3)])] == [4]


def zstd(data: bytes) -> bytes:
    return bytes(pytest.importorskip("zstandard").compress(data))


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, zstd, bytes])
def test_compressed_logs_are_known_by_their_first_bytes(
    index: Index, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "any-name.log"
    path.write_bytes(compress((HEALTHY * 100_000 + LINE + "\n").encode()))
    assert [h.line for h in hits(index, logs.pieces(str(path)))] == [100_001]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress, zstd])
def test_a_compressed_log_that_breaks_off_is_read_up_to_there(
    index: Index, compress: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = b"".join(b"INFO %d\n" % (i * 7919 % 104729) for i in range(200_000))
    data = compress(LINE.encode() + b"\n" + noise)
    path = tmp_path / "log"
    path.write_bytes(data[: len(data) * 2 // 3])
    assert [h.line for h in hits(index, logs.pieces(str(path)))] == [1]
    if compress is not zstd:  # its frames have no end that could be missed
        assert str(path) in capsys.readouterr().err


def test_two_members_of_a_gzip_are_one_log(index: Index, tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(HEALTHY.encode()) + gzip.compress(LINE.encode()))
    assert [h.line for h in hits(index, logs.pieces(str(path)))] == [2]


@pytest.mark.parametrize("name", ["", "/", "/nowhere/at/all", "\0"])
def test_a_path_that_is_no_log_is_one_line(name: str) -> None:
    with pytest.raises(Usage) as told:
        logs.check(name)
    assert "\n" not in str(told.value)


def test_a_hundred_megabytes_in_one_line_cost_no_memory(index: Index) -> None:
    piece = b"x" * (1 << 20)
    pieces = itertools.chain(itertools.repeat(piece, 100), [b" something went badly wrong"], itertools.repeat(piece, 5))
    [hit] = hits(index, pieces)
    assert hit.line == 1
    assert len(hit.text) < 500


def test_blocks_lose_nothing() -> None:
    data = b"".join(b"%d\n" % i for i in range(200_000))
    stream = io.BytesIO(data)
    assert b"".join(blocks(iter(lambda: stream.read(70_001), b""))) == data


def test_ctrl_c_prints_what_was_found_so_far() -> None:
    """A stream without an end is broken off by hand."""
    with subprocess.Popen(
        [sys.executable, "-m", "ds_doctor", "explain", "-", "--no-here"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as one:
        assert one.stdin is not None and one.stdout is not None
        one.stdin.write(b"Error: Flash Download failed - Target DLL has been cancelled\n")
        one.stdin.flush()
        time.sleep(1.0)
        os.kill(one.pid, signal.SIGINT)
        out = one.stdout.read().decode()
        assert one.wait(timeout=20) == 130
    assert "Keil" in out


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("real", [[], [5], [199, 200, 201], [4999], [100_000], [50_000, 199_999]])
def test_a_pattern_whose_words_are_everywhere_is_still_found_on_its_line(fast: bool, real: list[int]) -> None:
    """After many lines that hold only its literal the whole pattern is looked for; blocks under way lose nothing."""
    if fast:
        pytest.importorskip("hyperscan")
    rules = RULES.replace("something went badly wrong", r"POST /v1 HTTP/1\.1.? 499\b")
    noisy = Index(build(parse(rules.encode(), "rules")))
    text = [b'"POST /v1 HTTP/1.1" 200 OK\n'] * 200_000
    for n in real:
        text[n] = b'"POST /v1 HTTP/1.1" 499 gone\n'
    data = b"".join(text)
    found = hits(noisy, [data[i : i + 100_000] for i in range(0, len(data), 100_000)], fast)
    assert [h.line for h in found] == [n + 1 for n in real][:3]
