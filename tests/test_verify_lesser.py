"""What is not as it should be and still loads is a warning or a note: exit status 0, and 1 with --strict where it is a warning."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import verify_builder as build
import verify_faults as faults
import verify_hub as hub
import verify_repos as repos
import verify_run as running


def verify(made: build.Made, cache: Path, *args: str) -> running.Said:
    argv = ["verify", made.target, "--format", "json", *made.args, *args]
    return running.forked(argv, running.environment(cache, made.env))


def told_of(said: running.Said, rule: str, level: str, *names: str) -> None:
    result = said.results().get(f"weights-{rule}")
    assert result is not None and result["status"] == level, f"{rule} is not {level}\n{said.told()}"
    for name in names:
        assert running.speaks_of(result, [name]), f"{rule} does not name {name}\n{said.told()}"


def lesser(said: running.Said, rule: str, level: str, *names: str) -> None:
    told_of(said, rule, level, *names)
    assert said.status == 0, said.told()
    assert not said.results("fail", "error"), said.told()


LEFT: dict[str, tuple[str, Callable[[Path, Path], Path]]] = {
    "aria2": ("sharded", lambda m, r: m / "model-00002-of-00003.safetensors.aria2"),
    "part": ("sharded", lambda m, r: m / "model-00004-of-00004.safetensors.part"),
    "wget tmp": ("sharded", lambda m, r: m / "model.safetensors.tmp"),
    "chrome": ("sharded", lambda m, r: m / "model-00002-of-00003.safetensors.crdownload"),
    "hub": ("hub", lambda m, r: r / "hub" / build.HUB_FOLDER / "blobs" / ("a" * 64 + ".incomplete")),
    "hub with a process's own name": (
        "hub",
        lambda m, r: r / "hub" / build.HUB_FOLDER / "blobs" / ("a" * 64 + ".1f2e3d4c.incomplete"),
    ),
    "local": ("local", lambda m, r: m / ".cache/huggingface/download" / ("xQ2.%s.incomplete" % ("a" * 64))),
    "local in a subfolder": (
        "local",
        lambda m, r: m / ".cache/huggingface/download/assets" / ("xQ2.%s.incomplete" % ("a" * 64)),
    ),
    "modelscope": ("modelscope", lambda m, r: m / "._____temp" / "model-00002-of-00003.safetensors"),
    "modelscope new": ("modelscope new", lambda m, r: m / "model-00002-of-00003.safetensors.incomplete"),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_an_unfinished_download_left_is_a_warning(kind: str, shelf: Path, tmp_path: Path) -> None:
    layout, place = LEFT[kind]
    made = build.take(shelf, layout, tmp_path / "x")
    path = place(made.folder, tmp_path / "x")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * 100)
    said = verify(made, tmp_path / "c")
    lesser(said, "leftovers", "warn", path.name)
    assert verify(made, tmp_path / "c", "--strict").status == 1


def test_a_half_of_another_revision_in_the_same_cache_does_not_concern_this_one(shelf: Path, tmp_path: Path) -> None:
    """It is told, and nothing of this snapshot is called damaged."""
    made = build.take(shelf, "hub", tmp_path / "x")
    (tmp_path / "x" / "hub" / build.HUB_FOLDER / "blobs" / ("b" * 64 + ".incomplete")).write_bytes(b"x")
    said = verify(made, tmp_path / "c")
    assert said.status == 0
    assert said.report["summary"]["proven_files"] == 13


@pytest.mark.parametrize("layout", ["hub", "local", "sums gnu", "manifest hub tree"])
def test_a_changed_document_is_a_note(layout: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, layout, tmp_path / "x")
    made.real("README.md").write_bytes(b"# another text\n")
    said = verify(made, tmp_path / "c")
    lesser(said, "document-changed", "note", "README.md")
    assert not said.results("warn"), said.told()


def test_a_shard_too_many_beside_an_index_is_a_warning(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    (made.folder / "old.safetensors").write_bytes(repos.safetensors(["model.norm.weight"], 4))
    lesser(verify(made, tmp_path / "c"), "extra-shards", "warn", "old.safetensors")


def test_a_wrong_total_is_a_note(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    faults.edit_index(lambda i, m: i["metadata"].update(total_size=5))(made)
    lesser(verify(made, tmp_path / "c"), "total-size", "note", repos.INDEX)


def test_a_tensor_that_the_index_does_not_list_is_a_warning(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    faults.edit_index(lambda i, m: i["weight_map"].pop("model.layers.0.mlp.up_proj.weight"))(made)
    lesser(verify(made, tmp_path / "c"), "tensor-not-indexed", "warn", "model.layers.0.mlp.up_proj.weight")


def test_several_snapshots_are_a_note_and_main_is_judged(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub-several", tmp_path / "x")
    old = tmp_path / "x" / "hub" / build.HUB_FOLDER / "snapshots" / build.OLD
    os.truncate(os.path.realpath(old / repos.shard(2)), 1000)  # not main's
    said = verify(made, tmp_path / "c")
    lesser(said, "several-snapshots", "note", build.COMMIT[:12])
    assert said.report["revision"] == build.COMMIT
    asked = running.forked(
        ["verify", made.target, "--revision", build.OLD, "--format", "json"], running.environment(tmp_path / "c")
    )
    assert asked.status == 1, asked.told()
    assert asked.report["revision"] == build.OLD


def test_several_snapshots_of_which_none_is_main_are_told(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub-several", tmp_path / "x")
    (tmp_path / "x" / "hub" / build.HUB_FOLDER / "refs" / "main").unlink()
    said = verify(made, tmp_path / "c")
    assert said.status == 1, said.told()
    told_of(said, "hub-ref-broken", "fail", build.ID)


def test_records_of_two_revisions_in_one_folder_are_a_warning(shelf: Path, tmp_path: Path) -> None:
    """A second `hf download` of a newer revision that died: some files are of the old commit, some of the new one."""
    made = build.take(shelf, "local", tmp_path / "x")
    record = made.folder / ".cache/huggingface/download" / f"{made.victim}.metadata"
    old = repos.sharded(seed=9)[made.victim]
    (made.folder / made.victim).write_bytes(old)
    record.write_text(f"{build.OLD}\n{build.sha256(old)}\n{os.stat(made.folder / made.victim).st_mtime + 5}\n")
    said = verify(made, tmp_path / "c")
    told_of(said, "revisions-mixed", "warn")
    assert running.speaks_of(said.results()["weights-revisions-mixed"], [build.OLD[:7], made.victim]), said.told()


def test_a_record_of_another_commit_with_the_same_content_is_no_fault(shelf: Path, tmp_path: Path) -> None:
    """What did not change between two commits keeps the record of the older one where it was not asked for again."""
    made = build.take(shelf, "local", tmp_path / "x")
    record = made.folder / ".cache/huggingface/download" / "README.md.metadata"
    lines = record.read_text().splitlines()
    record.write_text("\n".join([build.OLD, *lines[1:]]) + "\n")
    said = verify(made, tmp_path / "c")
    assert said.status == 0, said.told()
    assert not said.results("fail"), said.told()


@pytest.mark.parametrize("text", ["", "x\n", "a\nb\nc\n", f'{build.COMMIT}\nW/"abc"\n1.0\n', "\0" * 50])
def test_a_broken_record_vouches_for_nothing(text: str, shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "local", tmp_path / "x")
    shutil.rmtree(made.folder / ".cache/huggingface/trees")
    (made.folder / ".cache/huggingface/download" / f"{made.victim}.metadata").write_text(text)
    said = verify(made, tmp_path / "c")
    assert said.status == 0, said.told()
    assert said.file(made.victim)["status"] == "unproven", said.told()
    assert said.status_of("weights-checksum-mismatch") == "unknown", said.told()


def test_files_that_were_never_wanted_are_at_most_a_note(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "hub-some", tmp_path / "x")
    said = verify(made, tmp_path / "c")
    assert said.status == 0
    assert not said.results("warn", "fail"), said.told()
    assert said.report["summary"]["proven_files"] == said.report["summary"]["files"]


def test_what_the_hub_lists_and_was_never_downloaded_is_missing(shelf: Path, tmp_path: Path) -> None:
    """A shard that has no index to miss it: the client's own list of the repository does."""
    made = build.take(shelf, "hub", tmp_path / "x")
    for name in (repos.INDEX, repos.shard(3)):
        (made.folder / name).unlink()
    said = verify(made, tmp_path / "c")
    assert said.status == 1, said.told()
    assert any(running.speaks_of(r, [repos.shard(3)]) for r in said.results("fail").values()), said.told()


