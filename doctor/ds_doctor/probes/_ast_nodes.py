"""What each kind of expression and statement means to the evaluator of _ast_eval; nothing of them is run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from . import _ast_calls as calls
from . import _ast_plain as plain
from ._ast_source import imported
from ._ast_values import NONE, UNION, UNKNOWN, Break, Class, Continue, Ext, Function, Member, Return, Scope, Sub

if TYPE_CHECKING:
    from ._ast_eval import Evaluator

# Texts for people: not looked at.
TOLD = frozenset(("help", "description", "metavar", "epilog", "usage"))


def unknown(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    return UNKNOWN


def nothing(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    return None


def _name(ev: Evaluator, node: ast.Name, scope: Scope) -> Any:
    held, value = scope.find(node.id)
    if held:
        return value
    if node.id in scope.module.bindings or scope.module.stars:
        value = ev.name(scope.module.name, node.id)
        if value is not UNKNOWN or node.id in scope.module.bindings:
            return value
    return Ext(node.id) if node.id in calls.BUILTINS else UNKNOWN


def _call(ev: Evaluator, node: ast.Call, scope: Scope) -> Any:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.owner is not None and not node.args:
        return calls.super_of(scope)
    function = ev.eval(node.func, scope)
    args = ev.display(node.args, scope)
    kwargs: dict[str, Any] = {}
    for k in node.keywords:
        if k.arg in TOLD:
            kwargs[k.arg] = ""
            continue
        value = ev.eval(k.value, scope)
        if k.arg is not None:
            kwargs[k.arg] = value
        elif isinstance(value, dict) and all(isinstance(n, str) for n in value):
            kwargs.update(value)
        else:
            kwargs["**"] = UNKNOWN
    where = f"{scope.module.path}:{node.lineno}"
    if args is None:
        kwargs["*"] = UNKNOWN
    return ev.call(function, args or [], kwargs, where)


def _dict(ev: Evaluator, node: ast.Dict, scope: Scope) -> Any:
    made: dict[Any, Any] = {}
    for k, v in zip(node.keys, node.values, strict=True):
        if k is None:
            part = ev.eval(v, scope)
            if not isinstance(part, dict):
                return UNKNOWN
            made.update(part)
            continue
        key = ev.eval(k, scope)
        if not plain.key(key):
            return UNKNOWN
        # A registry's values are classes of other modules: those need not be read to know its names.
        lazy = isinstance(v, (ast.Name, ast.Attribute)) and len(node.keys) > 8
        made[key] = UNKNOWN if lazy else ev.eval(v, scope)
    return made


def _subscript(ev: Evaluator, node: ast.Subscript, scope: Scope) -> Any:
    of = ev.eval(node.value, scope)
    if isinstance(of, (Ext, Class, Sub)):
        if isinstance(of, Class) and ev.enumeration(of):
            return ev.member(of, str(ev.eval(node.slice, scope)), of)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return Sub(of, tuple(ev.display(parts, scope) or ()))
    if isinstance(node.slice, ast.Slice):
        return plain.sliced(ev, of, node.slice, scope)
    return plain.got(of, ev.eval(node.slice, scope))


def _ifexp(ev: Evaluator, node: ast.IfExp, scope: Scope) -> Any:
    told = ev.truth(ev.eval(node.test, scope))
    if told is None:
        return UNKNOWN
    return ev.eval(node.body if told else node.orelse, scope)


def _boolop(ev: Evaluator, node: ast.BoolOp, scope: Scope) -> Any:
    stops = isinstance(node.op, ast.Or)
    value: Any = UNKNOWN
    open_ = False
    for part in node.values:
        value = ev.eval(part, scope)
        told = ev.truth(value)
        if told is None:
            open_ = True
        elif told is stops:
            return UNKNOWN if open_ and not isinstance(value, bool) else value
    return UNKNOWN if open_ else value


def _unary(ev: Evaluator, node: ast.UnaryOp, scope: Scope) -> Any:
    value = ev.eval(node.operand, scope)
    if isinstance(node.op, ast.Not):
        told = ev.truth(value)
        return UNKNOWN if told is None else not told
    if isinstance(value, (int, float)) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -value if isinstance(node.op, ast.USub) else value
    return UNKNOWN


def _binop(ev: Evaluator, node: ast.BinOp, scope: Scope) -> Any:
    # Texts that are put together from hundreds of pieces nest as deep.
    left, right = ev.eval(node.left, scope), ev.eval(node.right, scope)
    if isinstance(node.op, ast.BitOr) and not (isinstance(left, (set, dict, int)) and isinstance(right, type(left))):
        if UNKNOWN in (left, right) and isinstance(left, (set, dict)):
            return UNKNOWN
        return Sub(UNION, (left, NONE if right is None else right))
    return plain.binary(ev, node.op, left, right)


def _joined(ev: Evaluator, node: ast.JoinedStr, scope: Scope) -> Any:
    made = ""
    for part in node.values:
        value = ev.eval(part.value if isinstance(part, ast.FormattedValue) else part, scope)
        if isinstance(value, Member):
            value = value.value
        if not isinstance(value, (str, int, float)) or len(made) > 10_000:
            return UNKNOWN
        made += str(value)
    return made


def _comprehension(ev: Evaluator, node: ast.expr, scope: Scope) -> Any:
    assert isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp))
    made: list[Any] = []
    inner = Scope(scope.module, scope, scope.owner)
    generators = node.generators

    def one(depth: int) -> bool:
        if depth == len(generators):
            if isinstance(node, ast.DictComp):
                made.append((ev.eval(node.key, inner), ev.eval(node.value, inner)))
            else:
                made.append(ev.eval(node.elt, inner))
            return True
        g = generators[depth]
        over = plain.items(ev, ev.eval(g.iter, inner))
        if over is None:
            return False
        for item in over:
            ev.assign(g.target, item, inner)
            tests = [ev.truth(ev.eval(t, inner)) for t in g.ifs]
            if None in tests:
                return False
            if all(tests) and not one(depth + 1):
                return False
        return True

    if not one(0):
        return UNKNOWN
    if isinstance(node, ast.DictComp):
        return dict(made) if all(plain.key(k) for k, _ in made) else UNKNOWN
    if isinstance(node, ast.SetComp):
        return set(made) if all(map(plain.key, made)) else UNKNOWN
    return made


def _if(ev: Evaluator, node: ast.If, scope: Scope) -> None:
    told = ev.truth(ev.eval(node.test, scope))
    if told is not None:
        ev.run(node.body if told else node.orelse, scope)
        return
    ev.maybe += 1
    try:
        for body in (node.body, node.orelse):
            try:
                ev.run(body, scope)
            except Return as r:
                calls.returns(ev).append(r.value)
            except (Break, Continue):
                pass
    finally:
        ev.maybe -= 1


def _for(ev: Evaluator, node: ast.For, scope: Scope) -> None:
    over = plain.items(ev, ev.eval(node.iter, scope))
    if over is None:
        if _adds(node):
            ev.sources.miss(f"{scope.module.path}:{node.lineno}: a loop over what is not told")
        return
    for item in over:
        ev.assign(node.target, item, scope)
        try:
            ev.run(node.body, scope)
        except Continue:
            continue
        except Break:
            break


def _adds(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "add_argument" for n in ast.walk(node))


def _while(ev: Evaluator, node: ast.While, scope: Scope) -> None:
    if _adds(node):
        ev.sources.miss(f"{scope.module.path}:{node.lineno}: a loop without a known end")


def _try(ev: Evaluator, node: ast.Try, scope: Scope) -> None:
    ev.run([*node.body, *node.orelse, *node.finalbody], scope)


def _augmented(ev: Evaluator, node: ast.AugAssign, scope: Scope) -> None:
    right = ev.eval(node.value, scope)
    left = ev.eval(node.target, scope)
    if isinstance(left, list) and isinstance(node.op, ast.Add):
        plain.method(ev, left, "extend", [right], {})
        return
    value = plain.binary(ev, node.op, left, right)
    ev.assign(node.target, value, scope)


def _import(ev: Evaluator, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
    for name, bound in imported(node, scope.module.name, scope.module.package):
        scope.names[name] = ev.imported(bound)


def _raise(ev: Evaluator, node: ast.Raise, scope: Scope) -> None:
    if not ev.maybe:
        raise Return(UNKNOWN)


def _delete(ev: Evaluator, node: ast.Delete, scope: Scope) -> None:
    for t in node.targets:
        if isinstance(t, ast.Subscript):
            plain.method(ev, ev.eval(t.value, scope), "pop", [ev.eval(t.slice, scope), None], {})


def _assigned(ev: Evaluator, node: ast.Assign, scope: Scope) -> None:
    value = ev.eval(node.value, scope)
    for t in node.targets:
        ev.assign(t, value, scope)


def _annotated(ev: Evaluator, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        ev.assign(node.target, ev.eval(node.value, scope), scope)


def _return(ev: Evaluator, node: ast.Return, scope: Scope) -> None:
    raise Return(None if node.value is None else ev.eval(node.value, scope))


def _break(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    if not ev.maybe:
        raise Break


def _continue(ev: Evaluator, node: ast.stmt, scope: Scope) -> None:
    raise Continue


def _define(ev: Evaluator, node: ast.FunctionDef, scope: Scope) -> None:
    scope.names[node.name] = Function(node, scope, scope.owner)


def _walrus(ev: Evaluator, node: ast.NamedExpr, scope: Scope) -> Any:
    value = ev.eval(node.value, scope)
    ev.assign(node.target, value, scope)
    return value


EVAL: dict[type, Any] = {
    ast.Constant: lambda ev, n, s: n.value,
    ast.Name: _name,
    ast.Attribute: lambda ev, n, s: ev.attribute(ev.eval(n.value, s), n.attr),
    ast.Call: _call,
    ast.List: lambda ev, n, s: plain.displayed(ev, ev.display(n.elts, s), list),
    ast.Tuple: lambda ev, n, s: plain.displayed(ev, ev.display(n.elts, s), tuple),
    ast.Set: lambda ev, n, s: plain.displayed(ev, ev.display(n.elts, s), set),
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.IfExp: _ifexp,
    ast.BoolOp: _boolop,
    ast.UnaryOp: _unary,
    ast.BinOp: _binop,
    ast.Compare: lambda ev, n, s: plain.compared(ev, n, s),
    ast.JoinedStr: _joined,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: lambda ev, n, s: Function(n, s, s.owner),
    ast.NamedExpr: _walrus,
}
RUN: dict[type, Any] = {
    ast.Expr: lambda ev, n, s: ev.eval(n.value, s),
    ast.Assign: _assigned,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: _for,
    ast.While: _while,
    ast.Try: _try,
    ast.With: lambda ev, n, s: ev.run(n.body, s),
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.FunctionDef: _define,
    ast.Break: _break,
    ast.Continue: _continue,
}
