"""The text of a shell script to its simple commands, with what is certain of its variables; runs nothing, expands no file.

Quotes, continuation lines, comments, here-documents, arrays and plain parameter expansion are read as POSIX and bash have
them. What depends on the moment it runs (command substitution, arithmetic, conditions, arguments) is left as it stands
and marked as open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from .variables import HIDDEN

LIMIT = 20_000  # commands of one script
_OPENERS = frozenset(("if", "for", "while", "until", "case", "select", "function"))
_CLOSERS = frozenset(("fi", "done", "esac"))
_INNER = frozenset(("then", "elif", "else", "do", "!", "time", "in"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")


class QuotesOpen(ValueError):
    """A quote, bracket or substitution that is never closed; the line where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class Command(msgspec.Struct, kw_only=True):
    """A simple command. `words` are expanded as far as is certain; `open`: those that are not. `sure`: it is run whenever
    the script is (no condition, loop or function around it). `after`: the operator in front of it."""

    words: list[str]
    line: int
    sure: bool
    after: str = ""
    environment: dict[str, str]
    open: list[str]


class State:
    """What is known of the variables. None as a value: set, and nobody knows to what."""

    def __init__(self, known: Mapping[str, str] | None, arguments: list[str] | None = None) -> None:
        self.values: dict[str, str | None] = {}
        self.arrays: dict[str, list[str]] = {}
        self.exported: dict[str, None] = {}
        self.outer = dict(known) if known is not None else {}
        self.arguments = arguments  # from $0 on; None: not known
        self.export_all = False
        self.folder: str | None = None

    def get(self, name: str) -> tuple[bool, str | None]:
        """(whether it is certain, the value or None where it is not set)."""
        if name in self.values:
            value = self.values[name]
            return value is not None, value
        if name in self.outer:
            return True, self.outer[name]
        return False, None

    def unknown(self, name: str) -> bool:
        return name in self.values and self.values[name] is None

    def environment(self) -> dict[str, str]:
        return {n: v for n in self.exported if (v := self.values.get(n)) is not None}


