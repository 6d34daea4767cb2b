"""`wallaroo connect redis-list`: moves the elements of a list of Redis to an application."""

from __future__ import annotations

from collections import deque
from typing import Any
from uuid import uuid4

import click

from wallaroo.cli.screen import say
from wallaroo.connect.redis_client import WAIT_SECONDS, keep, redis_option
from wallaroo.connect.script import Sending, source_script
from wallaroo.experimental import SourceExtension

_AT_ONCE = 1000
_MOST_UNCONFIRMED = 50_000
_LOOK_SECONDS = 0.02


@source_script
@redis_option
@click.option("--key", required=True, help="The key of the list.")
def command(send: Sending, url: str, key: str) -> None:
    """Move the elements of a list of Redis to an application; others append to it (RPUSH).

    An element is removed when the application has it on its disk. How many were removed is counted beside the list, in
    the hash `KEY:removed`: so each element has a number, and the application gets it once, whatever is killed. Run one
    script for a list.

    \b
    wallaroo connect redis-list 127.0.0.1:7100 --key orders
    """  # noqa: D301 - click wants the real character.
    application = send.application

    def follow(client: Any) -> None:
        application.wait_acknowledged()
        partition, removed = _place(client, key, application)
        sent = removed
        unconfirmed: deque[tuple[int, int]] = deque()
        while True:
            if sent == removed:
                # Moves the first element to where it is: so this waits for one, and takes nothing.
                client.blmove(key, key, WAIT_SECONDS, "LEFT", "LEFT")
            new = client.lrange(key, sent - removed, sent - removed + _AT_ONCE - 1)
            for element in new:
                sent += 1
                unconfirmed.append((send(element, partition, sent), sent))
            if unconfirmed and (len(unconfirmed) >= _MOST_UNCONFIRMED or not new):
                application.wait_acknowledged(unconfirmed[0][0], None if new else _LOOK_SECONDS)
            before = removed
            while unconfirmed and unconfirmed[0][0] <= application.acknowledged:
                removed = unconfirmed.popleft()[1]
            if removed > before:
                with client.pipeline() as both:
                    both.ltrim(key, removed - before, -1).hset(f"{key}:removed", partition, removed).execute()

    keep(url, follow)


def _place(client: Any, key: str, application: SourceExtension) -> tuple[str, int]:
    """Return the name under which the application knows the list, and how many elements were removed from it."""
    with client.pipeline() as both:
        known, length = both.hgetall(f"{key}:removed").llen(key).execute()
    for name, removed in known.items():
        partition = name.decode()
        if (application.resume_from(partition) or 0) <= int(removed) + length:
            return partition, int(removed)
        say(f"Redis has lost elements of {key} that the application has: those it has now are sent, maybe again.")
    partition = f"{key}:{uuid4()}"
    with client.pipeline() as both:
        both.delete(f"{key}:removed").hset(f"{key}:removed", partition, 0).execute()
    return partition, 0


if __name__ == "__main__":
    command()
