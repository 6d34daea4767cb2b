"""Inspects objects that users pass in, and names them for messages."""

from __future__ import annotations

import enum
import inspect
import reprlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Missing(enum.Enum):
    """The type of `MISSING`, which stands for an omitted argument."""

    MISSING = "left out"

    def __repr__(self) -> str:
        """Return what signatures show in `help()`."""
        return "..."


MISSING = Missing.MISSING


def fills_missing(function: F) -> F:
    """Pass `MISSING` to `function` for omitted arguments.

    To type checkers and readers the arguments are required. At run time `build` reports the missing ones together with
    all other mistakes, and shows the whole call as it should be written.

    >>> @fills_missing
    ... def to(computation: str) -> object:
    ...     return computation
    >>> to("upper"), to()
    ('upper', ...)
    """
    assert isinstance(function, FunctionType)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = function.__defaults__ or ()
    required = len(names) - len(given) - (names[:1] == ("self",))
    function.__defaults__ = (MISSING,) * required + given
    return function


def accepts(function: Any, count: int) -> bool:
    """Return whether `function` can be called with `count` positional arguments.

    Callables without a signature (some written in C) are assumed to be fine.

    >>> accepts(lambda data: data, 1), accepts(lambda data, state: data, 1)
    (True, False)
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def call_text(function: Any, name: str) -> str:
    """Return how `function` is called, for a message.

    >>> call_text(lambda data, state: data, "count")
    'count(data, state)'
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return f"{name}(...)"
    return f"{name}({', '.join(str(each.replace(annotation=each.empty)) for each in parameters)})"


def label(thing: Any) -> str:
    """Return a short name for any object, as close as possible to what the user wrote.

    >>> label(dict), label(len), label("word totals"), label(object())
    ('dict', 'len', "'word totals'", 'object(...)')
    """
    name = getattr(thing, "__name__", None)
    if isinstance(name, str):
        return name
    if thing is None or isinstance(thing, str | bytes | int | float | list | tuple | set | frozenset | dict | range):
        return reprlib.repr(thing)
    return f"{type(thing).__name__}(...)"


def bare_label(thing: Any) -> str:
    """Return the name of an object, or of its class, without marking which of the two it is.

    >>> bare_label(len), bare_label(object())
    ('len', 'object')
    """
    return label(thing).removesuffix("(...)")


def a_kind_of(thing: Any) -> str:
    """Return a description of `thing` that can follow the word "got".

    >>> a_kind_of("!"), a_kind_of(dict), a_kind_of(None)
    ("'!' (a str)", 'the class dict', 'None')
    """
    if thing is None:
        return "None"
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    if inspect.isroutine(thing):
        return f"the function {label(thing)}"
    return f"{label(thing)} ({a_type_of(thing)})"


def a_type_of(thing: Any) -> str:
    """Return the name of the type of `thing`, with its article.

    >>> a_type_of(7), a_type_of("text")
    ('an int', 'a str')
    """
    kind = type(thing).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def instance_of(target: Any) -> Any:
    """Return `target` itself, or an instance of it if it is a class.

    >>> instance_of(dict)
    {}
    >>> instance_of("already an object")
    'already an object'
    """
    return target() if inspect.isclass(target) else target


def making_mistakes(target: Any) -> Iterator[str]:
    """Check that a class given instead of an object can be instantiated without arguments."""
    if inspect.isclass(target) and not accepts(target, 0):
        name = target.__name__
        made = call_text(target, name)
        yield f"{name} cannot be made without arguments: give an object, {made}, not the class"


def decoration_mistakes(part: Any) -> Iterator[str]:
    """Yield the mistakes in how a function was decorated; nothing for parts that are not decorated functions.

    Decorators accept any argument. Mistakes are reported when the application is built, together with all other
    mistakes.
    """
    if hasattr(type(part), "decoration_mistakes"):
        yield from part.decoration_mistakes()


def function_mistakes(part: Any) -> Iterator[str]:
    """Yield the mistakes in the function below a decorator, and not those in the decorator's own arguments."""
    if hasattr(type(part), "function_mistakes"):
        yield from part.function_mistakes()


def deferred_mistakes(function: Any, shown: str, instead_of_yield: str) -> Iterator[str]:
    """Check that a function returns its result directly, as one with `async def` or `yield` does not.

    Args:
        function: The function that is called for each message.
        shown: Its name in messages.
        instead_of_yield: What to do instead of `yield`, as a phrase that can follow a colon.

    Yields:
        A sentence that says what to write.

    >>> async def fetch(url):
    ...     return url
    >>> list(deferred_mistakes(fetch, "fetch", "write `return`"))
    ['fetch is an async function: write `def`, and asyncio.run(...) around what has to be awaited']
    >>> def words(line):
    ...     yield from line.split()
    >>> list(deferred_mistakes(words, "words", "write `return`"))
    ['words is a generator function, with `yield` in it: write `return`']
    """
    if inspect.isclass(function):
        return  # Instantiating a class returns directly, whatever its instances do when called.
    # A callable object is judged by its `__call__`, and a static method by its function.
    ways = [function, getattr(function, "__call__", None), getattr(function, "__func__", None)]  # noqa: B004
    if any(map(inspect.isasyncgenfunction, ways)):
        yield f"{shown} is an async generator function: write `def` without `async`, and {instead_of_yield}"
    elif any(map(inspect.iscoroutinefunction, ways)):
        yield f"{shown} is an async function: write `def`, and asyncio.run(...) around what has to be awaited"
    elif any(map(inspect.isgeneratorfunction, ways)):
        yield f"{shown} is a generator function, with `yield` in it: {instead_of_yield}"


def key_method(target: Any, *methods: str) -> str | None:
    """Return the first of the `methods` that an object, or a class of objects, has, or None if it has none.

    >>> class ByName:
    ...     def extract_key(self, data):
    ...         return data["name"]
    >>> key_method(ByName, "partition", "extract_key"), key_method("text", "partition")
    ('extract_key', None)
    """
    # Strings have a method `partition` with another meaning.
    if isinstance(target, str | bytes):
        return None
    return next((method for method in methods if callable(getattr(target, method, None))), None)
