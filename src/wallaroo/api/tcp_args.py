"""Addresses from the command line that `application_setup` is given."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NoReturn

from wallaroo.addresses import not_an_address, split_address
from wallaroo.errors import WallarooParameterError
from wallaroo.introspection import a_kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def tcp_parse_input_addrs(args: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the addresses of `--in` (or `-i`) as tuples of strings; all other arguments are ignored.

    An address with a name in front, as in `name@host:port`, includes the name.

    Args:
        args: The command line, as `application_setup` gets it.

    Returns:
        A tuple of strings for each address: host and port, or name, host and port.

    Raises:
        WallarooParameterError: `--in` is missing, or one of its addresses cannot be used.

    >>> tcp_parse_input_addrs(["--name", "w1", "--in", "127.0.0.1:7010,127.0.0.1:7011"])
    [('127.0.0.1', '7010'), ('127.0.0.1', '7011')]
    >>> tcp_parse_input_addrs(["--in", "orders@127.0.0.1:7010"])
    [('orders', '127.0.0.1', '7010')]
    """
    option, example = "--in", _example("--in", "7010")
    return [_with_name(address, option, example) for address in _addresses(args, option, "-i", example)]


def tcp_parse_output_addrs(args: Sequence[str]) -> list[tuple[str, str]]:
    """Return the addresses of `--out` (or `-o`) as pairs of strings; all other arguments are ignored.

    Args:
        args: The command line, as `application_setup` gets it.

    Returns:
        The host and the port of each address.

    Raises:
        WallarooParameterError: `--out` is missing, or one of its addresses cannot be used.

    >>> tcp_parse_output_addrs(["--out=[::1]:7002"])
    [('::1', '7002')]
    """
    option, example = "--out", _example("--out", "7002")
    return [_host_and_port(address, option, example) for address in _addresses(args, option, "-o", example)]


class _Parser(argparse.ArgumentParser):
    """Raises exceptions instead of exiting: the caller decides what to print and when to stop."""

    def error(self, message: str) -> NoReturn:
        raise WallarooParameterError(message)


def _example(option: str, port: str) -> str:
    return f"for example {option} 127.0.0.1:{port}, or several with commas between them"


def known_options(args: Sequence[str], *options: str) -> dict[str, str]:
    """Return the values of these options; the last one of each counts, and all other arguments are ignored.

    >>> known_options(["--in", "127.0.0.1:7010", "--feed_topic=words"], "--feed_topic", "--feed_brokers")
    {'--feed_topic': 'words'}
    """
    _check_arguments(args, options[0])
    parser = _Parser(add_help=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(option, dest=option, default=argparse.SUPPRESS)
    try:
        return dict(vars(parser.parse_known_args(list(args))[0]))
    except WallarooParameterError as error:
        raise WallarooParameterError(f"an option is incomplete: {str(error).removeprefix('argument ')}.") from error


def _check_arguments(args: Any, option: str) -> None:
    if not isinstance(args, list | tuple) or not all(isinstance(each, str) for each in args):
        raise WallarooParameterError(
            f"the arguments to look for {option} in must be a list of strings, such as the args that "
            f"application_setup(args) gets; got {a_kind_of(args)}."
        )


def _addresses(args: Sequence[str], option: str, short: str, example: str) -> list[str]:
    _check_arguments(args, option)
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, short, dest="given", action="append")
    try:
        given: list[str] | None = parser.parse_known_args(list(args))[0].given
    except WallarooParameterError as error:
        raise WallarooParameterError(f"{option} needs an address: {example}.") from error
    if given is None:
        raise WallarooParameterError(f"{option} is missing: add it to the command line, {example}.")
    return [address.strip() for each in given for address in each.split(",")]


def _host_and_port(address: str, option: str, example: str) -> tuple[str, str]:
    try:
        return split_address(address)
    except WallarooParameterError as error:
        raise _unusable(option, error, example) from error


def _with_name(address: str, option: str, example: str) -> tuple[str, ...]:
    name, at, bare = address.rpartition("@")
    if at and not name:
        reason = f"write a name in front of the @, such as orders@{bare}"
        raise _unusable(option, not_an_address(address, reason), example)
    parsed = _host_and_port(bare, option, example)
    return (name, *parsed) if at else parsed


def _unusable(option: str, error: WallarooParameterError, example: str) -> WallarooParameterError:
    return WallarooParameterError(f"{option}: {error}; {example}.")
