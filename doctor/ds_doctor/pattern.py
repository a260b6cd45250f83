"""The patterns of rules.toml: a small, linear-time part of regular expressions that every scanner reads alike; does no I/O.

A pattern is tried on one line, whatever the case. It is a sequence of parts joined by `.*`; a part holds characters, classes
and groups of alternatives, and repeats only single characters and classes. So a line is read once for each part, and no line
can make that slow.
"""

from __future__ import annotations

import re

MOST_GAPS = 3  # `.*` in one pattern
SHORTEST = 5  # characters of the literal run by which a pattern is found
MOST_ALTERNATIVES = 24  # runs by which one pattern is looked for
MOST_REPEATS = 80  # in {n,m}
_TOKEN = re.compile(
    r"""(?P<escape>\\.)
      | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<open>\((?:\?:)?)
      | (?P<close>\))
      | (?P<or>\|)
      | (?P<count>[*+?]|\{\d+(?:,\d*)?\})
      | (?P<dot>\.)
      | (?P<anchor>[\^$])
      | (?P<char>.)""",
    re.VERBOSE | re.DOTALL,
)
_CLASSES = frozenset("dwsSDWb")
_SIGN = re.compile(r"[^A-Za-z0-9\s]\Z")


class PatternError(ValueError):
    """A pattern that is not of the kind: what is wrong, in a few words."""


