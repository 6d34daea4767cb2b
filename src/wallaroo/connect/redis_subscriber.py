"""`wallaroo connect redis-subscriber`: sends what is published on channels of Redis to an application."""

from __future__ import annotations

from typing import Any

import click

from wallaroo.cli.screen import say
from wallaroo.connect.redis_client import WAIT_SECONDS, keep, redis_option
from wallaroo.connect.script import Sending, source_script


@source_script
@redis_option
@click.option("--channel", "channels", multiple=True, required=True, help="The channel; may be given several times.")
def command(send: Sending, url: str, channels: tuple[str, ...]) -> None:
    """Send what is published on channels of Redis to an application.

    Redis keeps nothing that it has published: what comes while this script is not connected is lost. A stream, or a
    list, is kept.

    \b
    wallaroo connect redis-subscriber 127.0.0.1:7100 --channel text
    """  # noqa: D301 - click wants the real character.

    def follow(client: Any) -> None:
        with client.pubsub(ignore_subscribe_messages=False) as subscription:
            subscription.subscribe(*channels)
            is_asked = False
            while True:
                if (came := subscription.get_message(timeout=WAIT_SECONDS)) is None:
                    # A server that is gone without a word is noticed by its missing answer.
                    if is_asked:
                        raise TimeoutError("it does not answer")
                    subscription.ping()
                    is_asked = True
                    continue
                is_asked = False
                if came["type"] == "subscribe":
                    say(f"subscribed to {came['channel'].decode(errors='replace')}")
                elif came["type"] == "message":
                    send(came["data"])

    keep(url, follow)


if __name__ == "__main__":
    command()
