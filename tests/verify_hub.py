"""The real huggingface_hub downloads from a hub of our own on 127.0.0.1: caches and local folders as users have them; run as a program.

`python verify_hub.py PLAN.json`: the plan names repositories (folders of files), and what is downloaded from them how (Plan below).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LFS_ENDS = (".safetensors", ".bin", ".gguf", ".pth", ".png", ".h5")


def is_lfs(name: str) -> bool:
    return name.endswith(LFS_ENDS)


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def etag(name: str, data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if is_lfs(name) else git_sha1(data)


def pointer(data: bytes) -> bytes:
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        hashlib.sha256(data).hexdigest().encode(),
        len(data),
    )


def tree(files: dict[str, bytes]) -> list[dict[str, Any]]:
    """As /api/models/ID/tree/REVISION?recursive=true answers."""
    folders = sorted({str(p) for n in files for p in Path(n).parents if str(p) != "."})
    listed: list[dict[str, Any]] = [
        {"type": "directory", "oid": git_sha1(f.encode()), "size": 0, "path": f} for f in folders
    ]
    for name, data in sorted(files.items()):
        one = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": name}
        if is_lfs(name):
            one["oid"] = git_sha1(pointer(data))
            one["lfs"] = {
                "oid": hashlib.sha256(data).hexdigest(),
                "size": len(data),
                "pointerSize": len(pointer(data)),
            }
        listed.append(one)
    return listed


def model_info(repo: str, commit: str, files: dict[str, bytes], blobs: bool = True) -> dict[str, Any]:
    """As /api/models/ID?blobs=true answers."""
    siblings: list[dict[str, Any]] = []
    for name, data in sorted(files.items()):
        one: dict[str, Any] = {"rfilename": name}
        if blobs:
            one |= {"blobId": git_sha1(pointer(data) if is_lfs(name) else data), "size": len(data)}
            if is_lfs(name):
                digest = hashlib.sha256(data).hexdigest()
                one["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": len(pointer(data))}
        siblings.append(one)
    return {
        "_id": "621ffdc036468d709f17434d",
        "id": repo,
        "modelId": repo,
        "author": repo.split("/")[0],
        "sha": commit,
        "lastModified": "2026-09-10T08:00:00.000Z",
        "private": False,
        "disabled": False,
        "gated": False,
        "tags": ["safetensors", "license:apache-2.0"],
        "downloads": 7,
        "likes": 1,
        "siblings": siblings,
        "createdAt": "2026-09-09T08:00:00.000Z",
        "usedStorage": sum(map(len, files.values())),
    }


Hub = dict[str, dict[str, dict[str, bytes]]]  # repository -> commit -> name -> content; the last commit is main


class Handler(BaseHTTPRequestHandler):
    hub: Hub = {}
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        if path.startswith("api/models/"):
            self.api(path.removeprefix("api/models/"))
        elif "/resolve/" in path:
            repo, _, rest = path.partition("/resolve/")
            revision, _, name = rest.partition("/")
            commit = self.commit(repo, revision)
            data = self.hub[repo][commit].get(name) if commit else None
            if data is None:
                self.send(404, b"Entry not found", {"X-Error-Code": "EntryNotFound"})
                return
            headers = {"X-Repo-Commit": commit, "ETag": f'"{etag(name, data)}"', "Accept-Ranges": "bytes"}
            if is_lfs(name):
                headers |= {"X-Linked-Etag": f'"{etag(name, data)}"', "X-Linked-Size": str(len(data))}
            self.send(200, data, headers)
        else:
            self.send(404, b"")

    def api(self, path: str) -> None:
        owner, name, *rest = path.split("/")
        repo = f"{owner}/{name}"
        commit = self.commit(repo, rest[1] if len(rest) > 1 else "main")
        if commit is None:
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif rest[:1] == ["tree"]:
            self.send(200, json.dumps(tree(self.hub[repo][commit])).encode())
        else:
            self.send(200, json.dumps(model_info(repo, commit, self.hub[repo][commit])).encode())

    def commit(self, repo: str, revision: str) -> str | None:
        commits = self.hub.get(repo, {})
        return list(commits)[-1] if revision == "main" and commits else revision if revision in commits else None

    def send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def read(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def serve(repos: dict[str, dict[str, str]]) -> ThreadingHTTPServer:
    """A hub of these repositories: {repo: {commit: folder}}."""
    Handler.hub = {r: {c: read(Path(f)) for c, f in commits.items()} for r, commits in repos.items()}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def settings(server: ThreadingHTTPServer) -> dict[str, str]:
    return {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


def download(plan: dict[str, Any]) -> None:
    """`{"repos": {repo: {commit: folder}}, "get": [{"repo", "revision", "cache"?, "local"?, "files"?, "allow"?}]}`: with
    `files` one hf_hub_download each, else snapshot_download."""
    server = serve(plan["repos"])
    os.environ |= settings(server)
    import huggingface_hub

    for get in plan["get"]:
        where = {"local_dir": get["local"]} if "local" in get else {"cache_dir": get["cache"]}
        said: dict[str, Any] = {"repo_id": get["repo"], "revision": get.get("revision", "main"), **where}
        if "files" in get:
            for name in get["files"]:
                huggingface_hub.hf_hub_download(filename=name, **said)
        else:
            huggingface_hub.snapshot_download(allow_patterns=get.get("allow"), max_workers=2, **said)
    server.shutdown()


def run(plan: dict[str, Any], scratch: Path) -> None:
    """In a process of its own: the library keeps threads, and takes its settings from the environment when it is imported."""
    file = scratch / "plan.json"
    file.write_text(json.dumps(plan))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGINGFACE_"))}
    env |= {"HF_HOME": str(scratch / "hf-home"), "HOME": str(scratch)}
    subprocess.run([sys.executable, __file__, str(file)], env=env, check=True, timeout=120)


if __name__ == "__main__":
    download(json.loads(Path(sys.argv[1]).read_text()))
