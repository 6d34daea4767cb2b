"""Questions about objects that users hand over, and how to name those objects in a message."""

from __future__ import annotations

import enum
import inspect
import reprlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Missing(enum.Enum):
    """The type of `MISSING`, which stands for an argument that was left out."""

    MISSING = "left out"


MISSING = Missing.MISSING


def fills_missing(function: F) -> F:
    """Give `function` `MISSING` for arguments that are left out.

    For a type checker and for readers the arguments are required. At run time `build` reports those that are missing,
    together with all other mistakes, and spells out the whole call.

    >>> @fills_missing
    ... def to(computation: str) -> object:
    ...     return computation
    >>> to("upper"), to()
    ('upper', <Missing.MISSING: 'left out'>)
    """
    assert isinstance(function, FunctionType)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = function.__defaults__ or ()
    required = len(names) - len(given) - (names[:1] == ("self",))
    function.__defaults__ = (MISSING,) * required + given
    return function


def accepts(function: Any, count: int) -> bool:
    """Tell whether `function` can be called with `count` positional arguments.

    Callables that do not tell their parameters (some written in C) get the benefit of the doubt.

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
    """Return a short name for any object, as close as possible to what its user wrote.

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
    """Return the name of an object, or of its class, without what tells the two apart.

    >>> bare_label(len), bare_label(object())
    ('len', 'object')
    """
    return label(thing).removesuffix("(...)")


def a_kind_of(thing: Any) -> str:
    """Return what `thing` is, in words that fit behind "got".

    >>> a_kind_of("!"), a_kind_of(dict), a_kind_of(None)
    ("'!' (a str)", 'the class dict', 'None')
    """
    if thing is None:
        return "None"
    if inspect.isclass(thing):
        return f"the class {thing.__name__}"
    if inspect.isroutine(thing):
        return f"the function {label(thing)}"
    kind = type(thing).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{label(thing)} ({article} {kind})"


def instance_of(target: Any) -> Any:
    """Return `target` itself, or an instance of it where it is a class.

    >>> instance_of(dict)
    {}
    >>> instance_of("already an object")
    'already an object'
    """
    return target() if inspect.isclass(target) else target


def making_mistakes(target: Any) -> Iterator[str]:
    """Check that a class, where one is given instead of an object, can be made into one without arguments."""
    if inspect.isclass(target) and not accepts(target, 0):
        name = target.__name__
        made = call_text(target, name)
        yield f"{name} cannot be made without arguments: give an object, {made}, not the class"


def decoration_mistakes(part: Any) -> Iterator[str]:
    """Yield what is wrong with how a function was decorated; nothing for parts that are not decorated functions.

    Decorators take whatever they are given. What they cannot use is reported where the application is built, together
    with all other mistakes.
    """
    if hasattr(type(part), "decoration_mistakes"):
        yield from part.decoration_mistakes()


def deferred_mistakes(function: Any, shown: str, instead_of_yield: str) -> Iterator[str]:
    """Check that a function returns its result when it is called, as it does not with `async def` or `yield`.

    Args:
        function: The function that is called for each message.
        shown: What to call it.
        instead_of_yield: What to do instead of `yield`, in words that fit behind a colon.

    Yields:
        A sentence that says what to write.

    >>> async def fetch(url):
    ...     return url
    >>> list(deferred_mistakes(fetch, "fetch", "write `return`"))
    ['fetch is `async def`: write `def`, and asyncio.run(...) around what has to be awaited']
    >>> def words(line):
    ...     yield from line.split()
    >>> list(deferred_mistakes(words, "words", "write `return`"))
    ['words is a generator function, with `yield` in it: write `return`']
    """
    if inspect.isclass(function):
        return  # Whatever its objects do when they are called, making one is done at once.
    # A callable object is what its `__call__` is, and a static method what its function is.
    ways = [function, getattr(function, "__call__", None), getattr(function, "__func__", None)]  # noqa: B004
    if any(map(inspect.isasyncgenfunction, ways)):
        yield f"{shown} is an async generator function: write `def` without `async`, and {instead_of_yield}"
    elif any(map(inspect.iscoroutinefunction, ways)):
        yield f"{shown} is `async def`: write `def`, and asyncio.run(...) around what has to be awaited"
    elif any(map(inspect.isgeneratorfunction, ways)):
        yield f"{shown} is a generator function, with `yield` in it: {instead_of_yield}"


def key_method(target: Any, *methods: str) -> str | None:
    """Return which of the `methods` an object, or a class of objects, has: the first; None where it has none.

    >>> class ByName:
    ...     def extract_key(self, data):
    ...         return data["name"]
    >>> key_method(ByName, "partition", "extract_key"), key_method("text", "partition")
    ('extract_key', None)
    """
    # Texts have a method `partition` for something else.
    if isinstance(target, str | bytes):
        return None
    return next((method for method in methods if callable(getattr(target, method, None))), None)
