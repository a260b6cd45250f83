"""Lines of checksums as sha256sum, shasum, the BSDs, openssl, rhash and git-lfs write them, and as people write them by hand.

Compared with what GNU coreutils 9.1, perl's shasum, OpenSSL 3.0, busybox, rhash 1.4 and git-lfs 3.3 write; coreutils'
own reading is split_3 and bsd_split_3 in src/digest.c. Every pattern takes time in proportion to the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from ._gather import BY_DIGITS, DIGITS, PROBLEMS, Gathered
from .structs import Manifest, NotAManifest

LINES = 1_000_000  # that hold anything
LINE_BYTES = 9000  # a name of PATH_MAX bytes, each of them escaped, and a digest
STDIN = {"-", "stdin", "(stdin)"}  # the name that the writers give what was piped into them

_LINE = re.compile(rb"[^\n]+")
_RECORD = re.compile(rb"[^\0]+")  # of `sha256sum -z`
# The writers' own: hash, a blank, a blank or `*`, the name as it is. With one blank only: `sha256 -r` of the BSDs. A tab is people's.
_GNU = re.compile(rb"(\\?)([0-9A-Fa-f]{32,128})(?:\t[\t ]*\*?| [ *]?)(?=.)(.+)", re.DOTALL)
# SHA256 (name) = hash; openssl leaves blanks out, says SHA2-256, and has colons between the bytes when asked.
_BSD = re.compile(rb"(\\?)([A-Za-z][A-Za-z0-9/_-]{1,15}) ?\((.+)\) ?= ?([0-9A-Fa-f:]{8,400})[ \t]*", re.DOTALL)
_LABELLED = re.compile(
    rb"([A-Za-z][A-Za-z0-9/_-]{1,15})(?:[ \t]?[:=][ \t]?|[ \t])([0-9A-Fa-f]{32,128})[ \t][ \t*]?(.+)"
)
_LABEL_BEFORE = re.compile(rb"(?:^|(?<=[ \t:=]))([A-Za-z][A-Za-z0-9/_-]{1,15}):[ \t]?$")
_GIT_LFS = re.compile(rb"([0-9a-f]{64}) [*-] (.+)", re.DOTALL)  # git lfs ls-files -l
_GIT_LFS_SIZE = re.compile(rb"(?<=.) \(\d+(?:\.\d+)? [KMGTPE]?B\)$")  # the same with -s
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-[^\n]*\n)*oid sha256:([0-9a-f]{64})\nsize (\d{1,18})\n?"
)
# Nothing is lost with these (stripped): comments, lines of dashes, headings of an algorithm, the armour of a signature.
_IDLE = re.compile(
    rb"[#;].*|//.*|[-=*_~+|.` \t]+|\[?(?:sha|md)-?\d{1,3}(?:[ _-]?(?:check)?sums?|[ _-]?hash(?:es)?)?\]?:?|-----[A-Z ]+-----",
    re.IGNORECASE | re.DOTALL,
)
# A digest that is too short, too long or of other letters, where a digest belongs.
_CUT = re.compile(
    rb"\\?(?:[A-Za-z][A-Za-z0-9/_-]{1,15} ?(?:\(.+\) ?= ?|[:=][ \t]*))?(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{6,}(?:\.\.|\xe2\x80\xa6|[^0-9A-Za-z]|$)",
    re.DOTALL,
)
_HEX_BYTES = b"0123456789abcdefABCDEF"
_BLANK_LINE = re.compile(rb"\n\r?\n")
_SIGNED = b"-----BEGIN PGP SIGNED MESSAGE-----"
_SIGNATURE = b"-----BEGIN PGP SIGNATURE-----"

# A list named after one file: model.safetensors.sha256, config.json.md5sum.txt.
_SUFFIX = re.compile(r"\.(?:(?:sha|md)-?\d{1,3}(?:sums?)?(?:\.txt)?|checksum|hash|digest)$", re.IGNORECASE)
# Algorithms whose digests are as long as one of ours; a list that is named after them is not read as ours.
_FOREIGN = re.compile(
    r"(?<![a-z0-9])(?:b[23]|blake[23][bs]?p?|sha-?3(?:-?\d{3})?|xxh\w{0,8}|sm3|tiger|whirlpool|ripemd\d*|rmd160|md4)(?:sums?)?(?![a-z0-9])",
    re.IGNORECASE,
)

_OURS = re.compile(r"sha-?(?:1|224|256|384|512)(?![0-9])|md-?5", re.IGNORECASE)

# Offset of the line, name, algorithm, digest.
Record = tuple[int, str, str, str]


def of_file(name: str) -> str | None:
    """The file that a list called `name` is of when its name says so: `model.safetensors` for `model.safetensors.sha256`."""
    of = _SUFFIX.sub("", name)
    return of if of and of != name else None


def algorithm_named(label: str) -> str | None:
    """An algorithm as writers call it (SHA256, SHA2-256, sha-512, MD5) in our words, or None when it is not one of ours."""
    label = label.lower()
    if label.startswith("sha"):
        label = label.replace("sha2-", "sha", 1).replace("sha-", "sha", 1)
    return label if label in DIGITS and label != "git-sha1" else None


def _is_foreign(name: str) -> bool:
    return _FOREIGN.search(name) is not None and _OURS.search(name) is None


def read(data: bytes, name: str, roots: Iterable[str] = ()) -> Manifest:
    """The list. NotAManifest when no line of it is like one of a list; `name` is the list's own."""
    of = of_file(name)
    pointer = _POINTER.fullmatch(data) if len(data) < 1024 else None
    if pointer:
        gathered = Gathered(roots)
        gathered.add(of or name, {"sha256": pointer[1].decode()}, int(pointer[2]))
        return gathered.manifest("git-lfs")
    lines = _Lines(data)
    if lines.all_match(_GIT_LFS):
        return _git_lfs(lines, roots)
    return _Reader(lines, name, roots, of, of is None and _is_foreign(name)).manifest()


