"""`wallaroo connect http-post`: sends the body of each HTTP request to an application."""

from __future__ import annotations

from email.message import Message
from http import HTTPStatus
from urllib.parse import unquote

import click

from wallaroo.addresses import Address
from wallaroo.cli.network import address_of
from wallaroo.cli.screen import say
from wallaroo.connect.http_server import Answer, Server
from wallaroo.connect.script import AddressType, LeftOutError, Sending, source_script
from wallaroo.errors import WallarooError

_WAIT_SECONDS = 10


@source_script
@click.option(
    "--listen", type=AddressType(), default="127.0.0.1:7180", show_default=True, help="Where requests are received."
)
def command(send: Sending, listen: Address) -> None:
    """Send the body of each HTTP request (POST) to an application.

    The answer is 204 when the application has the message on its disk, and 503 when it does not get there for ten
    seconds. A client that may repeat a request gives it a sequence, in a header (Sequence), and what it belongs to in
    another (Partition): then it counts once. It sends the requests of a partition one after the other. Who reaches the
    address can send: nobody is asked for a password.

    \b
    wallaroo connect http-post 127.0.0.1:7100 --listen 127.0.0.1:7180
    curl --data 'why hello' http://127.0.0.1:7180/
    """  # noqa: D301 - click wants the real character.
    with Server(listen, _Taking(send), send.raise_failure) as server:
        say(f"listening on http://{address_of(server.socket)}")
        server.serve_forever()


class _Taking:
    """Sends the bodies of requests to an application."""

    def __init__(self, send: Sending) -> None:
        self._send = send
        self._behind = 0
        """What an application that did not answer in time has to have before it gets more."""

    def __call__(self, headers: Message, body: bytes) -> Answer:
        """Return the answer to a request."""
        sequence, partition = headers.get("Sequence"), unquote(headers.get("Partition", ""))
        if sequence is not None and not partition:
            return HTTPStatus.BAD_REQUEST, "a Sequence needs a Partition, the name of what it counts"
        if sequence is not None and not sequence.lstrip("-").isdecimal():
            return HTTPStatus.BAD_REQUEST, "the Sequence must be a whole number"
        try:
            if self._is_there(self._behind):
                number = self._send.or_refuse(body, partition, None if sequence is None else int(sequence))
                if self._is_there(number):
                    return HTTPStatus.NO_CONTENT, ""
                self._behind = max(self._behind, number)
        except LeftOutError as error:
            self._send.left_out("request", error)
            return HTTPStatus.BAD_REQUEST, str(error)
        except WallarooError as error:
            return HTTPStatus.SERVICE_UNAVAILABLE, str(error)
        return HTTPStatus.SERVICE_UNAVAILABLE, "the application does not answer: try again later"

    def _is_there(self, number: int) -> bool:
        return self._send.application.wait_acknowledged(number, _WAIT_SECONDS)


if __name__ == "__main__":
    command()
