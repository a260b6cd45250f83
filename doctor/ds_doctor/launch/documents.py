"""YAML and JSON text to plain dictionaries, lists and words, within limits; constructs no objects and follows no tag.

Scalars stay words: what is a number, the field knows. A mapping remembers the line of its keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

DEEP = 64  # mappings and lists within each other; Kubernetes' own manifests have about 12
NODES = 60_000  # of all documents together; without the C library a tenth
EXPANDED = 200_000  # with every alias counted as what it stands for
DOCUMENTS = 500


class Plain(str):
    """A scalar without quotes: `8000` in a place for text is a number there."""

    __slots__ = ()

    def is_number(self) -> bool:
        try:
            float(self)
        except ValueError:
            return False
        return not self[:1].isspace() and self.lower().lstrip("+-") not in ("nan", "inf", "infinity")

    def is_bool(self) -> bool:
        """As Kubernetes and Compose read YAML (1.1, where yes and on are true)."""
        return self.lower() in ("true", "false", "yes", "no", "on", "off") and self in (
            self.lower(),
            self.upper(),
            self.title(),
        )


class Map(dict[str, Any]):
    """A mapping with the line of each key, and its own."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int = 0) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class _Counted:
    """A value and how much it is with every alias expanded."""

    __slots__ = ("size", "value")

    def __init__(self, value: Any, size: int) -> None:
        self.value = value
        self.size = size


def documents(text: str) -> list[Any]:
    """Every document of the text. Problem with the line for what is no YAML, or more than a configuration ever is."""
    try:
        import yaml
    except ImportError:
        raise Problem("launch-file-no-yaml") from None
    fast = hasattr(yaml, "CSafeLoader")
    loader = yaml.CSafeLoader if fast else yaml.SafeLoader
    try:
        return _Builder(yaml.parse(text, Loader=loader), NODES if fast else NODES // 10).all()
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        what = getattr(e, "problem", None) or str(e).splitlines()[0]
        context = getattr(e, "context", None)
        if "nesting depth" in str(what):
            raise Problem("launch-file-too-deep", limit=DEEP) from None
        said = f"{context}: {what}" if context and "while" in str(context) else str(what)
        raise Problem("launch-file-not-yaml", line=mark.line + 1 if mark else 1, error=said[:160]) from None
    except RecursionError:
        raise Problem("launch-file-too-deep", limit=DEEP) from None


class _Builder:
    def __init__(self, events: Iterator[Any], limit: int) -> None:
        self.events = events
        self.limit = limit
        self.count = 0
        self.anchors: dict[str, _Counted | None] = {}

    def all(self) -> list[Any]:
        import yaml

        got: list[Any] = []
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
                got.append(self._node(next(self.events), 0).value)
                if len(got) > DOCUMENTS:
                    raise Problem("launch-file-too-much", limit=DOCUMENTS)
        return got

    def _node(self, event: Any, depth: int) -> _Counted:
        import yaml

        line = event.start_mark.line + 1
        self.count += 1
        if self.count > self.limit:
            raise Problem("launch-file-too-much", limit=self.limit)
        if depth > DEEP:
            raise Problem("launch-file-too-deep", limit=DEEP, line=line)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise Problem("launch-file-not-yaml", line=line, error=f"found undefined alias {event.anchor!r}")
            known = self.anchors[event.anchor]
            if known is None:
                raise Problem("launch-file-cyclic", line=line, anchor=event.anchor)
            return known
        tag = event.tag
        if tag is not None and not tag.startswith("tag:yaml.org,2002:") and tag not in ("!", "!reset", "!override"):
            raise Problem("launch-file-tag", line=line, tag=tag[:80])
        if tag is not None and ("python" in tag or "ruby" in tag):
            raise Problem("launch-file-tag", line=line, tag=tag.replace("tag:yaml.org,2002:", "!!")[:80])
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        made = self._made(event, depth, line)
        if tag == "!reset":
            made = _Counted(None, 1)
        if made.size > EXPANDED:
            raise Problem("launch-file-bomb", line=line, limit=EXPANDED)
        if event.anchor is not None:
            self.anchors[event.anchor] = made
        return made

    def _made(self, event: Any, depth: int, line: int) -> _Counted:
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            if event.style or (event.tag or "").endswith(":str"):
                return _Counted(event.value, 1)
            if event.value in ("", "~", "null", "Null", "NULL"):
                return _Counted(None, 1)
            return _Counted(Plain(event.value), 1)
        size = 1
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := next(self.events), yaml.SequenceEndEvent):
                made = self._node(inner, depth + 1)
                items.append(made.value)
                size += made.size
            return _Counted(items, size)
        mapping = Map(line)
        merged: list[Any] = []
        while not isinstance(inner := next(self.events), yaml.MappingEndEvent):
            at = inner.start_mark.line + 1
            key = self._node(inner, depth + 1)
            made = self._node(next(self.events), depth + 1)
            size += key.size + made.size
            if isinstance(key.value, Plain) and key.value == "<<":
                merged += made.value if isinstance(made.value, list) else [made.value]
            elif isinstance(key.value, str) or key.value is None:
                name = str(key.value or "")
                mapping[name] = made.value
                mapping.lines[name] = at
            else:
                raise Problem("launch-file-not-yaml", line=at, error="a mapping or list as a key")
        for other in merged:
            if isinstance(other, dict):
                for other_name, value in other.items():
                    mapping.setdefault(other_name, value)
        return _Counted(mapping, size)


# -- what a field says ---------------------------------------------------------------------------------------------


def mapping(value: Any) -> dict[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def maps(value: Any) -> list[dict[str, Any]]:
    """The mappings among a list."""
    return [v for v in items(value) if isinstance(v, dict)]


def text(value: Any) -> str | None:
    """The value where it is a scalar."""
    return str(value) if isinstance(value, str) else None


def texts(value: Any) -> list[str]:
    """The scalars of a list, or the one scalar."""
    if isinstance(value, str):
        return [str(value)]
    return [str(v) for v in items(value) if isinstance(v, str)]


def whole(value: Any) -> int | None:
    """The value where it is a whole number."""
    said = text(value)
    return (
        int(said)
        if said is not None and said.lstrip("-").isascii() and said.lstrip("-").isdigit() and len(said) < 16
        else None
    )


def yes(value: Any) -> bool:
    """Whether it is true."""
    return (text(value) or "").lower() in ("true", "yes", "on", "y")
