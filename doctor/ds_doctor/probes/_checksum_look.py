"""A look at what vouches for the model's files: gathers the sources, lays them beside the files; never judges, never hashes."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable

from ..api import Host, Trouble
from . import _folder_look, _folder_walk, _hub_records, _modelscope, _sums_look
from ._due import Source, lay_beside
from ._file_roles import has_parts, role
from ._folder_walk import Entry
from ._model_place import Place, is_there, names_in
from ._said import clean
from .checksums import Checksums, Link, Revision, Snapshots, SumsFile, Vouching
from .model_folder import Names

SHOWN = 100  # of each kind of finding that the fact keeps
FIRST = 5


def look_at(host: Host) -> Vouching:
    """The files of the model that was asked for. Absent when none was."""
    looked = host.once(_folder_look.look_at)
    place, folder = looked.place, looked.folder
    if place.hub is not None and place.hub.problem is not None:
        return Vouching(root=place.path or "", layout="hub-cache", repo=place.hub.repo)
    if place.path is None or folder.layout not in ("folder", "file"):
        return Vouching(root=place.path or "", layout="plain")
    blobs = None if place.repo_folder is None else f"{place.repo_folder}/blobs"
    if folder.layout == "file":
        root, _, alone = place.path.rpartition("/")
        found = _alone(host, place.path, alone, blobs)
    else:
        root, alone = place.path, None
        found = _folder_walk.walk(host, root, blobs)
    return _Look(host, place, root, found, alone, looked).vouching()


def _alone(host: Host, path: str, name: str, blobs: str | None) -> _folder_walk.Walk:
    folders = _folder_walk.Folders(host, blobs)
    try:
        s = host.lstat(path)
    except Trouble:
        return _folder_walk.Walk()
    if s.kind == "link":
        return _folder_walk.Walk(entries=(_folder_walk.followed(host, name, path, folders),))
    return _folder_walk.Walk(entries=(Entry(name=name, path=path, kind=s.kind, size=s.size),))


class _Look:
    """One look: what was listed, and what the sources say of it."""

    def __init__(
        self,
        host: Host,
        place: Place,
        root: str,
        found: _folder_walk.Walk,
        alone: str | None,
        looked: _folder_look.Looked,
    ) -> None:
        self.host, self.place, self.root, self.alone, self.looked = host, place, root, alone, looked
        self.unseen = found.unseen
        self.entries = {e.name: e for e in found.entries}
        self.names = self.entries.keys()  # 200,000 names are not held twice
        self.parts = has_parts(self.names)
        self.sources: list[Source] = []
        self.lists: list[SumsFile] = []
        self.layout = "file" if alone is not None else "plain"
        self.repo = None if place.hub is None else place.hub.repo
        self.revision = None if place.hub is None else place.hub.commit
        self.revisions: tuple[Revision, ...] = ()
        self.given = False

    def vouching(self) -> Vouching:
        self._manifest()
        self._blobs()
        if self.place.hub is not None:
            self.layout = "hub-cache" if self.alone is None else "file"
            self._tree(self.place.repo_folder or "", self.place.hub.commit)
        else:
            self._records()
            self._modelscope()
        self._sums()
        laid = lay_beside(
            self.sources, self.entries, self.looked.folder, self.parts, self.alone is not None, self._is_there
        )
        return Vouching(
            root=self.root,
            layout=self.layout,
            repo=self.repo,
            revision=self.revision,
            unseen=self.unseen,
            given=self.given,
            lists=tuple(self.lists),
            revisions=self.revisions,
            copied=self.place.hub is not None
            and any(e.kind == "file" and e.via is None for e in self.entries.values()),
            links=tuple(self._links()),
            snapshots=self._snapshots(),
            **laid,
        )

    def _is_there(self, name: str) -> bool:
        """Whether a file that was not listed is there after all (it was beyond the limit, or one of the bookkeeping)."""
        return is_there(self.host, f"{self.root}/{name}")

    def _manifest(self) -> None:
        path = self.host.asked.manifest
        if path is None:
            return
        self.given = True
        sums, told = _sums_look.given(self.host, path, self.root, self.names)
        self.lists.append(told)
        if sums is not None:
            self.repo, self.revision = self.repo or sums.repo, self.revision or sums.revision
            self.sources.append(Source.of_sums(sums, "manifest"))

    def _blobs(self) -> None:
        etags = {e.name: blob.rpartition("/")[2] for e in self.entries.values() if (blob := e.blob) is not None}
        if self.place.hub is not None and self.alone is None:
            copies = [e for e in self.entries.values() if e.via is None and e.kind == "file"]
            etags |= self._copied(copies, self.place.hub.snapshots) if copies else {}
        due = {}
        for name, etag in etags.items():
            algorithm = _hub_records.algorithm_of(etag)
            if algorithm is not None:
                due[name] = (algorithm, etag, None, f"blobs/{etag}")
        if due:
            self.sources.append(Source(kind="hub-blob", due=due, whole=False))

    def _copied(self, copies: list[Entry], snapshots: int) -> dict[str, str]:
        """The blobs of files that stand where links should be: hard links to them; and in a cache of one snapshot, which was
        copied with its links followed, the only blob of the size of a weight file."""
        folder = f"{self.place.repo_folder}/blobs"
        by_inode: dict[tuple[int, int], str] = {}
        by_size: dict[int, list[str]] = {}
        for name in names_in(self.host, folder):
            try:
                blob = self.host.stat(f"{folder}/{name}")
            except Trouble:
                continue
            if _hub_records.algorithm_of(name) is not None:
                by_inode[blob.dev, blob.ino] = name
                by_size.setdefault(blob.size, []).append(name)
        same = Counter(c.size for c in copies)
        found = {}
        for entry in copies:
            sized = by_size.get(entry.size, [])
            only = snapshots == 1 and len(sized) == same[entry.size] == 1 and role(entry.name) == "weights"
            try:
                own = self.host.stat(entry.path)
            except Trouble:
                continue
            etag = by_inode.get((own.dev, own.ino)) or (sized[0] if only and len(sized[0]) == 64 else None)
            if etag is not None:
                found[entry.name] = etag
        return found

    def _tree(self, home: str, commit: str | None, but: Iterable[str] = ()) -> None:
        if commit is None:
            return
        listed = _hub_records.tree(self.host, home, commit)
        if listed:
            where = f"trees/{commit}.json"
            due = {n: (f.algorithm, f.digest, f.size, where) for n, f in listed.items()}
            self.sources.append(Source(kind="hub-tree", due=due, whole=True, silent=frozenset(but)))

    def _records(self) -> None:
        records = _hub_records.records(self.host, self.root)
        if not records:
            return
        if self.alone is None:
            self.layout = "local-dir"
        due = {}
        by_commit: dict[str, list[str]] = {}
        for name, record in records.items():
            algorithm = _hub_records.algorithm_of(record.etag)
            due[name] = (algorithm or "", record.etag, None, record.where)
            if name in self.names and role(name, self.parts) != "other":
                by_commit.setdefault(record.commit, []).append(name)
        self.sources.append(Source(kind="hub-metadata", due=due, whole=False))
        commits = sorted(by_commit, key=lambda c: (-len(by_commit[c]), c))
        latest = commits[0] if commits else Counter(r.commit for r in records.values()).most_common(1)[0][0]
        self.revision = self.revision or latest
        for home in _hub_records.HOMES:
            if latest in _hub_records.trees(self.host, f"{self.root}/{home}"):
                # A file that was fetched from another commit need not be the one of this commit: its own record says what it is.
                own = {n for n, r in records.items() if r.commit != latest}
                self._tree(f"{self.root}/{home}", latest, own)
                break
        self.revisions = tuple(
            Revision(commit=c, files=_names(sorted(by_commit[c]))) for c in self._apart(commits, by_commit, records)
        )

    def _apart(
        self, commits: list[str], by_commit: dict[str, list[str]], records: dict[str, _hub_records.Record]
    ) -> list[str]:
        """The commits, without those whose files are the same in the first one, as its list says."""
        listed = next((s.due for s in self.sources if s.kind == "hub-tree"), {})
        same = {n for n, r in records.items() if n in listed and listed[n][1] == r.etag}
        return [c for i, c in enumerate(commits) if i == 0 or not set(by_commit[c]) <= same]

    def _modelscope(self) -> None:
        names = names_in(self.host, self.root)
        notes = _modelscope.notes(self.host, self.root, names)
        if notes is None:
            return
        if self.layout == "plain":
            self.layout = "modelscope"
        self.repo, self.revision = self.repo or notes.repo, self.revision or notes.revision
        if notes.fetched:
            due = {n: ("", "", None, notes.where or "") for n in notes.fetched}
            self.sources.append(Source(kind="modelscope", due=due, whole=False))

    def _sums(self) -> None:
        names = self.names if self.alone is None else names_in(self.host, self.root)
        found, told = _sums_look.in_folder(self.host, self.root, sorted(names), self.names)
        self.sources += [Source.of_sums(s, "sums") for s in found]
        self.lists += told

    def _links(self) -> list[Link]:
        real = _folder_walk.Folders(self.host).real(self.root)
        own = real if self.place.repo_folder is None else _folder_walk.Folders(self.host).real(self.place.repo_folder)
        repo = own.rpartition("/")[2]
        blobs = _folder_walk.Folders(self.host).real(own + "/blobs")
        found = []
        for entry in self.entries.values():
            if entry.via is None:
                continue
            first = entry.via.blob or entry.via.end
            if f"{first}/".startswith((f"{own}/", f"{real}/")) or posixpath.dirname(first) == blobs:
                continue
            if entry.via.blob is not None:
                # Absolute links of a cache that was copied or mounted elsewhere lead to the same repository there.
                if self.place.hub is None or entry.via.blob.split("/")[-3] == repo:
                    continue
                kind = "other-repository"
            else:
                kind = "outside"
            what = role(entry.name, self.parts)
            found.append(Link(name=clean(entry.name), role=what, kind=kind, target=clean(entry.via.link)))
        return found

    def _snapshots(self) -> Snapshots | None:
        hub, folder = self.place.hub, self.place.repo_folder
        if hub is None or folder is None or hub.commit is None:
            return None
        refs: dict[str, str] = {}
        for name in _refs(self.host, folder + "/refs"):
            try:
                refs[clean(name)] = clean(self.host.text(f"{folder}/refs/{name}", limit=4096).strip())
            except Trouble:
                continue
        return Snapshots(count=hub.snapshots, this=hub.commit, refs=refs)


def _refs(host: Host, folder: str, deep: int = 3) -> list[str]:
    """The names of refs, of which `refs/pr/1` lies two folders deeper."""
    found = []
    for name in names_in(host, folder)[:1000]:
        below = _refs(host, f"{folder}/{name}", deep - 1) if deep else []
        found += [f"{name}/{b}" for b in below] or [name]
    return found


def _names(names: list[str], first: int = FIRST) -> Names:
    return Names(len(names), tuple(clean(n) for n in names[:first]))


def counted(vouching: Vouching) -> Checksums:
    """The fact for a report."""
    weights_first = sorted(vouching.lost, key=lambda f: (f.role != "weights", f.name))
    return Checksums(
        layout=vouching.layout,
        root=clean(vouching.root),
        repo=vouching.repo,
        revision=vouching.revision,
        files=len(vouching.files),
        bytes=sum(f.size for f in vouching.files),
        vouched=sum(bool(f.expected) for f in vouching.files),
        sized=sum(f.size_due is not None for f in vouching.files),
        unseen=vouching.unseen,
        given=vouching.given,
        listed=vouching.listed,
        copied=vouching.copied,
        unvouched_weights=_names([f.name for f in vouching.files if f.role == "weights" and not f.expected]),
        lost=tuple(f for f in weights_first if f.weight != "left-out")[:SHOWN],
        left_out=_names([f.name for f in vouching.lost if f.weight == "left-out"], 10),
        sizes=vouching.sizes[:SHOWN],
        unlisted=vouching.unlisted[:SHOWN],
        lists=vouching.lists[:SHOWN],
        conflicts=vouching.conflicts[:SHOWN],
        revisions=vouching.revisions[:FIRST],
        links=vouching.links[:SHOWN],
        snapshots=vouching.snapshots,
    )
