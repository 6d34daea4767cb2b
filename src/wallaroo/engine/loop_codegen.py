"""Generates loops over messages as Python source and compiles them, once for each chain of steps in a worker.

A chain of function calls per message costs as much as a typical user function. One loop that calls only the user's
functions in its body has almost no overhead. Simple functions are even written into the loop (`stages.inlining`).
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from wallaroo import inlined_lines

_numbers = count(1)

PLAIN_NAMES = frozenset(
    {
        *("make", "run", "messages", "message", "payloads", "payload", "rows", "row", "state"),
        *("result", "output", "save", "save_any", "each", "encoded", "error"),
    }
)
"""The names in generated loops that have no number."""
_NUMBERED = re.compile(r"\w+_\d+")


class GeneratedLoop:
    """A function under construction: its lines of source, and the objects that they refer to.

    >>> loop = GeneratedLoop("messages")
    >>> with loop.block("for message in messages:"):
    ...     loop.line(f"{loop.name(print, 'show')}(message)")
    >>> print(loop.source)
    def make(show_0):
        def run(messages):
            for message in messages:
                show_0(message)
        return run
    >>> loop.compiled()(["a", "b"])
    a
    b
    """

    def __init__(self, parameters: str) -> None:
        self._parameters = parameters
        self._lines: list[tuple[str, str]] = []
        """Each line twice: as it is shown, and with a placeholder for the user's code."""
        self._users: dict[str, ast.stmt | ast.expr] = {}
        """The user's code by placeholder."""
        self._functions: list[tuple[str, str]] = []
        self._objects: dict[str, Any] = {}
        self._builtins: dict[type | Callable[..., Any], str] = {}
        self._numbers = count()
        self._depth = 2
        self._globals: dict[str, Any] | None = None

    def line(self, text: str, users: ast.stmt | ast.expr | None = None, end: str = "") -> None:
        """Add a line; it may continue with code of the user's, and end with more of ours."""
        indent = "    " * self._depth
        if users is None:
            self._lines.append((indent + text, indent + text))
            return
        placeholder = self.variable("users")
        self._users[placeholder] = users
        self._lines.append((indent + text + _shown(users) + end, indent + text + placeholder + end))

    @contextlib.contextmanager
    def block(self, head: str, users: ast.expr | None = None) -> Iterator[None]:
        """Indent the lines that are added in the `with` block below `head`, which may end with a user's test."""
        self.line(head, users, ":")
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, thing: Any, hint: str) -> str:
        """Return a name for any object."""
        name = self.variable(hint)
        self._objects[name] = thing
        return name

    def builtin(self, thing: type | Callable[..., Any]) -> str:
        """Return a name for something of Python's own: the user's module may use its name for something else."""
        if thing not in self._builtins:
            self._builtins[thing] = self.name(thing, thing.__name__.strip("_"))
        return self._builtins[thing]

    def variable(self, hint: str) -> str:
        """Return the name of an unused variable."""
        return f"{hint}_{next(self._numbers)}"

    def shares_globals(self, globals_: dict[str, Any]) -> bool:
        """Return whether a function with these globals can be written into the loop: all such have the same."""
        if self._globals is None:
            self._globals = globals_
        return self._globals is globals_

    def users_function(self, file: str, name: str) -> int:
        """Record a function of the user that is written into the loop; return what is added to its line numbers."""
        self._functions.append((file, name))
        return inlined_lines.SHIFT * len(self._functions)

    @property
    def is_deep(self) -> bool:
        """Return whether the source is nested so deeply that the rest needs its own loop: Python limits nesting."""
        return self._depth > 30

    @property
    def source(self) -> str:
        """Return the lines so far, inside a function that is given the objects and returns the loop."""
        return self._function(shown for shown, _ in self._lines)

    def _function(self, lines: Iterator[str]) -> str:
        # What is bound by a surrounding function is found faster than a global.
        head = [f"def make({', '.join(self._objects)}):", f"    def run({self._parameters}):"]
        return "\n".join([*head, *lines, "    return run"])

    def compiled(self, *, shown: bool = True) -> Callable[..., Any]:
        """Return the function. If profilers and debuggers are to show its lines (`shown`), these are never freed."""
        file = f"<wallaroo loop {next(_numbers)}>"
        tree = _Filled(self._users).visit(ast.parse(self._function(line for _, line in self._lines)))
        made: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Those about the user's code were shown when its file was compiled.
            code = compile(tree, file, "exec", dont_inherit=True)
        exec(code, {} if self._globals is None else self._globals, made)  # noqa: S102 - names and a user's own lines
        run: Callable[..., Any] = made["make"](**self._objects)
        if shown:
            source = self.source
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        if self._functions:
            inlined_lines.register(file, self._functions)
        return run


def is_own_name(name: str) -> bool:
    """Return whether generated loops may have a variable of this name.

    >>> is_own_name("message"), is_own_name("append_3"), is_own_name("FACTOR")
    (True, True, False)
    """
    return name in PLAIN_NAMES or _NUMBERED.fullmatch(name) is not None


def _shown(users: ast.stmt | ast.expr) -> str:
    """Return the user's code on one line, as far as that is possible."""
    try:
        return ast.unparse(users).replace("\n", " ")
    except ValueError:
        return "..."  # An f-string that Python can read but not write.


class _Filled(ast.NodeTransformer):
    """Puts the user's code in the place of placeholders."""

    def __init__(self, users: Mapping[str, ast.stmt | ast.expr]) -> None:
        self._users = users

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Name) and isinstance(users := self._users.get(node.value.id), ast.stmt):
            return users
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._users.get(node.id, node)
