"""Writes simple functions of the user into the generated loops, which saves the call.

A function qualifies if it consists of assignments, calls of methods, and `if`, and returns at the end of each path. Its
code is taken as it is; only its parameters and variables get the names that they have in the loop. Calling such a
function costs as much as what it does. An error in it has the traceback that it would have if the function had been
called (`inlined_lines`). Its variables live until the next message has values for them, or the loop ends. Calls of the
classes of named tuples become calls of `tuple.__new__`, which is all that these do.

Functions that could notice that there is no call are called: those that look at their own frame or variables, also by
a method such as `DataFrame.query`, and those with calls that look like those of a logger, which notes where it is.
"""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import warnings
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol

from wallaroo.engine.loop_codegen import GeneratedLoop, is_own_name

_EXPRESSIONS = (
    *(ast.Name, ast.expr_context, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.keyword),
    *(ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.BoolOp, ast.boolop, ast.Compare, ast.cmpop, ast.IfExp),
    *(ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred),
)
_LOOK_AT_THE_CALLER = frozenset(
    {
        *("breakpoint", "dir", "eval", "exec", "globals", "locals", "super", "vars", "__class__"),
        *("_getframe", "currentframe", "extract_stack", "format_stack", "print_stack", "stack"),
        *("evaluate", "execute", "query", "sql", "substitute"),
        *("critical", "debug", "error", "exception", "info", "log", "print", "warn", "warning"),
    }
)
"""Names of functions and methods that may look at the variables of their caller, or note which line it is."""
_SPECIAL = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MOST_STATEMENTS = 30
_DEEPEST = 10
"""How many conditions may be inside each other: each `elif` is inside the one before. Python limits nesting."""
_DEEPEST_EXPRESSION = 50

Body = list[ast.stmt]


class Write(Protocol):
    """Writes a line: what comes first, an expression of the user's, and what comes after it."""

    def __call__(self, before: str, found: ast.expr, after: str = "") -> None:
        """Write the line."""


Result = Callable[[ast.expr, Write], None]
"""Writes what happens with the result of the function, of which it is given the expression, at each of its ends."""


def inline(loop: GeneratedLoop, function: Callable[..., Any], arguments: Sequence[str], result: Result) -> bool:
    """Write a user's function into a loop.

    Args:
        loop: The loop.
        function: The function, or a bound method.
        arguments: The names of the variables that hold its arguments.
        result: Called with the expression of each result.

    Returns:
        Whether that was possible; otherwise nothing is written, and the function has to be called.

    >>> def fahrenheit(celsius):
    ...     return float(celsius) * 1.8 + 32
    >>> loop = GeneratedLoop("message")
    >>> inline(loop, fahrenheit, ["message"], lambda found, write: write("converted = ", found))
    True
    >>> print(loop.source)
    def make():
        def run(message):
            converted = float(message) * 1.8 + 32
        return run
    >>> inline(loop, print, ["message"], lambda found, write: write("printed = ", found))
    False
    """
    plain = function.__func__ if isinstance(function, MethodType) else function
    bound = [function.__self__] if isinstance(function, MethodType) else []
    if not isinstance(plain, FunctionType) or plain.__code__.co_flags & _SPECIAL:
        return False
    simple = _simple(plain)
    if simple is None or len(simple.parameters) != len(bound) + len(arguments):
        return False
    if simple.has_globals and not loop.shares_globals(plain.__globals__):
        return False
    values = [*(loop.name(each, "self") for each in bound), *arguments]
    _Writer(loop, plain, simple, values, result).write()
    return True


@dataclass(frozen=True)
class _Simple:
    """A function that qualifies."""

    parameters: list[str]
    body: Body
    """Its statements; a condition that contains results is the last one, and ends with a result on each path."""
    assigned: list[str]
    """The variables, and the parameters that get other values."""
    has_globals: bool


class _UnsuitableError(Exception):
    """The function has to be called."""


def _simple(function: FunctionType) -> _Simple | None:
    """Return a function as the writer needs it, None if it does not qualify."""
    definition = _definition(function)
    if definition is None:
        return None
    given = definition.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults:
        return None
    has_docstring = ast.get_docstring(definition, clean=False) is not None
    parameters = [each.arg for each in (*given.posonlyargs, *given.args)]
    check = _Check(function, parameters)
    try:
        body = _ended(definition.body[has_docstring:], definition)
        check.block(body)
    except _UnsuitableError:
        return None
    return _Simple(parameters, body, sorted(check.assigned), check.has_globals)


