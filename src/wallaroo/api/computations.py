"""The decorators that make computations out of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from wallaroo.api.decorated import Decorated, P, R, function_name
from wallaroo.errors import WallarooParameterError
from wallaroo.topology.inspection import a_kind_of

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
    """What `@state_computation` makes: a step that returns `(output, save_state)`."""

    decorator = "@wallaroo.state_computation"
    parameters = ("data", "state")
    stateful = True


class MultiStateComputation(MultiComputation[P, R]):
    """What `@state_computation_multi` makes: a step that returns `(outputs, save_state)`."""

    decorator = "@wallaroo.state_computation_multi"
    parameters = ("data", "state")
    stateful = True


def computation(name: str = "") -> Callable[[Callable[P, R]], SingleComputation[P, R]]:
    """Make a computation out of a function that takes `data` and returns one output.

    The output goes to the next step; None goes nowhere, so returning None drops the message.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

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

    >>> @computation_multi(name="Split")
    ... def split(line):
    ...     return line.split()
    >>> split("why hello world")
    ['why', 'hello', 'world']
    """
    _refuse_bare_use(name, "@wallaroo.computation_multi")
    return lambda function: MultiComputation(function, name)


def state_computation(name: str = "") -> Callable[[Callable[P, R]], SingleStateComputation[P, R]]:
    """Make a state computation out of a function of `data` and `state` that returns `(output, save_state)`.

    An output of None goes nowhere. `save_state` says whether the change of the state is to be made durable.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    >>> @state_computation(name="Count")
    ... def count(word, totals):
    ...     totals[word] = totals.get(word, 0) + 1
    ...     return (word, totals[word]), True
    >>> count("hello", {"hello": 1})
    (('hello', 2), True)
    """
    _refuse_bare_use(name, "@wallaroo.state_computation")
    return lambda function: SingleStateComputation(function, name)


def state_computation_multi(name: str = "") -> Callable[[Callable[P, R]], MultiStateComputation[P, R]]:
    """Make a state computation out of a function of `data` and `state` that returns `(outputs, save_state)`.

    `outputs` is a list, whose items arrive at the next step one by one, or None.

    Args:
        name: The name of the step, for messages and metrics; no other step of the pipeline may have it.

    >>> @state_computation_multi(name="New words")
    ... def new_words(line, seen):
    ...     fresh = [word for word in line.split() if word not in seen]
    ...     seen.update(fresh)
    ...     return fresh, bool(fresh)
    >>> new_words("why hello", {"why"})
    (['hello'], True)
    """
    _refuse_bare_use(name, "@wallaroo.state_computation_multi")
    return lambda function: MultiStateComputation(function, name)


def _refuse_bare_use(name: Any, decorator: str) -> None:
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
