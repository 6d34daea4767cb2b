"""Names of features planned for a later release: windows.

Programs that import them work until they use one, which raises an error that says so.
"""

from __future__ import annotations

import abc
from typing import Any, NoReturn

from wallaroo.errors import WallarooParameterError


class Aggregation(abc.ABC):
    """An aggregation for windows: the base class that existing programs derive from.

    Such classes can be defined and tested on their own; windows come in a later release.

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
            accumulator: What has been gathered so far; changed in place.
        """

    @abc.abstractmethod
    def combine(self, accumulator1: Any, accumulator2: Any) -> Any:
        """Return the combination of both accumulators, without changing them.

        Args:
            accumulator1: What was gathered first.
            accumulator2: What was gathered after it.

        Returns:
            An accumulator with the content of both.
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
            The name of the class, unless overridden.
        """
        return type(self).__name__


def range_windows(*_arguments: Any, **_options: Any) -> NoReturn:
    """`range_windows(span)`: not in this release.

    >>> range_windows(5_000_000_000)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: range_windows: windows come in a later release. Until then ...
    """
    _refuse_window("range_windows", "notes when its window began and returns the result of the window that is over")


def count_windows(*_arguments: Any, **_options: Any) -> NoReturn:
    """`count_windows(number)`: not in this release.

    >>> count_windows(100)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: count_windows: windows come in a later release. Until then ...
    """
    _refuse_window("count_windows", "counts its messages and returns the result of every n-th")


def _refuse_window(name: str, how: str) -> NoReturn:
    raise WallarooParameterError(
        f"{name}: windows come in a later release. Until then gather the messages in a state: write a "
        f'@wallaroo.state_computation("step name", StateClass) that {how}, and None otherwise.'
    )
