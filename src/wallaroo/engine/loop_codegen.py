"""Generates loops over messages as Python source and compiles them, once for each chain of steps in a worker.

A chain of function calls per message costs as much as a typical user function. One loop that calls only the user's
functions in its body has almost no overhead.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

_numbers = count(1)


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
        self._lines: list[str] = []
        self._objects: dict[str, Any] = {}
        self._depth = 2

    def line(self, text: str) -> None:
        """Add a line."""
        self._lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines that are added in the `with` block below `head`."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, thing: Any, hint: str) -> str:
        """Return a name for any object."""
        name = f"{hint}_{len(self._objects)}"
        self._objects[name] = thing
        return name

    def variable(self, hint: str) -> str:
        """Return the name of an unused variable."""
        return self.name(None, hint)

    @property
    def is_deep(self) -> bool:
        """Return whether the source is nested so deeply that the rest needs its own loop: Python limits nesting."""
        return self._depth > 30

    @property
    def source(self) -> str:
        """Return the lines so far, inside a function that is given the objects and returns the loop."""
        # What is bound by a surrounding function is found faster than a global.
        return "\n".join(
            [
                f"def make({', '.join(self._objects)}):",
                f"    def run({self._parameters}):",
                *self._lines,
                "    return run",
            ]
        )

    def compiled(self, *, shown: bool = True) -> Callable[..., Any]:
        """Return the function. If profilers and debuggers are to show its lines (`shown`), these are never freed."""
        source = self.source
        file = f"<wallaroo loop {next(_numbers)}>"
        namespace: dict[str, Any] = {}
        exec(compile(source, file, "exec"), namespace)  # noqa: S102 - source that was generated above, from names only
        run: Callable[..., Any] = namespace["make"](**self._objects)
        if shown:
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        return run