# ---- who may read it ----


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter: pytest's own are for their user alone."""
    folder = Path(tempfile.mkdtemp(prefix="verify-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def laid(folder: Path, mode: int = 0o644) -> Path:
    made = build.lay(folder / "m", repos.sharded())
    for path in [made, *made.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else mode)
    return made


def as_user(path: Path, user: str, cache: Path) -> running.Said:
    return running.forked(["verify", str(path), "--user", user, "--format", "json"], running.environment(cache))


# Another user than the one who runs the tests, with a name.
OTHER = next(u for u in pwd.getpwall() if u.pw_uid not in (0, os.getuid()) and u.pw_gid != os.getgid())


@pytest.mark.parametrize(
    "user", [OTHER.pw_name, str(OTHER.pw_uid), f"{OTHER.pw_uid}:{OTHER.pw_gid}", "12345", "12345:12345"]
)
def test_the_serving_user_must_be_able_to_read_the_files(user: str, open_folder: Path, tmp_path: Path) -> None:
    folder = laid(open_folder)
    assert as_user(folder, user, tmp_path / "c").status == 0
    (folder / repos.shard(2)).chmod(0o600)
    said = as_user(folder, user, tmp_path / "c")
    assert said.status == 1, said.told()
    told_of(said, "user-cannot-read", "fail", repos.shard(2))


@pytest.mark.parametrize("which", ["m", "above"])
def test_a_folder_that_the_serving_user_cannot_enter_is_a_failure(
    which: str, open_folder: Path, tmp_path: Path
) -> None:
    (open_folder / "above").mkdir()
    folder = laid(open_folder / "above")
    (folder if which == "m" else open_folder / "above").chmod(0o700)
    said = as_user(folder, OTHER.pw_name, tmp_path / "c")
    assert said.status == 1, said.told()
    told_of(said, "user-cannot-read", "fail")


def test_the_owner_and_the_group_may_read(open_folder: Path, tmp_path: Path) -> None:
    folder = laid(open_folder, 0o640)
    uid, gid = os.getuid(), os.getgid()
    for user in (str(uid), f"{uid}:{gid}", f"12345:{gid}"):
        assert as_user(folder, user, tmp_path / "c").status == 0, user
    assert as_user(folder, f"12345:{gid + 77}", tmp_path / "c").status == 1


def test_blobs_that_only_their_owner_may_read_are_a_failure_for_another(
    shelf: Path, open_folder: Path, tmp_path: Path
) -> None:
    made = build.take(shelf, "hub", open_folder / "x")
    made.real(made.victim).chmod(0o600)
    said = as_user(made.folder, OTHER.pw_name, tmp_path / "c")
    assert said.status == 1, said.told()
    told_of(said, "user-cannot-read", "fail", made.victim)


def test_a_user_that_is_not_there_is_wrong_usage(shelf: Path, tmp_path: Path) -> None:
    made = build.take(shelf, "sharded", tmp_path / "x")
    for user in ("no-such-user-x", "1:2:3", "-5", ":", ""):
        said = verify(made, tmp_path / "c", f"--user={user}")
        assert said.status in (2, 0), (user, said.told())
        if said.status == 0:  # told as something that could not be judged
            assert said.status_of("weights-user-cannot-read") == "unknown", (user, said.told())


def test_files_for_all_beside_files_for_their_owner_are_a_note(open_folder: Path, tmp_path: Path) -> None:
    folder = laid(open_folder)
    (folder / repos.shard(3)).chmod(0o600)
    said = running.forked(["verify", str(folder), "--format", "json"], running.environment(tmp_path / "c"))
    lesser(said, "permissions-mixed", "note", repos.shard(3))


# ---- small files ----


def small_fault(shelf: Path, tmp_path: Path, change: Callable[[Path], object]) -> running.Said:
    made = build.take(shelf, "sharded", tmp_path / "x")
    change(made.folder)
    return verify(made, tmp_path / "c")


def test_code_that_the_configuration_names_and_is_not_there_is_told(shelf: Path, tmp_path: Path) -> None:
    config = repos.config(auto_map={"AutoModelForCausalLM": "modeling_small.Small"})
    said = small_fault(shelf, tmp_path, lambda m: (m / "config.json").write_bytes(config))
    assert any(running.speaks_of(r, ["modeling_small.py"]) for r in said.results("fail", "warn", "note").values()), (
        said.told()
    )


def test_a_broken_chat_template_is_told(shelf: Path, tmp_path: Path) -> None:
    for number, text in enumerate((faults.HTML, faults.LFS, b"")):
        folder = tmp_path / str(number)
        said = small_fault(shelf, folder, lambda m, t=text: (m / "chat_template.jinja").write_bytes(t))  # type: ignore[misc]
        bad = said.results("fail", "warn")
        assert any(running.speaks_of(r, ["chat_template.jinja"]) for r in bad.values()), said.told()


def test_no_chat_template_is_no_failure(shelf: Path, tmp_path: Path) -> None:
    """Base models have none, and the engine starts."""

    def drop(m: Path) -> None:
        made = json.loads((m / "tokenizer_config.json").read_text())
        del made["chat_template"]
        (m / "tokenizer_config.json").write_text(json.dumps(made))

    said = small_fault(shelf, tmp_path, drop)
    assert said.status == 0
    assert not said.results("fail", "warn"), said.told()


def test_a_sentence_piece_file_that_is_a_page_or_cut_is_told(shelf: Path, tmp_path: Path) -> None:
    def only(data: bytes) -> Callable[[Path], object]:
        def change(m: Path) -> None:
            (m / "tokenizer.json").unlink()
            (m / "tokenizer.model").write_bytes(data)

        return change

    for number, data in enumerate((faults.HTML, faults.LFS, b"", bytes(5000))):
        said = small_fault(shelf, tmp_path / str(number), only(data))
        assert any(running.speaks_of(r, ["tokenizer.model"]) for r in said.results("fail", "warn").values()), (
            said.told()
        )


def test_a_vision_model_without_its_preprocessor_is_told(shelf: Path, tmp_path: Path) -> None:
    config = repos.config(
        architectures=["LlavaForConditionalGeneration"],
        model_type="llava",
        text_config={"model_type": "llama", "hidden_size": 64},
        vision_config={"model_type": "clip_vision_model", "hidden_size": 64},
    )
    said = small_fault(shelf, tmp_path, lambda m: (m / "config.json").write_bytes(config))
    told = said.results("fail", "warn", "note")
    assert any(running.speaks_of(r, ["preprocessor_config.json"]) for r in told.values()), said.told()


# ---- zeros ----


def tensors(folder: Path, **shapes_and_zeros: object) -> Path:
    import numpy as np
    from safetensors.numpy import save_file

    build.lay(folder, repos.small())
    rng = np.random.default_rng(3)
    made = {
        name: np.zeros(shape, np.float32) if zero else rng.normal(size=shape).astype(np.float32)
        for name, (shape, zero) in shapes_and_zeros.items()  # type: ignore[misc]
    }
    save_file(made, folder / "model.safetensors")
    return folder


def test_a_big_weight_of_zeros_alone_is_a_warning(tmp_path: Path) -> None:
    folder = tensors(
        tmp_path / "m",
        **{
            "a.embed.weight": ((2048, 512), False),
            "b.mlp.up_proj.weight": ((2048, 512), True),
            "c.norm.weight": ((512,), False),
            "d.mlp.down_proj.weight": ((2048, 512), False),
        },
    )
    said = running.forked(["verify", str(folder), "--format", "json"], running.environment(tmp_path / "c"))
    lesser(said, "tensor-zeros", "warn", "b.mlp.up_proj.weight")


def test_a_hole_in_the_middle_of_a_file_is_found(tmp_path: Path) -> None:
    """Downloads in parallel ranges leave the range that died as a hole, whole tensors and parts of them."""
    folder = tensors(
        tmp_path / "m",
        **{f"{c}.mlp.weight": ((2048, 512), False) for c in "abcd"},
    )
    path = folder / "model.safetensors"
    data = path.read_bytes()
    with path.open("r+b") as f:
        f.truncate(6 << 20)
        f.truncate(len(data))
        f.seek(12 << 20)
        f.write(data[12 << 20 :])
    said = running.forked(["verify", str(folder), "--format", "json"], running.environment(tmp_path / "c"))
    assert any(running.speaks_of(r, ["model.safetensors"]) for r in said.results("fail", "warn").values()), said.told()


def test_a_proven_file_of_zeros_is_not_called_damaged(tmp_path: Path) -> None:
    """Its digest is the published one: then it is what was published."""
    folder = tensors(tmp_path / "m", **{"a.weight": ((2048, 512), True), "b.weight": ((2048, 512), True)})
    repo = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    (tmp_path / "list").write_text(json.dumps(hub.model_info(build.ID, build.COMMIT, repo)))
    argv = ["verify", str(folder), "--format", "json", "--manifest", str(tmp_path / "list")]
    said = running.forked(argv, running.environment(tmp_path / "c"))
    assert said.status == 0, said.told()


def test_a_proven_weight_of_zeros_is_no_warning(tmp_path: Path) -> None:
    folder = tensors(
        tmp_path / "m",
        **{"a.weight": ((2048, 512), False), "b.weight": ((2048, 512), True), "c.weight": ((2048, 512), False)},
    )
    repo = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    (tmp_path / "list").write_text(json.dumps(hub.model_info(build.ID, build.COMMIT, repo)))
    argv = ["verify", str(folder), "--format", "json", "--manifest", str(tmp_path / "list")]
    said = running.forked(argv, running.environment(tmp_path / "c"))
    assert said.status == 0, said.told()
    assert not said.results("warn"), said.told()