def _definition(function: FunctionType) -> ast.FunctionDef | None:
    """Return a function's source, with the lines and columns of its file.

    Return None if it cannot be found, or is not the one that the function was made of.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        is_indented = lines[0][:1].isspace()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # They were shown when the file was compiled.
            module = ast.parse("".join(["if True:\n", *lines] if is_indented else lines))
            (found,) = module.body[0].body if is_indented else module.body  # type: ignore[attr-defined]
            if not isinstance(found, ast.FunctionDef):
                return None
            ast.increment_lineno(found, first - 1 - is_indented)
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


def _ended(body: Body, place: ast.stmt, depth: int = 0) -> Body:
    """Return a body in which what follows a condition with results is on the path that does not end with one."""
    if depth > _DEEPEST:
        raise _UnsuitableError
    for at, statement in enumerate(body):
        rest = body[at + 1 :]
        if isinstance(statement, ast.Return):
            if rest:  # It may be dead code that makes the function what it is.
                raise _UnsuitableError
            return body
        if isinstance(statement, ast.If) and any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            then, otherwise = statement.body, statement.orelse
            if _ends(then):
                otherwise = [*otherwise, *rest]
            elif _ends(otherwise):
                then = [*then, *rest]
            elif rest:
                raise _UnsuitableError
            paths = [_ended(path, statement, depth + 1) for path in (then, otherwise)]
            return [*body[:at], ast.copy_location(ast.If(statement.test, *paths), statement)]
    nothing = ast.Return(ast.copy_location(ast.Constant(None), place))
    return [*body, ast.copy_location(nothing, place)]


def _ends(body: Body) -> bool:
    """Return whether all paths through statements end with a result."""
    match body:
        case [*_, ast.Return()]:
            return True
        case [*_, ast.If(body=then, orelse=otherwise)]:
            return _ends(then) and _ends(otherwise)
    return False


class _Check:
    """Raises an error for what does not mean the same in a loop."""

    def __init__(self, function: FunctionType, parameters: Sequence[str]) -> None:
        self._globals = function.__globals__
        self._variables = set(function.__code__.co_varnames)
        self._known = set(parameters)
        """The variables that surely have a value; others could still have one of the message before."""
        self._statements = 0
        self.assigned: set[str] = set()
        self.has_globals = False

    def block(self, body: Body, depth: int = 0) -> None:
        """Check statements."""
        if depth > _DEEPEST:
            raise _UnsuitableError
        for statement in body:
            self._statements += 1
            if self._statements > _MOST_STATEMENTS:
                raise _UnsuitableError
            self._statement(statement, depth)

    def _statement(self, statement: ast.stmt, depth: int) -> None:
        match statement:
            case ast.Return(value=value):
                self._expression(value or ast.Constant(None))
            case ast.If(test=test, body=then, orelse=otherwise):
                self._expression(test)
                before = set(self._known)
                self.block(then, depth + 1)
                after_then, self._known = self._known, before
                self.block(otherwise, depth + 1)
                self._known &= after_then
            case ast.Assign(targets=targets, value=value):
                self._expression(value)
                for target in targets:
                    self._target(target)
            case ast.AugAssign(target=target, value=value):
                if isinstance(target, ast.Name):
                    self._name(target.id)
                self._expression(value)
                self._target(target)
            case ast.Expr(value=ast.Call() as value):
                self._expression(value)
            case ast.Pass():
                pass
            case _:
                raise _UnsuitableError

    def _target(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._known.add(name)
                self.assigned.add(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self._target(part)
            case ast.Attribute() | ast.Subscript():
                self._expression(target)
            case _:
                raise _UnsuitableError

    def _expression(self, expression: ast.expr) -> None:
        nodes: list[tuple[ast.AST, int]] = [(expression, 0)]
        for node, depth in nodes:
            if not isinstance(node, _EXPRESSIONS) or depth > _DEEPEST_EXPRESSION:
                raise _UnsuitableError
            if isinstance(node, ast.Name):
                self._name(node.id)
            if isinstance(node, ast.Attribute) and node.attr in _LOOK_AT_THE_CALLER:
                raise _UnsuitableError
            nodes += ((child, depth + 1) for child in ast.iter_child_nodes(node))

    def _name(self, name: str) -> None:
        if name in self._variables:
            if name not in self._known:
                raise _UnsuitableError
        elif name in _LOOK_AT_THE_CALLER or is_own_name(name):
            raise _UnsuitableError
        elif name in self._globals or hasattr(builtins, name):
            self.has_globals = True
        else:
            raise _UnsuitableError


class _Writer:
    """Writes a function that qualifies."""

    def __init__(
        self, loop: GeneratedLoop, function: FunctionType, simple: _Simple, values: Sequence[str], result: Result
    ) -> None:
        self._loop = loop
        self._simple = simple
        self._values = dict(zip(simple.parameters, values, strict=True))
        self._result = result
        names = self._values | {name: loop.variable(name) for name in simple.assigned}
        self._rename = _Rename(names, _NamedTuples(loop, function))
        self._shift = loop.users_function(function.__code__.co_filename, function.__code__.co_name)

    def write(self) -> None:
        """Write the whole function."""
        for parameter in self._values.keys() & set(self._simple.assigned):
            self._loop.line(f"{self._rename.names[parameter]} = {self._values[parameter]}")
        self._block(self._simple.body)

    def _block(self, body: Body) -> None:
        for statement in body:
            match statement:
                case ast.Return(value=value):
                    self._result(value or ast.copy_location(ast.Constant(None), statement), self._line)
                case ast.If(test=test, body=then, orelse=otherwise):
                    with self._loop.block("if ", self._here(test)):
                        self._block(then)
                    if otherwise:
                        with self._loop.block("else:"):
                            self._block(otherwise)
                case _:
                    self._loop.line("", self._here(statement))

    def _line(self, before: str, found: ast.expr, after: str = "") -> None:
        self._loop.line(before, self._here(found), after)

    def _here(self, node: Any) -> Any:
        """Return a node with the names of the loop, and its place in the user's file."""
        return ast.increment_lineno(self._rename.visit(copy.deepcopy(node)), self._shift)


