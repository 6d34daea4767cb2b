"""Who may call back: Spark's JVM hands batches to this process through a port of the loopback interface.

The JVM's own port asks for a token; this one, the way back, does not, so any user of the machine could have it call
our code. Where the system tells to whom a local connection belongs, only our own user's are let in.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"


def guard_callbacks(gateway: Any) -> None:
    """Open the way back for Spark's JVM, and for nobody else."""
    from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - heavy: only a run needs it

    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    server = gateway._callback_server  # noqa: SLF001 - the bridge has no door for this
    take = server._create_connection  # noqa: SLF001

    def take_ours(connection: socket.socket, stream: Any) -> Any:
        if not is_ours(connection):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        return take(connection, stream)

    server._create_connection = take_ours  # noqa: SLF001


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the other end of a local connection over IPv4 belongs to this user.

    Where the system does not say, it is taken to.
    """
    tables = [table for table in _TABLES if table.exists()]
    if not tables:
        return True
    wanted = (_written(connection.getpeername()), _written(connection.getsockname()))
    owners = set()
    for table in tables:
        for line in table.read_text().splitlines()[1:]:
            _, local, remote, status, _, _, _, user, *_ = line.split()
            # An IPv4 address is the end of the IPv6 address that stands for it.
            if (local[-13:], remote[-13:], status) == (*wanted, _ESTABLISHED):
                owners.add(int(user))
    return owners == {os.getuid()}


def _written(address: tuple[str, int]) -> str:
    """Return an IPv4 address as the tables have it.

    >>> _written(("127.0.0.1", 7010))
    '0100007F:1B62'
    """
    host, port = address[:2]
    [number] = struct.unpack("=I", socket.inet_aton(host))
    return f"{number:08X}:{port:04X}"
