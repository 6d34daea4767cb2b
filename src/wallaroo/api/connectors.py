"""Connectors' names. Connectors themselves come in a later release; programs that use them are told so plainly."""

from __future__ import annotations

from typing import Any, NoReturn

from wallaroo.errors import WallarooParameterError


def source_connector(*_arguments: Any, **_options: Any) -> NoReturn:
    """`source_connector(name, encoder, decoder, port=None)`: not in this release.

    >>> source_connector("feed", None, None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: source_connector: connectors come in a later release. Until ...
    """
    _refuse(
        "source_connector",
        "wallaroo.TCPSourceConfig(host, port, decoder), with the address from wallaroo.tcp_parse_input_addrs(args), "
        "and let the connector's script send its messages there over TCP, each with its length in front",
    )


def sink_connector(*_arguments: Any, **_options: Any) -> NoReturn:
    """`sink_connector(name, encoder, decoder, port=None)`: not in this release.

    >>> sink_connector("results", None, None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    wallaroo.errors.WallarooParameterError: sink_connector: connectors come in a later release. Until ...
    """
    _refuse(
        "sink_connector",
        "wallaroo.TCPSinkConfig(host, port, encoder), with the address from wallaroo.tcp_parse_output_addrs(args), "
        "and let the connector's script listen there",
    )


def _refuse(name: str, instead: str) -> NoReturn:
    raise WallarooParameterError(f"{name}: connectors come in a later release. Until then use {instead}.")
