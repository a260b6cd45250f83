"""Small model folders of every layout that `ds-doctor verify` understands, laid down by the programs that lay down real ones."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import verify_hub as hub
import verify_repos as repos
from verify_repos import Repo

COMMIT, OLD = "60c4d3a1b5f0e2d7c8a9b0c1d2e3f4a5b6c7d8e9", "1f0e2d7c8a9b0c1d2e3f4a5b6c7d8e960c4d3a1b"
ID = "org/name"
HUB_FOLDER = "models--org--name"


def lay(folder: Path, repo: Repo) -> Path:
    for name, data in repo.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Layout:
    """`at` is what is given to verify, `folder` where the model's files lie, both in the test's folder ({root} in `args` and `env`). `kind` is what the
    JSON should call it; `vouched`: something there says which content is due (for `all` files or the `weights` only)."""

    name: str
    build: Callable[[Path], Any]
    at: str = "m"
    folder: str = "m"
    kind: str = "plain"
    vouched: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    repo: str | None = None
    revision: str | None = None
    weights: tuple[str, ...] = tuple(repos.shard(n) for n in (1, 2, 3))
    index: str | None = repos.INDEX
    small: bool = True

    @property
    def victim(self) -> str:
        """The weight file that faults befall: the second of several."""
        return self.weights[min(1, len(self.weights) - 1)]


@dataclass(frozen=True)
class Made:
    """A layout that lies on disk."""

    layout: Layout
    root: Path

    @property
    def target(self) -> str:
        """A path, or a hub id."""
        return self.layout.at if self.layout.at == ID else str(self.root / self.layout.at)

    @property
    def folder(self) -> Path:
        return self.root / self.layout.folder

    @property
    def args(self) -> list[str]:
        return [a.replace("{root}", str(self.root)) for a in self.layout.args]

    @property
    def env(self) -> dict[str, str]:
        return {k: v.replace("{root}", str(self.root)) for k, v in self.layout.env.items()}

    @property
    def victim(self) -> str:
        return self.layout.victim

    def real(self, name: str) -> Path:
        return Path(os.path.realpath(self.folder / name))


def plain(repo: Repo | Callable[[], Repo]) -> Callable[[Path], Any]:
    return lambda root: lay(root / "m", repo() if callable(repo) else repo)


# ---- lists of checksums ----


def gnu(repo: Repo, mark: str = " ", upper: bool = False, end: str = "\n") -> str:
    lines = []
    for name, data in sorted(repo.items()):
        digest = sha256(data).upper() if upper else sha256(data)
        lines.append(f"{digest} {mark}{name}{end}")
    return "".join(lines)


def bsd(repo: Repo, end: str = "\n") -> str:
    return "".join(f"SHA256 ({n}) = {sha256(d)}{end}" for n, d in sorted(repo.items()))


def with_file(text: Callable[[Repo], str], name: str) -> Callable[[Path], Any]:
    def build(root: Path) -> None:
        lay(root / "m", repos.sharded())
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(text(repos.sharded()).encode())

    return build


def beside(root: Path) -> None:
    """NAME.sha256 beside each weight file, with a bare digest in one of them."""
    lay(root / "m", repos.sharded())
    for number, name in enumerate(n for n in repos.sharded() if n.endswith(".safetensors")):
        digest = sha256(repos.sharded()[name])
        (root / "m" / f"{name}.sha256").write_text(digest + "\n" if number == 0 else f"{digest}  {name}\n")


def mixed(repo: Repo) -> str:
    """checksums.txt with several algorithms and a comment."""
    weights = {n: d for n, d in repo.items() if n.endswith(".safetensors")}
    lines = ["# checksums of the release", ""]
    lines += [f"{hashlib.sha512(d).hexdigest()}  ./{n}" for n, d in sorted(weights.items())]
    lines += [f"MD5 ({n}) = {hashlib.md5(d).hexdigest()}" for n, d in sorted(weights.items())]
    return "\n".join(lines) + "\n"


def client_file(name: str, data: bytes, key: str) -> dict[str, Any]:
    one: dict[str, Any] = {key: name, "size": len(data), "blob_id": hub.git_sha1(data)}
    if hub.is_lfs(name):
        one["blob_id"] = hub.git_sha1(hub.pointer(data))
        one["lfs"] = {"size": len(data), "sha256": sha256(data), "pointer_size": len(hub.pointer(data))}
    return one


def hf_list(repo: Repo) -> str:
    """As `hf models ls ID -R --format json` prints (huggingface_hub 2.4)."""
    folders = [{"path": "assets", "tree_id": "f40fe0502b093c95ba743eb6177baa94359ec196"}]
    return json.dumps(folders + [client_file(n, d, "path") for n, d in sorted(repo.items())], indent=2)


def hf_info(repo: Repo) -> str:
    """As `hf models info ID --format json` prints (huggingface_hub 2.4)."""
    siblings = [client_file(n, d, "rfilename") for n, d in sorted(repo.items())]
    made = {"id": ID, "author": "org", "disabled": False, "gated": False, "private": False, "sha": COMMIT}
    return json.dumps(made | {"siblings": siblings, "tags": [], "used_storage": 1})


def tree_cache(repo: Repo) -> str:
    """As the client keeps in `trees/` (huggingface_hub 2.4, _tree_cache.py)."""
    files = {}
    for name, data in sorted(repo.items()):
        one = client_file(name, data, "path")
        files[name] = {"size": len(data), "blob_id": one["blob_id"]}
        if "lfs" in one:
            files[name] |= {"lfs_sha256": sha256(data), "lfs_size": len(data)}
    return json.dumps({"format_version": 1, "files": files}, indent=1)


def modelscope_api(repo: Repo) -> str:
    """As /api/v1/models/ID/repo/files?Recursive=True answers."""
    files = [
        {
            "CommitMessage": "upload",
            "CommittedDate": 1757400000,
            "Id": hub.git_sha1(d),
            "IsLFS": hub.is_lfs(n),
            "Mode": "100644",
            "Name": n.rpartition("/")[2],
            "Path": n,
            "Revision": COMMIT,
            "Sha256": sha256(d),
            "Size": len(d),
            "Type": "blob",
        }
        for n, d in sorted(repo.items())
    ]
    return json.dumps({"Code": 200, "Data": {"Files": files, "IsVisual": 0}, "Message": "success", "Success": True})


# ---- downloads ----


def hub_plan(shelf: Path) -> dict[str, Any]:
    """What the real client downloads, all in one process: shelf/<layout>/..."""
    src = shelf / "src"
    lay(src / "new", repos.sharded())
    lay(src / "old", repos.sharded(seed=9))
    get = [
        {"repo": ID, "cache": str(shelf / "hub" / "hub")},
        {"repo": ID, "cache": str(shelf / "hub-by-file" / "hub"), "files": list(repos.sharded())},
        {"repo": ID, "cache": str(shelf / "hub-several" / "hub"), "revision": OLD},
        {"repo": ID, "cache": str(shelf / "hub-several" / "hub")},
        {"repo": ID, "cache": str(shelf / "hub-commit" / "hub"), "revision": COMMIT},
        {"repo": ID, "cache": str(shelf / "hub-some" / "hub"), "allow": ["*.safetensors", "*.json"]},
        {"repo": ID, "local": str(shelf / "local" / "m")},
        {"repo": ID, "local": str(shelf / "local-by-file" / "m"), "files": list(repos.sharded())},
    ]
    return {"repos": {ID: {OLD: str(src / "old"), COMMIT: str(src / "new")}}, "get": get}


def modelscope(root: Path) -> None:
    """As modelscope's ModelFileSystemCache leaves it (modelscope/hub/utils/caching.py): pickles that must not be read as such."""
    lay(root / "m", repos.sharded())
    files = [{"Path": n, "Revision": COMMIT} for n in repos.sharded()]
    (root / "m" / ".msc").write_bytes(pickle.dumps(files))
    (root / "m" / ".mdl").write_bytes(pickle.dumps({"id": ID}))
    (root / "m" / ".mv").write_text("Revision:master,CreatedAt:1757400000")


