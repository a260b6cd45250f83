"""Where a file that torch wrote before 1.6 ends: its pickles' opcodes are read, nothing of them is ever executed; never judges.

Such a file is five pickles (a magic number, a version, the machine's sizes, the object, the storages' keys) and then, for each key
in that order, a count of 8 bytes and as many elements (torch/serialization.py: _legacy_save). The object names each storage
with its type and count as a persistent id: ("storage", torch.FloatStorage, key, location, count, view).
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from ._safetensors import HeaderError

Fetch = Callable[[int, int], bytes]

_PICKLES = 5
_BYTES = 16 << 20  # of all pickles; those of a large language model take some 100 KB
_OPCODES = 200_000  # a model of 400 tensors has about 20,000; these take half a second
_WINDOW = 128 << 10
_MOST = 1 << 44  # elements of one storage
_COUNT = 8  # bytes before each storage's elements
_SIZES = {
    "Double": 8, "Float": 4, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexFloat": 8, "ComplexDouble": 16, "Untyped": 1,
}  # fmt: skip
_OPAQUE = object()
_MARK = object()


class Untold(Exception):
    """The pickles are not those of torch, or longer than anything that is read through."""


class _File:
    """The beginning of the file as pickletools reads one."""

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch = fetch
        self._size = size
        self._at = 0
        self._begin = 0
        self._window = b""

    def tell(self) -> int:
        return self._at

    def read(self, length: int) -> bytes:
        if length > _BYTES or self._at + length > _BYTES:
            raise Untold
        if self._at + length > self._size:
            raise HeaderError("InvalidHeaderLength")
        if not self._begin <= self._at <= self._at + length <= self._begin + len(self._window):
            self._begin, self._window = self._at, self._fetch(self._at, max(length, _WINDOW))
        data = self._window[self._at - self._begin : self._at - self._begin + length]
        self._at += length
        return data

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += self.read(1)
            if len(line) > 500:
                raise Untold
        return line


def end_of(fetch: Fetch, size: int) -> tuple[int, int]:
    """(storages, size that the file has to have). HeaderError where it ends within its pickles; Untold."""
    file = _File(fetch, size)
    left = _OPCODES
    ids: list[Any] = []
    value: Any = None
    for _ in range(_PICKLES):
        value, left = _walked(file, ids, left)
    storages = {i[2]: i for i in ids if isinstance(i, list) and len(i) >= 5 and isinstance(i[2], str)}
    if not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise Untold
    end = file.tell()
    for key in value:
        if key not in storages:
            raise Untold
        tag, kind, _, _, count = storages[key][:5]
        if tag != "storage" or not isinstance(kind, str) or not isinstance(count, int) or not 0 <= count < _MOST:
            raise Untold
        each = _SIZES.get(kind.rpartition(".")[2].removesuffix("Storage"))
        if each is None:
            raise Untold
        end += _COUNT + count * each
    if end < size and fetch(end, 2) == b"\x80\x02":
        raise Untold  # another object follows
    return len(value), end


def _walked(file: Any, ids: list[Any], left: int) -> tuple[Any, int]:
    """What one pickle leaves, as far as it is text, numbers and lists of these; adds the persistent ids in it to `ids`."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    try:
        for opcode, arg, _ in pickletools.genops(file):
            left -= 1
            if left < 0:
                raise Untold
            _step(opcode, arg, stack, memo, ids)
    except (ValueError, IndexError, KeyError, UnicodeError):
        raise Untold from None
    return (stack[-1] if stack else None), left


def _step(opcode: Any, arg: Any, stack: list[Any], memo: dict[Any, Any], ids: list[Any]) -> None:
    name = opcode.name
    if name == "MARK":
        stack.append(_MARK)
    elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
        memo[arg] = stack[-1]
    elif name == "MEMOIZE":
        memo[len(memo)] = stack[-1]
    elif name in ("GET", "BINGET", "LONG_BINGET"):
        stack.append(memo[arg])
    elif name == "GLOBAL":
        stack.append(str(arg).replace(" ", "."))
    elif name == "STOP":
        pass
    elif name in ("TUPLE", "LIST"):
        stack.append(_since_mark(stack))
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        count = int(name[-1])
        stack[-count:] = [stack[-count:]]
    elif name in ("EMPTY_LIST", "EMPTY_TUPLE"):
        stack.append([])
    elif name in ("APPENDS", "APPEND"):
        items = _since_mark(stack) if name == "APPENDS" else [stack.pop()]
        if isinstance(stack[-1], list):
            stack[-1].extend(items)
    elif name == "BINPERSID":
        ids.append(stack.pop())
        stack.append(_OPAQUE)
    elif not opcode.stack_before:
        stack.append(arg if isinstance(arg, str | int) else _OPAQUE)
    else:
        if pickletools.markobject in opcode.stack_before:
            _since_mark(stack)
            del stack[len(stack) - opcode.stack_before.index(pickletools.markobject) :]
        else:
            del stack[len(stack) - len(opcode.stack_before) :]
        stack.extend([_OPAQUE] * len(opcode.stack_after))


def _since_mark(stack: list[Any]) -> list[Any]:
    items: list[Any] = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]