class _Token:
    """One token: its kind, its text, and whether it repeats or may be left out."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        self.text = text
        self.count = ""


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind == "count":
            if not tokens or tokens[-1].count or tokens[-1].kind in ("open", "or"):
                raise PatternError(f"{found[0]} repeats nothing, or what repeats already")
            tokens[-1].count = found[0]
        else:
            tokens.append(_Token(kind, found[0]))
    return tokens


def check(text: str) -> None:
    """PatternError unless the pattern is of the kind that this room promises."""
    depth = gaps = 0
    tokens = _tokens(text)
    if tokens and tokens[0].count in ("*", "+") and tokens[0].kind in ("set", "escape"):
        raise PatternError("begins with a repeated class, which is tried from every place of a line")
    for token in tokens:
        if token.kind == "anchor":
            raise PatternError("^ and $ are not allowed: prefixes and wrapping vary")
        if token.kind == "escape" and not (token.text[1] in _CLASSES or _SIGN.match(token.text[1])):
            raise PatternError(f"{token.text} is not allowed")
        if token.kind == "open":
            if token.text == "(":
                raise PatternError("groups are written (?:…)")
            depth += 1
        if token.kind == "close":
            depth -= 1
            if token.count not in ("", "?"):
                raise PatternError(f"a group may not repeat ({token.count})")
            if depth < 0:
                raise PatternError("a ) too many")
        if token.count.startswith("{") and any(int(n) > MOST_REPEATS for n in re.findall(r"\d+", token.count)):
            raise PatternError(f"{token.count} repeats more than {MOST_REPEATS} times")
        if token.count.startswith("{") and token.count.endswith(",}"):
            raise PatternError(f"{token.count} has no end")
        if token.kind == "dot" and token.count in ("*", "+"):
            gaps += 1
            if depth:
                raise PatternError("a .* stands only at top level")
            if token.count == "+":
                raise PatternError("write .* for .+")
        if token.kind == "or" and depth == 0:
            raise PatternError("alternatives stand in (?:…), or as patterns of their own")
    if depth:
        raise PatternError("a ) is missing")
    if gaps > MOST_GAPS:
        raise PatternError(f"more than {MOST_GAPS} times .*")
    try:
        re.compile(text)
    except (re.error, OverflowError) as e:
        raise PatternError(f"no regular expression: {e}") from None
    for part in parts(text):
        if re.compile(part).match(""):
            raise PatternError("a .* that joins nothing")
    if min(len(r) for r in literals(text)) < SHORTEST:
        raise PatternError(f"needs a literal run of {SHORTEST} characters, of which none is optional")


def parts(text: str) -> list[str]:
    """The pattern split at its `.*`."""
    pieces = [""]
    for token in _tokens(text):
        if token.kind == "dot" and token.count == "*":
            pieces.append("")
        else:
            pieces[-1] += token.text + token.count
    return pieces


def _weight(run: str) -> float:
    """How rarely a run is met: letters tell more than digits, digits more than signs."""
    return sum(1.0 if c.isalpha() else 0.6 if c.isdigit() else 0.3 for c in run)


def _alternatives(text: str) -> list[tuple[str, ...]]:
    """Every set of runs of which each match of the pattern holds one, as far as characters and groups of them tell."""
    found: list[tuple[str, ...]] = []
    runs: tuple[str, ...] = ("",)
    tokens = _tokens(text)
    i = 0
    while i < len(tokens):
        token = tokens[i]
        more: tuple[str, ...] = ()
        end = i
        if token.kind == "open":
            more, end = _group(tokens, i)
        else:
            plain = _plain(token)
            more = (plain,) if plain and not token.count else ()
        if more and len(runs) * len(more) <= MOST_ALTERNATIVES:
            runs = tuple(r + m for r in runs for m in more)
        else:
            if token.count == "+" and _plain(token):  # one of it is sure
                runs = tuple(r + _plain(token) for r in runs)
            found.append(runs)
            runs = more or ("",)
        i = end + 1
    return [*found, runs]


def _plain(token: _Token) -> str:
    """The character that a token stands for alone, or nothing."""
    if token.kind == "char":
        return token.text
    return token.text[1] if token.kind == "escape" and token.text[1] not in _CLASSES else ""


def _group(tokens: list[_Token], start: int) -> tuple[tuple[str, ...], int]:
    """The alternatives of a group of plain characters (none for another group), and where it ends."""
    depth = 0
    words = [""]
    plain = True
    for i in range(start, len(tokens)):
        token = tokens[i]
        if token.kind == "open":
            depth += 1
            plain = plain and depth == 1
        elif token.kind == "close":
            depth -= 1
            if depth == 0:
                return (tuple(words) if plain and not token.count else ()), i
        elif token.kind == "or" and depth == 1:
            words.append("")
        elif _plain(token) and not token.count:
            words[-1] += _plain(token)
        else:
            plain = False
    return (), len(tokens) - 1


def literals(text: str) -> tuple[str, ...]:
    """Runs of characters of which every match holds one, the rarest there are, in small letters: what is looked for first."""
    best = max(_alternatives(text), key=lambda runs: min(_weight(r) for r in runs))
    # As bytes are made small: ASCII alone.
    return tuple(dict.fromkeys(r.encode().lower().decode() for r in best))


def loose(text: str) -> str:
    """The pattern over bytes: it matches wherever the pattern over characters does, of which one is up to four bytes."""
    out = ""
    for token in _tokens(text):
        many = token.kind == "dot" or (token.kind == "escape" and token.text[1] in "SDW")
        if token.kind == "set" and (token.text.startswith("[^") or not token.text.isascii()):
            many = True
        if not many:
            out += token.text + token.count
        elif token.count in ("*", "+"):
            out += "." + token.count
        else:
            out += {"": ".{1,4}", "?": ".{0,4}"}.get(token.count, ".*")
    return out


class Matcher:
    """One pattern, ready to be tried on lines."""

    def __init__(self, text: str) -> None:
        self._parts = [re.compile(part, re.IGNORECASE | re.ASCII) for part in parts(text)]

    def find(self, line: str) -> tuple[int, int] | None:
        """Where the line matches (start, end), or None. Each part is looked for after the one before it."""
        start = -1
        at = 0
        for part in self._parts:
            found = part.search(line, at)
            if found is None:
                return None
            at = found.end()
            start = found.start() if start < 0 else start
        return start, at
