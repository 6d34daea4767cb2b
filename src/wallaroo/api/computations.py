"""The decorators that make computations out of functions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from wallaroo.api.decorated import Decorated, P, R, function_name
from wallaroo.introspection import MISSING, a_kind_of, fills_missing, label
from wallaroo.topology.validate import state_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wallaroo.interfaces import StateLike

Many = TypeVar("Many", bound=list[Any] | tuple[Any, ...] | None)
Saved = TypeVar("Saved", bound=tuple[Any, bool])
ManySaved = TypeVar("ManySaved", bound=tuple[list[Any] | tuple[Any, ...] | None, bool])


class _NamedComputation(Decorated[P, R]):
    stateful: ClassVar[bool] = False

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function)
        self._name = name

    def decoration_mistakes(self) -> Iterator[str]:
        yield from super().decoration_mistakes()
        given: Any = self._name
        if isinstance(given, str) and given:
            return
        if self.stateful and given is not MISSING and _makes_states(given):
            yield (
                f"{self.decorator} takes the name first, and then the state: write "
                f'{self.decorator}("what the step does", {label(given)})'
            )
            return
        got = "" if given is MISSING or given == "" else f"; got {a_kind_of(given)}"
        yield f'{self.decorator} on {self.__name__} needs a name: write {self.decorator}("{self.__name__}"){got}'


class SingleComputation(_NamedComputation[P, R]):
    """The result of `@computation`: a step that returns one output, or None, for each message."""

    decorator = "@wallaroo.computation"
    parameters: ClassVar[tuple[str, ...]] = ("data",)
    class_prefix: ClassVar[str] = "Computation"

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function, name)
        self.compute = function


class MultiComputation(_NamedComputation[P, R]):
    """The result of `@computation_multi`: a step that returns a list of outputs, or None, for each message."""

    decorator = "@wallaroo.computation_multi"
    parameters: ClassVar[tuple[str, ...]] = ("data",)
    class_prefix: ClassVar[str] = "ComputationMulti"

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function, name)
        self.compute_multi = function


class SingleStateComputation(SingleComputation[P, R]):
    """The result of `@state_computation`: a step that returns `(output, save_state)`."""

    decorator = "@wallaroo.state_computation"
    parameters = ("data", "state")
    class_prefix = "StateComputation"
    stateful = True


class MultiStateComputation(MultiComputation[P, R]):
    """The result of `@state_computation_multi`: a step that returns `(outputs, save_state)`."""

    decorator = "@wallaroo.state_computation_multi"
    parameters = ("data", "state")
    class_prefix = "StateComputationMulti"
    stateful = True


class SingleOwnStateComputation(SingleStateComputation[P, R]):
    """The result of `@state_computation` with a state: a step with its own state that returns only the output."""

    def __init__(self, function: Callable[P, R], name: str, state: Any) -> None:
        super().__init__(function, name)
        self.own_state = state

    def decoration_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in how the function was decorated."""
        yield from super().decoration_mistakes()
        yield from _own_state_mistakes(self)


class MultiOwnStateComputation(MultiStateComputation[P, R]):
    """The result of `@state_computation_multi` with a state: a step with its own state that returns only outputs."""

    def __init__(self, function: Callable[P, R], name: str, state: Any) -> None:
        super().__init__(function, name)
        self.own_state = state

    def decoration_mistakes(self) -> Iterator[str]:
        """Yield a sentence for each mistake in how the function was decorated."""
        yield from super().decoration_mistakes()
        yield from _own_state_mistakes(self)


@fills_missing
def computation(name: str) -> Callable[[Callable[P, R]], SingleComputation[P, R]]:
    """Make a computation out of a function that takes `data` and returns one output.

    The output is passed to the next step; returning None drops the message.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    Returns:
        A decorator. What it makes is a `wallaroo.Computation`, and is called like the function.

    >>> @computation(name="Double or Zero")
    ... def double_or_zero(data):
    ...     return data * 2 if isinstance(data, int) else 0
    >>> double_or_zero(21)
    42
    >>> double_or_zero.name()
    'Double or Zero'
    """
    made: Callable[[Callable[P, R]], SingleComputation[P, R]] = _decorator(SingleComputation, name)
    return made


