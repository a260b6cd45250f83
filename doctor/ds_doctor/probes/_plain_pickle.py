"""The plain values of a pickle (lists, dicts, strings, numbers), read without running anything in it; never judges.

ModelScope keeps its notes as pickles. Unpickling a stranger's file runs what it says; this reads the few instructions that build plain
values, and refuses a file with any other.
"""

from __future__ import annotations

from typing import Any

LIMIT = 1 << 20  # bytes; the notes of 200 files have 20 kB
_VALUES = (
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1",
    "BINFLOAT", "FLOAT", "SHORT_BINSTRING", "BINSTRING", "STRING",
)  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_MARK = object()


class NotPlain(Exception):
    """The file is no pickle, or does more than build plain values."""


def read(data: bytes) -> Any:
    """The value. NotPlain where it cannot be told without running it."""
    try:
        return _run(data)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as e:  # a damaged file
        raise NotPlain(type(e).__name__) from None


def _run(data: bytes) -> Any:
    import pickletools  # brings all of pickle, which most models have no need of

    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for opcode, arg, _ in pickletools.genops(data[:LIMIT]):
        name = opcode.name
        if name in _VALUES:
            stack.append(arg)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("LIST", "DICT"):
            items = _since_mark(stack)
            stack.append(items if name == "LIST" else _pairs(items))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[arg] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[arg])
        elif name == "APPEND":
            item = stack.pop()
            stack[-1].append(item)
        elif name == "APPENDS":
            items = _since_mark(stack)
            stack[-1].extend(items)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1][key] = value
        elif name == "SETITEMS":
            items = _since_mark(stack)
            stack[-1].update(_pairs(items))
        elif name == "STOP":
            return stack[-1]
        elif name not in ("PROTO", "FRAME"):
            raise NotPlain(name)
    raise NotPlain("no end")


def _since_mark(stack: list[Any]) -> list[Any]:
    items: list[Any] = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))
