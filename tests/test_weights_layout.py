"""What vouches for a model's files is found in every layout that a downloader leaves, and nothing is missed that is there."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import weights_builder as build
from ds_doctor import engine
from ds_doctor.host import Asked, Host
from ds_doctor.model import Absent, Outcome, Reason, Result
from ds_doctor.probes import _checksum_look
from ds_doctor.probes.checksums import Checksums, ModelFile, Vouching
from ds_doctor.probes.model_folder import ModelFolder, model_folder
from ds_doctor_checks._repair import repair
from support import doctor, module_checks

COMMIT, OTHER = build.COMMIT, "f" * 40
TREES = f"trees/{COMMIT}.json"
LOST, BLOB = build.shard(2, 3), "blobs/"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def git_sha1(path: Path) -> str:
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def etag(path: Path) -> str:
    return sha256(path) if path.suffix == ".safetensors" else git_sha1(path)


def tree_of(folder: Path) -> str:
    files: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and ".cache" not in p.parts):
        one: dict[str, Any] = {"size": path.stat().st_size, "blob_id": git_sha1(path)}
        if path.suffix == ".safetensors":
            one |= {"blob_id": "0" * 40, "lfs_sha256": sha256(path), "lfs_size": one["size"], "xet_hash": "1" * 64}
        files[str(path.relative_to(folder))] = one
    return json.dumps({"format_version": 1, "files": files})


def local_dir(folder: Path, home: str = ".cache/huggingface", tree: bool = False, commit: str = COMMIT) -> Path:
    """As hf download --local-dir leaves it."""
    build.sharded(folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    listed = tree_of(folder)
    for path in files:
        record = folder / home / "download" / f"{path.relative_to(folder)}.metadata"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(f"{commit}\n{etag(path)}\n{time.time()}\n")
        record.with_suffix(".lock").touch()
    if tree:
        (folder / home / "trees").mkdir()
        (folder / home / TREES).write_text(listed)
    return folder


def hub(cache: Path, tree: bool = True) -> Path:
    """A repository's folder in the cache, with the list that the downloader keeps since version 2."""
    snapshot = build.hub(cache)
    repo = snapshot.parent.parent
    if tree:
        (repo / "trees").mkdir()
        files = {
            p.name: {
                "size": p.stat().st_size,
                "blob_id": "0" * 40,
                "lfs_sha256": sha256(p),
                "lfs_size": p.stat().st_size,
            }
            for p in snapshot.iterdir()
        }
        (repo / TREES).write_text(json.dumps({"format_version": 1, "files": files}))
    return repo


def snapshot_of(repo: Path) -> Path:
    return repo / "snapshots" / COMMIT


def look(model: Any, manifest: Path | None = None, revision: str | None = None, **env: str) -> tuple[Host, Vouching]:
    asked = Asked(model=str(model), manifest=None if manifest is None else str(manifest), revision=revision)
    host = Host(asked, {"HOME": "/nonexistent"} | env)
    return host, _checksum_look.look_at(host)


def fact_of(vouching: Vouching) -> Checksums:
    fact = _checksum_look.counted(vouching)
    assert msgspec.json.decode(msgspec.json.encode(fact), type=Checksums) == fact  # nothing in it breaks JSON
    return fact


def judge(host: Host, vouching: Vouching) -> dict[str, Result]:
    checks = [c for c in module_checks("weights") if c.judge.__module__.endswith("weights_layout")]
    rules = {r for c in checks for r in c.rules}
    nothing = {f: Outcome(None, "absent", Reason("no-command")) for f in engine.wanted(checks)}
    facts = {**nothing, ModelFolder: Outcome(model_folder(host)), Checksums: Outcome(fact_of(vouching))}
    return {r.rule: r for r in engine.judge(checks, facts, doctor().catalogue, rules)}


def faults(model: Any, manifest: Path | None = None, **env: str) -> dict[str, list[str | None]]:
    """The rules that are broken, and on what."""
    results = judge(*look(model, manifest, **env))
    assert not [r for r in results.values() if r.status == "error"]
    said = {k: r for k, r in results.items() if r.status in ("fail", "warn", "note")}
    return {k.removeprefix("weights-"): [f.on for f in r.findings] for k, r in said.items()}


def of(vouching: Vouching, name: str) -> ModelFile:
    (file,) = [f for f in vouching.files if f.name == name]
    return file


