"""Writes simple functions of the user into the generated loops, which saves the call.

A function qualifies if it is a single `return` of an expression of its argument, built from operators, attributes,
f-strings, calls of a few of Python's own functions, and of methods of what is surely text or bytes. Calling such a
function costs as much as what it does. If the expression raises, the loop calls the function itself, so that the error
has the usual traceback; what that call returns is not used.

That a module has a function of its own called `len` is seen when the loop is made, not if it is added later.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Container
from types import CodeType, FunctionType, MethodType
from typing import Any

_FUNCTIONS = frozenset(
    {"abs", "bool", "bytes", "chr", "float", "int", "len", "max", "min", "ord", "repr", "round", "str"}
)
"""The functions of Python that may be called."""

_METHODS = frozenset(
    {
        *("decode", "encode", "endswith", "find", "format", "join", "lower", "lstrip", "partition", "replace"),
        *("rpartition", "rstrip", "split", "startswith", "strip", "title", "upper"),
    }
)
"""The methods that may be called of text and bytes. An object of the user may have others under these names."""
_TEXT_FUNCTIONS = frozenset({"bytes", "chr", "repr", "str"})
"""Those of the functions that return text or bytes."""

_NODES = (
    *(ast.Name, ast.Load, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.IfExp),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop),
    *(ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List),
)


def expression_of(
    function: Callable[[Any], Any], argument: str, name: Callable[[Any, str], str], *, takes_bytes: bool = False
) -> str | None:
    """Return the source of a function's result as an expression of the variable `argument`.

    Args:
        function: A function of one argument, or a bound method.
        argument: The name of the variable that holds the argument.
        name: Returns a name for an object that the expression refers to.
        takes_bytes: Whether the argument is always bytes, as it is for a decoder.

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
    text = {parameter} if takes_bytes else set()
    if result is None or not all(_is_simple(node, text) for node in ast.walk(result)):
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
    # A parameter called `len` is not Python's function.
    return names[-1] if len(names) == 1 + bound and _FUNCTIONS.isdisjoint(names) else None


def _result(definition: ast.FunctionDef) -> ast.expr | None:
    body = definition.body[1:] if ast.get_docstring(definition, clean=False) is not None else definition.body
    match body:
        case [ast.Return(value=ast.expr() as result)]:
            return result
    return None


def _is_simple(node: ast.AST, text: Container[str]) -> bool:
    """Return whether a part of an expression is allowed; `text` has the variables that are surely text or bytes."""
    if isinstance(node, ast.Call):
        match node.func:
            case ast.Name(id=called):
                allowed = called in _FUNCTIONS
            case ast.Attribute(value=receiver, attr=called):
                allowed = called in _METHODS and _is_text(receiver, text)
            case _:
                return False
        return allowed and not any(isinstance(each, ast.Starred) for each in node.args)
    return isinstance(node, (*_NODES, ast.keyword))


def _is_text(node: ast.expr, text: Container[str]) -> bool:
    """Return whether an expression is surely text or bytes, or made of them by Python: a list of texts, or a number."""
    match node:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.Name(id=name):
            return name in text
        case ast.Call(func=ast.Name(id=called)):
            return called in _TEXT_FUNCTIONS
        case ast.Call(func=ast.Attribute(value=receiver)) | ast.Subscript(value=receiver):
            return _is_text(receiver, text)
        case _:
            return False


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
