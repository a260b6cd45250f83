"""Lists of files in JSON: the hub's, ModelScope's, git-lfs's and our own are read alike, and ours comes back whole."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds_doctor.manifest import Entry, Manifest, NotAManifest, parse, write
from test_manifest_sums import assert_safe, plain

A, B = "a" * 64, "b" * 64
OID, POINTER, COMMIT = "1" * 40, "2" * 40, "3" * 40

CONFIG = Entry(name="config.json", size=663, digests={"git-sha1": OID})
SHARD = Entry(name="model.safetensors", size=383865448, digests={"sha256": A})

# GET /api/models/ID/tree/REVISION?recursive=true; with expand=true it has lastCommit and securityFileStatus, too.
TREE: list[dict[str, Any]] = [
    {"type": "directory", "oid": "4" * 40, "size": 0, "path": "figures"},
    {"type": "file", "oid": OID, "size": 663, "path": "config.json"},
    {
        "type": "file",
        "oid": POINTER,
        "size": 383865448,
        "path": "model.safetensors",
        "lfs": {"oid": A, "size": 383865448, "pointerSize": 134},
        "xetHash": B,
        "lastCommit": {"id": COMMIT, "title": "Upload {", "date": "2026-08-14T14:44:41.000Z"},
        "securityFileStatus": {"status": "safe", "avScan": {"status": "safe"}},
    },
]
# GET /api/models/ID?blobs=true
INFO: dict[str, Any] = {
    "_id": "65a",
    "id": "org/model",
    "modelId": "org/model",
    "sha": COMMIT,
    "cardData": {"license": "mit", "tags": [["a", {"b": 1}]]},
    "siblings": [
        {"rfilename": "config.json", "size": 663, "blobId": OID},
        {
            "rfilename": "model.safetensors",
            "size": 383865448,
            "blobId": POINTER,
            "lfs": {"sha256": A, "size": 383865448, "pointerSize": 134},
        },
    ],
}
# `hf models ls ID -R --format json` of huggingface_hub 2.4: its RepoFile and RepoFolder, without what is None
LS: list[dict[str, Any]] = [
    {"path": "figures", "tree_id": "4" * 40},
    {"path": "config.json", "size": 663, "blob_id": OID},
    {
        "path": "model.safetensors",
        "size": 383865448,
        "blob_id": POINTER,
        "lfs": {"size": 383865448, "sha256": A, "pointer_size": 134},
        "xet_hash": B,
    },
]
# GET https://modelscope.cn/api/v1/models/ID/repo/files?Revision=master&Recursive=true
MODELSCOPE: dict[str, Any] = {
    "Code": 200,
    "Success": True,
    "Data": {
        "Files": [
            {"Name": "figures", "Path": "figures", "Type": "tree", "Sha256": "", "Size": 0, "Mode": "16384"},
            {
                "CommitMessage": "merge main",
                "CommittedDate": 1726842501,
                "InCheck": False,
                "IsLFS": False,
                "Mode": "33188",
                "Name": "x.json",
                "Path": "figures/x.json",
                "Revision": COMMIT,
                "Sha256": B,
                "Size": 1630,
                "Type": "blob",
            },
            {"IsLFS": True, "Name": "m.gguf", "Path": "m.gguf", "Sha256": A, "Size": 491400032, "Type": "blob"},
        ],
        "LatestCommitter": {"Name": "x"},
    },
    "Message": "success",
}


def read(value: object) -> Manifest:
    return parse(value if isinstance(value, bytes) else json.dumps(value).encode(), "files.json")


def why_not(value: object) -> str:
    with pytest.raises(NotAManifest) as caught:
        read(value)
    return caught.value.why


@pytest.mark.parametrize("listed", [TREE, INFO, LS], ids=["tree", "blobs", "hf models ls"])
def test_the_hub_s_lists_say_the_same_each_in_its_way(listed: Any) -> None:
    manifest = read(listed)
    assert (manifest.kind, manifest.problem_count) == ("hub", 0)
    assert manifest.entries == (CONFIG, SHARD)


def test_the_hub_s_answer_about_a_model_tells_repository_and_commit() -> None:
    manifest = read(INFO)
    assert (manifest.repo, manifest.revision) == ("org/model", COMMIT)


def test_without_blobs_the_hub_s_answer_tells_names_only() -> None:
    manifest = read({"id": "org/model", "sha": COMMIT, "siblings": [{"rfilename": "config.json"}]})
    assert manifest.entries == (Entry(name="config.json"),)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(TREE[:2]) + json.dumps(TREE[2:]),
        json.dumps(TREE[:2], indent=2) + "\n" + json.dumps(TREE[2:], indent=2) + "\n",
        json.dumps([TREE[:2], TREE[2:]]),
        "\n".join(json.dumps(file) for file in TREE),
        json.dumps(TREE[:2]) + json.dumps(TREE[1:]),
        "\ufeff" + json.dumps(TREE),
        json.dumps(TREE).replace("figures", 'a]["b{'.replace('"', '\\"')) + "\n[]",
    ],
    ids=["pages", "indented", "slurped", "lines", "overlapping", "mark", "brackets in names"],
)
def test_pages_that_were_put_together_are_one_list(text: str) -> None:
    manifest = read(text.encode())
    assert (manifest.problem_count, manifest.entries) == (0, (CONFIG, SHARD))


@pytest.mark.parametrize(
    "shard",
    [
        {"size": 383865448, "blob_id": POINTER, "lfs_sha256": A, "lfs_size": 383865448, "xet_hash": B},
        {"size": 383865448, "blob_id": POINTER, "sha256": A},
        {"size": 383865448, "oid": POINTER, "lfs_oid": A},
    ],
)
def test_the_client_s_own_list_tells_the_content_s_digest_and_not_the_pointer_s(shard: dict[str, Any]) -> None:
    # trees/COMMIT.json of huggingface_hub 2.4 (_tree_cache.py), and what people make of the hub's answers
    tree = {"format_version": 1, "files": {"config.json": {"size": 663, "blob_id": OID}, "model.safetensors": shard}}
    assert {e.name: e for e in parse(json.dumps(tree).encode(), "x.json").entries} == {
        "config.json": CONFIG,
        "model.safetensors": SHARD,
    }


def test_modelscope_s_list_is_read() -> None:
    manifest = read(MODELSCOPE)
    assert (manifest.kind, manifest.problem_count) == ("modelscope", 0)
    assert manifest.entries == (
        Entry(name="figures/x.json", size=1630, digests={"sha256": B}),
        Entry(name="m.gguf", size=491400032, digests={"sha256": A}),
    )


@pytest.mark.parametrize(
    "listed",
    [
        {"model.safetensors": A},
        {"model.safetensors": f"sha256:{A.upper()}"},
        {"files": {"model.safetensors": A}},
        {"model.safetensors": {"sha256": A}},
        [{"name": "model.safetensors", "sha256": A}],
        {"files": [{"path": "./model.safetensors", "sha256": A, "mtime": [1]}]},
        {"files": [{"filename": "model.safetensors", "oid_type": "sha256", "oid": A}]},
    ],
)
def test_maps_and_lists_of_people_s_own_making_are_read(listed: Any) -> None:
    assert read(listed).entries == (Entry(name="model.safetensors", digests={"sha256": A}),)


def test_the_pointer_s_own_oid_never_vouches_for_the_file() -> None:
    pointer = {"type": "file", "oid": POINTER, "size": 134, "path": "m", "lfs": {"size": 9, "pointerSize": 134}}
    assert read([pointer]).entries == (Entry(name="m", size=9),)


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"path": "m", "size": "9", "oid": OID}, "bad-line"),
        ({"path": "", "oid": OID}, "bad-line"),
        ({"path": None, "oid": OID}, "bad-line"),
        ({"path": "a\0b", "oid": OID}, "bad-line"),
        ({"path": "x/", "oid": OID}, "bad-line"),
        ({"name": "m"}, "bad-line"),
        ({"name": "m", "raw": "zz", "sha256": A}, "bad-line"),
        (7, "bad-line"),
        ({"path": "m", "lfs": {"oid": A[:20]}}, "bad-digest"),
        ({"path": "m", "lfs": {"oid": A}, "sha256": B}, "bad-digest"),
        ({"path": "m", "oid": "g" * 40}, "bad-digest"),
        ({"path": "../m", "oid": OID}, "escapes"),
        ({"path": "/m", "oid": OID}, "escapes"),
        ({"path": "config.json", "oid": POINTER}, "twice"),
        ({"path": "config.json", "size": 1, "oid": OID}, "twice"),
    ],
)
def test_a_file_that_cannot_be_relied_on_is_a_problem_and_the_rest_is_read(item: object, problem: str) -> None:
    manifest = read([TREE[1], item, TREE[2]])
    assert [p.id for p in manifest.problems] == [problem]
    assert manifest.entries[-1] == SHARD
    assert problem == "twice" or manifest.entries[0] == CONFIG


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"{", "not-json"),
        (json.dumps(TREE).encode()[:-20], "not-json"),
        (b"[1, 2", "not-json"),
        (b'{"path": "\\ud800"}', "not-json"),
        (b"[" * 100_000, "too-deep"),
        (b'{"a":' * 100_000, "too-deep"),
        (b'[{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}]", "too-deep"),
        (b"[" + b"{}," * 1_000_001 + b"{}]", "too-large"),
        (b"[" + b"0," * 1_000_001 + b"0]", "too-large"),
        (b"[]" * 300_000, "too-large"),
        ({}, "no-entries"),
        ([], "no-entries"),
        ([1, "x", None], "no-entries"),
        ({"error": "Repository not found"}, "no-entries"),
        ({"Code": 404, "Data": None}, "no-entries"),
        ({"Code": 404, "Data": {"Files": None}}, "no-entries"),
        ({"architectures": ["LlamaForCausalLM"], "hidden_size": 4096}, "no-entries"),
        ({"name": "package", "version": "1.0", "files": ["dist"]}, "no-entries"),
        ({"metadata": {"total_size": 1}, "weight_map": {"a": "m.safetensors"}}, "no-entries"),
        ({"schema": "ds-doctor.manifest/2", "files": []}, "unknown-schema"),
        ({"schema": "ds-doctor.verify/1", "files": []}, "unknown-schema"),
    ],
)
def test_what_is_no_list_is_refused_in_a_word(value: object, why: str) -> None:
    assert why_not(value) == why


def test_a_cut_text_is_refused_with_its_line() -> None:
    with pytest.raises(NotAManifest) as caught:
        read(json.dumps(TREE, indent=1).encode() + b"\n}")
    assert caught.value.why == "not-json"


# -- our own


def test_our_manifest_is_for_people_too() -> None:
    odd = Entry(name=os.fsdecode(b"\xff.bin"), size=1, digests={"sha256": B})
    written = write(
        [SHARD, CONFIG, odd], repo="org/model", revision=COMMIT, version="1.2", created_at="2026-11-30T07:00:00Z"
    )
    assert written.decode().splitlines() == [
        "{",
        ' "schema": "ds-doctor.manifest/1",',
        ' "created_by": {"name":"ds-doctor","version":"1.2"},',
        ' "created_at": "2026-11-30T07:00:00Z",',
        ' "repo": "org/model",',
        f' "revision": "{COMMIT}",',
        ' "files": [',
        f'  {{"name":"config.json","size":663,"git-sha1":"{OID}"}},',
        f'  {{"name":"model.safetensors","size":383865448,"sha256":"{A}"}},',
        f'  {{"name":"\ufffd.bin","raw":"ff2e62696e","size":1,"sha256":"{B}"}}',
        " ]",
        "}",
    ]
    manifest = parse(written, "x")
    assert (manifest.kind, manifest.repo, manifest.revision) == ("ds-doctor", "org/model", COMMIT)
    assert manifest.entries == (CONFIG, SHARD, odd)


def test_of_nothing_there_is_a_manifest_too() -> None:
    assert parse(write([]), "x") == Manifest(kind="ds-doctor")


NAMES = st.binary(min_size=1, max_size=20).filter(lambda b: b"\0" not in b).map(os.fsdecode).filter(plain)
DIGESTS = st.fixed_dictionaries({}, optional={"sha256": st.text("0123456789abcdef", min_size=64, max_size=64), "md5": st.just("0" * 32), "git-sha1": st.just(OID)})  # fmt: skip
SIZES = st.none() | st.integers(0, 2**63 - 1)


@given(
    st.dictionaries(NAMES, st.tuples(SIZES, DIGESTS), max_size=5),
    st.none() | st.text(max_size=9),
    st.none() | st.text(max_size=9),
)
@example({os.fsdecode(b"\xed\xa0\x80"): (1, {"md5": "0" * 32})}, None, None)
def test_what_we_write_is_read_back(files: dict[str, Any], repo: str | None, revision: str | None) -> None:
    made = [Entry(name=n, size=size, digests=digests) for n, (size, digests) in files.items()]
    manifest = parse(write(made, repo=repo, revision=revision), "any")
    assert (manifest.kind, manifest.problem_count) == ("ds-doctor", 0)
    assert (manifest.repo, manifest.revision) == (repo, revision)
    assert sorted(manifest.entries, key=lambda e: e.name) == sorted(made, key=lambda e: e.name)
    assert write(reversed(made), repo=repo, revision=revision) == write(made, repo=repo, revision=revision)


WORDS = st.sampled_from(
    [A, OID, "", "m", "../m", "/m", "m/", "sha256:" + A, "directory", "file", "sha256", "ff", "ds-doctor.manifest/1"]
)
KEYS = st.sampled_from(["rfilename", "path", "Path", "name", "raw", "type", "size", "oid", "oid_type", "blobId", "lfs", "sha256", "Sha256", "siblings", "Data", "Files", "files", "schema", "sha", "id"])  # fmt: skip
VALUES = st.recursive(
    WORDS | st.none() | st.integers(-1, 2**65) | st.floats() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | WORDS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1, max_size=2))
def test_whatever_is_fed_is_a_manifest_or_none(values: list[Any]) -> None:
    try:
        manifest = read("".join(json.dumps(v) for v in values).encode())
    except NotAManifest:
        return
    assert_safe(manifest)
    json.dumps([manifest.repo, manifest.revision]).encode()
