"""The halves of connectors that are scripts: they find their address in the application, by the connector's name."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from wallaroo.api.connectors import Connector, declared
from wallaroo.errors import WallarooParameterError
from wallaroo.experimental.sink_extension import SinkExtension
from wallaroo.experimental.source_extension import SourceExtension
from wallaroo.setup_arguments import call_with_addresses


class SourceConnector(SourceExtension):
    """Sends messages to the source of an application that has declared a connector.

    The command line of the script names both: `--application-module MODULE --connector NAME`. The parameters of the
    script are named after the connector: `--NAME-param value`.

    Args:
        args: The command line; that of the running script where it is left out.
        required_params: The names of parameters that must be given.
        optional_params: The names of others.

    Attributes:
        params: The parameters, as attributes; hyphens are underscores, and those that were not given are None.
    """

    def __init__(
        self,
        args: Sequence[str] | None = None,
        required_params: Sequence[str] = (),
        optional_params: Sequence[str] = (),
    ) -> None:
        self._connector, self.params = _found("source", args, required_params, optional_params)
        super().__init__(self._connector.encoder)

    def connect(self, host: str | None = None, port: str | int | None = None) -> None:
        """Connect to the application; wait until it is there, however long that takes.

        Args:
            host: The host; that of the connector if it is left out.
            port: The port; that of the connector if it is left out.
        """
        super().connect(host or self._connector.host, self._connector.port if port is None else port)

    def write(
        self,
        message: Any,
        partition: Any = None,
        sequence: int | None = None,
        *,
        event_time: Any = 0,  # noqa: ARG002 - as in the original, where nothing used it.
    ) -> int:
        """Send a message, as `SourceExtension.write` does.

        Args:
            message: The message, for the encoder.
            partition: What the message belongs to. Scripts of the original's later releases give the time of the event
                here; without a sequence it means nothing.
            sequence: Where it is in its partition.
            event_time: The time of the event, which means nothing.

        Returns:
            The number of the message.
        """
        return super().write(message, partition, sequence)


class SinkConnector(SinkExtension):
    """Receives the outputs of an application that has declared a connector.

    Args:
        args: As for `SourceConnector`.
        required_params: As for `SourceConnector`.
        optional_params: As for `SourceConnector`.

    Attributes:
        params: As for `SourceConnector`.
    """

    def __init__(
        self,
        args: Sequence[str] | None = None,
        required_params: Sequence[str] = (),
        optional_params: Sequence[str] = (),
    ) -> None:
        self._connector, self.params = _found("sink", args, required_params, optional_params)
        super().__init__(self._connector.decoder)

    def listen(self, host: str | None = None, port: str | int | None = None, backlog: int = 0) -> None:
        """Listen for applications, which connect and send their outputs.

        Args:
            host: The host; that of the connector if it is left out.
            port: The port; that of the connector if it is left out.
            backlog: How many connections may wait to be accepted.
        """
        super().listen(host or self._connector.host, self._connector.port if port is None else port, backlog)


def _found(
    role: str, args: Sequence[str] | None, required: Sequence[str], optional: Sequence[str]
) -> tuple[Connector, argparse.Namespace]:
    """Return the connector that a command line names, and the parameters for it."""
    given = sys.argv[1:] if args is None else list(args)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--application-module", required=True, metavar="MODULE", help="the application")
    parser.add_argument("--connector", required=True, metavar="NAME", help=f"the name of its {role} connector")
    first, _ = parser.parse_known_args([each for each in given if each not in {"-h", "--help"}])
    for name in dict.fromkeys([*required, *optional]):
        option = f"--{first.connector}-{name}"
        spellings = dict.fromkeys([option, f"--{first.connector}-{name.replace('_', '-')}"])
        parser.add_argument(*spellings, dest=name.replace("-", "_"), required=name in required, metavar="VALUE")
    params = parser.parse_known_args(given)[0]
    try:
        return _declared_in(first.application_module, role, first.connector, given), params
    except WallarooParameterError as error:
        parser.error(str(error))


def _declared_in(module: str, role: str, name: str, arguments: list[str]) -> Connector:
    """Return a connector of an application, which declares it when it is imported, or when it is built."""
    if os.getcwd() not in sys.path:  # noqa: PTH109 - the import path holds strings
        sys.path.append(os.getcwd())  # noqa: PTH109
    try:
        application = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise WallarooParameterError(f"No module named {module!r} in the current folder or PYTHONPATH.") from error
    if name not in declared(role) and callable(setup := getattr(application, "application_setup", None)):
        call_with_addresses(setup, arguments)
    if name not in declared(role):
        others = ", ".join(declared(role)) or "none"
        raise WallarooParameterError(
            f"The application {module!r} has no {role} connector called {name!r}; it has: {others}. It declares one "
            f"with wallaroo.{role}_connector({name!r}, encoder, decoder)."
        )
    return declared(role)[name]
