"""What vLLM's get_kwargs makes of a configuration class: an argument for every field, by its type; it reads, it runs nothing.

vllm 0.33.0 vllm/engine/arg_utils.py _compute_kwargs and literal_to_kwargs; the older ones differ in the branches named here.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from . import _ast_calls as calls
from ._argparse_flags import STR, UNSURE, Conversion, conversion
from ._ast_eval import Evaluator
from ._ast_values import NONE, UNKNOWN, Class, Ext, Field, Made, Sub, hints, is_hint, literals

BOOL, STRING = Ext("bool"), Ext("str")
_BUILT_IN = frozenset(("str", "int", "float", "bool", "dict", "list", "set", "tuple", "None", "bytes", "object"))


class Kwargs:
    """get_kwargs of one version: what differs between versions is read from the function itself."""

    def __init__(self, ev: Evaluator, module: str) -> None:
        self.ev = ev
        found = ev.sources.module(module)
        nodes = [] if found is None else [n for n in found.tree.body if isinstance(n, ast.FunctionDef)]
        own = {n.name: n for n in nodes}
        self.body = own.get("_compute_kwargs") or own.get("get_kwargs")
        text = "" if self.body is None else ast.unparse(self.body)
        self.metavar = "literal_to_kwargs" in own and "metavar" in ast.unparse(own["literal_to_kwargs"])
        self.dict_classes = "is_dict_subclass" in text
        self.flags_with_value = "'const'" in text
        self.classes = "is_dataclass" in text
        self.either = "union_dict_and_str" in text
        self.none = "append(None)" in text
        self.own_words = "from_cli" in text
        found = ev.sources.module("vllm.config.utils")
        # pydantic's classes take any key unless they are told to forbid it.
        self.forbids = found is not None and re.search(r"extra\s*[=:]\s*['\"]forbid", found.text) is not None
        self.by_name = self._by_name()

    def _by_name(self) -> dict[str, Any]:
        """Field name -> its own converter: `if name == "max_model_len": kwargs[name]["type"] = human_readable_int`."""
        found: dict[str, Any] = {}
        if self.body is None:
            return found
        sets = {
            t.id: n.value
            for n in ast.walk(self.body)
            if isinstance(n, ast.Assign)
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        for node in ast.walk(self.body):
            if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
                continue
            left, right = node.test.left, node.test.comparators[0]
            if not (isinstance(left, ast.Name) and left.id == "name"):
                continue
            if isinstance(right, ast.Name):
                right = sets.get(right.id, right)
            names = right.elts if isinstance(right, (ast.Set, ast.Tuple, ast.List)) else [right]
            for inner in node.body:
                if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Name):
                    for n in names:
                        if isinstance(n, ast.Constant) and isinstance(n.value, str):
                            found.setdefault(n.value, inner.value.id)
        return found

    def of(self, cls: Class) -> dict[str, dict[str, Any]]:
        """Field -> the arguments of its add_argument."""
        return {f.name: self.field(f) for f in self.ev.fields(cls)}

    def field(self, field: Field) -> dict[str, Any]:
        """Those of one field."""
        ev = self.ev
        default: Any = None if field.default is None else calls.default_of(ev, ev.eval(field.default, field.scope))
        made: dict[str, Any] = {"default": default, "help": ""}
        types = [self._without_dicts(h) for h in hints(ev.hint(field))]
        if any(t is UNKNOWN for t in types) and not any(is_hint(t, "bool") for t in types):
            return {**made, "type": UNSURE}
        classes = [t for t in types if isinstance(t, Class) and self.classes and dataclass(ev, t)]
        if classes:
            made["type"] = self._config(classes[0])
        elif self.flags_with_value and len(types) == 3 and all(t in types for t in (BOOL, STRING, NONE)):
            made.update(type=STR, nargs="?", const=True)
            return made
        elif BOOL in types:
            made["action"] = Ext("argparse.BooleanOptionalAction")
            return made
        else:
            self._plain(field.name, types, made)
        if NONE in types:
            made["type"] = conversion(made["type"])._replace(nullable=True)
            if made.get("choices"):
                made["choices"].append(None if self.none else "None")
        return made

    def _plain(self, name: str, types: list[Any], made: dict[str, Any]) -> None:
        for kind in ("Literal", "tuple", "list", "set", "int", "float", "dict"):
            one = next((t for t in types if is_hint(t, kind)), None)
            if one is None:
                continue
            if kind == "Literal":
                made.update(self._literal(one, types))
            elif kind in ("tuple", "list", "set"):
                made.update(self._many(one, kind))
            elif kind == "int":
                own = self.by_name.get(name)
                made["type"] = Ext("int") if own is None else conversion(Ext(own))
            elif kind == "float":
                made["type"] = Ext("float")
            elif self.either and (STRING in types or any(self._foreign(t) for t in types)):
                made["type"] = Conversion("json-or-str")
            else:
                made["type"] = Conversion("json", "_parse_type") if self.either else Conversion("json", nullable=True)
            return
        made["type"] = STR

    def _literal(self, hint: Any, types: list[Any]) -> dict[str, Any]:
        options = literals(hint)
        if UNKNOWN in options or not options or not all(type(o) is type(options[0]) for o in options):
            return {"type": UNSURE, "choices": UNKNOWN}
        kind = Ext(type(options[0]).__name__)
        if self.metavar and STRING in types:
            return {"type": kind}
        return {"type": kind, "choices": sorted(options)}

    def _many(self, hint: Any, kind: str) -> dict[str, Any]:
        args = hint.args if isinstance(hint, Sub) else ()
        nargs: Any = "+" if kind != "tuple" or ... in args else len(args)
        if not args:
            return {"type": UNSURE, "nargs": "+"}
        element = args[0]
        if isinstance(element, Sub) and is_hint(element, "Literal"):
            return {**self._literal(element, [element]), "nargs": nargs}
        if len(hints(element)) > 1:
            element = STRING
        if not isinstance(element, Ext):
            return {"type": UNSURE, "nargs": nargs}
        return {"type": element if element.name in ("int", "float", "str") else UNSURE, "nargs": nargs}

    def _config(self, cls: Class) -> Conversion:
        said = "".join(ast.unparse(d) for c in self.ev.lineage(cls) for d in c.node.decorator_list)
        methods = [n for c in self.ev.lineage(cls) for n in c.node.body if isinstance(n, ast.FunctionDef)]
        if self.own_words and any(m.name == "from_cli" for m in methods):
            return Conversion("function", cls.name)  # takes more than JSON: `-O 3`
        # What is rewritten before it is looked at, and what is taken under another name, nobody can tell here.
        rewritten = any(
            "mode='before'" in ast.unparse(d) and "model_validator" in ast.unparse(d)
            for m in methods
            for d in m.decorator_list
        )
        closed = self.forbids and "extra" not in said and not rewritten
        names = [
            n.target.id
            for c in self.ev.lineage(cls)
            for n in c.node.body
            if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
        ]
        aliased = any(
            "alias" in ast.unparse(n) for c in self.ev.lineage(cls) for n in c.node.body if isinstance(n, ast.AnnAssign)
        )
        return Conversion("config", cls.name, keys=tuple(dict.fromkeys(names)) if closed and not aliased else None)

    def _without_dicts(self, hint: Any) -> Any:
        if self.dict_classes and isinstance(hint, Class) and "dict" in self.ev.bases(hint):
            return Ext("dict")
        return hint

    def _foreign(self, hint: Any) -> bool:
        """Whether a type is none of Python's own, as `th.__module__ != "builtins"`."""
        base = hint.base if isinstance(hint, Sub) else hint
        return not (isinstance(base, Ext) and base.name in _BUILT_IN)


def dataclass(ev: Evaluator, cls: Class) -> bool:
    """Whether a class is made a dataclass: by dataclasses, pydantic or vLLM's `@config`."""
    for c in ev.lineage(cls):
        for d in c.node.decorator_list:
            node = d.func if isinstance(d, ast.Call) else d
            if ast.unparse(node).rpartition(".")[2] in ("config", "dataclass"):
                return True
    return False


def get_field(ev: Evaluator, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """vllm.config.utils.get_field: the default of a configuration class's field."""
    if len(args) == 2 and isinstance(args[0], Class) and isinstance(args[1], str):
        for f in ev.fields(args[0]):
            if f.name == args[1] and f.default is not None:
                value = ev.eval(f.default, f.scope)
                return value if isinstance(value, Made) else Made(Ext("dataclasses.field"), [], {"default": value})
    return UNKNOWN
