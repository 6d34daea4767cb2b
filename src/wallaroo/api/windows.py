"""Windows' names. Windows themselves come in a later release; programs that use them are told so plainly."""

from __future__ import annotations

import abc
from typing import Any, NoReturn

from wallaroo.errors import WallarooParameterError


class Aggregation(abc.ABC):
    """What windows will gather and sum up: the base of classes that programs already have.

    Such classes may be defined and tested by themselves; the windows they are for come in a later release.

    >>> class Longest(Aggregation):
    ...     def initial_accumulator(self):
    ...         return []
    ...     def update(self, data, accumulator):
    ...         accumulator.append(len(data))
    ...     def combine(self, accumulator1, accumulator2):
    ...         return accumulator1 + accumulator2
    ...     def output(self, key, accumulator):
    ...         return (key, max(accumulator)) if accumulator else None
    >>> longest = Longest()
    >>> longest.output("w", longest.combine([3], [5])), longest.name()
    (('w', 5), 'Longest')
    """

    @abc.abstractmethod
    def initial_accumulator(self) -> Any:
        """Return an empty accumulator.

        Returns:
            Any object, a new one each time.
        """

    @abc.abstractmethod
    def update(self, data: Any, accumulator: Any) -> None:
        """Add a message to the accumulator.

        Args:
            data: The message.
            accumulator: What was gathered so far, to be changed.
        """

    @abc.abstractmethod
    def combine(self, accumulator1: Any, accumulator2: Any) -> Any:
        """Return both accumulators as one, and leave them as they are.

        Args:
            accumulator1: What was gathered first.
            accumulator2: What was gathered behind it.

        Returns:
            An accumulator with what both have.
        """

    @abc.abstractmethod
    def output(self, key: Any, accumulator: Any) -> Any:
        """Return the output for a window.

        Args:
            key: The key of the messages.
            accumulator: What was gathered in the window.

        Returns:
            The output, or None for no output.
        """

    def name(self) -> str:
        """Return the name of the step.

        Returns:
            The name of the class, unless a class says otherwise.
        """
        return type(self).__name__


def range_windows(*_arguments: Any, **_options: Any) -> NoReturn:
    """`range_windows(span)`: not in this release.

    >>> range_windows(5_000_000_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: range_windows: windows come in a later release. Until then ...
    """
    _refuse("range_windows", "notes when its window began and returns the result of the window that is over")


def count_windows(*_arguments: Any, **_options: Any) -> NoReturn:
    """`count_windows(number)`: not in this release.

    >>> count_windows(100)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: count_windows: windows come in a later release. Until then ...
    """
    _refuse("count_windows", "counts its messages and returns the result of every n-th")


def _refuse(name: str, how: str) -> NoReturn:
    raise WallarooParameterError(
        f"{name}: windows come in a later release. Until then gather the messages in a state: write a "
        f'@wallaroo.state_computation("step name", StateClass) that {how}, and None otherwise.'
    )
