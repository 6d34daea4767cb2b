"""The base class of what Wallaroo's decorators return: an object around a user's function."""

from __future__ import annotations

import copyreg
import functools
import inspect
import operator
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

from wallaroo.introspection import a_kind_of, accepts, call_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")


class Decorated(Generic[P, R]):
    """A function that a decorator turned into a part of an application.

    It can be called like the function, so that unit tests can call it, and has a name like parts written as classes.
    Subclasses store the function itself where the engine looks for it (as `compute`): an attribute and not a method,
    so that the engine calls the user's code directly.

    It accepts any argument: mistakes are reported when the application is built.
    """

    decorator: ClassVar[str]
    """The decorator as users write it."""
    parameters: ClassVar[tuple[str, ...]]
    """The parameters that the function is called with."""

    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R]) -> None:
        self.__wrapped__ = function
        self.__module__ = getattr(function, "__module__", None) or "builtins"
        self.__name__ = function_name(function)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__doc__ = function.__doc__
        self._name = self.__name__

    def name(self) -> str:
        """Return the name of this part of the application."""
        return self._name

    def decoration_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in how the function was decorated."""
        yield from self.function_mistakes()

    def function_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in the function itself."""
        yield from function_mistakes(self.__wrapped__, self.decorator, self.parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:  # noqa: D102 - calls the function
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.decorator} {self._name!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle by reference if another process can import this object by its name, otherwise by value.

        The function itself cannot be imported by its name: the name refers to this object. So a decorated function
        needs its own pickling.
        """
        if self._can_be_imported():
            return self.__qualname__
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def _can_be_imported(self) -> bool:
        # In a worker, `__main__` is the worker's own program, so what a script defines has to be pickled by value.
        if self.__module__ == "__main__":
            return False
        try:
            found = operator.attrgetter(self.__qualname__)(sys.modules.get(self.__module__))
        except AttributeError:
            return False
        return found is self


def function_mistakes(function: Any, decorator: str, parameters: tuple[str, ...]) -> Iterator[str]:
    """Check what a decorator was applied to: yield what it is and what it should look like."""
    if not callable(function):
        yield f"{decorator} needs a function below it; got {a_kind_of(function)}"
        return
    if accepts(function, len(parameters)):
        return
    name = function_name(function)
    wanted = f"{name}({', '.join(parameters)})"
    if inspect.isclass(function):
        yield (
            f"{decorator} decorates functions, and {name} is a class. Either write a function {wanted}, or "
            "leave the decorator out: classes with the right methods are used as they are"
        )
        return
    count = f"{len(parameters)} argument" + ("s" if len(parameters) > 1 else "")
    yield (
        f"{decorator} on {name}: your function must allow {count}, as in {wanted}; "
        f"it is written as {call_text(function, name)}"
    )


def function_name(function: Any) -> str:
    """Return the name of a function, including a `functools.partial` or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