def right(vouching: Vouching) -> dict[str, bool | None]:
    """Of each file whether its content is the one that is due; None: nothing says."""
    found: dict[str, bool | None] = {}
    for file in vouching.files:
        path = Path(file.path)
        digests = {"sha256": sha256(path), "git-sha1": git_sha1(path)}
        found[file.name] = all(digests[e.algorithm] == e.digest for e in file.expected) if file.expected else None
    return found


def test_every_file_of_a_snapshot_is_vouched_for_by_its_blob_and_the_list_of_its_commit(tmp_path: Path) -> None:
    repo = hub(tmp_path)
    _, vouching = look(repo)
    assert (vouching.layout, vouching.repo, vouching.revision) == ("hub-cache", "org/name", COMMIT)
    assert len(vouching.files) == 9 and all(right(vouching).values())
    assert [e.source for e in of(vouching, LOST).expected] == ["hub-blob", "hub-tree"]
    assert of(vouching, LOST).size_due == of(vouching, LOST).size
    assert faults(repo) == {}


@pytest.mark.parametrize("home", [".cache/huggingface", ".huggingface"])
@pytest.mark.parametrize("tree", [True, False])
def test_every_file_of_a_local_dir_is_vouched_for_by_its_record(tmp_path: Path, home: str, tree: bool) -> None:
    folder = local_dir(tmp_path / "m", home, tree)
    _, vouching = look(folder)
    assert (vouching.layout, vouching.revision) == ("local-dir", COMMIT)
    assert len(vouching.files) == 9 and all(right(vouching).values())
    assert {f.role for f in vouching.files} == {"weights", "config", "other"}
    assert faults(folder) == {}


Given = Callable[[Path], tuple[str | Path, dict[str, str]]]
WAYS: dict[str, Given] = {
    "the snapshot": lambda c: (c / "models--org--name/snapshots" / COMMIT, {}),
    "the repository's folder": lambda c: (c / "models--org--name", {}),
    "the cache": lambda c: (c, {}),
    "the id": lambda c: ("org/name", {"HF_HUB_CACHE": str(c)}),
    "the cache through a link": lambda c: (link(c.parent / "link", c) / "models--org--name", {}),
}


def link(path: Path, to: Path) -> Path:
    path.symlink_to(to)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_a_snapshot_is_found_whichever_way_it_is_named(tmp_path: Path, way: str) -> None:
    hub(tmp_path / "hub")
    model, env = WAYS[way](tmp_path / "hub")
    _, vouching = look(model, **env)
    assert (vouching.layout, vouching.revision, len(vouching.files)) == ("hub-cache", COMMIT, 9)
    assert all(right(vouching).values())
    assert faults(model, **env) == {}


def test_home_of_the_hub_leads_to_the_only_model_in_its_cache(tmp_path: Path) -> None:
    hub(tmp_path / "hub")
    assert look(tmp_path)[1].revision == COMMIT
    shutil.copytree(tmp_path / "hub/models--org--name", tmp_path / "hub/models--org--other", symlinks=True)
    assert look(tmp_path)[1].layout == "plain"


