"""The decorators that make computations out of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from wallaroo.api.decorated import Decorated, P, R, function_name
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import MISSING, a_kind_of, label
from wallaroo.topology.validate import state_mistakes

if TYPE_CHECKING:
    from collections.abc import Callable


class _NamedComputation(Decorated[P, R]):
    stateful: ClassVar[bool] = False

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function, name)
        _require_name(name, self.decorator, function)


class SingleComputation(_NamedComputation[P, R]):
    """What `@computation` makes: a step that gives one output, or None, for each message."""

    decorator = "@wallaroo.computation"
    parameters: ClassVar[tuple[str, ...]] = ("data",)

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function, name)
        self.compute = function


class MultiComputation(_NamedComputation[P, R]):
    """What `@computation_multi` makes: a step that gives a list of outputs, or None, for each message."""

    decorator = "@wallaroo.computation_multi"
    parameters: ClassVar[tuple[str, ...]] = ("data",)

    def __init__(self, function: Callable[P, R], name: str) -> None:
        super().__init__(function, name)
        self.compute_multi = function


class SingleStateComputation(SingleComputation[P, R]):
    """What `@state_computation` makes: a step that returns `(output, save_state)`.

    Where the decorator was given the state, it is found here as `own_state`, and the step returns the output alone.
    """

    decorator = "@wallaroo.state_computation"
    parameters = ("data", "state")
    stateful = True

    def __init__(self, function: Callable[P, R], name: str, state: Any = MISSING) -> None:
        super().__init__(function, name)
        if state is not MISSING:
            self.own_state = _checked_state(state, self.decorator, function)


class MultiStateComputation(MultiComputation[P, R]):
    """What `@state_computation_multi` makes: a step that returns `(outputs, save_state)`.

    Where the decorator was given the state, it is found here as `own_state`, and the step returns the outputs alone.
    """

    decorator = "@wallaroo.state_computation_multi"
    parameters = ("data", "state")
    stateful = True

    def __init__(self, function: Callable[P, R], name: str, state: Any = MISSING) -> None:
        super().__init__(function, name)
        if state is not MISSING:
            self.own_state = _checked_state(state, self.decorator, function)


def computation(name: str = "") -> Callable[[Callable[P, R]], SingleComputation[P, R]]:
    """Make a computation out of a function that takes `data` and returns one output.

    The output goes to the next step; None goes nowhere, so returning None drops the message.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    Returns:
        What makes the computation out of a function; it is then called like the function.

    Raises:
        WallarooParameterError: There is no name, or the function does not take one argument.

    >>> @computation(name="Double or Zero")
    ... def double_or_zero(data):
    ...     return data * 2 if isinstance(data, int) else 0
    >>> double_or_zero(21)
    42
    >>> double_or_zero.name()
    'Double or Zero'
    """
    _refuse_bare_use(name, "@wallaroo.computation")
    return lambda function: SingleComputation(function, name)


def computation_multi(name: str = "") -> Callable[[Callable[P, R]], MultiComputation[P, R]]:
    """Make a computation out of a function that takes `data` and returns a list of outputs, or None.

    Each item of the list arrives at the next step as a message of its own.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    Returns:
        What makes the computation out of a function; it is then called like the function.

    Raises:
        WallarooParameterError: There is no name, or the function does not take one argument.

    >>> @computation_multi(name="Split")
    ... def split(line):
    ...     return line.split()
    >>> split("why hello world")
    ['why', 'hello', 'world']
    """
    _refuse_bare_use(name, "@wallaroo.computation_multi")
    return lambda function: MultiComputation(function, name)


def state_computation(name: str = "", state: Any = MISSING) -> Callable[[Callable[P, R]], SingleStateComputation[P, R]]:
    """Make a state computation out of a function of `data` and `state`.

    It comes in two kinds. For `ApplicationBuilder.to_stateful` and `to_state_partition`, which are given the state,
    the function returns `(output, save_state)`; `save_state` says whether the change of the state is to be made
    durable. With `state` given here, for the `to` of a pipeline, the function returns the output alone, and the state
    is always saved. Either way, an output of None goes nowhere.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.
        state: The class of the state, or an object whose `build()` returns a state. There is one state for each
            key, as `key_by` gives it, and the name of the state is that of the step.

    Returns:
        What makes the computation out of a function; it is then called like the function.

    Raises:
        WallarooParameterError: There is no name, or the function does not take two arguments.

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
    _refuse_bare_use(name, "@wallaroo.state_computation", state)
    return lambda function: SingleStateComputation(function, name, state)


def state_computation_multi(
    name: str = "", state: Any = MISSING
) -> Callable[[Callable[P, R]], MultiStateComputation[P, R]]:
    """Make a state computation out of a function of `data` and `state` that gives a list of outputs, or None.

    The function returns `(outputs, save_state)` or, with `state` given, the outputs alone, as described for
    `state_computation`. Each output arrives at the next step as a message of its own.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.
        state: As for `state_computation`.

    Returns:
        What makes the computation out of a function; it is then called like the function.

    Raises:
        WallarooParameterError: There is no name, or the function does not take two arguments.

    >>> @state_computation_multi(name="New words")
    ... def new_words(line, seen):
    ...     fresh = [word for word in line.split() if word not in seen]
    ...     seen.update(fresh)
    ...     return fresh, bool(fresh)
    >>> new_words("why hello", {"why"})
    (['hello'], True)
    """
    _refuse_bare_use(name, "@wallaroo.state_computation_multi", state)
    return lambda function: MultiStateComputation(function, name, state)


def _refuse_bare_use(name: Any, decorator: str, state: Any = MISSING) -> None:
    if callable(name) and state is not MISSING:
        raise WallarooParameterError(
            f"{decorator} takes the name first, and then the state: write "
            f'{decorator}("what the step does", {label(name)}).'
        )
    if callable(name):
        function = function_name(name)
        raise WallarooParameterError(
            f'{decorator} on {function} needs a name: write {decorator}("{function}") instead of {decorator}.'
        )


def _require_name(name: Any, decorator: str, function: Any) -> None:
    if isinstance(name, str) and name:
        return
    shown = function_name(function)
    got = "" if name == "" else f"; got {a_kind_of(name)}"
    raise WallarooParameterError(f'{decorator} on {shown} needs a name, as in {decorator}("{shown}"){got}.')


def _checked_state(state: Any, decorator: str, function: Any) -> Any:
    for mistake in state_mistakes(state):
        raise WallarooParameterError(f"{decorator} on {function_name(function)}: {mistake}.")
    return state
