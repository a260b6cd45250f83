"""Whether a vocabulary or a template ends where it should: SentencePiece, tiktoken, merges, Jinja; reads no file, judges nothing."""

from __future__ import annotations

import re

# One line of a tiktoken vocabulary: the token in base64, a space, its rank. Whisper's ends with an empty token, `= 50256`.
_TIKTOKEN = re.compile(
    rb"(?:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})|=) \d+\r?\Z"
)
_PIECES = 1_000_000  # fields that are walked; the largest vocabularies have 260,000
_JINJA = re.compile(r"\{%[-+]?|\{\{[-+]?|\{#")
_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_STRING = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""", re.DOTALL)
_WORD = re.compile(r"\s*([A-Za-z_]\w*)")
# Statements with an end of their own (Jinja's parser, and transformers' own `generation`).
_BLOCKS = frozenset(
    ("if", "for", "macro", "call", "filter", "set", "block", "with", "autoescape", "trans", "generation")
)


def sentencepiece_problem(data: bytes | bytearray) -> str | None:
    """`cut` when a SentencePiece model ends within a field; None when it is whole, or is none.

    The file is a protocol buffer (sentencepiece_model.proto): a field for each piece, then those of trainer and normaliser.
    """
    at, end = 0, len(data)
    fields = 0
    while at < end:
        tag = data[at]
        at += 1
        if tag == 0x0A:  # a piece: field 1, with its length before it
            length, at = _varint(data, at)
            at += length
        elif tag & 7 == 2:
            if tag & 0x80:
                _, at = _varint(data, at - 1)
            length, at = _varint(data, at)
            at += length
        else:
            # No other kind of field stands at the top of such a file: this is something else.
            return None if fields < 100 else "cut"
        fields += 1
        if fields > _PIECES:
            return None
    return "cut" if at > end else None


def _varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= 70:  # no number has more bytes
            break
    return value, len(data) + 1


def is_tiktoken(head: bytes) -> bool:
    """Whether the first line is one of a tiktoken vocabulary."""
    first, newline, _ = head.partition(b"\n")
    return bool(newline) and bool(_TIKTOKEN.match(first))


def tiktoken_problem(data: bytes | bytearray) -> str | None:
    """`cut` when the last line of a tiktoken vocabulary is half a line, or its rank is half a number."""
    lines = data[-4096:].rstrip(b"\r\n").split(b"\n")
    if not _TIKTOKEN.match(lines[-1]):
        return "cut"
    if data.endswith(b"\n") or len(lines) < 3 or not _TIKTOKEN.match(lines[-2]):
        return None
    before, last = (int(line.split(b" ")[1]) for line in lines[-2:])
    return "cut" if last < before else None


def merges_problem(data: bytes | bytearray) -> str | None:
    """`cut` when the last line of a merges.txt is no pair."""
    last = data[-4096:].rstrip(b"\r\n").rpartition(b"\n")[2]
    return None if not last or last.startswith(b"#") or b" " in last.strip(b" ") else "cut"


def unclosed(template: str) -> str | None:
    """What a Jinja template opens and never ends: a tag, a comment, or a statement such as `if`; None: nothing."""
    at = 0
    open_blocks: list[str] = []
    while True:
        m = _JINJA.search(template, at)
        if m is None:
            break
        if m[0] == "{#":
            close = template.find("#}", m.end())
            if close < 0:
                return "{#"
            at = close + 2
            continue
        mark = "%}" if m[0].startswith("{%") else "}}"
        close = _closing(template, m.end(), mark)
        if close < 0:
            return m[0][:2]
        inside = template[m.end() : close]
        at = close + 2
        word = _WORD.match(inside)
        if mark == "}}" or word is None:
            continue
        name = word[1]
        if name == "raw":
            ended = _RAW.search(template, at)
            if ended is None:
                return "raw"
            at = ended.end()
        elif name in _BLOCKS:
            # `set x = …` has no end, `set x` has one; so has `set x | filter`.
            if name != "set" or "=" not in _STRING.sub("", inside):
                open_blocks.append(name)
        elif name.startswith("end") and open_blocks and name[3:] in _BLOCKS:
            open_blocks.pop()
    return open_blocks[-1] if open_blocks else None


def _closing(template: str, at: int, mark: str) -> int:
    """Where the tag ends: its mark outside of strings and, for `}}`, of braces."""
    depth = 0
    while at < len(template):
        c = template[at]
        if c in "\"'":
            m = _STRING.match(template, at)
            if m is None:
                return -1
            at = m.end()
            continue
        if template.startswith(mark, at) and depth == 0:
            return at
        if mark == "}}":
            depth += (c == "{") - (c == "}" and depth > 0)
        at += 1
    return -1
