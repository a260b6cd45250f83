"""What is right in itself and in the wrong place: another file's blob, another revision's shard, a cache that is not one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import verify_builder as build
import verify_faults as faults
import verify_repos as repos
import verify_run as running


def verify(path: object, cache: Path, *args: str, env: dict[str, str] | None = None) -> running.Said:
    return running.forked(["verify", str(path), "--format", "json", *args], running.environment(cache, env))


def damaged(said: running.Said, *names: str) -> None:
    assert said.status == 1, said.told()
    assert any(running.speaks_of(r, names) for r in said.results("fail").values()), said.told()


def relink(folder: Path, name: str, other: str) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to(os.readlink(folder / other))


@pytest.mark.parametrize("layout", ["hub", "hub-by-file", "hub-shared"])
def test_a_link_to_another_shards_blob_is_damage(layout: str, shelf: Path, tmp_path: Path) -> None:
    """Each blob is what its name says; the wrong one stands under the shard's name."""
    made = build.take(shelf, layout, tmp_path / "x")
    relink(made.folder, repos.shard(2), repos.shard(1))
    damaged(verify(made.target, tmp_path / "c"), repos.shard(2), repos.INDEX)


def test_a_configuration_that_is_another_files_blob_is_damage(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    relink(made.folder, "config.json", "generation_config.json")
    damaged(verify(made.target, tmp_path / "c"), "config.json")


def test_another_revisions_shard_in_this_snapshot_is_damage(shelf: Path, tmp_path: Path) -> None:
    """The same names and shapes, and each blob proves itself: the client's own list of this revision tells them apart."""
    made = build.take(shelf, "hub-several", tmp_path / "x")
    snapshots = tmp_path / "x" / "hub" / build.HUB_FOLDER / "snapshots"
    old = os.readlink(snapshots / build.OLD / repos.shard(2))
    (made.folder / repos.shard(2)).unlink()
    (made.folder / repos.shard(2)).symlink_to(old)
    said = verify(made.target, tmp_path / "c")
    damaged(said, repos.shard(2))
    assert said.file(repos.shard(2))["status"] == "wrong", said.told()


def test_a_real_file_in_place_of_a_link_is_compared_with_the_list(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    path = made.folder / repos.shard(2)
    path.unlink()
    path.write_bytes(repos.sharded(seed=9)[repos.shard(2)])
    damaged(verify(made.target, tmp_path / "c"), repos.shard(2))


def test_a_real_file_where_no_list_vouches_is_not_proven(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub-by-file", tmp_path / "x")
    path = made.folder / repos.shard(2)
    path.unlink()
    path.write_bytes(repos.sharded(seed=9)[repos.shard(2)])
    said = verify(made.target, tmp_path / "c")
    assert said.file(repos.shard(2))["status"] == "unproven", said.told()
    assert said.status_of("weights-checksum-mismatch") != "pass", said.told()


@pytest.mark.parametrize("text", ["", "x" * 40, "../../etc", build.COMMIT + "\n", "0" * 40, "\0", build.COMMIT[:12]])
def test_a_ref_that_leads_nowhere_is_told_and_one_with_a_newline_is_not(text: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub folder", tmp_path / "x")
    (tmp_path / "x" / "hub" / build.HUB_FOLDER / "refs" / "main").write_text(text)
    said = verify(made.target, tmp_path / "c")
    if text.strip() == build.COMMIT:
        assert said.status in (0, 1)
    else:
        assert said.status == 1 or said.report["revision"] == build.COMMIT, said.told()
    assert "Traceback" not in said.err


@pytest.mark.parametrize("gone", ["blobs", "snapshots", "refs"])
def test_a_cache_without_one_of_its_folders_is_told(gone: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub folder", tmp_path / "x")
    shutil.rmtree(tmp_path / "x" / "hub" / build.HUB_FOLDER / gone)
    said = verify(made.target, tmp_path / "c")
    assert said.status == (0 if gone == "refs" else 1), said.told()


def test_a_repository_that_was_only_asked_about_is_not_whole(tmp_path: Path) -> None:
    """A local_dir download leaves `refs/main` alone in the cache."""
    folder = tmp_path / "hub" / build.HUB_FOLDER / "refs"
    folder.mkdir(parents=True)
    (folder / "main").write_text(build.COMMIT)
    for path in (str(folder.parent), build.ID):
        said = verify(path, tmp_path / "c", env={"HF_HUB_CACHE": str(tmp_path / "hub")})
        assert said.status in (1, 2), said.told()


def test_a_hub_id_that_is_not_in_the_cache_is_wrong_usage(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub id", tmp_path / "x")
    said = verify("org/other", tmp_path / "c", env=made.env)
    assert said.status == 2 and len(said.err.strip().splitlines()) == 1, said.told()


def test_a_partly_downloaded_repository_without_its_list_is_judged_by_its_index(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub-by-file", tmp_path / "x")
    for name in (repos.shard(2), repos.shard(3)):
        os.unlink(os.path.realpath(made.folder / name))
        (made.folder / name).unlink()
    damaged(verify(made.target, tmp_path / "c"), repos.shard(2))


def test_an_interrupted_download_is_found_missing(shelf: Path, tmp_path: Path) -> None:
    """As it lies on disk after Ctrl-C: the half under its own name, no link in the snapshot."""
    made = build.take(shelf, "hub", tmp_path / "x")
    blob = Path(os.path.realpath(made.folder / repos.shard(2)))
    (made.folder / repos.shard(2)).unlink()
    os.truncate(blob, 5000)
    blob.rename(blob.with_name(blob.name + ".incomplete"))
    said = verify(made.target, tmp_path / "c")
    damaged(said, repos.shard(2))
    assert said.status_of("weights-leftovers") == "warn", said.told()


def test_an_interrupted_download_into_a_folder_is_found_missing(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "local", tmp_path / "x")
    (made.folder / repos.shard(2)).unlink()
    records = made.folder / ".cache/huggingface/download"
    (records / f"{repos.shard(2)}.metadata").unlink()
    (records / ("xQ2.%s.incomplete" % ("a" * 64))).write_bytes(b"x" * 100)
    said = verify(made.folder, tmp_path / "c")
    damaged(said, repos.shard(2))
    assert said.status_of("weights-leftovers") == "warn", said.told()


def test_a_file_edited_after_its_download_is_told(shelf: Path, tmp_path: Path) -> None:
    """The client forgets its record when the file is younger; the content is not the published one all the same."""
    made = build.take(shelf, "local", tmp_path / "x")
    faults.changed_config(made)
    os.utime(made.folder / "config.json", (2_000_000_000, 2_000_000_000))
    damaged(verify(made.folder, tmp_path / "c"), "config.json")


def test_local_folders_one_in_the_other_are_judged_by_their_own_records(shelf: Path, tmp_path: Path) -> None:
    """`--local-dir models/` for one, `models/sub` for another."""
    outer = build.take(shelf, "local", tmp_path / "x").folder
    shutil.copytree(shelf / "local" / "m", outer / "sub", symlinks=True)
    said = verify(outer / "sub", tmp_path / "c")
    assert said.status == 0 and said.report["summary"]["proven_files"] == 13, said.told()


def test_a_subfolder_of_a_download_is_proven_by_the_records_above_it(tmp_path: Path, shelf: Path) -> None:
    made = build.take(shelf, "local", tmp_path / "x")
    said = verify(made.folder / "assets", tmp_path / "c")
    assert said.status in (1, 2), said.told()  # no model there


def test_two_sources_that_disagree_are_told(shelf: Path, tmp_path: Path) -> None:
    """The blob's name says one digest, the SHA256SUMS that was published with it another."""
    made = build.take(shelf, "sums gnu", tmp_path / "x")
    text = (made.folder / "SHA256SUMS").read_text()
    due = build.sha256(repos.sharded()[repos.shard(2)])
    (made.folder / "more.sha256").write_text(f"{'0' * 64}  {repos.shard(2)}\n")
    said = verify(made.folder, tmp_path / "c")
    assert due in text
    assert said.status in (0, 1), said.told()
    assert running.speaks_of(said.results("warn", "fail")["weights-sums-conflict"], [repos.shard(2)]), said.told()


def test_a_deepseek_folder_is_held_against_its_48_shards(tmp_path: Path) -> None:
    """The documents say 12 files, or one; the published checkpoint has 48."""
    made = repos.sharded(12)
    config = json.loads(repos.config()) | {"model_type": "deepseek_v41", "architectures": ["DeepseekV41ForCausalLM"]}
    build.lay(tmp_path / "m", made | {"config.json": json.dumps(config).encode()})
    said = verify(tmp_path / "m", tmp_path / "c")
    told = said.results("fail", "warn", "note")
    assert any("48" in running.names_in(r) for r in told.values()), said.told()


@pytest.mark.parametrize("layout", ["sharded", "hub", "local", "gguf", "torch"])
def test_run_reports_the_quick_part_and_never_calls_content_proven_unread(
    layout: str, shelf: Path, tmp_path: Path
) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    env = running.environment(tmp_path / "c", made.env)
    argv = ["run", "--model", made.target, "--only", "weights", "--format", "json"]
    first = running.forked(argv, env)
    checksum = first.results()["weights-checksum-mismatch"]
    assert checksum["status"] == "unknown", first.told()
    assert "ds-doctor verify" in checksum["reason"] or "not provable" in checksum["reason"], checksum["reason"]
    assert not first.results("fail"), first.told()
    running.settle()
    assert running.forked(["verify", made.target], env).status == 0
    second = running.forked(argv, env)
    expected = "pass" if made.layout.vouched else "unknown"
    assert second.status_of("weights-checksum-mismatch") == expected, second.told()
    change = made.real(made.victim)
    os.utime(change, ns=(1, 1))
    third = running.forked(argv, env)
    assert third.status_of("weights-checksum-mismatch") == "unknown", third.told()


@pytest.mark.parametrize("layout", ["hub", "local", "sums gnu"])
def test_run_with_verify_weights_reads_it_all(layout: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    env = running.environment(tmp_path / "c", made.env)
    argv = ["run", "--model", made.target, "--only", "weights", "--format", "json", "--verify-weights"]
    said = running.forked(argv, env)
    assert said.status_of("weights-checksum-mismatch") == "pass", said.told()
    faults.flip(lambda n: n // 2)(made)
    said = running.forked(argv, env)
    assert said.status_of("weights-checksum-mismatch") == "fail", said.told()
    assert said.status == 1
    assert running.speaks_of(said.results()["weights-checksum-mismatch"], [made.victim])


def test_the_report_is_of_the_published_shape(shelf: Path, tmp_path: Path) -> None:
    import jsonschema

    schema = json.loads(running.program(["schema", "verify"], running.environment(tmp_path / "c")).out)
    for layout, fault in (("hub", None), ("sharded", "half"), ("gguf", "empty"), ("hub", "flip"), ("torch", None)):
        made = build.take(shelf, layout, tmp_path / f"{layout}{fault}")
        if fault == "half":
            faults.cut(lambda n: n // 2)(made)
        elif fault == "empty":
            faults.write(b"")(made)
        elif fault:
            faults.flip(lambda n: n // 2)(made)
        for more in ([], ["--quick"], ["--lang", "zh"]):
            report = verify(made.target, tmp_path / "c", *more, env=made.env).report
            jsonschema.validate(report, schema)
            assert report["schema"] == "ds-doctor.verify/1"
            rules = [r["rule"] for r in report["results"]]
            assert len(rules) == len(set(rules)) and all(r.startswith("weights-") for r in rules)
            assert sum(report["counts"].values()) == len(rules)


def test_a_report_is_written_beside_what_is_shown(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    out = tmp_path / "report.json"
    said = running.program(["verify", made.target, "--output", f"json={out}"], running.environment(tmp_path / "c"))
    assert said.status == 0
    assert json.loads(out.read_text())["exit_code"] == 0
    assert "PROVEN" in said.out


def test_quiet_says_nothing_of_a_proven_folder_and_strict_wants_proof(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    env = running.environment(tmp_path / "c")
    said = running.program(["verify", made.target, "-q"], env)
    assert (said.status, said.out, said.err) == (0, "", "")
    assert running.program(["verify", made.target, "--strict"], env).status == 0
    plain = build.take(shelf, "sharded", tmp_path / "y")
    assert running.program(["verify", plain.target], env).status == 0
    assert running.program(["verify", plain.target, "--strict"], env).status == 3


def test_plain_python_starts_without_a_terminal_or_a_locale(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = running.program(["verify", made.target], env)
    assert said.status == 0, said.err
    assert "\x1b" not in said.out + said.err


def test_a_blob_given_by_its_own_path_is_held_against_its_name(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub", tmp_path / "x")
    blob = made.real(made.victim)
    assert verify(blob, tmp_path / "c").status == 0
    faults.flip(lambda n: n // 2)(made)
    damaged(verify(blob, tmp_path / "c"), blob.name)


@pytest.mark.parametrize("prefix", ["m/", "Other-Model/", "/data/models/m/", "./"])
def test_a_list_made_from_above_the_folder_is_of_this_folder(prefix: str, shelf: Path, tmp_path: Path) -> None:
    """`sha256sum m/*` run one folder up, or on another machine."""
    made = build.take(shelf, "sharded", tmp_path / "x")
    lines = [f"{build.sha256(d)}  {prefix}{n}\n" for n, d in repos.sharded().items()]
    (made.folder / "SHA256SUMS").write_text("".join(lines))
    said = verify(made.folder, tmp_path / "c")
    assert said.status == 0, said.told()
    assert not said.results("fail", "warn"), said.told()
    assert said.status_of("weights-checksum-mismatch") == "pass", said.told()