class _Rename(ast.NodeTransformer):
    """Puts names of the loop in the place of a function's names, and makes named tuples without their classes' code."""

    def __init__(self, names: Mapping[str, str], named_tuples: _NamedTuples) -> None:
        self.names = names
        self._named_tuples = named_tuples

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        made = self._named_tuples.made_directly(node)
        self.generic_visit(node)
        return made


class _NamedTuples:
    """Makes named tuples as the code of their classes does, but without calling it."""

    def __init__(self, loop: GeneratedLoop, function: FunctionType) -> None:
        self._loop = loop
        self._globals = function.__globals__
        self._variables = set(function.__code__.co_varnames)

    def made_directly(self, call: ast.Call) -> ast.Call:
        """Change a call to one of `tuple.__new__`, if it is one of the class of a named tuple with all its values."""
        match call:
            case ast.Call(func=ast.Name(id=name) as kind, args=values, keywords=[]) if (
                name not in self._variables
                and _makes_a_tuple_of(self._globals.get(name), len(values))
                and not any(isinstance(value, ast.Starred) for value in values)
            ):
                new = ast.Name(self._loop.builtin(tuple.__new__), ast.Load())
                call.func = ast.copy_location(new, kind)
                call.args = [kind, ast.copy_location(ast.Tuple(values, ast.Load()), call)]
        return call


def _makes_a_tuple_of(kind: Any, number: int) -> bool:
    """Return whether something is the class of a named tuple of `number` values, made as all such classes make theirs.

    >>> from typing import NamedTuple
    >>> class Point(NamedTuple):
    ...     x: int
    ...     y: int = 0
    >>> _makes_a_tuple_of(Point, 2), _makes_a_tuple_of(Point, 1), _makes_a_tuple_of(tuple, 2)
    (True, False, False)
    """
    fields = getattr(kind, "_fields", ())
    if type(kind) is not type or not issubclass(kind, tuple) or len(fields) != number:
        return False
    usual = namedtuple(kind.__name__, fields, rename=True)  # type: ignore[misc]  # noqa: PYI024
    made, expected = (getattr(each.__new__, "__code__", None) for each in (kind, usual))
    # Both have been given these globals by `collections`, so that the same names are the same functions.
    return made is not None and expected is not None and _essence(made) == _essence(expected)