@pytest.mark.parametrize("revision", ["v1", "refs/pr/1", OTHER, OTHER[:8], "feature/x"])
def test_a_revision_leads_to_its_snapshot(tmp_path: Path, revision: str) -> None:
    repo = hub(tmp_path)
    shutil.copytree(snapshot_of(repo), repo / "snapshots" / OTHER, symlinks=True)
    for ref in ("v1", "refs/pr/1", "feature/x"):
        (repo / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (repo / "refs" / ref).write_text(OTHER)
    assert look(repo, revision=revision)[1].revision == OTHER
    assert look(repo)[1].revision == COMMIT
    result = judge(*look(repo))["weights-several-snapshots"]
    assert result.status == "note" and "refs/pr/1 = ffffffffffff" in str(result.findings[0].data["refs"])


@pytest.mark.parametrize("revision", ["v2", "../../etc/passwd", "60c4d3a1b5f0ffff", ""])
def test_a_revision_that_is_not_there_leads_nowhere(tmp_path: Path, revision: str) -> None:
    repo = hub(tmp_path)
    host, vouching = look(repo, revision=revision)
    if revision:
        assert model_folder(host).hub.problem is not None  # type: ignore[union-attr]
        assert vouching.files == ()
    else:
        assert vouching.revision == COMMIT


def test_a_file_that_the_commit_lists_and_that_is_not_there_is_missed(tmp_path: Path) -> None:
    repo = hub(tmp_path)
    (snapshot_of(repo) / LOST).unlink()
    # The index says the same of it: once is enough.
    assert faults(repo) == {}
    (snapshot_of(repo) / "model.safetensors.index.json").unlink()
    (snapshot_of(repo) / "README.md").unlink()
    assert faults(repo) == {"file-missing": [LOST], "left-out": [str(snapshot_of(repo))]}
    (snapshot_of(repo) / "generation_config.json").unlink()
    assert faults(repo)["config-left-out"] == ["generation_config.json"]


def test_a_link_to_a_blob_that_is_not_there_is_missed_whatever_it_is(tmp_path: Path) -> None:
    repo = hub(tmp_path, tree=False)
    (snapshot_of(repo) / "modeling_x.py").symlink_to("../../blobs/" + "a" * 40)
    assert faults(repo) == {"file-missing": ["modeling_x.py"]}


def test_what_was_downloaded_and_is_gone_is_missed(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    (folder / "model.safetensors.index.json").unlink()
    (folder / LOST).unlink()
    assert faults(folder) == {"file-missing": [LOST], "config-left-out": ["model.safetensors.index.json"]}


def test_another_format_of_the_same_weights_is_not_missed(tmp_path: Path) -> None:
    repo = hub(tmp_path)
    listed = json.loads((repo / TREES).read_text())
    for name in (
        "pytorch_model-00001-of-00002.bin",
        "consolidated.safetensors",
        "original/consolidated.00.pth",
        "m.Q4_K_M.gguf",
    ):
        listed["files"][name] = {"size": 5, "blob_id": "0" * 40, "lfs_sha256": "a" * 64, "lfs_size": 5}
    (repo / TREES).write_text(json.dumps(listed))
    assert faults(repo) == {"left-out": [str(snapshot_of(repo))]}


def test_a_record_for_weights_in_another_format_that_were_removed_is_no_fault(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    record = folder / ".cache/huggingface/download/pytorch_model.bin.metadata"
    record.write_text(f"{COMMIT}\n{'a' * 64}\n1.0\n")
    assert faults(folder) == {"left-out": [str(folder)]}


def test_a_size_that_differs_from_the_list_is_found_without_hashing(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m", tree=True)
    with (folder / LOST).open("ab") as f:
        f.write(b"\0" * 8)
    (folder / "README.md").write_text("another")
    assert faults(folder) == {"size-differs": [LOST]}


def test_records_of_two_commits_are_two_revisions(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    record = folder / f".cache/huggingface/download/{LOST}.metadata"
    record.write_text(record.read_text().replace(COMMIT, OTHER))
    assert faults(folder) == {"revisions-mixed": [LOST]}
    # A document of another commit changes nothing that is loaded.
    record.write_text(record.read_text().replace(OTHER, COMMIT))
    record = folder / ".cache/huggingface/download/README.md.metadata"
    record.write_text(record.read_text().replace(COMMIT, OTHER))
    assert faults(folder) == {}


def test_records_of_two_commits_of_the_same_files_are_one_revision(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m", tree=True)
    record = folder / f".cache/huggingface/download/{LOST}.metadata"
    record.write_text(record.read_text().replace(COMMIT, OTHER))
    assert faults(folder) == {}


def test_a_blob_that_the_commit_does_not_have_is_of_another_revision(tmp_path: Path) -> None:
    repo = hub(tmp_path)
    link = snapshot_of(repo) / LOST
    other = build.safetensors(["model.layers.2.q_proj.weight"])
    digest = hashlib.sha256(other).hexdigest()
    (repo / "blobs" / digest).write_bytes(other)
    link.unlink()
    link.symlink_to(f"../../blobs/{digest}")
    assert set(faults(repo)) == {"revisions-mixed", "size-differs"}
    assert right(look(repo)[1])[LOST] is False


LISTS: dict[str, Callable[[Path], str]] = {
    "SHA256SUMS": lambda m: "".join(f"{sha256(p)}  {p.name}\n" for p in sorted(m.iterdir())),
    "sha256sum.txt": lambda m: "".join(f"{sha256(p).upper()} *./{p.name}\r\n" for p in sorted(m.iterdir())),
    "checksums.txt": lambda m: "".join(f"SHA256 ({p.name}) = {sha256(p)}\n" for p in sorted(m.iterdir())),
    # Made from the folder above, or with absolute names.
    "model.sha256": lambda m: "".join(f"{sha256(p)}  {m.name}/{p.name}\n" for p in sorted(m.iterdir())),
    "x.sha256sums": lambda m: "".join(f"{sha256(p)}  {p}\n" for p in sorted(m.iterdir())),
    "far.sha256sums": lambda m: "".join(f"{sha256(p)}  /mnt/other/model/{p.name}\n" for p in sorted(m.iterdir())),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_checksum_file_vouches_for_the_files_beside_it(tmp_path: Path, name: str) -> None:
    folder = build.sharded(tmp_path / "my model")
    (folder / name).write_text(LISTS[name](folder))
    _, vouching = look(folder)
    assert {f.name for f in vouching.files if not f.expected} == {name}
    assert of(vouching, name).role == "other"
    assert set(right(vouching).values()) == {True, None}
    assert faults(folder) == {}
    (folder / LOST).unlink()
    (folder / "model.safetensors.index.json").unlink()
    assert set(faults(folder)["file-missing"]) == {LOST, "model.safetensors.index.json"}


def test_one_checksum_file_beside_each_shard_vouches_for_it(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    for path in sorted(folder.glob("*.safetensors")):
        (folder / f"{path.name}.sha256").write_text(sha256(path) + "\n")
    _, vouching = look(folder)
    assert {n for n, ok in right(vouching).items() if ok} == {build.shard(n, 3) for n in (1, 2, 3)}
    _, alone = look(folder / LOST)
    assert [(f.name, f.expected[0].source) for f in alone.files] == [(LOST, "sums")]


def test_a_checksum_file_in_a_subfolder_speaks_of_that_folder(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    (folder / "original").mkdir()
    (folder / "original/consolidated.00.pth").write_bytes(b"x")
    (folder / "original/checklist.chk").write_text(f"{hashlib.md5(b'x').hexdigest()}  consolidated.00.pth\n")
    file = of(look(folder)[1], "original/consolidated.00.pth")
    assert [(e.algorithm, e.where) for e in file.expected] == [("md5", "original/checklist.chk")]


def test_a_list_of_absolute_names_that_are_not_here_leads_nowhere(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    for text in (
        f"{'a' * 64}  /etc/passwd\n",
        f"{'a' * 64}  /x/../{LOST}\n",
        f"{'a' * 64}  /x/{LOST}\n{'b' * 64}  ../y\n",
    ):
        (folder / "SHA256SUMS").write_text(text)
        assert faults(folder) == {"sums-malformed": ["SHA256SUMS"]}


def test_a_list_that_cannot_be_read_and_lists_that_contradict_are_told(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    (folder / "SHA256SUMS").write_text("<html>not found</html>\n")
    assert faults(folder) == {"sums-malformed": ["SHA256SUMS"]}
    (folder / "SHA256SUMS").write_text(f"{'a' * 64}  {LOST}\n")
    (folder / f"{LOST}.sha256").write_text("b" * 64)
    assert faults(folder) == {"sums-conflict": [LOST]}


def manifest_of(folder: Path, to: Path) -> Path:
    to.write_text("".join(f"{sha256(p)}  {p.name}\n" for p in sorted(folder.iterdir())))
    return to


def test_a_manifest_finds_what_is_missing_and_what_is_too_much(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m", index=False)
    given = manifest_of(folder, tmp_path / "list")
    assert faults(folder, given) == {}
    (folder / "tokenizer.json").unlink()
    (folder / "README.md").unlink()
    (folder / "model-extra.safetensors").write_bytes(build.safetensors(["x"]))
    (folder / "adapter_model.safetensors").write_bytes(build.safetensors(["y"]))
    assert faults(folder, given) == {
        "file-missing": ["tokenizer.json"],
        "left-out": [str(folder)],
        "unlisted": ["model-extra.safetensors"],
        "unlisted-beside": ["adapter_model.safetensors"],
    }


def test_a_manifest_of_the_hub_lists_more_than_is_needed(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    listed = [
        {"type": "file", "path": p.name, "size": p.stat().st_size, "oid": git_sha1(p)} for p in sorted(folder.iterdir())
    ]
    listed.append(
        {"type": "file", "path": "pytorch_model.bin", "size": 5, "oid": "0" * 40, "lfs": {"oid": "a" * 64, "size": 5}}
    )
    given = tmp_path / "tree.json"
    given.write_text(json.dumps(listed))
    assert faults(folder, given) == {"left-out": [str(folder)]}
    assert all(right(look(folder, given)[1]).values())


def test_a_manifest_that_is_none_is_told(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    given = tmp_path / "list.json"
    for text in ("{", "", "hello"):
        given.write_text(text)
        results = judge(*look(folder, given))
        assert results["weights-sums-malformed"].status == "warn"
        assert results["weights-unlisted"].status == results["weights-file-missing"].status == "unknown"
    assert judge(*look(folder, tmp_path / "none"))["weights-sums-malformed"].status == "warn"


def test_a_link_out_of_the_repository_is_found(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub", tree=False)
    aside = tmp_path / "aside.safetensors"
    shutil.copy(snapshot_of(repo) / LOST, aside)
    (snapshot_of(repo) / LOST).unlink()
    (snapshot_of(repo) / LOST).symlink_to(aside)
    assert faults(repo) == {"link-escapes": [LOST]}
    other = tmp_path / "hub/models--org--other/blobs"
    other.mkdir(parents=True)
    shutil.copy(aside, other / ("a" * 64))
    (snapshot_of(repo) / LOST).unlink()
    (snapshot_of(repo) / LOST).symlink_to(other / ("a" * 64))
    assert faults(repo) == {"link-escapes": [LOST]}
    result = judge(*look(repo))["weights-link-escapes"].findings[0].data["repair"]
    assert result.startswith(f"rm -f {snapshot_of(repo)}/{LOST} && hf download org/name {LOST} --revision {COMMIT}")


def test_links_that_downloaders_make_are_no_escape(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub")
    for path in list(snapshot_of(repo).iterdir()):
        target = os.path.realpath(path)
        path.unlink()
        path.symlink_to(target)  # absolute, as made across file systems
    assert faults(repo) == {}
    moved = tmp_path / "copy/models--org--name"
    shutil.copytree(repo, moved, symlinks=True)  # its links lead to the first cache still
    assert faults(moved) == {}
    # The store that repositories share since 2.4: a blob is a link itself.
    blob = Path(os.path.realpath(snapshot_of(repo) / LOST))
    store = tmp_path / "hub/blobs/ab"
    store.mkdir(parents=True)
    os.replace(blob, store / ("ab" + "c" * 62))
    blob.symlink_to(f"../../blobs/ab/ab{'c' * 62}")
    assert faults(repo) == {}
    assert right(look(repo)[1])[LOST]


def test_a_folder_of_links_to_blobs_is_vouched_for_by_them(tmp_path: Path) -> None:
    """As --local-dir was filled before version 0.23."""
    repo = hub(tmp_path / "hub", tree=False)
    folder = tmp_path / "m"
    folder.mkdir()
    for path in snapshot_of(repo).iterdir():
        (folder / path.name).symlink_to(os.path.relpath(os.path.realpath(path), folder))
    _, vouching = look(folder)
    assert vouching.layout == "plain" and all(right(vouching).values())
    assert faults(folder) == {}
    # Links to the snapshot's links.
    for path in snapshot_of(repo).iterdir():
        (folder / path.name).unlink()
        (folder / path.name).symlink_to(path)
    assert all(right(look(folder)[1]).values())
    assert faults(folder) == {}


def test_a_link_out_of_a_plain_folder_is_worth_a_note(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    os.replace(folder / LOST, tmp_path / "x")
    (folder / LOST).symlink_to("../x")
    assert faults(folder) == {"link-outside": [LOST]}


def test_a_snapshot_copied_with_its_links_followed_is_vouched_for_by_nothing_but_its_list(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub")
    shutil.copytree(snapshot_of(repo), tmp_path / "m")
    _, vouching = look(tmp_path / "m")
    assert vouching.layout == "plain" and set(right(vouching).values()) == {None}
    shutil.copytree(repo, tmp_path / "copy/models--org--name")
    _, vouching = look(tmp_path / "copy/models--org--name")
    assert vouching.copied and all(right(vouching).values())
    assert [e.source for e in of(vouching, LOST).expected] == ["hub-tree"]
    assert faults(tmp_path / "copy") == {}


def test_files_that_are_hard_links_to_blobs_are_vouched_for_by_them(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub", tree=False)
    for path in list(snapshot_of(repo).iterdir()):
        blob = os.path.realpath(path)
        path.unlink()
        os.link(blob, path)
    _, vouching = look(repo)
    assert all(right(vouching).values())


def modelscope(folder: Path, protocol: int = 4) -> Path:
    """As modelscope up to 1.37 leaves it."""
    build.sharded(folder)
    fetched = [{"Path": p.name, "Revision": OTHER} for p in sorted(folder.iterdir())]
    (folder / ".msc").write_bytes(pickle.dumps(fetched, protocol))
    (folder / ".mdl").write_bytes(pickle.dumps({"id": "Qwen/Qwen3___5-0___8B"}, protocol))
    (folder / ".mv").write_text("Revision:v1.0,CreatedAt:1718000000")
    return folder


@pytest.mark.parametrize("protocol", range(6))
def test_modelscopes_notes_are_read_in_every_protocol(tmp_path: Path, protocol: int) -> None:
    folder = modelscope(tmp_path / "m", protocol)
    _, vouching = look(folder)
    assert (vouching.layout, vouching.repo, vouching.revision) == ("modelscope", "Qwen/Qwen3.5-0.8B", "v1.0")
    assert len(vouching.files) == 9 and set(right(vouching).values()) == {None}
    assert faults(folder) == {}
    (folder / LOST).unlink()
    (folder / "model.safetensors.index.json").unlink()
    assert faults(folder) == {"file-missing": [LOST], "config-left-out": ["model.safetensors.index.json"]}
    finding = judge(*look(folder))["weights-file-missing"].findings[0]
    path = f"{folder}/{LOST}"
    assert finding.data["repair"] == (
        f"rm -f {path} && modelscope download --model Qwen/Qwen3.5-0.8B {LOST} --revision v1.0 --local_dir {folder}"
    )


class Evil:
    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.where),))

    def __init__(self, where: Path) -> None:
        self.where = where


def test_a_pickle_of_modelscope_is_never_run(tmp_path: Path) -> None:
    folder = modelscope(tmp_path / "m")
    (folder / ".msc").write_bytes(pickle.dumps([Evil(tmp_path / "evil")]))
    (folder / ".mdl").write_bytes(b"\x80\x04\x95" + b"\xff" * 40)
    _, vouching = look(folder)
    assert vouching.layout == "modelscope" and vouching.repo is None
    assert not (tmp_path / "evil").exists()
    assert faults(folder) == {}


@pytest.mark.parametrize(
    "at", ["models/org--name/snapshots/master", "models/org/na___me", "hub/models/org/na___me", "hub/org/na___me"]
)
def test_an_id_is_found_in_modelscopes_cache(tmp_path: Path, at: str) -> None:
    name = "org/name" if "--" in at else "org/na.me"
    build.sharded(tmp_path / "modelscope" / at)
    _, vouching = look(name, MODELSCOPE_CACHE=str(tmp_path / "modelscope"))
    assert vouching.root == str(tmp_path / "modelscope" / at) and len(vouching.files) == 9
    assert (vouching.layout, vouching.repo) == ("modelscope", name)
    if "--" in at:
        assert look((tmp_path / "modelscope" / at).parent.parent)[1].revision == "master"


def test_what_belongs_to_no_model_is_not_listed(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    for name in (".git/objects/ab/cd", "__pycache__/x.pyc", "._____temp/model.safetensors", ".huggingface/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    assert len(look(folder)[1].files) == 9


def test_odd_names_and_odd_files_end_no_look(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    (folder / "a\nb.json").write_text("{}")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe.safetensors"))).write_bytes(b"x")
    (folder / "loop").symlink_to("loop")
    (folder / "round").symlink_to(".")
    os.mkfifo(folder / "pipe.safetensors")
    (folder / "sub").mkdir()
    (folder / "sub/up").symlink_to("..")
    deep = folder
    for _ in range(60):
        deep = deep / "d"
    deep.mkdir(parents=True)
    _, vouching = look(folder)
    assert len(vouching.files) == 11 and vouching.unseen > 0
    assert Path(of(vouching, "\ufffd\ufffd.safetensors").path).exists()
    fact_of(vouching)


def test_damaged_records_vouch_for_nothing(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m", tree=True)
    records = sorted((folder / ".cache/huggingface/download").glob("*.metadata"))
    for record, text in zip(
        records, ("", "x", f"{COMMIT}\n\n1", f'{COMMIT}\nW/"abc-gzip"\n1', "\0" * 5000, "\xff"), strict=False
    ):
        record.write_text(text)
    (folder / ".cache/huggingface" / TREES).write_text('{"format_version": 1, "files": {"x": 5}}')
    _, vouching = look(folder)
    assert sum(ok is None for ok in right(vouching).values()) == 6
    assert all(ok in (True, None) for ok in right(vouching).values())
    assert faults(folder) == {}


def test_a_blob_alone_is_vouched_for_by_its_name(tmp_path: Path) -> None:
    repo = hub(tmp_path)
    blob = Path(os.path.realpath(snapshot_of(repo) / LOST))
    assert right(look(blob)[1]) == {blob.name: True}
    assert right(look(snapshot_of(repo) / LOST)[1]) == {LOST: True}


def test_no_model_has_nothing_to_vouch_for() -> None:
    with pytest.raises(Absent):
        _checksum_look.look_at(Host(Asked(), {"HOME": "/nonexistent"}))


def test_a_link_to_a_snapshot_and_a_path_with_dots_lead_to_it(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub")
    link(tmp_path / "llama", snapshot_of(repo))
    (tmp_path / "deep").mkdir()
    for path in (
        tmp_path / "llama",
        f"{snapshot_of(repo)}/.",
        f"{snapshot_of(repo)}/",
        f"{tmp_path}/deep/../llama/../{COMMIT}",
        repo / "snapshots",
        f"{repo}/./snapshots/../",
    ):
        host, vouching = look(path)
        assert (vouching.layout, vouching.revision, len(vouching.files)) == ("hub-cache", COMMIT, 9), path
        assert all(right(vouching).values())
        assert model_folder(host).hub is not None
    host, vouching = look(snapshot_of(repo) / LOST)
    assert (vouching.layout, vouching.repo) == ("file", "org/name") and all(right(vouching).values())
    assert faults(snapshot_of(repo) / LOST) == {}


def test_a_list_of_the_repository_that_is_out_of_date_is_told_and_held_against_nothing(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m")
    (folder / "SHA256SUMS").write_text(
        f"{'a' * 64}  {LOST}\n{sha256(folder / build.shard(1, 3))}  {build.shard(1, 3)}\n"
    )
    (folder / "MD5SUMS").write_text(f"{'b' * 32}  {LOST}\n")
    assert faults(folder) == {"sums-conflict": [LOST]}
    _, vouching = look(folder)
    assert right(vouching)[LOST] is True
    assert [e.source for e in of(vouching, build.shard(1, 3)).expected] == ["hub-metadata", "sums"]


def test_a_list_does_not_vouch_for_itself(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    empty = hashlib.sha256(b"").hexdigest()
    (folder / "SHA256SUMS").write_text(LISTS["SHA256SUMS"](folder) + f"{empty}  SHA256SUMS\n")
    assert right(look(folder)[1])["SHA256SUMS"] is None


def test_a_file_of_a_later_commit_is_of_another_revision_and_not_damaged(tmp_path: Path) -> None:
    folder = local_dir(tmp_path / "m", tree=True)
    (folder / "config.json").write_text('{"model_type": "llama", "later": true}')
    record = folder / ".cache/huggingface/download/config.json.metadata"
    record.write_text(f"{OTHER}\n{git_sha1(folder / 'config.json')}\n{time.time()}\n")
    assert faults(folder) == {"revisions-mixed": ["config.json"]}
    assert all(right(look(folder)[1]).values())


def test_half_downloads_are_found_where_each_version_keeps_them(tmp_path: Path) -> None:
    for at in (".cache/huggingface/download/x.abc.incomplete", ".huggingface/download/sub/x.abc.incomplete"):
        folder = build.sharded(tmp_path / str(len(at)))
        (folder / at).parent.mkdir(parents=True)
        (folder / at).touch()
        assert model_folder(look(folder)[0]).leftovers.first == (at,)


def test_one_of_numbered_files_that_no_index_names_is_missed(tmp_path: Path) -> None:
    folder = build.single(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    for n in range(3):
        (folder / f"consolidated.{n:02}.pth").write_bytes(b"\x80\x02")
    given = tmp_path / "tree.json"
    listed = [{"type": "file", "path": f"consolidated.{n:02}.pth", "size": 2, "oid": "0" * 40} for n in range(4)]
    given.write_text(json.dumps([*listed, {"type": "file", "path": "other.pth", "size": 2, "oid": "0" * 40}]))
    assert faults(folder, given)["file-missing"] == ["consolidated.03.pth"]


def test_a_list_made_in_the_folder_above_several_models_speaks_of_each(tmp_path: Path) -> None:
    for name in ("a", "b"):
        build.sharded(tmp_path / name)
    given = tmp_path / "list"
    files = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    given.write_text("".join(f"{sha256(p)}  {p.relative_to(tmp_path)}\n" for p in files))
    assert faults(tmp_path / "b", given) == {}
    assert all(right(look(tmp_path / "b", given)[1]).values())


def test_of_a_pipeline_and_of_several_quantisations_any_part_may_be_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    (folder / "unet").mkdir(parents=True)
    (folder / "model_index.json").write_text("{}")
    (folder / "unet/x.fp16.safetensors").write_bytes(build.safetensors(["x"]))
    given = tmp_path / "tree.json"
    names = ["model_index.json", "unet/x.fp16.safetensors", "unet/x.safetensors", "sd.safetensors", "vae/x.safetensors"]
    given.write_text(json.dumps([{"type": "file", "path": n, "size": 2, "oid": "0" * 40} for n in names]))
    assert "file-missing" not in faults(folder, given)
    empty = tmp_path / "empty"
    empty.mkdir()
    names = ["m.Q4_K_M.gguf", "m.Q8_0.gguf"]
    given.write_text(json.dumps([{"type": "file", "path": n, "size": 2, "oid": "0" * 40} for n in names]))
    assert faults(empty, given) == {"left-out": [str(empty)]}


def test_a_cache_of_which_parts_are_links_to_another_disk_is_whole(tmp_path: Path) -> None:
    repo = hub(tmp_path / "hub", tree=False)
    os.replace(repo / "blobs", tmp_path / "big")
    (repo / "blobs").symlink_to(tmp_path / "big")
    assert faults(repo) == {} and all(right(look(repo)[1]).values())
    os.replace(repo, tmp_path / "llama")
    repo.symlink_to(tmp_path / "llama")
    assert faults(repo) == {} and all(right(look(repo)[1]).values())
    (repo / "blobs").unlink()
    os.replace(tmp_path / "big", repo / "blobs")
    for model in (repo, snapshot_of(repo), snapshot_of(repo) / LOST, tmp_path / "hub"):
        _, vouching = look(model)
        assert all(right(vouching).values()) and vouching.repo == "org/name", model
        assert faults(model) == {}
    # Without the repository's name nothing says that these are blobs but where the links lead.
    assert faults(tmp_path / "llama/snapshots" / COMMIT) == {
        "link-outside": sorted(p.name for p in snapshot_of(repo).iterdir())
    }


@pytest.mark.parametrize("name", ["-rf.safetensors", "a\nb.safetensors", "\ufffd.safetensors", "a\x1b[31m.safetensors"])
def test_no_command_is_given_for_a_name_that_cannot_stand_in_one(tmp_path: Path, name: str) -> None:
    host, vouching = look(hub(tmp_path))
    assert repair(model_folder(host), name, fact_of(vouching)) == ()


def test_a_name_is_one_word_of_the_command_whatever_it_is(tmp_path: Path) -> None:
    host, vouching = look(modelscope(tmp_path / "m"))
    command = repair(model_folder(host), "&& rm -rf $HOME'", fact_of(vouching))
    words = shlex.split(str(command))
    assert words[:4] == ["rm", "-f", f"{tmp_path}/m/&& rm -rf $HOME'", "&&"]
    assert words[4:9] == ["modelscope", "download", "--model", "Qwen/Qwen3.5-0.8B", "&& rm -rf $HOME'"]


def test_a_list_in_a_folder_of_its_own_is_of_the_files_beside_it(tmp_path: Path) -> None:
    folder = build.sharded(tmp_path / "m")
    shards = sorted(folder.glob("*.safetensors"))
    (folder / "checksums").mkdir()
    (folder / "checksums" / "SHA256SUMS").write_text("".join(f"{sha256(p)}  {p.name}\n" for p in shards))
    assert faults(folder) == {}
    assert [name for name, is_right in right(look(folder)[1]).items() if is_right] == [p.name for p in shards]
    shards[1].write_bytes(shards[1].read_bytes()[:-1] + b"\2")
    assert right(look(folder)[1])[shards[1].name] is False
    shards[1].unlink()
    (folder / "model.safetensors.index.json").unlink()
    assert "file-missing" in faults(folder)
    # A part's own list stays that of its files, though none of them was fetched and others have their names.
    other = build.sharded(tmp_path / "n")
    (other / "onnx").mkdir()
    (other / "onnx" / "SHA256SUMS").write_text(f"{'a' * 64}  config.json\n{'b' * 64}  model.onnx\n")
    assert right(look(other)[1])["config.json"] is None
