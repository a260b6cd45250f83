"""What one node records proves another: `--write-manifest`, `--manifest`, `--only-shards`; wrong lists are refused in one line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import verify_builder as build
import verify_repos as repos
import verify_run as running

GGUF_LAYOUTS = ("sharded", "single", "hub", "local", "gguf", "torch sharded", "modelscope", "file")


def verify(path: object, cache: Path, *args: str) -> running.Said:
    return running.forked(["verify", str(path), "--format", "json", *args], running.environment(cache))


def one_line(said: running.Said) -> str:
    assert said.status == 2, (said.status, said.out, said.err)
    assert not said.out
    lines = said.err.strip().splitlines()
    assert len(lines) == 1, said.err
    assert "Traceback" not in said.err
    return lines[0]


@pytest.fixture
def nodes(shelf: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two nodes with the same folder, of which nothing vouches, and the list that the first one wrote."""
    one = build.take(shelf, "sharded", tmp_path / "one").folder
    two = build.take(shelf, "sharded", tmp_path / "two").folder
    said = verify(one, tmp_path / "c1", "--write-manifest", str(tmp_path / "list.json"))
    assert said.status == 0, said.told()
    return one, two, tmp_path / "list.json"


@pytest.mark.parametrize("layout", GGUF_LAYOUTS)
def test_a_recorded_list_proves_the_same_folder_on_another_node(layout: str, shelf: Path, tmp_path: Path) -> None:
    one = build.take(shelf, layout, tmp_path / "one")
    said = verify(one.target, tmp_path / "c1", "--write-manifest", str(tmp_path / "list.json"))
    assert said.status == 0, said.told()
    two = build.take(shelf, layout, tmp_path / "two")
    said = verify(two.target, tmp_path / "c2", "--manifest", str(tmp_path / "list.json"))
    assert said.status == 0, said.told()
    assert not said.results("fail", "warn", "error"), said.told()
    assert said.status_of("weights-checksum-mismatch") == "pass"
    for name in one.layout.weights:
        file = said.file(name)
        assert (file["status"], file["algorithm"]) == ("proven", "sha256"), said.told()
        assert "manifest" in file["source"]


def test_a_list_recorded_from_one_layout_proves_another(shelf: Path, tmp_path: Path) -> None:
    hub = build.take(shelf, "hub", tmp_path / "one")
    assert verify(hub.target, tmp_path / "c1", "--write-manifest", str(tmp_path / "list")).status == 0
    for layout in ("sharded", "local", "modelscope", "modelscope new", "hub-shared", "sums gnu"):
        other = build.take(shelf, layout, tmp_path / layout)
        said = verify(other.target, tmp_path / "c2", "--manifest", str(tmp_path / "list"))
        assert said.status == 0, layout + said.told()
        assert said.status_of("weights-checksum-mismatch") == "pass", layout + said.told()