MODELSCOPE_NEW = "hub/models/org--name/snapshots/master"


def nothing(root: Path) -> None:
    """The hub's client has built it."""


def through_shared_store(root: Path) -> None:
    """The weights' blobs are links into a store that all repositories of the cache share (huggingface_hub 2.4, utils/_shared_blobs.py)."""
    shutil.copytree(root.parent / "hub" / "hub", root / "hub", symlinks=True)
    store = root / "hub" / "blobs"
    store.mkdir()
    (store / ".huggingface-shared-blobs").write_text("1\n")
    for blob in (root / "hub" / HUB_FOLDER / "blobs").iterdir():
        if len(blob.name) == 64:
            xet = sha256(blob.name.encode())
            (store / xet[:2]).mkdir(exist_ok=True)
            os.replace(blob, store / xet[:2] / xet)
            blob.symlink_to(f"../../blobs/{xet[:2]}/{xet}")
            (store / xet[:2] / f"{xet}.refs").write_text(f"{HUB_FOLDER}/blobs/{blob.name}\n")
            (store / xet[:2] / f"{xet}.lock").write_text("")


SNAPSHOT = f"hub/{HUB_FOLDER}/snapshots/{COMMIT}"
OF_HUB: dict[str, Any] = dict(folder=SNAPSHOT, kind="hub-cache", vouched="all", repo=ID, revision=COMMIT)
ONE: dict[str, Any] = dict(weights=("model.safetensors",), index=None)
GGUF: dict[str, Any] = dict(weights=("model-F16.gguf",), index=None, small=False)
GIVEN = ("--manifest", "{root}/list")