class _Lines:
    """The lines that hold something; in a list with NUL for line ends (`sha256sum -z`) names hold what they like."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.nul = data.endswith(b"\0")
        self.start, self.end = 0, len(data)
        if data.startswith(_SIGNED):
            blank = _BLANK_LINE.search(data)
            self.start = blank.end() if blank else len(data)
            signature = data.find(_SIGNATURE, self.start)
            self.end = signature if signature >= 0 else len(data)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Each with its offset."""
        for found in (_RECORD if self.nul else _LINE).finditer(self.data, self.start, self.end):
            line = found[0]
            if line.endswith(b"\r") and not self.nul:
                line = line[:-1]
            if line:
                yield found.start(), line

    def number(self, offset: int) -> int:
        return self.data.count(b"\0" if self.nul else b"\n", 0, offset) + 1

    def all_match(self, pattern: re.Pattern[bytes]) -> bool:
        count = 0
        for _, line in self:
            count += 1
            if count > LINES or not pattern.fullmatch(line):
                return False
        return count > 0


def _git_lfs(lines: _Lines, roots: Iterable[str]) -> Manifest:
    gathered = Gathered(roots, lines.number)
    sized = all(_GIT_LFS_SIZE.search(line) for _, line in lines)
    for offset, line in lines:
        if gathered.full:
            break
        name = line[67:]  # 64 digits, ` * `
        gathered.add(
            _text(_GIT_LFS_SIZE.sub(b"", name) if sized else name), {"sha256": line[:64].decode()}, None, offset
        )
    return gathered.manifest("git-lfs")


