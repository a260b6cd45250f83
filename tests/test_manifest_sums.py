"""Lists of checksums in lines: what the real tools write is read back name by name, and nothing is read that is not there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds_doctor.manifest import Entry, Manifest, NotAManifest, is_list_name, parse, write_sums

A, B = "a" * 64, "b" * 64
MD5, SHA1, SHA512 = "1" * 32, "2" * 40, "3" * 128
STRANGE = [
    "model-00001-of-00002.safetensors",
    "with space",
    " lead",
    "#hash",
    "*star",
    "a) = b",
    "\\lead",
    "back\\slash",
    "cr\rx",
    "t\tab ",
    "new\nline",
    os.fsdecode(b"\xff\xfe"),
    "模型.bin",
    "sub/x",
]


def entries(text: str | bytes, name: str = "SHA256SUMS", **more: object) -> dict[str, dict[str, str]]:
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return {e.name: e.digests for e in parse(data, name, **more).entries}  # type: ignore[arg-type]


def problems(text: str, name: str = "SHA256SUMS") -> list[tuple[str, int | None]]:
    return [(p.id, p.line) for p in parse(text.encode(), name).problems]


def why_not(data: bytes, name: str = "SHA256SUMS") -> str:
    with pytest.raises(NotAManifest) as caught:
        parse(data, name)
    return caught.value.why


# -- the real writers


WRITERS = {  # command: names that it cannot write so that they can be read
    "sha256sum": [],
    "sha256sum -b": [],
    "sha256sum --tag": [],
    "sha256sum -z": [],
    "sha256sum -z --tag": [],
    "sha512sum": [],
    "sha1sum --tag": [],
    "md5sum": [],
    "cksum -a sha256": [],
    "shasum -a 256": [],
    "shasum -b -a 512": [],
    "shasum --tag -a 384": [],
    "openssl dgst -sha256": ["new\nline"],
    "openssl dgst -c -sha256": ["new\nline"],
    "openssl dgst -r -sha512": [],
    "busybox sha256sum": ["new\nline"],
    "rhash --sha256": ["new\nline", "\\lead", "back\\slash"],
    "rhash --sha256 --bsd": ["new\nline", "\\lead", "back\\slash"],
    "rhash --sha256 --uppercase": ["new\nline", "\\lead", "back\\slash"],
}


@pytest.mark.parametrize("command", WRITERS)
def test_what_a_writer_writes_is_read_back(command: str, tmp_path: Path) -> None:
    names = [n for n in STRANGE if n not in WRITERS[command]]
    for name in names:
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.fsencode(name))
    words = command.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} here")
    done = subprocess.run(
        [*words, "--", *(f"./{n}" if "/" in n else n for n in names)], cwd=tmp_path, capture_output=True
    )
    if done.returncode:
        pytest.skip(f"{command}: {done.stderr.decode(errors='replace')[:100]}")
    manifest = parse(done.stdout, "SUMS")
    assert (manifest.problem_count, len(manifest.entries)) == (0, len(names))
    for entry in manifest.entries:
        [(algorithm, digest)] = entry.digests.items()
        assert hashlib.new(algorithm, os.fsencode(entry.name)).hexdigest() == digest


@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="no git-lfs here")
@pytest.mark.parametrize("options", [["-l"], ["-l", "-s"], ["--json"]])
def test_what_git_lfs_lists_is_read_back(options: list[str], tmp_path: Path) -> None:
    git = ["git", "-c", "user.email=a@b", "-c", "user.name=n", "-C", str(tmp_path)]
    names = ["a b.bin", "model.bin", "模型.bin"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    for words in (
        ["init", "-q"],
        ["lfs", "install", "--local"],
        ["lfs", "track", "*.bin"],
        ["add", "-A"],
        ["commit", "-qm", "x"],
    ):
        subprocess.run([*git, *words], check=True, capture_output=True)
    listed = subprocess.run([*git, "lfs", "ls-files", *options], check=True, capture_output=True).stdout
    manifest = parse(listed, "lfs.txt")
    assert (manifest.kind, manifest.problem_count) == ("git-lfs", 0)
    assert {e.name: e.digests["sha256"] for e in manifest.entries} == {
        n: hashlib.sha256(n.encode()).hexdigest() for n in names
    }


def test_a_pointer_vouches_for_the_file_that_its_own_name_tells() -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{A}\nsize 12\n"
    assert parse(pointer.encode(), "model.safetensors").entries == (
        Entry(name="model.safetensors", size=12, digests={"sha256": A}),
    )


# -- what people write


@pytest.mark.parametrize(
    "line",
    [
        f"{A}  m.bin",
        f"{A} *m.bin",
        f"{A} m.bin",
        f"{A}\tm.bin",
        f"{A}\t\tm.bin",
        f"  {A}  m.bin",
        f"{A.upper()}  m.bin",
        f"{A}  ./m.bin",
        f"{A}  .//m.bin",
        f"SHA256 (m.bin) = {A}",
        f"SHA256(m.bin)= {A}",
        f"SHA2-256(m.bin)= {A}",
        f"SHA256 (./m.bin) = {A.upper()}",
        f"sha256:{A}  m.bin",
        f"sha256: {A} m.bin",
        f"SHA256 {A} m.bin",
        f"m.bin: {A}",
        f"m.bin = {A}",
        f"m.bin  {A}",
        f"m.bin {A}",
        f"m.bin\t{A}",
        f"m.bin: sha256:{A}",
        f"m.bin sha256:{A}",
        f"\ufeff{A}  m.bin",
        f"# made by hand\n\n; old\n// new\n----\nSHA256:\n[sha256]\nsha256sums\n{A}  m.bin\n\n",
        f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{A}  m.bin\n-----BEGIN PGP SIGNATURE-----\n\niQEz{A}\n=abcd\n-----END PGP SIGNATURE-----\n",
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
def test_a_line_is_read_however_it_is_written(line: str, end: str) -> None:
    manifest = parse((line + end).encode(), "SHA256SUMS")
    assert (manifest.kind, manifest.problem_count) == ("sums", 0)
    assert manifest.entries == (Entry(name="m.bin", digests={"sha256": A}),)


def test_a_list_of_powershell_is_read() -> None:
    assert entries(f"{A}  m.bin\r\n".encode("utf-16")) == {"m.bin": {"sha256": A}}


def test_columns_that_were_aligned_by_hand_are_no_part_of_the_names() -> None:
    assert entries(f"{A}    a\n{B}    b\n") == {"a": {"sha256": A}, "b": {"sha256": B}}
    assert entries(f"{A}    a\n{B}  b\n") == {"  a": {"sha256": A}, "b": {"sha256": B}}, "sha256sum -c reads it so"


def test_algorithms_are_told_by_their_label_or_length() -> None:
    text = f"MD5 (m) = {MD5}\nSHA1 (m) = {SHA1}\n{A}  m\n{SHA512}  m\n"
    assert entries(text) == {"m": {"md5": MD5, "sha1": SHA1, "sha256": A, "sha512": SHA512}}


@pytest.mark.parametrize(
    "text",
    [f"BLAKE2b (m) = {SHA512}\n", f"SHA3-256 (m) = {A}\n", f"BLAKE2b-256 (m) = {A}\n", f"SHA512/256 (m) = {A}\n"],
)
def test_a_digest_of_another_algorithm_is_never_taken_for_ours(text: str) -> None:
    assert why_not(text.encode()) == "unknown-algorithm"
    assert problems(text + f"{A}  x\n") == []


@pytest.mark.parametrize("name", ["B2SUMS", "b3sums.txt", "BLAKE3SUMS", "sha3-256sums", "m.b2", "xxh128sums"])
def test_a_list_named_after_another_algorithm_is_left_alone(name: str) -> None:
    assert why_not(f"{A}  m\n".encode(), name) == "unknown-algorithm"
    assert entries(f"SHA256 (m) = {B}\n{A}  m\n", name) == {"m": {"sha256": B}}


@pytest.mark.parametrize("name", ["tiger_sha256sums.txt", "B2-7B-SHA256SUMS", "b3.sha256"])
def test_a_model_that_is_called_like_an_algorithm_changes_nothing(name: str) -> None:
    assert entries(f"{A}  m\n", name) == {"m": {"sha256": A}}


@pytest.mark.parametrize(
    "text",
    [
        A,
        f"{A}\n",
        f"{A}\r\n",
        f"{A}  -\n",
        f"{A} *stdin",
        f"SHA2-256(stdin)= {A}",
        f"sha256:{A}",
        f"{A}  /build/out/m.bin\n",
        f"{A}  out/m.bin",
    ],
)
def test_a_list_that_is_named_after_one_file_is_of_that_file(text: str) -> None:
    for name in ("m.bin.sha256", "m.bin.SHA256", "m.bin.sha256sum", "m.bin.sha256.txt", "sub/m.bin.sha256"):
        assert entries(text, name) == {"m.bin": {"sha256": A}}


def test_a_cut_digest_of_one_file_vouches_for_nothing() -> None:
    for text in (f"sha256:{A[:32]}", A[:60], f"SHA256 (m.bin) = {A[:32]}", f"{A[:12]}…"):
        manifest = parse(text.encode(), "m.bin.sha256")
        assert (manifest.entries, [p.id for p in manifest.problems]) == ((), ["bad-digest"])


def test_a_list_does_not_vouch_for_itself(tmp_path: Path) -> None:
    (tmp_path / "m.bin").write_bytes(b"x")
    for _ in range(2):
        subprocess.run("sha256sum ./* > SHA256SUMS", shell=True, cwd=tmp_path, check=True)
    listed = (tmp_path / "SHA256SUMS").read_bytes()
    assert b"./SHA256SUMS\n" in listed
    assert list(entries(listed)) == ["m.bin"]


def test_a_digest_alone_belongs_to_nothing_when_the_list_names_no_file() -> None:
    assert why_not(A.encode()) == "no-entries"


# -- what cannot be relied on


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{A[:40]}…  m", "bad-digest"),
        (f"{A[:12]}...  m", "bad-digest"),
        (f"{A[:63]}  m", "bad-digest"),
        (f"{A}a  m", "bad-digest"),
        (f"{A[:63]}g  m", "bad-line"),
        (f"SHA256 (m) = {A[:40]}", "bad-digest"),
        (f"SHA512 (m) = {A}", "bad-digest"),
        (f"md5: {A}  m", "bad-digest"),
        ("all of these are fine", "bad-line"),
        (f"\\{A}  bad\\escape", "bad-line"),
        (f"\\{A}  ends\\", "bad-line"),
        (f"{A}  a\0b", "bad-line"),
        (f"{A}  sub/", "bad-line"),
        (f"{A}  .", "bad-line"),
        (f"{A}  {'n' * 5000}", "bad-line"),
        (f"{A}  {'n' * 20_000}", "bad-line"),
        (f"{A}  ../m", "escapes"),
        (f"{A}  ..", "escapes"),
        (f"{A}  a/../../m", "escapes"),
        (f"{A}  /etc/passwd", "escapes"),
        (f"SHA256 (/etc/passwd) = {A}", "escapes"),
        (f"\\{A}  ..\\n/../m", "escapes"),
        (f"{B}  good", "twice"),
    ],
)
def test_a_line_that_cannot_be_relied_on_is_a_problem_and_the_rest_is_read(line: str, problem: str) -> None:
    text = f"{A}  good\n{line}\n{MD5}  other\n"
    assert problems(text) == [(problem, 2)]
    assert entries(text) == {"good": {} if problem == "twice" else {"sha256": A}, "other": {"md5": MD5}}


def test_the_same_line_twice_is_no_problem() -> None:
    assert problems(f"{A}  m\n{A.upper()} *./m\n") == []


def test_a_third_word_does_not_settle_a_contradiction() -> None:
    text = f"{A}  m\n{B}  m\n{A}  m\n{SHA512}  m\n"
    assert problems(text) == [("twice", 2)]
    assert entries(text) == {"m": {"sha512": SHA512}}


def test_only_problems_is_a_list_still_when_digests_stand_in_it() -> None:
    assert parse(f"{A[:20]}  m\n".encode(), "SHA256SUMS").entries == ()


def test_absolute_names_under_a_root_are_names_of_the_folder() -> None:
    assert entries(f"{A}  /models/x/m\n{B}  /models/xy/m\n", roots=["/models/x"]) == {"m": {"sha256": A}}
    assert entries(f"{A}  /models/x/../y/m\n{B}  n\n", roots=["/models/x/"]) == {"n": {"sha256": B}}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n\r\n\t", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"# nothing but words\n", "no-entries"),
        (b"<!doctype html><html><body>Not Found</body></html>\n", "no-entries"),
        (b"233199703 1 m.bin\n", "no-entries"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\n\0", "not-text"),
        (b"\xff\xfea", "not-text"),
        (b"a" * (32 << 20) + b"a", "too-large"),
    ],
)
def test_what_is_no_list_is_refused_in_a_word(data: bytes, why: str) -> None:
    assert why_not(data) == why


def test_of_too_many_files_the_first_are_kept() -> None:
    manifest = parse(b"".join(b"%064x  f%d\n" % (i, i) for i in range(200_010)), "SHA256SUMS")
    assert len(manifest.entries) == 200_000
    assert [(p.id, p.line) for p in manifest.problems] == [("too-many", 200_001)]


def test_problems_are_counted_whole_and_kept_in_part() -> None:
    manifest = parse(f"{A}  m\n".encode() + b"what is this\n" * 1000, "SHA256SUMS")
    assert (manifest.problem_count, len(manifest.problems)) == (1000, 20)


def test_a_problem_can_stand_in_a_report() -> None:
    [problem] = parse(f"{A}  m\n".encode() + b"\xff\x1b[31m\x85" + b"x" * 500, "SHA256SUMS").problems
    assert len(problem.text) <= 120
    problem.text.encode()
    assert problem.text.isprintable()


@pytest.mark.parametrize("name", ["SHA256SUMS", "SHA256SUM", "sha256sums.txt", "m.safetensors.sha256", "model.sha256sum", "checksums.txt", "checksum.txt", "CHECKSUMS", "checksums.sha256", "MD5SUMS", "x.md5", "checklist.chk", "sha256.txt", "SHA512SUMS.txt", "checksums-sha256.txt", "x_SHA256SUMS"])  # fmt: skip
def test_lists_are_known_by_their_names(name: str) -> None:
    assert is_list_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "config.json",
        "README.md",
        "tokenizer.txt",
        "tokenizer.hash",
        "SHA256SUMS.asc",
        "SHA256SUMS.gpg",
        "hash.py",
        "checksum.py",
        "",
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert not is_list_name(name)


# -- properties

HEX = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.binary(min_size=1, max_size=30).filter(lambda b: b"\0" not in b).map(os.fsdecode)


def plain(name: str) -> bool:
    return not name.startswith("/") and all(p not in ("", ".", "..") for p in name.split("/"))


@given(st.dictionaries(NAMES.filter(plain), HEX, min_size=1, max_size=5))
@example({"a\rb": A, "c\r": B, "\\": A})
@example({" a": A})
@example({os.fsdecode(b"\xff"): A})
def test_what_we_write_is_read_back(files: dict[str, str]) -> None:
    if len(files) > 1 and all(n.startswith(" ") for n in files):
        files["x"] = A
    written = write_sums(Entry(name=n, digests={"sha256": d}) for n, d in files.items())
    manifest = parse(written, "SHA256SUMS")
    assert manifest.problem_count == 0
    assert {e.name: e.digests for e in manifest.entries} == {n: {"sha256": d} for n, d in files.items()}


PIECES = st.sampled_from(["a" * 64, "b" * 40, "c" * 32, "  ", " *", "\\", "\\n", "\n", "\r\n", "\0", "name", "SHA256 (", ") = ", "../", "/", "sha256:", ": ", "\t", "#", "{", "[", '"', "…", "\ufeff"])  # fmt: skip


@given(
    st.lists(PIECES, max_size=12).map(lambda p: "".join(p).encode()) | st.binary(max_size=200),
    st.sampled_from(["SHA256SUMS", "x.sha256", "b2sums", ""]),
)
def test_whatever_is_fed_is_a_manifest_or_none(data: bytes, name: str) -> None:
    try:
        manifest = parse(data, name)
    except NotAManifest:
        return
    assert_safe(manifest)


def assert_safe(manifest: Manifest) -> None:
    for entry in manifest.entries:
        assert plain(entry.name) and "\0" not in entry.name
        os.fsencode(entry.name)
        assert all(d == d.lower() and int(d, 16) >= 0 for d in entry.digests.values())
    assert len({e.name for e in manifest.entries}) == len(manifest.entries)
    assert len(manifest.problems) <= manifest.problem_count
    assert all(p.text.isprintable() for p in manifest.problems)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_sha256sum_checks_what_we_write(tmp_path: Path) -> None:
    made = []
    for name in STRANGE:
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.fsencode(name))
        made.append(Entry(name=name, digests={"sha256": hashlib.sha256(os.fsencode(name)).hexdigest()}))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "-"], cwd=tmp_path, input=write_sums(made), capture_output=True
    )
    assert done.returncode == 0, done.stderr
