"""Questions about objects that users hand over, and how to name those objects in a message."""

from __future__ import annotations

import enum
import inspect
import reprlib
from collections.abc import Iterator
from typing import Any


class Missing(enum.Enum):
    """The type of `MISSING`, which stands for an argument that was left out."""

    MISSING = "left out"


MISSING = Missing.MISSING


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
