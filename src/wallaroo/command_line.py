"""The arguments of the `application_setup` that is running, for configs that take options from them by themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TypeVar

from wallaroo.errors import WallarooParameterError

T = TypeVar("T")

_given: ContextVar[tuple[str, ...] | None] = ContextVar("arguments of application_setup", default=None)


class MissingOptionError(WallarooParameterError):
    """An option that the application needs is not on the command line; `sample` is a value it could have."""

    def __init__(self, option: str, sample: str) -> None:
        super().__init__(f"{option} is missing: add it to the command line, for example {option} {sample}.")
        self.option = option
        self.sample = sample


def call_setup(setup: Callable[[list[str]], T], arguments: Sequence[str]) -> T:
    """Call a program's `application_setup`.

    >>> call_setup(lambda args: current_arguments(), ["--kafka_source_topic", "words"])
    ['--kafka_source_topic', 'words']
    """
    before = _given.set(tuple(arguments))
    try:
        return setup(list(arguments))
    finally:
        _given.reset(before)


def is_in_setup() -> bool:
    """Return whether `application_setup` is running, called by `call_setup`."""
    return _given.get() is not None


def current_arguments() -> list[str]:
    """Return the arguments of the running `application_setup`, or else those of the running script."""
    given = _given.get()
    return sys.argv[1:] if given is None else list(given)
