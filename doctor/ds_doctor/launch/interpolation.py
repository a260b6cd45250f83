"""Variables in the words of a Compose file (`${X:-default}`) and of a manifest (`$(X)`); what is not known stays as it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping

_COMPOSE = re.compile(
    r"\$(?:(?P<twice>\$)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?P<rest>:?[-?+])?)"
)
_POD = re.compile(r"\$\$\(([^)]*)\)|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
DEEP = 8


def compose(text: str, known: Mapping[str, str], deep: int = 0) -> str:
    """As https://docs.docker.com/reference/compose-file/interpolation/ has it. A variable without value and default stays
    as it stands: it may be set where the file is used."""
    out: list[str] = []
    at = 0
    while (m := _COMPOSE.search(text, at)) is not None:
        out.append(text[at : m.start()])
        at = m.end()
        if m["twice"]:
            out.append("$")
        elif m["name"]:
            out.append(known.get(m["name"], m[0]))
        else:
            end = _closing(text, at)
            if end is None:
                out.append(m[0])
                continue
            raw, inner, at = text[m.start() : end + 1], text[at:end], end + 1
            out.append(_filled(m["braced"], m["rest"], inner, raw, known, deep))
    out.append(text[at:])
    return "".join(out)


def _closing(text: str, at: int) -> int | None:
    depth = 1
    for i in range(at, len(text)):
        if text.startswith("${", i):
            depth += 1
        elif text[i] == "}":
            depth -= 1
            if depth == 0:
                return i
    return None


def _filled(name: str, operator: str | None, inner: str, raw: str, known: Mapping[str, str], deep: int) -> str:
    value = known.get(name)
    given = value is not None and not (operator is not None and operator[0] == ":" and value == "")
    if operator is None:
        return raw if inner or value is None else value
    if operator[-1] == "+":
        return _inner(inner, known, deep) if given else ""
    if given:
        return value or ""
    if operator[-1] == "?":
        return f"${{{name}}}"  # without the words for its absence, whose blanks would part it
    return _inner(inner, known, deep)


def _inner(text: str, known: Mapping[str, str], deep: int) -> str:
    return compose(text, known, deep + 1) if deep < DEEP else text


def pod(text: str, known: Mapping[str, str]) -> str:
    """`$(NAME)` of a container's command, arguments and variables; one that is not defined stays
    (https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/)."""
    return _POD.sub(lambda m: f"$({m[1]})" if m[1] is not None else known.get(m[2], m[0]), text)
