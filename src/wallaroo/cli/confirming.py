"""The end of a stream: whether its receiver has taken all of it.

There is no acknowledgement in the protocol. A source that has accepted everything closes the connection in good order
once the sender has ended its stream, and resets it otherwise: so it is all confirmed, or nothing is.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from wallaroo.connectors.tcp.acknowledged import raise_if_broken, unacknowledged
from wallaroo.errors import WallarooError

_PIECE = 1 << 16
# After so long somebody is told what is being waited for.
_MOMENT_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.01


class NotConfirmedError(WallarooError):
    """Messages were handed over, and nobody knows how many of them were accepted."""

    exit_code = 8


def has_ended(connection: socket.socket) -> bool:
    """Tell whether the receiver has ended its side already; the connection does not block afterwards.

    An end that comes before our own says nothing of what was sent. What the receiver has said before it is dropped.

    Raises:
        OSError: The connection broke.
    """
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while connection.recv(_PIECE):
            pass
        return True
    return False


def end_stream(connection: socket.socket, *, within: float | None, on_wait: Callable[[], None]) -> bool:
    """Say that nothing follows, and wait for the receiver to close; tell whether it has, `within` so many seconds.

    None means: as long as it takes, for a source that cannot keep up may leave its senders waiting for long. `on_wait`
    is called once, if that takes more than a moment.

    Raises:
        OSError: The connection broke.
    """
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_LOOK_SECONDS)
    started = time.monotonic()
    told = closed = False
    while not closed or unacknowledged(connection):
        # One that closed too early answers with a reset, which comes after the end of its stream and is not read.
        raise_if_broken(connection)
        waited = time.monotonic() - started
        if within is not None and waited >= within:
            return False
        if waited >= _MOMENT_SECONDS and not told:
            told = True
            on_wait()
        if closed:
            time.sleep(_PAUSE_SECONDS)
        else:
            closed = _has_closed(connection)
    raise_if_broken(connection)
    return True


def _has_closed(connection: socket.socket) -> bool:
    """Wait a little for the end of what the receiver sends."""
    try:
        return not connection.recv(_PIECE)
    except TimeoutError:
        return False
