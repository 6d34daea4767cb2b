"""Connections of the commands: connects, listens, and waits until a stream is confirmed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from wallaroo.addresses import Address
from wallaroo.connectors.tcp.sockets import dial, raise_if_broken, unacknowledged
from wallaroo.errors import WallarooError

_RETRY_PAUSE = 0.1
_TRY_SECONDS = 5.0


def connect(address: Address, *, retry: float, on_wait: Callable[[], None] = lambda: None) -> socket.socket:
    """Connect to `address`, retrying for `retry` seconds; `on_wait` is called once, before the second attempt."""
    deadline = time.monotonic() + retry
    waiting = False
    while True:
        try:
            connection = dial(address, _TRY_SECONDS)
        except socket.gaierror as error:
            raise _unknown_host(address) from error
        except OSError as error:
            if time.monotonic() + _RETRY_PAUSE > deadline:
                tried = f" (tried for {retry:g} s)" if retry else ""
                raise WallarooError(
                    f"cannot connect to {address}: {_reason(error)}{tried}. Is the program there running?"
                ) from error
        else:
            connection.settimeout(None)
            return connection
        if not waiting:
            waiting = True
            on_wait()
        time.sleep(_RETRY_PAUSE)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on `address`; port 0 picks a free port."""
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise _unknown_host(address) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(resolved)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise WallarooError(
            f"cannot listen on {address}: {_reason(error)}. Stop the program that uses it, or name another address."
        ) from error
    return listener


def address_of(listener: socket.socket) -> Address:
    """Return the address that `listener` is bound to."""
    host, port = listener.getsockname()[:2]
    return Address(host, port)


def _unknown_host(address: Address) -> WallarooError:
    return WallarooError(f"{address}: the host {address.host!r} is not known")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


_PIECE = 1 << 16
# After this long the user sees what is being waited for.
_MOMENT_SECONDS = 1.0
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.01


class NotConfirmedError(WallarooError):
    """Messages were sent, but it is not known how many of them were accepted."""

    exit_code = 8


def has_ended(connection: socket.socket) -> bool:
    """Return whether the receiver has already closed its side; the connection is non-blocking afterwards.

    A close before our own says nothing about what was sent. Data the receiver sent before it is dropped.

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
    """Shut down sending, and wait for the receiver to close; return whether it did so `within` this many seconds.

    None means no limit, because a source that cannot keep up may keep its senders waiting for a long time. `on_wait` is
    called once if it takes more than a moment.

    Raises:
        OSError: The connection broke.
    """
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(_LOOK_SECONDS)
    started = time.monotonic()
    reported = closed = False
    while not closed or unacknowledged(connection):
        # A receiver that closed too early answers with a reset, which follows the end of its stream and is not read.
        raise_if_broken(connection)
        waited = time.monotonic() - started
        if within is not None and waited >= within:
            return False
        if waited >= _MOMENT_SECONDS and not reported:
            reported = True
            on_wait()
        if closed:
            time.sleep(_PAUSE_SECONDS)
        else:
            closed = _has_closed(connection)
    raise_if_broken(connection)
    return True


def _has_closed(connection: socket.socket) -> bool:
    """Wait briefly for the end of the receiver's stream."""
    try:
        return not connection.recv(_PIECE)
    except TimeoutError:
        return False