class _Reader:
    def __init__(self, lines: _Lines, name: str, roots: Iterable[str], of: str | None, foreign: bool) -> None:
        self.lines = lines
        self.name = name
        self.of = of
        self.foreign = foreign
        self.gathered = Gathered(roots, lines.number)
        self.unknown_algorithm = False

    def manifest(self) -> Manifest:
        gathered = self.gathered
        records = self.records()
        if self.of is not None:
            records = self.of_one_file(records)
        for offset, name, algorithm, digest in records:
            gathered.add(name, {algorithm: digest}, None, offset)
            if gathered.full:
                break
        if not gathered.alike:
            if b"\0" in self.lines.data:
                raise NotAManifest("not-text")
            line = gathered.problems[0].line if gathered.problems else None
            raise NotAManifest("unknown-algorithm" if self.unknown_algorithm else "no-entries", line)
        gathered.unalign()
        # `sha256sum * > SHA256SUMS` lists the list, too, where there was one: as empty as it was just then.
        gathered.forget(self.name)
        return gathered.manifest("sums")

    def of_one_file(self, records: Iterator[Record]) -> Iterator[Record]:
        """A list that is named after one file and speaks of nothing else is of the file beside it, wherever that lay."""
        first = list(islice(records, 2 * len(BY_DIGITS)))
        if all(name in STDIN or name.rpartition("/")[2] == self.of for _, name, _, _ in first):
            first = [(offset, self.of or name, algorithm, digest) for offset, name, algorithm, digest in first]
        return chain(first, records)

    def records(self) -> Iterator[Record]:
        for count, (offset, line) in enumerate(self.lines):
            if count >= LINES:
                self.gathered.problem("too-many", "", offset)
                return
            record = self.bad(line, offset, "bad-line") if len(line) > LINE_BYTES else self.record(line, offset)
            if record is not None:
                yield record

    def record(self, line: bytes, offset: int) -> Record | None:
        line = line.lstrip(b" \t")
        found = _GNU.fullmatch(line)
        if found and len(found[2]) in BY_DIGITS:
            return self.made(line, offset, found[3], BY_DIGITS[len(found[2])], found[2], bool(found[1]), self.foreign)
        found = _BSD.fullmatch(line)
        if found:
            return self.made(
                line, offset, found[3], algorithm_named(found[2].decode()), found[4].replace(b":", b""), bool(found[1])
            )
        if _IDLE.fullmatch(line.rstrip(b" \t")):
            return None
        found = _LABELLED.fullmatch(line)
        if found and (algorithm := algorithm_named(found[1].decode())):
            return self.made(line, offset, found[3], algorithm, found[2])
        return self.name_first(line, offset)

    def name_first(self, line: bytes, offset: int) -> Record | None:
        """`name: hash`, `name = hash`, `name <tab, two blanks> hash`, `name-without-blanks hash`; or the hash alone."""
        line_end = line.rstrip(b" \t")
        before = line_end.rstrip(_HEX_BYTES)
        digest = line_end[len(before) :]
        algorithm = BY_DIGITS.get(len(digest))
        if algorithm is None:
            return self.bad(line, offset)
        foreign = self.foreign
        label = _LABEL_BEFORE.search(before[-20:])
        if label and (named := algorithm_named(label[1].decode())):
            algorithm, foreign = named, False
            before = before[: len(before) - len(label[0])]
        name = before.rstrip(b" \t:=")
        between = before[len(name) :]
        if not name:
            return self.made(line, offset, None, algorithm, digest, foreign=foreign)
        if not between or not (
            b":" in between or b"=" in between or b"\t" in between or len(between) > 1 or not re.search(rb"[ \t]", name)
        ):
            return self.bad(line, offset)
        return self.made(line, offset, name, algorithm, digest, foreign=foreign)

    def made(
        self,
        line: bytes,
        offset: int,
        name: bytes | None,
        algorithm: str | None,
        digest: bytes,
        escaped: bool = False,
        foreign: bool = False,
    ) -> Record | None:
        if algorithm is None or foreign:
            self.unknown_algorithm = True
            return None
        if len(digest) != DIGITS[algorithm]:
            return self.bad(line, offset, "bad-digest")
        if name is None:
            if self.of is None:
                return self.bad(line, offset, "bad-line")
            return offset, self.of, algorithm, digest.decode().lower()
        if escaped:
            unescaped = _unescape(name)
            if unescaped is None:
                return self.bad(line, offset, "bad-line")
            name = unescaped
        return offset, _text(name), algorithm, digest.decode().lower()

    def bad(self, line: bytes, offset: int, kind: str | None = None) -> Record | None:
        if kind is None:
            kind = "bad-digest" if _CUT.match(line) else "bad-line"
        keep = self.gathered.problem_count < PROBLEMS
        self.gathered.problem(kind, _text(line[:400]) if keep else "", offset)
        return None


def _unescape(name: bytes) -> bytes | None:
    """A name as coreutils escapes it, or None when it holds an escape that coreutils does not write."""
    if b"\0" in name:
        return None
    name = name.replace(b"\\\\", b"\0").replace(b"\\n", b"\n").replace(b"\\r", b"\r")
    return None if b"\\" in name else name.replace(b"\0", b"\\")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
