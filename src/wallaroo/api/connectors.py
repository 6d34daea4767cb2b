"""Connectors with names: sources and sinks of scripts that find their address by the name, in the application itself.

This is how the later releases of the original had the extension API. The scripts use `SourceConnector` and
`SinkConnector` of `wallaroo.experimental`, which look here for the connector that their command line names.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

from wallaroo.connectors.extension.config import SinkExtensionConfig, SourceExtensionConfig

_HOST = "127.0.0.1"
_FIRST_PORTS = {"source": 7100, "sink": 7200}


class Connector(NamedTuple):
    """A connector as it was declared."""

    encoder: Any
    decoder: Any
    host: str
    port: Any


_declared: dict[str, dict[str, Connector]] = {"source": {}, "sink": {}}


def declared(role: str) -> dict[str, Connector]:
    """Return the connectors of a role, "source" or "sink", that were declared in this process."""
    return _declared[role]


def source_connector(name: str, encoder: Any, decoder: Any, port: str | int | None = None) -> SourceExtensionConfig:
    """Declare a source whose messages come from a script, which finds it by its name.

    `new_pipeline` and `source` take the name instead of a config. The script uses a
    `wallaroo.experimental.SourceConnector`.

    Args:
        name: The name.
        encoder: Turns a message into bytes, in the script.
        decoder: Turns the bytes into a message, in the application.
        port: The port to listen on, on the loopback interface. Without it, the first connector has 7100, the second
            7101, and so on, skipping ports that other connectors have.

    Returns:
        The config.

    >>> import wallaroo
    >>> from wallaroo.experimental import stream_message_decoder, stream_message_encoder
    >>> @stream_message_encoder
    ... def encode_feed(text):
    ...     return text.encode("utf-8")
    >>> @stream_message_decoder
    ... def decode_feed(bs):
    ...     return bs.decode("utf-8")
    >>> feed = source_connector("feed", encoder=encode_feed, decoder=decode_feed, port=7110)
    >>> wallaroo.ApplicationBuilder("Texts").new_pipeline("texts", "feed").build()
    <Application 'Texts': 'texts'>
    """
    made = _declare("source", name, Connector(encoder, decoder, _HOST, port))
    return SourceExtensionConfig(made.host, made.port, decoder)


def sink_connector(name: str, encoder: Any, decoder: Any, port: str | int | None = None) -> SinkExtensionConfig:
    """Declare a sink whose outputs go to a script, which finds it by its name.

    `to_sink` and `to_sinks` take the name instead of a config. The script uses a
    `wallaroo.experimental.SinkConnector`.

    Args:
        name: The name.
        encoder: Turns an output into bytes, in the application.
        decoder: Turns the bytes into a message, in the script.
        port: The port that the script listens on, on the loopback interface. Without it, the first connector has
            7200, the second 7201, and so on.

    Returns:
        The config.

    >>> results = sink_connector("results", encoder=str, decoder=bytes.decode, port=7210)
    >>> results.address
    ('127.0.0.1', 7210)
    """
    made = _declare("sink", name, Connector(encoder, decoder, _HOST, port))
    return SinkExtensionConfig(made.host, made.port, encoder)


def with_names(config: Any, role: str) -> Any:
    """Return the config of a connector that is given by its name, and anything else as it is."""
    if not isinstance(config, str) or config not in _declared[role]:
        return config
    made = _declared[role][config]
    if role == "source":
        return SourceExtensionConfig(made.host, made.port, made.decoder)
    return SinkExtensionConfig(made.host, made.port, made.encoder, name=config)


def sinks_with_names(configs: Any) -> Any:
    """Return a copy of a list of sinks, with the configs of those that are given by their names."""
    # The caller may change its list afterwards.
    return [with_names(each, "sink") for each in configs] if isinstance(configs, list | tuple) else configs


def _declare(role: str, name: Any, made: Connector) -> Connector:
    """Remember a connector; one that is declared again, for example for a test, keeps its port."""
    known = _declared[role]
    if made.port is None:
        taken = {str(each.port) for others in _declared.values() for each in others.values()}
        free = (port for port in count(_FIRST_PORTS[role]) if str(port) not in taken)
        made = made._replace(port=known[name].port if name in known else next(free))
    known[name] = made
    return made


class SourceConnectorConfig(SourceExtensionConfig):
    """A source whose messages come from a script; in the forms of both later generations of the original.

    `SourceConnectorConfig(host, port, decoder)` is a `SourceExtensionConfig`. `SourceConnectorConfig(name, encoder,
    decoder, port, host="127.0.0.1")` is also found by its name, as after `wallaroo.source_connector`.

    >>> SourceConnectorConfig("127.0.0.1", 7100, bytes.decode).address
    ('127.0.0.1', 7100)
    >>> SourceConnectorConfig("feed", encoder=str.encode, decoder=bytes.decode, port=7111).address
    ('127.0.0.1', 7111)
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if _has_name(arguments, named):
            made = _declare("source", *_with_name(*arguments, **named))
            super().__init__(made.host, made.port, made.decoder)
        else:
            super().__init__(*arguments, **named)


class SinkConnectorConfig(SinkExtensionConfig):
    """A sink whose outputs go to a script; in the forms of both later generations of the original.

    `SinkConnectorConfig(host, port, encoder)` is a `SinkExtensionConfig`. `SinkConnectorConfig(name, encoder, decoder,
    port, host="127.0.0.1")` is also found by its name, as after `wallaroo.sink_connector`.

    >>> SinkConnectorConfig("results", str.encode, bytes.decode, 7211, "localhost").address
    ('localhost', 7211)
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if _has_name(arguments, named):
            made = _declare("sink", *_with_name(*arguments, **named))
            super().__init__(made.host, made.port, made.encoder)
        else:
            super().__init__(*arguments, **named)


def _has_name(arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Return whether these arguments are those of the form with a name."""
    if len(arguments) > 1:
        # The second is an encoder, and otherwise a port.
        return not isinstance(arguments[1], int | str)
    return {"encoder", "decoder"} <= set(named)


def _with_name(
    name: Any, encoder: Any, decoder: Any, port: str | int | None = None, host: str = _HOST
) -> tuple[Any, Connector]:
    return name, Connector(encoder, decoder, host, port)
