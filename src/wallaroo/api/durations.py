"""Durations, as functions that return nanoseconds."""

from __future__ import annotations

import math
from typing import Any

from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of


def nanoseconds(n: float) -> int:
    """Return `n` nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> nanoseconds(5)
    5
    """
    return _in_nanoseconds(n, 1, "nanoseconds")


def microseconds(n: float) -> int:
    """Return `n` microseconds in nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> microseconds(5)
    5000
    """
    return _in_nanoseconds(n, 1_000, "microseconds")


def milliseconds(n: float) -> int:
    """Return `n` milliseconds in nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> milliseconds(5)
    5000000
    """
    return _in_nanoseconds(n, 1_000_000, "milliseconds")


def seconds(n: float) -> int:
    """Return `n` seconds in nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> seconds(1.5)
    1500000000
    """
    return _in_nanoseconds(n, 1_000_000_000, "seconds")


def minutes(n: float) -> int:
    """Return `n` minutes in nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> minutes(1) == seconds(60)
    True
    """
    return _in_nanoseconds(n, 60_000_000_000, "minutes")


def hours(n: float) -> int:
    """Return `n` hours in nanoseconds.

    Args:
        n: The number, which may be a fraction.

    Returns:
        The number of nanoseconds, rounded.

    Raises:
        WallarooParameterError: `n` is not a number.

    >>> hours(1) == minutes(60)
    True
    """
    return _in_nanoseconds(n, 3_600_000_000_000, "hours")


def _in_nanoseconds(n: Any, unit: int, name: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int | float) or not math.isfinite(n):
        raise WallarooParameterError(f"{name} needs a number, as in wallaroo.{name}(5); got {a_kind_of(n)}.")
    return round(n * unit)