class _Word:
    """One word as it is put together: fields, since an unquoted expansion may give several."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.text = ""
        self.begun = False
        self.quoted = False
        self.open = False

    def split(self, value: str) -> None:
        """Put in the value of an unquoted expansion: blanks part it into words."""
        parts = re.split(r"[ \t\n]+", value)
        if len(parts) == 1:
            self.text += value
            self.begun = self.begun or bool(value)
            return
        for i, part in enumerate(parts):
            if i:
                self.finish()
            self.text += part
            self.begun = self.begun or bool(part)

    def many(self, values: list[str]) -> None:
        for i, value in enumerate(values):
            if i:
                self.finish()
            self.text += value
            self.begun = True

    def finish(self) -> None:
        if self.begun:
            self.fields.append(self.text)
        self.text, self.begun = "", False


class Reader:
    """Reads commands one after the other; assignments take effect in the order of the text."""

    def __init__(self, text: str, state: State) -> None:
        self.text = text
        self.state = state
        self.at = 0
        self.blocks: list[str] = []
        self.heredocs: list[tuple[str, bool]] = []
        self.commands: list[Command] = []
        self.sourced: list[str] = []
        self.uncertain_next = False

    # -- the text -------------------------------------------------------------------------------------------

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1

    def read(self) -> list[Command]:
        """All commands. QuotesOpen for a text that a shell would refuse at its end."""
        text, end = self.text, len(self.text)
        words: list[_Word] = []
        word: _Word | None = None
        first_line = 1
        after = ""
        while True:
            c = text[self.at] if self.at < end else ""
            if word is None and c == "#":
                newline = text.find("\n", self.at)
                self.at = end if newline < 0 else newline
                continue
            if c == "<" and text.startswith(HIDDEN, self.at):  # the mask of a secret, and no redirection
                if word is None:
                    word = _Word()
                    first_line = first_line if words else self.line()
                word.text += HIDDEN
                word.begun = True
                self.at += len(HIDDEN)
                continue
            if c == "" or c in " \t\n;&|()<>":
                redirects = c != "" and c in "<>"
                if word is not None and not (redirects and word.text.isdigit() and not word.quoted):  # 2>&1
                    words.append(word)
                if redirects:
                    word = None
                    self._redirection()
                    continue
                word = None
                if c in (" ", "\t"):
                    self.at += 1
                    continue
                if c == "(" and self._array(words):
                    continue
                operator = self._operator(c)
                self._command(words, first_line, after, operator)
                words = []
                after = operator
                if c == "":
                    return self.commands
                if len(self.commands) > LIMIT:
                    return self.commands
                if operator == "\n":
                    self._skip_heredocs()
                continue
            if word is None:
                word = _Word()
                if not words:
                    first_line = self.line()
            self._piece(word, c)

    def _operator(self, c: str) -> str:
        two = self.text[self.at : self.at + 2]
        operator = two if two in ("&&", "||", ";;", "|&", ";&") else c
        self.at += len(operator)
        return operator

    def _redirection(self) -> None:
        m = re.compile(r"<<-?(?!<)|<<<|[<>]&[-\d]*|&>>?|>>|>\||<>|[<>]").match(self.text, self.at)
        operator = m[0] if m else self.text[self.at]
        self.at += len(operator)
        if operator in ("<", ">") and self.text[self.at : self.at + 1] == "(":  # process substitution
            self._balanced("(", ")")
            return
        if re.fullmatch(r"[<>]&[-\d]+", operator):
            return
        while self.text[self.at : self.at + 1] in (" ", "\t") and self.at < len(self.text):
            self.at += 1
        target = _Word()
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;&|()<>":
            self._piece(target, self.text[self.at])
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.at]
            self.heredocs.append((re.sub(r"[\"'\\]", "", raw), operator == "<<-"))

    def _skip_heredocs(self) -> None:
        for delimiter, tabs in self.heredocs:
            while self.at < len(self.text):
                newline = self.text.find("\n", self.at)
                line = self.text[self.at : newline if newline >= 0 else len(self.text)]
                self.at = len(self.text) if newline < 0 else newline + 1
                if (line.lstrip("\t") if tabs else line) == delimiter:
                    break
        self.heredocs.clear()

    def _balanced(self, opening: str, closing: str) -> str:
        """What stands between a bracket here and the one that closes it, quotes looked over."""
        start, begun = self.at, self.line()
        depth = 0
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == "\\":
                self.at += 2
                continue
            if c == "'" and opening != "{":
                close = self.text.find("'", self.at + 1)
                if close < 0:
                    raise QuotesOpen(begun)
                self.at = close + 1
                continue
            if c == opening:
                depth += 1
            elif c == closing:
                depth -= 1
                if depth == 0:
                    self.at += 1
                    return self.text[start + 1 : self.at - 1]
            self.at += 1
        raise QuotesOpen(begun)

    # -- words ----------------------------------------------------------------------------------------------

    def _piece(self, word: _Word, c: str) -> None:
        text = self.text
        if c == "\\":
            following = text[self.at + 1 : self.at + 2]
            self.at += 2
            if following and following != "\n":
                word.text += following
                word.begun = True
        elif c == "'":
            close = text.find("'", self.at + 1)
            if close < 0:
                raise QuotesOpen(self.line())
            word.text += text[self.at + 1 : close]
            word.begun = word.quoted = True
            self.at = close + 1
        elif c == '"':
            self._double(word)
        elif c == "$" and text[self.at + 1 : self.at + 2] in ("'", '"'):
            self.at += 1
        elif c in "$`":
            self._expansion(word, quoted=False)
        elif c == "~" and not word.begun and self._home():
            word.text += self._home() or ""
            word.begun = True
            self.at += 1
        else:
            word.text += c
            word.begun = True
            self.at += 1

    def _home(self) -> str | None:
        following = self.text[self.at + 1 : self.at + 2]
        sure, home = self.state.get("HOME")
        return home if sure and (following == "/" or following == "" or following.isspace()) else None

    def _double(self, word: _Word) -> None:
        begun = self.line()
        self.at += 1
        word.begun = word.quoted = True
        while self.at < len(self.text):
            c = self.text[self.at]
            if c == '"':
                self.at += 1
                return
            if c == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following in ("$", "`", '"', "\\"):
                    word.text += following
                elif following != "\n":
                    word.text += "\\" + following
                self.at += 2
            elif c in "$`":
                self._expansion(word, quoted=True)
            else:
                word.text += c
                self.at += 1
        raise QuotesOpen(begun)

    def _expansion(self, word: _Word, quoted: bool) -> None:
        text, start = self.text, self.at
        if text[self.at] == "`":
            close = text.find("`", self.at + 1)
            if close < 0:
                raise QuotesOpen(self.line())
            self.at = close + 1
            self._leave_open(word, text[start : self.at])
            return
        following = text[self.at + 1 : self.at + 2]
        if following == "(":
            self.at += 1
            self._balanced("(", ")")
            self._leave_open(word, text[start : self.at])
        elif following == "{":
            self.at += 1
            inner = self._balanced("{", "}")
            self._braced(word, inner, text[start : self.at], quoted)
        elif following in ("@", "*"):
            self.at += 2
            self._arguments(word, text[start : self.at])
        elif following.isdigit() or following in ("#", "?", "$", "!", "-"):
            self.at += 2
            self._positional(word, following, text[start : self.at], quoted)
        else:
            m = _NAME.match(text, self.at + 1)
            if m is None:
                word.text += "$"
                word.begun = True
                self.at += 1
                return
            self.at = m.end()
            self._put(word, *self.state.get(m[0]), text[start : self.at], quoted)

    def _put(self, word: _Word, sure: bool, value: str | None, raw: str, quoted: bool) -> None:
        if not sure:
            name = raw.strip("${}")
            if not quoted and name in self.state.arrays:
                self._put(word, True, self.state.arrays[name][0] if self.state.arrays[name] else "", raw, quoted)
                return
            self._leave_open(word, raw)
        elif quoted:
            word.text += value or ""
        else:
            word.split(value or "")

    def _leave_open(self, word: _Word, raw: str) -> None:
        word.text += raw
        word.begun = word.open = True

    def _arguments(self, word: _Word, raw: str) -> None:
        if self.state.arguments is None:
            self._leave_open(word, raw)
        else:
            word.many(self.state.arguments[1:])

    def _positional(self, word: _Word, which: str, raw: str, quoted: bool) -> None:
        given = self.state.arguments
        if not which.isdigit() or given is None:
            self._leave_open(word, raw)
        else:
            self._put(word, True, given[int(which)] if int(which) < len(given) else "", raw, quoted)

    def _braced(self, word: _Word, inner: str, raw: str, quoted: bool) -> None:
        """`${NAME}`, `${NAME:-default}`, `${NAME[@]}`."""
        m = re.match(r"([A-Za-z_][A-Za-z0-9_]*|\d+|[@*])(\[[@*]\])?(.*)\Z", inner, re.DOTALL)
        if m is None:
            self._leave_open(word, raw)
            return
        name, index, rest = m[1], m[2], m[3]
        if index and not rest and name in self.state.arrays:
            word.many(self.state.arrays[name])
            return
        if index or name in ("@", "*"):
            self._leave_open(word, raw)
            return
        if name.isdigit():
            given = self.state.arguments
            sure, value = given is not None, given[int(name)] if given and int(name) < len(given) else None
        else:
            sure, value = self.state.get(name)
        operator = re.match(r":?[-=+?]", rest)
        if not rest:
            self._put(word, sure, value, raw, quoted)
        elif operator is None or self.state.unknown(name):
            self._leave_open(word, raw)
        else:
            self._default(word, name, (sure, value), operator[0], rest[len(operator[0]) :], raw, quoted)

    def _default(
        self, word: _Word, name: str, got: tuple[bool, str | None], operator: str, other: str, raw: str, quoted: bool
    ) -> None:
        given = got[0] and got[1] is not None and not (operator[0] == ":" and got[1] == "")
        if operator[-1] == "+":
            if not given:
                return
        elif given:
            self._put(word, True, got[1], raw, quoted)
            return
        elif operator[-1] == "?":
            self._leave_open(word, raw)
            return
        value = expand(other, self.state)
        if value is None:
            self._leave_open(word, raw)
            return
        if operator[-1] == "=" and not name.isdigit():
            self.state.values[name] = value
        self._put(word, True, value, raw, quoted)

    # -- commands -------------------------------------------------------------------------------------------

    def _array(self, words: list[_Word]) -> bool:
        """`NAME=(a b c)`: an array, whose words are read here. `name()` opens a function."""
        last = words[-1] if words else None
        if last is not None and self.text[self.at - 1] == "=" and (m := _ASSIGN.fullmatch(last.text)):
            start = self.at
            inner = self._balanced("(", ")")
            reader = Reader(inner.replace("\n", " \\\n"), self.state)
            try:
                values = [f for c in reader.read() for f in c.words]
            except QuotesOpen:
                raise QuotesOpen(self.text.count("\n", 0, start) + 1) from None
            certain = not self._conditional() and not any(c.open for c in reader.commands)
            before = self.state.arrays.get(m[1], []) if m[2] else []
            words.pop()
            if certain:
                self.state.arrays[m[1]] = [*before, *values]
            else:
                self.state.arrays.pop(m[1], None)
                self.state.values[m[1]] = None
            return True
        return False

    def _conditional(self) -> bool:
        return self.uncertain_next or any(b not in ("{", "(") for b in self.blocks)

    def _command(self, words: list[_Word], line: int, after: str, operator: str) -> None:
        fields, opened, plain = self._fields(words)
        if operator == "(" and len(fields) == 1 and _NAME.fullmatch(fields[0]):  # name() { ... }
            self.blocks.append("function(")
            return
        while fields and plain[0]:
            head = fields[0]
            if head in _OPENERS:
                self.blocks.append(head)
                if head in ("for", "select") and len(fields) > 1:
                    self.state.values[fields[1]] = None
                if head in ("for", "select", "case", "function"):
                    fields = []
                    break
            elif head in _CLOSERS:
                self._close(
                    ("if",) if head == "fi" else ("case",) if head == "esac" else ("for", "while", "until", "select")
                )
            elif head == "{":
                self.blocks.append("function" if self.blocks[-1:] == ["function"] and self.blocks.pop() else "{")
            elif head == "}":
                self._close(("{", "function"))
            elif head not in _INNER:
                break
            fields, plain = fields[1:], plain[1:]
        if operator == "(":
            self.blocks.append("(")
        if operator == ")":
            if self.blocks[-1:] == ["function("]:
                self.blocks[-1] = "function"
                return
            if self.blocks[-1:] == ["case"]:  # the pattern of a case
                return
        previous = self.commands[-1] if self.commands else None
        test = previous is not None and previous.words[:1] in (["["], ["[["], ["test"])
        self.uncertain_next = after == "||" or (after == "&&" and (test or self.uncertain_next))
        if fields:
            self._simple(fields, opened, line, after)
        if operator == ")":
            self._close(("(",))

    def _close(self, kinds: tuple[str, ...]) -> None:
        for i in range(len(self.blocks) - 1, -1, -1):
            if self.blocks[i] in kinds:
                del self.blocks[i:]
                return

    def _fields(self, words: list[_Word]) -> tuple[list[str], list[str], list[bool]]:
        fields: list[str] = []
        opened: list[str] = []
        plain: list[bool] = []
        for word in words:
            word.finish()
            fields += word.fields
            plain += [not word.quoted and not word.open] * len(word.fields)
            if word.open:
                opened += [f for f in word.fields if "$" in f or "`" in f]
        return fields, opened, plain

    def _simple(self, fields: list[str], opened: list[str], line: int, after: str) -> None:
        sure = not self._conditional()
        environment: dict[str, str] = {}
        i = 0
        while i < len(fields) and (m := _ASSIGN.match(fields[i])):
            environment[m[1]] = fields[i][m.end() :]
            i += 1
        if i == len(fields):
            for name, value in environment.items():
                self._assign(name, value if value not in opened and f"{name}={value}" not in opened else None, sure)
            return
        words = fields[i:]
        self._builtin(words, opened, sure)
        self.commands.append(
            Command(
                words=words,
                line=line,
                sure=sure,
                after=after,
                environment={**self.state.environment(), **environment},
                open=[w for w in words if w in opened],
            )
        )

    def _assign(self, name: str, value: str | None, sure: bool) -> None:
        self.state.values[name] = value if sure else None
        if self.state.export_all:
            self.state.exported[name] = None

    def _builtin(self, words: list[str], opened: list[str], sure: bool) -> None:
        """What a command does to the variables of the commands behind it."""
        head, rest = words[0], [w for w in words[1:] if not w.startswith("-")]
        if head in ("export", "declare", "typeset", "readonly", "local"):
            exports = head == "export" or any(w.startswith("-") and "x" in w for w in words[1:])
            for word in rest:
                m = _ASSIGN.match(word)
                name = m[1] if m else word
                if m:
                    self._assign(name, None if word in opened else word[m.end() :], sure)
                if exports and _NAME.fullmatch(name):
                    self.state.exported[name] = None
        elif head == "unset":
            for name in rest:
                if sure:
                    self.state.values.pop(name, None)
                    self.state.exported.pop(name, None)
                else:
                    self.state.values[name] = None
        elif head == "set" and ("-a" in words or "allexport" in words):
            self.state.export_all = "+a" not in words and "+o" not in words
        elif head in ("cd", "pushd") and rest:
            self.state.folder = rest[0] if sure and rest[0] not in opened else None
        elif head in ("source", ".") and rest:
            self._source(rest[0], rest[0] in opened)
        elif head == "read":
            for name in rest:
                self.state.values[name] = None
        elif head == "shift":
            self.state.arguments = None

    def _source(self, path: str, unclear: bool) -> None:
        if not unclear and path.endswith("/bin/activate"):
            self.state.values["VIRTUAL_ENV"] = path.removesuffix("/bin/activate")
            self.state.exported["VIRTUAL_ENV"] = None
        elif path not in self.sourced:
            self.sourced.append(path)


def expand(text: str, state: State) -> str | None:
    """A default value with the variables in it filled in; None where one is not known."""
    if "$" not in text and "`" not in text and not re.search(r"[\"'\\]", text):
        return text
    reader = Reader(text + " ", state)
    word = _Word()
    try:
        while reader.at < len(text):
            c = text[reader.at]
            if c in " \t\n;&|()<>":
                word.text += c
                word.begun = True
                reader.at += 1
            else:
                reader._piece(word, c)
    except QuotesOpen:
        return None
    word.finish()
    return None if word.open else " ".join(word.fields)
