"""A client of Redis for the scripts: when the server goes away, it is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import click

from wallaroo.backoff import Backoff
from wallaroo.cli.screen import say
from wallaroo.errors import WallarooError
from wallaroo.notices import REPORT_AGAIN_SECONDS, Condition

WAIT_SECONDS = 5.0
"""How long a command of Redis may wait for new data."""
_FIRST_RETRY_SECONDS = 0.05
_LONGEST_RETRY_SECONDS = 2.0


def _with_client(_context: click.Context, _parameter: click.Parameter, url: str) -> str:
    """Return the URL, if there is a client to use it with."""
    try:
        import redis  # noqa: PLC0415 - the help does without.
    except ModuleNotFoundError as error:
        raise click.ClickException(
            "This needs the client of Redis: install it with pip install 'wallaroo-spark[redis]'."
        ) from error
    try:
        redis.Redis.from_url(url).close()
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return url


redis_option = click.option(
    "--redis",
    "url",
    metavar="URL",
    default="redis://127.0.0.1:6379/0",
    show_default=True,
    callback=_with_client,
    help="The server, with user and password where it needs them: redis://USER:PASSWORD@HOST:PORT/DATABASE",
)
"""Where Redis is."""


def keep(url: str, work: Callable[[Any], None]) -> NoReturn:
    """Call `work` with a client of Redis, and again whenever the connection breaks: it begins where it should go on."""
    import redis  # noqa: PLC0415 - the help does without.

    missing = Condition(say, interval=REPORT_AGAIN_SECONDS)
    retries = Backoff(_FIRST_RETRY_SECONDS, longest=_LONGEST_RETRY_SECONDS, jitter=0.3)
    with redis.Redis.from_url(url, socket_timeout=2 * WAIT_SECONDS, socket_connect_timeout=WAIT_SECONDS) as client:
        while True:
            try:
                client.ping()
                missing.end("Redis is there again.")
                retries.reset()
                work(client)
            except redis.AuthenticationError as error:
                raise WallarooError(f"Redis refuses: {error}") from error
            except (redis.ConnectionError, redis.TimeoutError, TimeoutError) as error:
                missing.begin(f"Waiting for Redis: {error}")
                time.sleep(retries.next())
            except redis.RedisError as error:
                raise WallarooError(f"Redis refuses: {error}") from error
