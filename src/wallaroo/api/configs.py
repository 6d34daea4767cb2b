"""Where messages come from and where outputs go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wallaroo.topology.addresses import port_number

if TYPE_CHECKING:
    from wallaroo.topology.model import Decoder, Encoder


@dataclass(eq=False)
class _TCPAddress:
    host: str
    port: str | int

    @property
    def address(self) -> tuple[str, int]:
        """The host, and the port as a number."""
        return self.host, port_number(self.port)


@dataclass(eq=False)
class TCPSourceConfig(_TCPAddress):
    """A source that listens on a TCP address and takes messages from whoever connects.

    The arguments are kept as they are given; `ApplicationBuilder.build` reports what is wrong with them.

    Args:
        host: The address to listen on.
        port: The port to listen on, as a string or a number; 0 lets the system pick a free one.
        decoder: What frames and decodes the bytes: made with `@wallaroo.decoder`, or an object with
            `header_length`, `payload_length` and `decode`.

    >>> import wallaroo
    >>> @wallaroo.decoder
    ... def decode(bs):
    ...     return bs.decode()
    >>> config = TCPSourceConfig("127.0.0.1", "7010", decode)
    >>> config
    TCPSourceConfig(host='127.0.0.1', port='7010', decoder=<@wallaroo.decoder 'decode'>)
    >>> config.address
    ('127.0.0.1', 7010)
    """

    decoder: Decoder


@dataclass(eq=False)
class TCPSinkConfig(_TCPAddress):
    """A sink that connects to a TCP address and sends it the outputs.

    The arguments are kept as they are given; `ApplicationBuilder.build` reports what is wrong with them.

    Args:
        host: The address to connect to.
        port: The port to connect to, as a string or a number.
        encoder: What turns an output into bytes: made with `@wallaroo.encoder`, or an object with `encode`.

    >>> import wallaroo
    >>> @wallaroo.encoder
    ... def encode(data):
    ...     return str(data).encode()
    >>> TCPSinkConfig("127.0.0.1", 7002, encode).address
    ('127.0.0.1', 7002)
    """

    encoder: Encoder