def manifest(name: str, text: Callable[[Repo], str], vouched: str = "all") -> Layout:
    return Layout(f"manifest {name}", with_file(text, "list"), vouched=vouched, args=GIVEN)


def files_of(made: tuple[tuple[str, bytes], ...]) -> Callable[[Path], Any]:
    return lambda root: lay(root / "m", dict(made))


LAYOUTS = [
    Layout("sharded", plain(repos.sharded)),
    Layout("sharded no index", plain(lambda: repos.sharded(index=False)), index=None),
    Layout("single", plain(repos.single), **ONE),
    Layout("file", plain(repos.single), at="m/model.safetensors", kind="file", **{**ONE, "small": False}),
    Layout("sums gnu", with_file(gnu, "m/SHA256SUMS"), vouched="all"),
    Layout("sums bsd", with_file(bsd, "m/SHA256SUMS"), vouched="all"),
    Layout("sums odd", with_file(lambda r: gnu(r, "*", True, "\r\n"), "m/sha256sum.txt"), vouched="all"),
    Layout("sums beside", beside, vouched="weights"),
    Layout("sums mixed", with_file(mixed, "m/checksums.txt"), vouched="weights"),
    manifest("gnu", gnu),
    manifest("bsd", lambda r: bsd(r, "\r\n")),
    manifest("hub info", lambda r: json.dumps(hub.model_info(ID, COMMIT, r))),
    manifest("hub tree", lambda r: json.dumps(hub.tree(r))),
    manifest("hf list", hf_list),
    manifest("hf info", hf_info),
    manifest("hub tree cache", tree_cache),
    manifest("modelscope", modelscope_api),
    Layout("hub", nothing, at=SNAPSHOT, **OF_HUB),
    Layout("hub folder", nothing, at=f"hub/{HUB_FOLDER}", **OF_HUB),
    Layout("hub id", nothing, at=ID, env={"HF_HUB_CACHE": "{root}/hub"}, **OF_HUB),
    Layout("hub-by-file", nothing, at=SNAPSHOT, **OF_HUB),
    Layout("hub-several", nothing, at=f"hub/{HUB_FOLDER}", **OF_HUB),
    Layout("hub-commit", nothing, at=f"hub/{HUB_FOLDER}", **OF_HUB),
    Layout("hub-some", nothing, at=f"hub/{HUB_FOLDER}", **OF_HUB),
    Layout("hub-shared", through_shared_store, at=f"hub/{HUB_FOLDER}", **OF_HUB),
    Layout("local", nothing, kind="local-dir", vouched="all", revision=COMMIT),
    Layout("local-by-file", nothing, kind="local-dir", vouched="all", revision=COMMIT),
    Layout("modelscope", modelscope, kind="modelscope"),
    Layout(
        "modelscope new",
        lambda root: lay(root / MODELSCOPE_NEW, repos.sharded()),
        at=MODELSCOPE_NEW,
        folder=MODELSCOPE_NEW,
        kind="",
    ),
    Layout("gguf", files_of(repos.gguf_files()), **GGUF),
    Layout(
        "gguf split",
        files_of(repos.gguf_files(split=15)),
        **{**GGUF, "weights": tuple(repos.shard(n, 3, "model-F16", "gguf") for n in (1, 2, 3))},
    ),
    Layout("gguf file", files_of(repos.gguf_files()), at="m/model-F16.gguf", kind="file", **GGUF),
    Layout("torch", plain(repos.pytorch), weights=("pytorch_model.bin",), index=None),
    Layout(
        "torch sharded",
        plain(lambda: repos.pytorch(3)),
        weights=tuple(repos.shard(n, 3, "pytorch_model", "bin") for n in (1, 2, 3)),
        index="pytorch_model.bin.index.json",
    ),
]
BY_NAME = {layout.name: layout for layout in LAYOUTS}


def fill(shelf: Path) -> None:
    """Build every layout once; tests copy."""
    hub.run(hub_plan(shelf), shelf)
    for layout in LAYOUTS:
        root = shelf / shelved(layout)
        root.mkdir(exist_ok=True)
        layout.build(root)


def shelved(layout: Layout) -> str:
    return "hub" if layout.name in ("hub folder", "hub id") else layout.name


def take(shelf: Path, layout: Layout | str, to: Path) -> Made:
    layout = BY_NAME[layout] if isinstance(layout, str) else layout
    shutil.copytree(shelf / shelved(layout), to, symlinks=True)
    return Made(layout, to)
