"""`wallaroo connect udp-sink`: sends each output of an application as a datagram."""

from __future__ import annotations

import socket

import click

from wallaroo.addresses import Address
from wallaroo.connect.messages import as_bytes
from wallaroo.connect.script import AddressType, LeftOut, sink_script
from wallaroo.errors import WallarooError
from wallaroo.experimental import SinkExtension
from wallaroo.notices import REPORT_AGAIN_SECONDS


@sink_script
@click.option("--to", "receiver", type=AddressType(), required=True, help="Where datagrams are sent.")
def command(application: SinkExtension, receiver: Address) -> None:
    """Send each output of an application as a datagram.

    Nobody confirms a datagram: those that the receiver does not take in time are lost. An
    output that does not fit into one, or that the network refuses, is left out, and counted.

    \b
    wallaroo connect udp-sink 127.0.0.1:7200 --to 127.0.0.1:7250
    """  # noqa: D301 - click wants the real character.
    left_out = LeftOut(REPORT_AGAIN_SECONDS)
    try:
        family, kind, _, _, resolved = socket.getaddrinfo(*receiver, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise WallarooError(f"The host of {receiver} is not known: {error.strerror}.") from error
    with socket.socket(family, kind) as sending:
        while True:
            data = as_bytes(application.read())
            try:
                sending.sendto(data, resolved)
            except OSError as error:
                left_out("output", f"{len(data):,} bytes cannot be sent to {receiver}: {error.strerror or error}")


if __name__ == "__main__":
    command()
