"""`wallaroo connect redis-stream`: sends the entries of a stream of Redis to an application."""

from __future__ import annotations

import json
from typing import Any

import click

from wallaroo.connect.redis_client import WAIT_SECONDS, keep, redis_option
from wallaroo.connect.script import Sending, source_script
from wallaroo.errors import WallarooError

_AT_ONCE = 1000
_NUMBER_BITS = 20


@source_script
@redis_option
@click.option("--key", required=True, help="The key of the stream.")
@click.option("--partition", help="Its name in the application, if that has several of this key.  [default: the key]")
@click.option("--field", help="The field of an entry that is the message.  [default: all, as an object in JSON]")
def command(send: Sending, url: str, key: str, partition: str | None, field: str | None) -> None:
    """Send the entries of a stream of Redis to an application, from its first one on.

    The application remembers the id of the last entry that it has: so it gets each once, whatever is killed. Nothing
    is removed from the stream: who adds to it says how long it may be (XADD with MAXLEN).

    \b
    wallaroo connect redis-stream 127.0.0.1:7100 --key orders --field order
    """  # noqa: D301 - click wants the real character.
    name = partition or key

    def follow(client: Any) -> None:
        last = send.application.resume_from(name)
        after = "0-0" if last is None else id_of(last)
        while True:
            for _, entries in client.xread({key: after}, count=_AT_ONCE, block=int(WAIT_SECONDS * 1000)):
                for entry, fields in entries:
                    after = entry.decode()
                    try:
                        data = _data(fields, field)
                    except UnicodeDecodeError:
                        send.left_out(
                            "message", f"the entry {after} is not text in UTF-8: name the --field that is the message"
                        )
                    else:
                        send(data, name, sequence_of(after))

    keep(url, follow)


def sequence_of(entry: str) -> int:
    """Return the id of an entry as one number.

    >>> sequence_of("1526919030474-55")
    1601090649298305079
    >>> id_of(1601090649298305079)
    '1526919030474-55'
    """
    milliseconds, number = map(int, entry.split("-"))
    if number >> _NUMBER_BITS or milliseconds >> (63 - _NUMBER_BITS):
        raise WallarooError(f"The entry {entry} has an id that cannot be numbered: let Redis choose the ids (XADD *).")
    return milliseconds << _NUMBER_BITS | number


def id_of(sequence: int) -> str:
    """Return the id that has this number."""
    return f"{sequence >> _NUMBER_BITS}-{sequence & (1 << _NUMBER_BITS) - 1}"


def _data(fields: dict[bytes, bytes], field: str | None) -> bytes:
    if field is not None:
        return fields.get(field.encode(), b"")
    return json.dumps({name.decode(): value.decode() for name, value in fields.items()}, ensure_ascii=False).encode()


if __name__ == "__main__":
    command()