@fills_missing
def computation_multi(name: str) -> Callable[[Callable[P, Many]], MultiComputation[P, Many]]:
    """Make a computation out of a function that takes `data` and returns a list of outputs, or None.

    Each item of the list is passed to the next step as a message of its own.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    Returns:
        A decorator. What it makes is a `wallaroo.ComputationMulti`, and is called like the function.

    >>> @computation_multi(name="Split")
    ... def split(line):
    ...     return line.split()
    >>> split("why hello world")
    ['why', 'hello', 'world']
    """
    made: Callable[[Callable[P, Many]], MultiComputation[P, Many]] = _decorator(MultiComputation, name)
    return made


@overload
def state_computation(name: str) -> Callable[[Callable[P, Saved]], SingleStateComputation[P, Saved]]: ...
@overload
def state_computation(
    name: str, state: StateLike[Any]
) -> Callable[[Callable[P, R]], SingleOwnStateComputation[P, R]]: ...
def state_computation(name: Any = MISSING, state: Any = MISSING) -> Any:
    """Make a state computation out of a function of `data` and `state`.

    There are two kinds. For `ApplicationBuilder.to_stateful` and `to_state_partition`, which take the state, the
    function returns `(output, save_state)`; `save_state` says whether the change of the state is to be made durable.
    With `state` given here, for the `to` of a pipeline, the function returns only the output, and the state is always
    saved. In both cases an output of None is dropped.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.
        state: The class of the state, or an object whose `build()` returns a state. There is one state for each key set
            by `key_by`, and the state has the name of the step.

    Returns:
        A decorator. What it makes is a `wallaroo.StateComputation`, or, with `state`, a step that brings its state.
        It is called like the function.

    >>> @state_computation(name="Count")
    ... def count(word, totals):
    ...     totals[word] = totals.get(word, 0) + 1
    ...     return (word, totals[word]), True
    >>> count("hello", {"hello": 1})
    (('hello', 2), True)
    >>> @state_computation(name="Count", state=dict)
    ... def count_alone(word, totals):
    ...     totals[word] = totals.get(word, 0) + 1
    ...     return word, totals[word]
    >>> count_alone("hello", {"hello": 1})
    ('hello', 2)
    """
    if state is MISSING:
        return _decorator(SingleStateComputation, name)
    return _decorator(SingleOwnStateComputation, name, state)


@overload
def state_computation_multi(
    name: str,
) -> Callable[[Callable[P, ManySaved]], MultiStateComputation[P, ManySaved]]: ...
@overload
def state_computation_multi(
    name: str, state: StateLike[Any]
) -> Callable[[Callable[P, Many]], MultiOwnStateComputation[P, Many]]: ...
def state_computation_multi(name: Any = MISSING, state: Any = MISSING) -> Any:
    """Make a state computation out of a function of `data` and `state` that gives a list of outputs, or None.

    The function returns `(outputs, save_state)` or, with `state` given, only the outputs, as described for
    `state_computation`. Each output is passed to the next step as a message of its own.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.
        state: As for `state_computation`.

    Returns:
        A decorator. What it makes is a `wallaroo.StateComputationMulti`, or, with `state`, a step that brings its
        state. It is called like the function.

    >>> @state_computation_multi(name="New words")
    ... def new_words(line, seen):
    ...     fresh = [word for word in line.split() if word not in seen]
    ...     seen.update(fresh)
    ...     return fresh, bool(fresh)
    >>> new_words("why hello", {"why"})
    (['hello'], True)
    """
    if state is MISSING:
        return _decorator(MultiStateComputation, name)
    return _decorator(MultiOwnStateComputation, name, state)


def _decorator(kind: Any, name: Any, *state: Any) -> Any:
    """Return the decorator, or, if it was written without a name, its result for the function."""
    is_bare = callable(name) and not state and not (kind.stateful and inspect.isclass(name) and _makes_states(name))
    return kind(name, MISSING) if is_bare else lambda function: kind(function, name, *state)


def _makes_states(given: Any) -> bool:
    """Return whether the value given as the name is more likely the state."""
    is_computation = any(hasattr(given, method) for method in ("compute", "compute_multi"))
    return not is_computation and (inspect.isclass(given) or hasattr(given, "build"))


def _own_state_mistakes(
    computation: SingleOwnStateComputation[P, R] | MultiOwnStateComputation[P, R],
) -> Iterator[str]:
    if _makes_states(computation.name()):
        return  # The state was given as the name, which has been reported.
    for mistake in state_mistakes(computation.own_state):
        yield f"{computation.decorator} on {function_name(computation)}: {mistake}"
