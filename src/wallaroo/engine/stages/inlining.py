"""Writes simple functions of the user into the generated loops, which saves the call.

A function qualifies if it is a single `return` of an expression of its argument, built from operators, attributes,
f-strings, and calls of a few of Python's own functions and methods. Calling such a function costs as much as what it
does. If the expression raises, the loop calls the function itself, so that the error has the usual traceback.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType
from typing import Any

_FUNCTIONS = frozenset(
    {"abs", "bool", "bytes", "chr", "float", "int", "len", "max", "min", "ord", "repr", "round", "str"}
)
"""The functions of Python that may be called."""

_METHODS = frozenset(
    {
        *("decode", "encode", "endswith", "find", "format", "get", "join", "lower", "lstrip", "partition", "replace"),
        *("rpartition", "rstrip", "split", "startswith", "strip", "title", "upper"),
    }
)
"""The methods that may be called, which are those of strings and dictionaries that change nothing."""

_NODES = (
    *(ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.IfExp),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop),
    *(ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List),
)


def expression_of(function: Callable[[Any], Any], argument: str, name: Callable[[Any, str], str]) -> str | None:
    """Return the source of a function's result as an expression of the variable `argument`.

    Args:
        function: A function of one argument, or a bound method.
        argument: The name of the variable that holds the argument.
        name: Returns a name for an object that the expression refers to.

    Returns:
        The source; None if the function has to be called.

    >>> def fahrenheit(celsius):
    ...     return float(celsius) * 1.8 + 32
    >>> expression_of(fahrenheit, "message", lambda thing, hint: hint)
    'float(message) * 1.8 + 32'
    >>> expression_of(print, "message", lambda thing, hint: hint)
    """
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        return None
    definition = _definition(plain)
    if definition is None or (parameter := _only_parameter(definition, bound=plain is not function)) is None:
        return None
    result = _result(definition)
    if result is None or not all(map(_is_simple, ast.walk(result))):
        return None
    rename = _Rename(parameter, argument, plain.__globals__, name)
    try:
        return ast.unparse(rename.visit(result))
    except Exception:  # noqa: BLE001 - an unknown name, or an f-string that Python can read but not write
        return None


def _definition(function: FunctionType) -> ast.FunctionDef | None:
    """Return the source of a function, if it can be found and is the one that the function was made of."""
    try:
        (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        if not isinstance(found, ast.FunctionDef):
            return None
        found.decorator_list.clear()
        compiled = compile(ast.Module([found], []), "", "exec", dont_inherit=True)
        codes = (each for each in compiled.co_consts if isinstance(each, CodeType) and each.co_name == found.name)
        # The file may have been changed since it was imported.
        return found if _essence(next(codes)) == _essence(function.__code__) else None
    except Exception:  # noqa: BLE001 - no source, or one that is not valid by itself; a call is always right
        return None


def _essence(code: CodeType) -> tuple[Any, ...]:
    # Constants by their text as well: 1, 1.0 and True are equal.
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, repr(code.co_consts)


def _only_parameter(definition: ast.FunctionDef, *, bound: bool) -> str | None:
    given = definition.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        return None
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    return names[-1] if len(names) == 1 + bound else None


def _result(definition: ast.FunctionDef) -> ast.expr | None:
    body = definition.body[1:] if ast.get_docstring(definition, clean=False) is not None else definition.body
    match body:
        case [ast.Return(value=ast.expr() as result)]:
            return result
    return None


def _is_simple(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        match node.func:
            case ast.Name(id=called):
                allowed = _FUNCTIONS
            case ast.Attribute(attr=called):
                allowed = _METHODS
            case _:
                return False
        return called in allowed and not any(isinstance(each, ast.Starred) for each in node.args)
    return isinstance(node, (*_NODES, ast.keyword))


class _UnknownNameError(Exception):
    """The expression refers to something that may change while the loop runs."""


class _Rename(ast.NodeTransformer):
    """Puts names of the loop in the place of a function's names."""

    def __init__(
        self, parameter: str, argument: str, globals_: dict[str, Any], name: Callable[[Any, str], str]
    ) -> None:
        self._parameter = parameter
        self._argument = argument
        self._globals = globals_
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id == self._parameter:
            return ast.Name(self._argument, node.ctx)
        if node.id not in _FUNCTIONS or node.id in self._globals:
            raise _UnknownNameError
        return ast.Name(self._name(getattr(builtins, node.id), node.id), node.ctx)
