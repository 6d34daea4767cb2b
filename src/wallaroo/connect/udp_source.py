"""`wallaroo connect udp-source`: sends each datagram that comes to an application."""

from __future__ import annotations

import socket

import click

from wallaroo.addresses import Address
from wallaroo.cli.network import address_of
from wallaroo.cli.screen import say
from wallaroo.connect.script import AddressType, Sending, listening_on, source_script

_LARGEST = 1 << 16


@source_script
@click.option(
    "--listen", type=AddressType(), default="127.0.0.1:7150", show_default=True, help="Where datagrams are received."
)
def command(send: Sending, listen: Address) -> None:
    """Send each datagram that comes to an application.

    UDP loses what nobody takes in time: while the application keeps this script waiting, and while it does not run.

    \b
    wallaroo connect udp-source 127.0.0.1:7100 --listen 127.0.0.1:7150
    """  # noqa: D301 - click wants the real character.
    with socket.socket(socket.AF_INET6 if ":" in listen.host else socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        with listening_on(listen):
            receiving.bind(listen)
        say(f"receiving on {address_of(receiving)}")
        while True:
            send(receiving.recv(_LARGEST))


if __name__ == "__main__":
    command()
