"""`wallaroo connect redis-hash`: writes an application's outputs to the fields of a hash of Redis."""

from __future__ import annotations

from typing import Any

import click

from wallaroo.connect.messages import as_pairs
from wallaroo.connect.redis_client import keep, redis_option
from wallaroo.connect.script import LeftOut, sink_script
from wallaroo.errors import WallarooError
from wallaroo.experimental import SinkExtension
from wallaroo.notices import REPORT_AGAIN_SECONDS


@sink_script
@redis_option
@click.option("--key", required=True, help="The key of the hash.")
@click.option(
    "--separator",
    default=" => ",
    show_default=True,
    help="What stands between field and value, where outputs are text.",
)
def command(application: SinkExtension, url: str, key: str, separator: str) -> None:
    """Write an application's outputs to the fields of a hash of Redis.

    An output is a line of text with a separator, or, with --stream or --codec json, a pair or an object. The next one
    is read when Redis has it: so none is lost, and each field has the last of its values.

    \b
    wallaroo connect redis-hash 127.0.0.1:7200 --key counts
    """  # noqa: D301 - click wants the real character.
    pairs: list[tuple[bytes, bytes]] = []
    left_out = LeftOut(REPORT_AGAIN_SECONDS)

    def write(client: Any) -> None:
        while True:
            # What a broken connection has kept from being written is written first.
            if pairs:
                client.hset(key, mapping=dict(pairs))
            pairs.clear()
            output = application.read()
            try:
                pairs.extend(as_pairs(output, separator))
            except WallarooError as error:
                left_out("output", error)

    keep(url, write)


if __name__ == "__main__":
    command()