def test_a_list_is_the_same_every_time_and_says_what_it_is(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one, two, file = nodes
    first = file.read_bytes()
    assert verify(two, tmp_path / "c3", "--write-manifest", str(tmp_path / "again.json")).status == 0
    listed, again = json.loads(first), json.loads((tmp_path / "again.json").read_bytes())
    assert listed["schema"] == "ds-doctor.manifest/1"
    for made in (listed, again):
        for key in ("created_at", "written_at", "started_at", "path", "host", "folder"):
            made.pop(key, None)
    assert listed == again
    text = first.decode()
    for path in one.rglob("*"):
        if path.is_file():
            assert path.relative_to(one).as_posix() in text
            assert build.sha256(path.read_bytes()) in text


def test_what_differs_on_the_other_node_is_found(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, two, file = nodes
    victim = two / repos.shard(2)
    data = bytearray(victim.read_bytes())
    due = build.sha256(bytes(data))
    data[-5] ^= 1
    victim.write_bytes(data)
    said = verify(two, tmp_path / "c2", "--manifest", str(file))
    assert said.status == 1, said.told()
    result = said.results("fail")["weights-checksum-mismatch"]
    assert victim.name in running.names_in(result)
    assert {due, build.sha256(bytes(data))} <= running.digest_in(running.names_in(result))
    assert said.file(victim.name)["status"] == "wrong"


@pytest.mark.parametrize("name", [repos.shard(3), repos.INDEX, "config.json", "tokenizer.json"])
def test_a_listed_file_that_the_engine_needs_and_is_not_there_is_a_failure(
    name: str, nodes: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, two, file = nodes
    (two / name).unlink()
    said = verify(two, tmp_path / "c2", "--manifest", str(file))
    assert said.status == 1, said.told()
    assert any(running.speaks_of(r, [name]) for r in said.results("fail").values()), said.told()


def test_a_missing_last_shard_is_found_without_index_by_the_list_alone(shelf: Path, tmp_path: Path) -> None:
    """`hf cache verify` calls this whole: every file that is there is right."""
    folder = tmp_path / "m"
    files = {n: d for n, d in repos.sharded(index=False).items() if "-of-" not in n}
    files |= {f"part{n}.safetensors": repos.sharded()[repos.shard(n)] for n in (1, 2, 3)}
    build.lay(folder, files)
    assert verify(folder, tmp_path / "c", "--write-manifest", str(tmp_path / "list")).status == 0
    (folder / "part3.safetensors").unlink()
    assert verify(folder, tmp_path / "c").status == 0
    said = verify(folder, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 1, said.told()
    assert running.speaks_of(said.results("fail")["weights-file-missing"], ["part3.safetensors"]), said.told()


def test_a_missing_readme_is_no_failure(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, two, file = nodes
    (two / "README.md").unlink()
    shutil.rmtree(two / "assets")
    said = verify(two, tmp_path / "c2", "--manifest", str(file))
    assert said.status == 0, said.told()
    assert not said.results("warn", "fail"), said.told()
    assert any(running.speaks_of(r, ["README.md"]) for r in said.results("note").values()), said.told()


def test_a_weight_file_that_no_entry_lists_is_told(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """vLLM and SGLang take every file that the index lists; this one it does not, and still it is not the published model's."""
    _, two, file = nodes
    (two / "extra.safetensors").write_bytes(repos.safetensors(["model.norm.weight"], 4))
    said = verify(two, tmp_path / "c2", "--manifest", str(file))
    assert any(running.speaks_of(r, ["extra.safetensors"]) for r in said.results("warn", "fail").values()), said.told()


def test_an_unlisted_weight_file_that_the_engine_would_load_is_a_failure(shelf: Path, tmp_path: Path) -> None:
    one = build.take(shelf, "sharded no index", tmp_path / "one").folder
    assert verify(one, tmp_path / "c", "--write-manifest", str(tmp_path / "list")).status == 0
    (one / "adapter.safetensors").write_bytes(repos.safetensors(["model.norm.weight"], 4))
    said = verify(one, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 1, said.told()
    assert any(running.speaks_of(r, ["adapter.safetensors"]) for r in said.results("fail").values()), said.told()


def test_parts_of_the_work_cover_every_weight_file_once(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, two, file = nodes
    for parts in (1, 2, 3, 5):
        hashed: list[str] = []
        for part in range(1, parts + 1):
            cache = tmp_path / f"c{parts}-{part}"
            said = verify(two, cache, "--manifest", str(file), "--only-shards", f"{part}/{parts}")
            assert said.status == 0, said.told()
            mine = [f["name"] for f in said.report["files"] if f["how"] == "hashed" and f["role"] == "weights"]
            others = [f for f in said.report["files"] if f["role"] == "weights" and f["name"] not in mine]
            assert {f["status"] for f in others} <= {"not-hashed"}, said.told()
            if others:
                assert said.status_of("weights-checksum-mismatch") != "pass", said.told()
            hashed += mine
        assert sorted(hashed) == [repos.shard(n) for n in (1, 2, 3)]


def test_a_fault_is_found_in_exactly_one_part(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, two, file = nodes
    data = bytearray((two / repos.shard(2)).read_bytes())
    data[-5] ^= 1
    (two / repos.shard(2)).write_bytes(data)
    statuses = [
        verify(two, tmp_path / f"c{n}", "--manifest", str(file), "--only-shards", f"{n}/3").status for n in (1, 2, 3)
    ]
    assert sorted(statuses) == [0, 0, 1]


@pytest.mark.parametrize(
    "part", ["0/2", "3/2", "1/0", "-1/2", "a/b", "1", "1/2/3", "", "1/", "/2", "1.5/2", "9" * 40 + "/2"]
)
def test_a_part_that_is_none_is_wrong_usage(part: str, nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    one_line(verify(nodes[1], tmp_path / "c", "--only-shards", part))


def test_nothing_is_recorded_of_a_damaged_folder(nodes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, two, _ = nodes
    os.truncate(two / repos.shard(2), 5000)
    (tmp_path / "old").write_text("kept")
    said = verify(two, tmp_path / "c", "--write-manifest", str(tmp_path / "old"))
    assert said.status == 1
    assert (tmp_path / "old").read_text() == "kept"
    assert str(tmp_path / "old") in said.err


def test_a_list_that_cannot_be_written_is_told_before_hours_of_hashing(
    nodes: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    said = verify(nodes[1], tmp_path / "c", "--write-manifest", str(tmp_path / "gone" / "list"))
    assert "gone" in one_line(said)
    said = verify(nodes[1], tmp_path / "c", "--write-manifest", str(tmp_path))
    one_line(said)


BAD_LISTS = {
    "empty": b"",
    "binary": bytes(range(256)) * 64,
    "html": b"<!DOCTYPE html><html><body>404</body></html>",
    "json of something else": b'{"error": "Repository not found"}',
    "a list of numbers": b"[1, 2, 3]",
    "deep": b"[" * 200_000,
    "cut json": b'{"schema": "ds-doctor.manifest/1", "files": [{"path"',
    "only comments": b"# nothing\n\n",
    "another schema": b'{"schema": "ds-doctor.manifest/99", "files": []}',
    "prose": b"these are the checksums of the model\n" * 5,
}


@pytest.mark.parametrize("name", BAD_LISTS)
def test_what_is_no_list_is_wrong_usage_in_one_line(name: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    (tmp_path / "list").write_bytes(BAD_LISTS[name])
    said = verify(made.folder, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert str(tmp_path / "list") in one_line(said)


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "device", "unreadable"])
def test_a_list_that_cannot_be_read_is_wrong_usage_in_one_line(kind: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    path = tmp_path / "list"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "unreadable":
        path.symlink_to("list")
    said = verify(made.folder, tmp_path / "c", "--manifest", str(path))
    assert "list" in one_line(said)


def test_a_list_that_leads_out_of_the_folder_proves_and_reads_nothing_there(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    secret = tmp_path / "secret.safetensors"
    secret.write_bytes(b"x" * 100)
    digest = build.sha256(b"x" * 100)
    good = build.gnu({n: d for n, d in repos.sharded().items()})
    lines = [f"{digest}  ../../secret.safetensors", f"{digest}  {secret}", f"{digest}  a/../../../secret.safetensors"]
    (tmp_path / "list").write_text(good + "\n".join(lines) + "\n")
    said = verify(made.folder, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status in (0, 2), said.told()
    if said.status == 0:
        assert not [f for f in said.report["files"] if "secret" in f["name"]]
        assert said.results("warn", "note"), said.told()


def test_lines_that_contradict_each_other_are_told(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    wrong = f"{'0' * 64}  {repos.shard(2)}\n"
    (tmp_path / "list").write_text(build.gnu(repos.sharded()) + wrong)
    said = verify(made.folder, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    bad = said.results("warn", "fail")
    assert any(running.speaks_of(r, [repos.shard(2)]) for r in bad.values()), said.told()


def test_a_list_for_another_model_is_not_taken_for_proof(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    (tmp_path / "list").write_text(build.gnu({"other/file.safetensors": b"x", "another.bin": b"y"}))
    said = verify(made.folder, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status in (1, 2), said.told()


def test_a_given_list_outranks_what_the_folder_says_of_itself(shelf: Path, tmp_path: Path) -> None:
    """A hub cache that is whole in itself, but of another revision than the list's."""
    made = build.take(shelf, "hub", tmp_path / "x")
    (tmp_path / "list").write_text(build.gnu(repos.sharded(seed=9)))
    said = verify(made.target, tmp_path / "c", "--manifest", str(tmp_path / "list"))
    assert said.status == 1, said.told()
    assert running.speaks_of(said.results("fail")["weights-checksum-mismatch"], [repos.shard(1)]), said.told()


def test_a_truncated_or_mangled_digest_is_told_and_proves_nothing(shelf: Path, tmp_path: Path) -> None:
    """The documents give "sha256: a7f3e2b9c1d5": twelve digits prove nothing."""
    made = build.take(shelf, "single", tmp_path / "x")
    digest = build.sha256(repos.single()["model.safetensors"])
    for text in (digest[:12], digest[:63], digest + "0", "g" + digest[1:]):
        (made.folder / "SHA256SUMS").write_text(f"{text}  model.safetensors\n{build.sha256(b'x')}  nothing.txt\n")
        said = verify(made.folder, tmp_path / "c")
        assert said.file("model.safetensors")["status"] == "unproven", said.told()
        assert running.speaks_of(said.results("warn", "note")["weights-sums-malformed"], ["SHA256SUMS"]), said.told()
