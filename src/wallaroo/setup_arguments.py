"""Calls a program's `application_setup` with its arguments, real ones or made-up ones.

While it runs, configs that take options from the command line by themselves find the arguments here. A program that is
only checked or tested need not be given addresses: it gets as many made-up ones as it needs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from itertools import product
from typing import TypeVar

from wallaroo.errors import WallarooParameterError

T = TypeVar("T")

_FIRST_PORTS = {"--in": 7010, "--out": 7002}
_MOST_ADDRESSES = 6

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


def missing_options(arguments: Sequence[str]) -> list[str]:
    """Return which of `--in` and `--out` are not among the arguments.

    >>> missing_options(["-i", "127.0.0.1:7010", "--name", "w1"])
    ['--out']
    """
    return [option for option in _FIRST_PORTS if not _is_given(arguments, option)]


def call_with_addresses(
    setup: Callable[[list[str]], T],
    arguments: Sequence[str],
    on_made_up: Callable[[str], object] = lambda _option: None,
) -> T:
    """Call `setup` with the arguments, adding addresses for those of `--in` and `--out` that are missing.

    Only `setup` knows how many addresses it needs, so increasing numbers of them are tried. Options of Kafka are added
    when it asks for them.

    Args:
        setup: A program's `application_setup`. It may be called several times.
        arguments: The command line; addresses given there are unchanged.
        on_made_up: Called with each option of Kafka that is added.

    Returns:
        What `setup` returned.

    Raises:
        Exception: What `setup` raised. If no number of addresses works, the error of the attempt that got furthest:
            with a wrong number, `setup` fails where it uses them.

    >>> def application_setup(args):
    ...     one, other = args[args.index("--in") + 1].split(",")
    ...     return one, other, args[args.index("--out") + 1]
    >>> call_with_addresses(application_setup, [])
    ('127.0.0.1:7010', '127.0.0.1:7011', '127.0.0.1:7002')
    """
    missing = missing_options(arguments)
    numbers = [range(1, _MOST_ADDRESSES + 1) if option in missing else [0] for option in _FIRST_PORTS]
    failures = []
    for inputs, outputs in sorted(product(*numbers), key=sum):
        try:
            return _call(setup, [*arguments, *_addresses("--in", inputs), *_addresses("--out", outputs)], on_made_up)
        except (IndexError, ValueError) as error:
            # The effects of too few or too many addresses: `addresses[1]`, or `one, other = addresses`.
            failures.append(error)
    raise max(failures, key=lambda error: _line_reached(error, setup))


def all_addresses(option: str) -> list[str]:
    """Return every address that may be made up for `--in` or `--out`.

    >>> all_addresses("--out")[:2]
    ['127.0.0.1:7002', '127.0.0.1:7003']
    """
    return [f"127.0.0.1:{_FIRST_PORTS[option] + each}" for each in range(_MOST_ADDRESSES)]


def _call(setup: Callable[[list[str]], T], arguments: list[str], on_made_up: Callable[[str], object]) -> T:
    """Call `setup`, adding the options that it says are missing."""
    while True:
        try:
            return call_setup(setup, arguments)
        except MissingOptionError as error:
            if error.option in arguments:
                raise
            arguments += [error.option, error.sample]
            on_made_up(error.option)


def _is_given(arguments: Sequence[str], option: str) -> bool:
    short = option[1:3]
    return any(
        argument in (option, short)
        or argument.startswith(f"{option}=")
        or (argument.startswith(short) and not argument.startswith("--"))
        for argument in arguments
    )


def _addresses(option: str, number: int) -> list[str]:
    """Return the option with addresses on consecutive ports, or an empty list if `number` is 0.

    >>> _addresses("--in", 2), _addresses("--out", 0)
    (['--in', '127.0.0.1:7010,127.0.0.1:7011'], [])
    """
    return [option, ",".join(all_addresses(option)[:number])] if number else []


def _line_reached(error: BaseException, setup: Callable[..., object]) -> int:
    """Return the line of `setup` at which it failed."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is getattr(setup, "__code__", None):
            return trace.tb_lineno
        trace = trace.tb_next
    return 0
