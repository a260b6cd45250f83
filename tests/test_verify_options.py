"""Options of `verify` that cannot hold are told before the work, and what it writes goes where it should and nowhere else."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import verify_builder as build
import verify_run as running


@pytest.fixture
def model(shelf: Path, tmp_path: Path) -> Path:
    return Path(build.take(shelf, "sums beside", tmp_path / "m").target)


def verify(model: Path | str, *args: str, **env: str) -> running.Said:
    cache = Path(model).parent / "cache"
    return running.forked(["verify", str(model), *args], running.environment(cache, env))


@pytest.mark.parametrize(
    "args",
    [
        ("--user", "nobody-here"),
        ("--user", "-1"),
        ("--user", "1:2:3"),
        ("--user", str((1 << 32) - 1)),
        ("--revision", "main"),
        ("--only-shards", "１/４"),
    ],
)
def test_an_option_that_cannot_hold_is_one_line_and_status_2(model: Path, args: tuple[str, ...]) -> None:
    said = verify(model, *args)
    assert said.status == 2 and said.out == "" and said.err.count("\n") == 1 and args[0] in said.err, said.told()


@pytest.mark.parametrize("name", ["config.json", "model-00002-of-00003.safetensors", "model.safetensors.index.json"])
@pytest.mark.parametrize("option", ["--output", "--write-manifest"])
def test_no_file_of_a_model_is_overwritten(model: Path, name: str, option: str) -> None:
    before = (model / name).read_bytes()
    said = verify(model, option, ("json=" if option == "--output" else "") + str(model / name))
    assert said.status == 2 and "overwrite" in said.err, said.told()
    assert (model / name).read_bytes() == before


def test_the_manifest_is_not_overwritten_by_the_report(model: Path, tmp_path: Path) -> None:
    sums = tmp_path / "SHA256SUMS"
    assert verify(model, "--write-manifest", str(sums)).status == 0
    said = verify(model, "--manifest", str(sums), "--output", f"json={sums}")
    assert said.status == 2 and "overwrite" in said.err, said.told()


def test_a_report_is_written_anew_over_the_last_one(model: Path, tmp_path: Path) -> None:
    for _ in range(2):
        assert verify(model, "--output", f"json={tmp_path / 'report.json'}").status == 0
    assert json.loads((tmp_path / "report.json").read_bytes())["exit_code"] == 0


def test_a_link_given_for_a_report_is_followed(model: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real.json")
    assert verify(model, "--output", f"json={tmp_path / 'link'}").status == 0
    assert (tmp_path / "link").is_symlink() and json.loads((tmp_path / "real.json").read_bytes())["exit_code"] == 0


def test_an_open_file_of_ours_is_written_to_and_nothing_is_put_in_its_place(model: Path, tmp_path: Path) -> None:
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")  # as /dev/stdout is
    with open(tmp_path / "caught", "wb") as out:
        command = [sys.executable, "-m", "ds_doctor", "verify", str(model), "-q", "--output", f"json={tmp_path}/stdout"]
        env = running.environment(tmp_path / "cache", {})
        assert subprocess.run(command, stdout=out, env=env, check=False).returncode == 0
    assert (tmp_path / "stdout").is_symlink()
    assert json.loads((tmp_path / "caught").read_bytes())["exit_code"] == 0


def test_a_fifo_is_written_to_if_somebody_reads_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    assert verify(model, "--output", f"json={fifo}").status == 0
    reader.join(20)
    assert json.loads(read[0])["exit_code"] == 0
    monkeypatch.setattr("ds_doctor.cli.files.READER_S", 0.2)
    said = verify(model, "--output", f"json={fifo}")
    assert said.status == 3 and "nobody reads" in said.err, said.told()


def test_a_reader_that_is_gone_is_no_damage(model: Path, tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ds_doctor", "verify", str(model)]
    ran = subprocess.run(command, stdout=write, env=running.environment(tmp_path / "cache", {}), check=False)
    os.close(write)
    assert ran.returncode == 141


def test_the_commands_of_a_model_below_a_long_path_are_whole(shelf: Path, tmp_path: Path) -> None:
    deep = tmp_path
    while len(str(deep)) < 400:
        deep /= "d" * 60
    model = Path(build.take(shelf, "sums beside", deep).target)
    shard = model / "model-00002-of-00003.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    said = verify(model, "--format", "json")
    assert said.status == 1
    failed = said.results("fail")
    assert failed and all(
        str(model) in (r["verify"] or str(model)) and "…" not in (r["verify"] or "") for r in failed.values()
    )


def test_long_names_of_files_are_whole_in_the_report(model: Path) -> None:
    name = "n" * 240 + ".txt"
    (model / name).write_text("x")
    assert verify(model, "--format", "json").file(name)["status"] == "unproven"


def test_a_header_too_large_to_look_through_is_not_called_whole(tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    (model / "tokenizer.json").write_text("{}")
    header = b'{"a":' + b"[" * (30 << 20) + b"}"
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    said = verify(model)
    assert said.status == 3 and "WHOLE" not in said.out, said.told()


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("kind", ["fifo", "loop", "device"])
def test_what_an_engine_reads_must_be_a_file(shelf: Path, tmp_path: Path, name: str, kind: str) -> None:
    model = Path(build.take(shelf, "sharded", tmp_path / "m").target)
    (model / name).unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(model / name)
    else:
        (model / name).symlink_to(name if kind == "loop" else "/dev/zero")
    said = verify(model, "--format", "json")
    assert said.status == 1, said.told()
    assert any(running.speaks_of(r, [name]) for r in said.results("fail").values()), said.told()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_what_the_user_may_not_read_is_told_once_and_not_as_a_broken_disk(shelf: Path, tmp_path: Path) -> None:
    private = ["model-00002-of-00003.safetensors", "modeling_own.py"]
    command = [sys.executable, "-m", "ds_doctor", "verify", "--format", "json"]
    env = {**running.environment(tmp_path / "cache", {}), "HOME": "/nonexistent"}
    with tempfile.TemporaryDirectory() as open_to_all:  # pytest's own folders are root's alone
        os.chmod(open_to_all, 0o755)
        model = Path(build.take(shelf, "sums beside", Path(open_to_all) / "m").target)
        (model / "modeling_own.py").write_text("x = 1\n")
        for name in private:
            (model / name).chmod(0o600)
        ran = subprocess.run(
            [*command, str(model)], capture_output=True, env=env, user=65534, group=65534, extra_groups=[], check=False
        )
    results = json.loads(ran.stdout)["results"]
    failed = {r["rule"]: [f["on"] for f in r["findings"]] for r in results if r["status"] == "fail"}
    assert ran.returncode == 3 and failed == {"weights-unreadable": private}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_leaves_nothing_in_the_home_of_another_user(model: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1000, 1000)
    for place in (home, tmp_path / "no-home"):
        env = {k: v for k, v in running.environment(tmp_path / "cache", {}).items() if k != "XDG_CACHE_HOME"}
        command = [sys.executable, "-m", "ds_doctor", "verify", str(model), "-q"]
        ran = subprocess.run(command, capture_output=True, env={**env, "HOME": str(place)}, check=False)
        assert ran.returncode == 0
    assert list(home.iterdir()) == [] and not (tmp_path / "no-home").exists()


def test_the_manifest_of_a_part_is_said_to_be_one(model: Path, tmp_path: Path) -> None:
    said = verify(model, "--only-shards", "1/2", "--no-cache", "--write-manifest", str(tmp_path / "part.json"))
    assert said.status == 0 and "no manifest of the whole model" in said.err, said.told()


def test_files_that_nothing_vouches_for_are_not_called_the_right_ones(shelf: Path, tmp_path: Path) -> None:
    model = Path(build.take(shelf, "sharded", tmp_path / "m").target)
    said = verify(model, "--format", "json")
    assert said.status == 0 and said.status_of("weights-file-changed") == "unknown", said.told()


def test_the_snapshot_of_one_commit_is_no_proof_of_another(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "m")
    commit = made.folder.name
    assert made.folder.parent.name == "snapshots"
    for revision, status in (("main", 0), (commit, 0), (commit[:7], 0), ("f" * 40, 2), ("v2", 2)):
        env = running.environment(tmp_path / "cache", made.env)
        said = running.forked(["verify", str(made.folder), "--revision", revision], env)
        assert said.status == status, said.told()


def test_a_folder_that_is_no_model_is_not_read_through(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    os.mkfifo(tmp_path / "queue")
    said = verify(tmp_path, "--format", "json")
    assert said.status == 1 and said.status_of("weights-none") == "fail"
    assert all(f["how"] is None for f in json.loads(said.out)["files"])


def test_a_manifest_of_other_places_only_is_wrong_usage(model: Path, tmp_path: Path) -> None:
    sums = tmp_path / "SHA256SUMS"
    sums.write_text("".join(f"{n:064x}  {name}\n" for n, name in enumerate(("../../x", "../../etc/passwd"))))
    said = verify(model, "--manifest", str(sums))
    assert said.status == 2 and said.err.count("\n") == 1 and "--manifest" in said.err, said.told()
